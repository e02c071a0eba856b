"""Qwen3-Embedding on random weights, against the same arithmetic written out in double precision."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from engine.models import minilm
from engine.models.lookup import find
from engine.models.minilm import END_TOKEN, QWEN3_TOKENS, TASK, Qwen3, find_model
from engine.models.types import Embedder
from store.errors import NoModel, PkbError, UsageError
from tests.engine.models.embedders import SHAPE, end_of, make_qwen3, naive
from tests.engine.models.shapes import CONTROLS, KINDS, TEXT, WORDS, make

LINES = [line for line in TEXT.splitlines() if line]
TEXTS = [*LINES, "Yes.", "", LINES[0] * 3, "", "🎉"]


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Return the environment back as it was: where a model is loaded, temporary files go to its cache."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_qwen3(tmp_path_factory.mktemp("qwen3"))


@pytest.fixture(scope="module")
def model(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Qwen3:
    return opened(folder, tmp_path_factory.mktemp("cache"))


def opened(folder: Path, cache: Path) -> Qwen3:
    return Qwen3(find_model(str(folder), {}), cache=cache, notes=cache / "digests", threads=1, memory_share=0.5)


def ids_of(folder: Path, text: str) -> list[int]:
    """Return the ids that the folder's tokenizer makes of a text, its end behind it."""
    return list(Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text).ids)


def test_the_vectors_are_those_of_the_arithmetic_written_out(model: Qwen3, folder: Path) -> None:
    expected = np.array([naive(folder, ids_of(folder, text)) for text in TEXTS])
    assert np.abs(model.embed(TEXTS) - expected).max() < 1e-5


def test_a_text_alone_has_the_vector_that_it_has_among_longer_ones(model: Qwen3, folder: Path) -> None:
    alone = np.concatenate([model.embed([text]) for text in TEXTS])
    assert np.abs(alone - model.embed(TEXTS)).max() < 1e-5
    assert np.abs(alone[0] - naive(folder, ids_of(folder, TEXTS[0]))).max() < 1e-5


def test_different_texts_have_different_vectors_of_unit_length(model: Qwen3) -> None:
    rows = model.embed(TEXTS)
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1, abs=1e-6)
    assert rows.dtype == np.float32
    assert len({row.tobytes() for row in rows.round(4)}) == len(set(TEXTS))


def test_a_small_batch_at_a_time_gives_every_text_its_own_vector(model: Qwen3, monkeypatch: pytest.MonkeyPatch) -> None:
    together = model.embed(TEXTS)
    monkeypatch.setattr(minilm, "QWEN3_BATCH", dict.fromkeys(minilm.QWEN3_BATCH, 100))
    assert np.abs(model.embed(TEXTS) - together).max() < 1e-5


def test_no_text_gives_no_rows(model: Qwen3) -> None:
    assert model.embed([]).shape == (0, 64)


def test_an_empty_text_is_its_end_alone(model: Qwen3, folder: Path) -> None:
    (end,) = ids_of(folder, "")
    assert np.abs(model.embed([""])[0] - naive(folder, [end])).max() < 1e-5


def test_a_question_is_read_behind_its_instruction(model: Qwen3, folder: Path) -> None:
    text = "When is the rehearsal?"
    ids = ids_of(folder, f"Instruct: {TASK}\nQuery:{text}")
    assert np.abs(model.embed_question(text) - naive(folder, ids)).max() < 1e-5
    assert np.abs(model.embed_question(text) - model.embed([text])[0]).max() > 0.01


def test_a_long_text_is_cut_before_its_end(model: Qwen3, folder: Path) -> None:
    start = "a b c d " * QWEN3_TOKENS
    one, other = model.embed([f"{start}apples", f"{start}a quarrel about the rent"])
    ids = ids_of(folder, start)
    assert np.array_equal(one, other)
    assert np.abs(one - naive(folder, [*ids[: QWEN3_TOKENS - 1], ids[-1]])).max() < 1e-5


@pytest.mark.parametrize("name", [END_TOKEN, *CONTROLS, *WORDS])
def test_the_name_of_a_special_token_in_a_text_is_letters(model: Qwen3, folder: Path, name: str) -> None:
    text = f"he wrote {name} twice"
    assert np.abs(model.embed([text])[0] - naive(folder, ids_of(folder, text))).max() > 1e-3
    (ids,) = model._tokens([text])
    end = ids.pop()
    added = Tokenizer.from_file(str(folder / "tokenizer.json")).get_added_tokens_decoder()
    assert (added.keys() & ids, added[end].content) == (set(), END_TOKEN)


@given(st.lists(st.text(max_size=30), max_size=6))
@settings(max_examples=20, deadline=None)
def test_exactly_one_end_stands_behind_any_text(model: Qwen3, folder: Path, texts: list[str]) -> None:
    end = end_of(Tokenizer.from_file(str(folder / "tokenizer.json")))
    found = model._tokens([*texts, f"{END_TOKEN}{END_TOKEN}"])
    assert [(ids.count(end), ids[-1]) for ids in found] == [(1, end)] * (len(texts) + 1)


