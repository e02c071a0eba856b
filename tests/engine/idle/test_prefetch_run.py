"""Segments are prefetched one at a time, and whatever ends the run leaves those that were stored before."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from engine.idle.prefetch import PrefetchContext, WantedSegment, is_cached, key_of, plan_segments
from engine.kv.costs import MeasuredCosts
from engine.kv.restore import KvBinding, PromptReader
from engine.models.load import load
from engine.models.mlx import Mlx
from engine.models.types import Ids
from store.jobs import Job, JobResult, Planned
from store.kv_index import CountTotal
from tests.bench.metered import Metered, Work, flops, parts_of, size_of
from tests.demo import NANO
from tests.engine.idle.small_home import Home, runner, states
from tests.engine.models.traced import traced
from tests.store.kv_kit import PLENTY, ROOT
from tests.store.kv_kit import Kept as Box

SYSTEM, A, B, LAST = (5, 6, 7), (8, 9), (10, 11, 12, 13), (14, 15)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Mlx:
    """Load the model of the tests."""
    cache = tmp_path_factory.mktemp("cache")
    return replace(load(NANO, name="nano", cache=cache, memory_share=0.9), sub_step=4)


class Broken(Mlx):
    """A model that is told to stop while it reads its second segment."""

    def prefill(self, cache: Any, ids: Sequence[int], *, adapted: bool = False) -> Any:
        """Read the first segment alone."""
        if ids == A:
            super().prefill(cache, ids[:1])
            sys.exit(143)
        return super().prefill(cache, ids)


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    """Yield an empty store."""
    found = Box(tmp_path)
    yield found
    found.close()


def segment(*path: Ids, size: int = 0, expected: float = 1.0) -> WantedSegment:
    job = Job("prefetch", key_of(ROOT, path).hex(), "", "", expected, 0.1)
    return WantedSegment(job, path, size)


SEGMENTS = (segment(SYSTEM), segment(SYSTEM, A), segment(SYSTEM, B, expected=0.5))


def context(model: Mlx, box: Box) -> PrefetchContext:
    reasker = Home(box.ledger).reasker()
    binding = KvBinding(box.store, ROOT, model, MeasuredCosts(box.ledger, "root"))
    return PrefetchContext(PromptReader(model, binding), binding, reasker, nullcontext, lambda: False)


def run(model: Mlx, box: Box, segments: Sequence[WantedSegment] = SEGMENTS) -> list[JobResult]:
    return list(runner(box.ledger).run({"prefetch": planned(model, box, segments)}))


def planned(model: Mlx, box: Box, segments: Sequence[WantedSegment] = SEGMENTS) -> Callable[[], Sequence[Planned]]:
    found = plan_segments(context(model, box), segments)
    return lambda: found


def test_segments_are_stored_and_cached_the_next_time(model: Mlx, box: Box) -> None:
    done = run(model, box)
    assert states(done) == ["done"] * 3
    assert sum(one.bytes for one in done) == box.store.index.totals().bytes > 0
    assert all(
        is_cached(KvBinding(box.store, ROOT, model, MeasuredCosts(box.ledger, "root")), one.path) for one in SEGMENTS
    )
    assert states(run(model, box)) == ["cached"] * 3


def test_prefetched_segments_give_the_same_logits_as_a_cold_prefill(model: Mlx, box: Box) -> None:
    run(model, box)
    match = box.store.match(ROOT, (SYSTEM, A))
    assert len(match.nodes) == 2
    cache = model.restore([box.store.folder.path_of(node.key) for node in match.nodes])
    cold = model.begin()
    for ids in (SYSTEM, A):
        model.prefill(cold, ids)
    assert np.array_equal(model.logits(cache, LAST), model.logits(cold, LAST))


def test_prefetching_counts_no_use_and_no_hit(model: Mlx, box: Box) -> None:
    run(model, box)
    assert box.store.index.counted("hit") == CountTotal()
    assert box.ledger.rows.execute("SELECT DISTINCT uses FROM kv_nodes").fetchall() == [(0,)]


def test_a_segment_without_space_is_not_prefetched(model: Mlx, box: Box) -> None:
    assert states(run(model, box, (segment(SYSTEM, size=PLENTY),))) == ["no space"]
    assert box.files() == set()


def test_a_segment_planned_before_new_mail_is_not_prefetched(model: Mlx, box: Box) -> None:
    """New mail comes between planning and running."""
    ((_, prefetch),) = plan_segments(context(model, box), SEGMENTS[:1])
    box.ledger.raise_generation()
    assert prefetch().state == "new mail"
    assert box.files() == set()


def test_a_prefetched_node_that_was_never_used_is_replaced(model: Mlx, box: Box) -> None:
    run(model, box, SEGMENTS)
    (old,) = [one for one in box.store.index.unused("prefetch") if one.key == key_of(ROOT, (SYSTEM, A))]
    box.store.shrink(box.store.budget - box.store.free())
    long, new = (
        structs.replace(segment(SYSTEM, ids, size=size), instead=(old,))
        for ids, size in ((tuple(range(20, 420)), 10**6), (A[::-1], 0))
    )
    assert states(run(model, box, [long])) == ["no space"]
    assert is_cached(KvBinding(box.store, ROOT, model, MeasuredCosts(box.ledger, "root")), (SYSTEM, A))
    assert states(run(model, box, [new])) == ["done"]
    assert [
        is_cached(KvBinding(box.store, ROOT, model, MeasuredCosts(box.ledger, "root")), (SYSTEM, ids))
        for ids in (A, A[::-1], B)
    ] == [
        False,
        True,
        True,
    ]
    assert len(box.store.index.unused("prefetch")) == 2


def test_a_node_that_was_used_since_planning_is_not_evicted(model: Mlx, box: Box) -> None:
    run(model, box, SEGMENTS)
    (old,) = [one for one in box.store.index.unused("prefetch") if one.key == key_of(ROOT, (SYSTEM, A))]
    match = box.store.match(ROOT, (SYSTEM, A))
    box.store.record_use(match, 1.0)
    box.store.shrink(box.store.budget - box.store.free())
    instead = structs.replace(segment(SYSTEM, A[::-1], size=old.bytes), instead=(old,))
    assert states(run(model, box, [instead])) == ["no space"]
    assert is_cached(KvBinding(box.store, ROOT, model, MeasuredCosts(box.ledger, "root")), (SYSTEM, A))


def test_where_the_estimate_was_too_small_nothing_is_evicted(model: Mlx, box: Box) -> None:
    run(model, box, SEGMENTS[:2])
    kept = box.files()
    box.store.shrink(box.used() + 40_000)
    free = box.store.free()
    long = tuple(range(20, 20 + 400))
    assert states(run(model, box, (segment(SYSTEM, long, size=free),))) == ["no space"]
    assert box.files() == kept


def test_an_interrupted_segment_leaves_those_before_it_and_no_file_of_its_own(model: Mlx, box: Box) -> None:
    broken = Broken(**{one.name: getattr(model, one.name) for one in fields(model)})
    steps = runner(box.ledger).run({"prefetch": planned(broken, box)})
    assert next(steps).state == "done"
    with pytest.raises(SystemExit):
        next(steps)
    assert len(box.files()) == 1
    assert box.count() == 1
    assert states(run(model, box)) == ["cached", "done", "done"]


def test_a_damaged_prefix_is_prefilled_again(model: Mlx, box: Box) -> None:
    run(model, box, SEGMENTS[:1])
    path = box.path_of(SYSTEM)
    path.write_bytes(path.read_bytes()[:-8])
    assert states(run(model, box, SEGMENTS[1:2])) == ["done"]
    match = box.store.match(ROOT, (SYSTEM, A))
    assert len(match.nodes) == 2


def test_counted_operations_are_those_of_the_products_that_a_model_computes(model: Mlx) -> None:
    """Trace every product of the layers for a prompt and one token more."""
    metered, cache = Metered(**parts_of(model)), model.begin()
    with traced(model) as counted:
        for ids in (tuple(range(20, 31)), A):
            metered.prefill(cache, ids)
        list(metered.decode(cache, [9], 2))
    pairs = 4 * 4 + 4 * 8 + 3 * 11 + 2 * 13 + 14 + 15
    assert metered.work == Work(read=14, decoded=1, pairs=pairs, generated=1)
    layers = replace(size_of(metered), head_parameters=0)  # nobody asks what follows what is only read
    assert flops(layers, metered.work) == pytest.approx(counted[0], rel=0.005)  # but for the norms
    assert metered.flops - flops(layers, metered.work) == 2 * 1024 * 128
