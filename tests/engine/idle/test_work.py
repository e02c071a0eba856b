"""Units are done within their limits, one at a time, and whatever ends the work leaves what was kept before."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.ask.prefill import Kept, Reading
from engine.idle.units import Ids, Unit
from engine.idle.work import Done, Limits, is_kept, work
from engine.models.loading import load
from engine.models.mlx import Mlx
from engine.models.runtime import load_blas
from tests.demo import NANO
from tests.store.kv_kit import PLENTY, ROOT
from tests.store.kv_kit import Kept as Box

SYSTEM, A, B, LAST = (5, 6, 7), (8, 9), (10, 11, 12, 13), (14, 15)
FOREVER = Limits(until=1e9, units=99)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Mlx:
    """Load the model of the tests."""
    cache = tmp_path_factory.mktemp("cache")
    load_blas(cache)
    return replace(load(NANO, name="nano", cache=cache, memory_share=0.9), sub_step=4)


class Broken(Mlx):
    """A model that is told to stop while it reads its second segment."""

    def prefill(self, cache: Any, ids: Sequence[int]) -> Any:
        """Read the first segment alone."""
        if ids == A:
            super().prefill(cache, ids[:1])
            sys.exit(143)
        return super().prefill(cache, ids)


@dataclass
class Clock:
    """Seconds of which one goes by with each look."""

    at: float = 0.0

    def __call__(self) -> float:
        self.at += 1.0
        return self.at


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    """Give an empty store."""
    found = Box(tmp_path)
    yield found
    found.close()


def unit(*path: Ids, seconds: float = 0.0, size: int = 0) -> Unit:
    return Unit("first", "", "", path, 1.0, seconds, size)


def broken(model: Mlx) -> Mlx:
    return Broken(**{one.name: getattr(model, one.name) for one in fields(model)})


UNITS = (unit(SYSTEM), unit(SYSTEM, A), unit(SYSTEM, B))


def run(
    model: Mlx,
    box: Box,
    units: Sequence[Unit] = UNITS,
    limits: Limits = FOREVER,
    changed: Callable[[], bool] = lambda: False,
) -> list[Done]:
    return list(work(Reading(model, Kept(box.store, ROOT, model)), units, limits, Clock(), changed))


def states(done: Sequence[Done]) -> list[str]:
    return [one.state for one in done]


def test_units_are_kept_and_found_there_the_next_time(model: Mlx, box: Box) -> None:
    done = run(model, box)
    assert states(done) == ["done"] * 3
    assert sum(one.bytes for one in done) == box.store.stats().bytes > 0
    assert all(is_kept(Kept(box.store, ROOT, model), one.path) for one in UNITS)
    assert states(run(model, box)) == ["there"] * 3


def test_what_was_read_ahead_gives_the_logits_of_what_was_not(model: Mlx, box: Box) -> None:
    run(model, box)
    with box.store.match(ROOT, (SYSTEM, A)) as match:
        assert len(match.nodes) == 2
        cache = model.restore([box.store.path_of(node) for node in match.nodes])
    cold = model.begin()
    for ids in (SYSTEM, A):
        model.prefill(cold, ids)
    assert np.array_equal(model.logits(cache, LAST), model.logits(cold, LAST))


def test_reading_ahead_counts_no_use_and_no_hit(model: Mlx, box: Box) -> None:
    run(model, box)
    stats = box.store.stats()
    assert (stats.hits, stats.partial) == ({}, {})
    assert [entry.node.uses for entry in box.store._index.entries()] == [0, 0, 0]


def test_so_many_units_are_done_and_the_rest_is_left(model: Mlx, box: Box) -> None:
    assert states(run(model, box, limits=Limits(1e9, 2))) == ["done", "done", "units"]


def test_a_unit_that_there_is_no_time_for_is_not_begun_and_a_shorter_one_is(model: Mlx, box: Box) -> None:
    units = (unit(SYSTEM), unit(SYSTEM, A, seconds=500.0), unit(SYSTEM, B))
    assert states(run(model, box, units, Limits(until=100.0, units=9))) == ["done", "time", "done"]


def test_units_are_thought_to_take_longer_once_they_did(model: Mlx, box: Box) -> None:
    """Each unit takes a second on this clock, and the first was thought to take a tenth of one."""
    units = (unit(SYSTEM, seconds=0.1), unit(SYSTEM, A, seconds=0.5))
    assert states(run(model, box, units, Limits(until=8.0, units=9))) == ["done", "time"]
    assert states(run(model, box, units[1:], Limits(until=8.0, units=9))) == ["done"]


def test_what_stands_behind_a_unit_that_is_left_is_left_too(model: Mlx, box: Box) -> None:
    units = (unit(SYSTEM, size=PLENTY), unit(SYSTEM, A), unit(SYSTEM, A, B))
    assert states(run(model, box, units)) == ["room"] * 3
    assert box.files() == set()


def test_once_the_bank_has_changed_nothing_more_is_read(model: Mlx, box: Box) -> None:
    looks = iter((False, True, True))
    assert states(run(model, box, changed=lambda: next(looks))) == ["done", "changed", "changed"]
    assert len(box.files()) == 1


def test_where_there_is_no_room_after_all_what_is_kept_stays(model: Mlx, box: Box) -> None:
    run(model, box, UNITS[:2])
    kept = box.files()
    box.store.shrink(box.used() + 40_000)
    free = box.store.free()
    long = tuple(range(20, 20 + 400))
    assert states(run(model, box, (unit(SYSTEM, long, size=free),))) == ["room"]
    assert box.files() == kept


def test_a_unit_that_is_broken_off_leaves_those_before_it_and_nothing_of_its_own(model: Mlx, box: Box) -> None:
    steps = work(Reading(broken(model), Kept(box.store, ROOT, model)), UNITS, FOREVER, Clock(), lambda: False)
    assert next(steps).state == "done"
    with pytest.raises(SystemExit):
        next(steps)
    assert len(box.files()) == 1
    assert box.states() == ["whole"]
    assert states(run(model, box)) == ["there", "done", "done"]


def test_a_damaged_prefix_is_read_again(model: Mlx, box: Box) -> None:
    run(model, box, UNITS[:1])
    path = box.path_of(SYSTEM)
    path.write_bytes(path.read_bytes()[:-8])
    assert states(run(model, box, UNITS[1:2])) == ["done"]
    with box.store.match(ROOT, (SYSTEM, A)) as match:
        assert len(match.nodes) == 2