def test_a_tokenizer_that_adds_no_end_gets_one(model: Qwen3, tmp_path: Path) -> None:
    unended = opened(make_qwen3(tmp_path / "unended", ended=False), tmp_path / "cache")
    assert np.array_equal(unended.embed(TEXTS[:3]), model.embed(TEXTS[:3]))


def test_a_language_model_that_knows_no_end_cannot_embed(tmp_path: Path) -> None:
    plain = opened(make(tmp_path / "plain", SHAPE), tmp_path / "cache")
    with pytest.raises(PkbError, match=r"its tokenizer has no <\|endoftext\|>") as caught:
        plain.embed(["a"])
    assert caught.value.next_step == "pkb config set embed.model minilm"


def test_prefixed_names_and_a_head_make_no_difference(model: Qwen3, folder: Path, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    other = Path(shutil.copytree(folder, tmp_path / "prefixed"))
    weights = load_file(folder / "model.safetensors")
    head = {"lm_head.weight": weights["embed_tokens.weight"]}
    save_file({f"model.{name}": array for name, array in weights.items()} | head, other / "model.safetensors")
    assert np.array_equal(opened(other, tmp_path / "cache").embed(TEXTS[:3]), model.embed(TEXTS[:3]))


def test_quantised_weights_with_a_quantised_head_give_nearly_the_same_vectors(
    model: Qwen3, folder: Path, tmp_path: Path
) -> None:
    import mlx.core as mx
    from safetensors.numpy import load_file

    other = Path(shutil.copytree(folder, tmp_path / "quantised"))
    named = {f"model.{name}": mx.array(array) for name, array in load_file(folder / "model.safetensors").items()}
    named["lm_head.weight"] = named["model.embed_tokens.weight"]
    for name in [name for name, array in named.items() if array.ndim == 2]:
        parts = mx.quantize(named.pop(name), group_size=32, bits=8)
        named |= dict(zip((name, f"{name[:-6]}scales", f"{name[:-6]}biases"), parts, strict=True))
    mx.save_safetensors(str(other / "model.safetensors"), named)
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(config | {"quantization": {"group_size": 32, "bits": 8}}))
    cosines = (opened(other, tmp_path / "cache").embed(TEXTS) * model.embed(TEXTS)).sum(axis=1)
    assert 0.99 < cosines.min() < 0.999999


def test_the_fingerprint_changes_with_the_weights_the_tokenizer_and_the_pooling(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    found = [opened(folder, tmp_path).fingerprint, opened(copy, tmp_path).fingerprint]
    for name in ("tokenizer.json", "model.safetensors"):
        (copy / name).write_bytes((copy / name).read_bytes() + b"\n")
        found.append(opened(copy, tmp_path).fingerprint)
    monkeypatch.setattr(minilm, "QWEN3_POOLING", "another")
    found.append(opened(copy, tmp_path).fingerprint)
    assert [found.index(each) for each in found] == [0, 0, 2, 3, 4]


def test_an_embedder_is_what_the_protocol_asks_and_knows_its_width_unloaded(folder: Path, tmp_path: Path) -> None:
    embedder: Embedder = opened(folder, tmp_path)
    assert embedder.width == 64
    assert "_loaded" not in vars(embedder)


def test_a_model_that_is_not_here_is_an_error_with_a_next_step(folder: Path, tmp_path: Path) -> None:
    nowhere = {"HF_HUB_CACHE": str(tmp_path)}
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "config.json").write_text(json.dumps({"model_type": "qwen3"}))
    steps = {
        "Qwen/Qwen3-Embedding-0.6B": "pkb model pull Qwen/Qwen3-Embedding-0.6B",
        str(tmp_path / "nothing"): "pkb config set embed.model minilm",
        str(tmp_path / "part"): "pkb config set embed.model minilm",
    }
    for name, step in steps.items():
        with pytest.raises(NoModel) as caught:
            find_model(name, nowhere)
        assert caught.value.next_step == step
    assert find_model(str(folder), nowhere) == find(str(folder), None, nowhere)


def test_another_architecture_cannot_embed(tmp_path: Path) -> None:
    other = make(tmp_path / "other", KINDS["llama"])
    with pytest.raises(UsageError, match="its architecture is llama, not qwen3") as caught:
        find_model(str(other), {})
    assert caught.value.next_step == "pkb config set embed.model minilm"


def test_damaged_weights_are_an_error_in_a_line(folder: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(folder, tmp_path / "other"))
    (other / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:5000])
    with pytest.raises(PkbError, match="cannot be loaded") as caught:
        opened(other, tmp_path).embed(["a"])
    assert "\n" not in caught.value.message
