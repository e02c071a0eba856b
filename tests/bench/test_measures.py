"""The measurements beside the replays give every figure that they name, on small inputs."""

from argparse import Namespace
from functools import partial
from pathlib import Path

import pytest

from tests.bench import operations
from tests.bench.kv_reuse import (
    COMPUTED,
    DISK,
    EMPTY,
    FILE,
    MEMORY,
    NEW,
    RESTORED,
    changed,
    engines,
    measured,
    prompt,
    turns,
)
from tests.bench.records import Operation
from tests.demo import DATA, QUESTIONS

NUMBERS = 127 * 6 * 2 * 4 * 32  # of nano's keys and values: tokens of a chunk at least, layers, both, heads, width


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Operation]:
    """Measure operations with nano, shortly."""
    scratch = tmp_path_factory.mktemp("operations")
    found = operations.measured("nano", [DATA / "transcripts"], QUESTIONS[:4], scratch, 2, sizes=(5, 20))
    return {row.name: row for row in found}


@pytest.mark.slow
def test_every_operation_has_a_time_between_its_quartiles(rows: dict[str, Operation]) -> None:
    timed = [(row.low_ms, row.median_ms, row.high_ms) for row in rows.values() if row.bytes is None]
    assert len(timed) == 14
    assert all(low and middle and high and 0 < low <= middle <= high for low, middle, high in timed)
    assert [name for name in rows if "nearest" in name] == [f"look up the nearest of {n} answers" for n in (5, 20)]


@pytest.mark.slow
def test_the_kv_of_a_chunk_weighs_what_its_numbers_do(rows: dict[str, Operation]) -> None:
    stored, with_queries = (rows[f"a chunk's tensors, {which}"].bytes for which in ("K and V", "Q, K and V"))
    assert stored is not None
    assert 4 * NUMBERS <= stored <= 4 * NUMBERS * 1.1
    assert with_queries == round(stored * 1.5)  # nano has as many heads of one kind as of another


@pytest.mark.slow
def test_the_kv_cache_is_compared_with_every_other_way(tmp_path: Path) -> None:
    model, llamas = engines(tmp_path, Namespace(gguf=None, model="nano", lengths=[180]))
    found = list(measured(tmp_path, model, llamas, 1, [180]))
    others = [COMPUTED, FILE, MEMORY, NEW, *(name + end for name in llamas for end in (RESTORED, EMPTY))]
    from_disk = [FILE + DISK, *(name + RESTORED + DISK for name in llamas)]
    assert [one.program for one in found if one.unit == "ms"] == [*others, *from_disk, *others, *others]
    one, *_, two = (row for row in found if row.unit == "bytes")
    assert one.pkb < two.pkb < 2 * one.pkb
    assert two.other == 2 * one.other


def test_a_changed_prompt_shares_its_start() -> None:
    whole = prompt(610)
    assert [one == other for one, other in zip(whole, changed(whole, 3), strict=True)] == [True] * 3 + [False] * 3
    assert sum(map(len, whole[:-1])) == 610


def test_each_round_begins_with_another_way() -> None:
    order = list[str]()
    assert set(turns({name: partial(order.append, name) for name in "abc"}, 1)) == {"a", "b", "c"}
    assert order == [*"abc", *"bca"]
