"""Segments that were evicted for lack of space are restored for the questions that need them; nothing else is."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.idle.prefetch import WantedSegment, evicted_segments
from tests.store.kv_kit import PLENTY, ROOT, A, B, C, Kept, tensors

ASKED = (A, B, C)


@pytest.fixture
def store(tmp_path: Path) -> Kept:
    """Return a store in which a prompt was kept, its last two segments have gone, and another path never was there."""
    found = Kept(tmp_path)
    for end in range(1, len(ASKED) + 1):
        assert found.keep(*ASKED[:end], seconds=float(end))
    budget = 2 * found.used() + 40_000
    while found.has(*ASKED[:2]):
        budget -= 500
        found.store.budget.shrink(budget)
    assert [found.has(*ASKED[:end]) for end in (1, 2, 3)] == [True, False, False]
    found.store.budget.shrink(PLENTY)
    return found


def prefixes(ids: Sequence[tuple[int, ...]]) -> list[tuple[tuple[int, ...], ...]]:
    return [tuple(ids[:end]) for end in range(1, len(ids) + 1)]


def evicted(store: Kept, *asked: tuple[str, int, tuple[tuple[int, ...], ...]]) -> list[WantedSegment]:
    return evicted_segments([(name, times, prefixes(ids)) for name, times, ids in asked], ROOT, store.store)


def test_evicted_segments_are_restored_at_their_cost_and_counted_by_their_questions(store: Kept) -> None:
    found = evicted(store, ("when?", 3, ASKED), ("who?", 2, ASKED[:2]))
    assert [(one.path, one.expected, one.seconds) for one in found] == [(ASKED[:2], 5, 2.0), (ASKED, 3, 3.0)]
    assert all(one.bytes > 1024 for one in found)


def test_a_segment_that_never_was_cached_is_left_out_with_all_behind_it(store: Kept) -> None:
    assert evicted(store, ("what?", 9, (A, C, B)), ("why?", 1, (C, *ASKED))) == []


def test_where_some_were_refused_segments_that_never_were_cached_are_planned_at_the_cost_of_their_tokens(
    store: Kept,
) -> None:
    asked = [("what?", 9.0, prefixes((A, C)))]
    (found,) = evicted_segments(asked, ROOT, store.store, (0.5, 100.0))
    assert (found.path, found.reason) == ((A, C), "not stored for lack of space")
    assert (found.seconds, found.bytes) == (0.5 * len(C), 100 * len(C))


def test_a_segment_that_is_cached_again_is_not_planned(store: Kept) -> None:
    assert store.keep(*ASKED[:2])
    assert [one.path for one in evicted(store, ("when?", 1, ASKED))] == [ASKED]


def test_without_evicting_nothing_is_stored_beyond_the_free_space(store: Kept) -> None:
    store.store.budget.shrink(store.used() + 50_000)
    free, nodes = store.store.budget.free(), store.files()
    assert 0 < free < 50_000
    assert store.store.keep(ROOT, None, C, 1.0, tensors(2 * free), evict=False) is None
    assert store.files() == nodes
    assert store.store.keep(ROOT, None, C, 1.0, tensors(free // 2), evict=False)
    assert store.store.budget.free() < free // 2
    assert store.store.keep(ROOT, None, B, 1.0, tensors(free))
