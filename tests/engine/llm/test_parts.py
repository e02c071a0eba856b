"""All roles load each other's KV tensors, and say the same as without any."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import mkdtemp

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from engine.kv.costs import MeasuredCosts
from engine.kv.restore import KvBinding, PromptReader
from engine.llm.generate import ask_about
from engine.llm.prompt import chunk_ids, system_ids
from engine.models.adapters import find_adapter
from engine.models.load import load, movable
from engine.models.mlx import Mlx
from prompts import prompt
from store.jobs import OutOfTime
from store.types import Chunk
from tests.effort import examples, slow_only
from tests.engine.ask.equivalence_box import (
    ROOT,
    SUB_STEP,
    Box,
    Ids,
    cold,
    decode_after_computed_and_loaded,
    read_amid_events,
)
from tests.engine.models.shapes import KINDS, add_adapter, make

REQUESTS = {
    "answer": "Question: When is the rehearsal?\nAnswer:",
    "condense": prompt("condense"),
    "predict": prompt("predict_chunks").format(count=3),
}
CHUNKS = [
    Chunk(f"{number}", f"d{number}", 0, f"From Ann to all, {number} May 2024", text, 1, 1)
    for number, text in enumerate(("The rehearsal moved to Friday.", "We need tables and a tent for the fair."), 1)
]


@pytest.fixture(scope="module", params=["llama", "llama in 8 bits", *slow_only("qwen3", "gemma2")])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mlx:
    kind, eight, _ = request.param.partition(" in 8 bits")
    folder = make(tmp_path_factory.mktemp("models") / kind, KINDS[kind] | {"max_position_embeddings": 1024})
    add_adapter(folder)
    cache = tmp_path_factory.mktemp("cache")
    found = load(folder, name=kind, cache=cache, memory_share=0.9, adapter=find_adapter(folder))
    return replace(found, stops=frozenset(), sub_step=SUB_STEP, bits=8 if eight else 0)


@pytest.fixture
def box(model: Mlx, tmp_path: Path) -> Iterator[Box]:
    found = Box(tmp_path, model)
    yield found
    found.close()


def segments(model: Mlx, role: str, *chunks: Chunk) -> list[Ids]:
    last = (*model.tokens(REQUESTS[role]), *model.frame.closing)
    return [system_ids(model), *(chunk_ids(model, at, chunk) for at, chunk in enumerate(chunks, 1)), last]


@pytest.mark.parametrize("first", REQUESTS)
def test_what_one_role_has_read_all_others_load(box: Box, first: str) -> None:
    prompts = {role: segments(box.model, role, *CHUNKS) for role in REQUESTS}
    read, _ = box.read(prompts[first])
    assert not any(read.reused)
    box.close()
    box.open()  # as another process
    for role, one in prompts.items():
        read, found = box.read(one)
        assert read.reused == tuple(map(len, one[:-1])), role
        assert np.array_equal(found, cold(box.model, one)), role
    tokens, loaded = decode_after_computed_and_loaded(box, prompts["answer"])
    assert loaded == tuple(map(len, prompts["answer"][:-1]))
    assert len(set(tokens)) > 20  # else equal tokens would say little


@examples(8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32))
def test_whatever_happens_to_the_store_each_role_is_bit_identical(model: Mlx, tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    chosen = (rng.sample(CHUNKS, rng.randint(1, 2)) for _ in range(6))
    prompts = [segments(model, rng.choice(list(REQUESTS)), *chunks) for chunks in chosen]
    read_amid_events(Box(Path(mkdtemp(dir=tmp_path)), model), rng, prompts)


@pytest.mark.parametrize("in_blocks", [False, True])
def test_a_request_says_the_same_from_the_store_as_without(box: Box, *, in_blocks: bool) -> None:
    model, ropes = box.model, movable(box.model) if in_blocks else None
    stored = PromptReader(model, KvBinding(box.store, ROOT, model, MeasuredCosts(box.ledger, "root")), ropes)
    for role, said in REQUESTS.items():
        wanted = ask_about(PromptReader(model, None, ropes), CHUNKS, said, 12, lambda: None)
        assert [ask_about(stored, CHUNKS, said, 12, lambda: None) for _ in range(2)] == [wanted] * 2, role
        assert wanted
    # The second message is too short to be computed alone; in blocks, numbers are computed in their place.
    assert box.store.index.totals().count == (3 if in_blocks else 2)


def test_a_request_that_does_not_fit_says_nothing_and_one_may_be_ended(model: Mlx) -> None:
    reader = PromptReader(model)
    assert ask_about(reader, CHUNKS, "word " * 1000, 12, lambda: None) == ""

    def end() -> None:
        raise OutOfTime

    with pytest.raises(OutOfTime):
        ask_about(reader, CHUNKS, REQUESTS["predict"], 12, end)
