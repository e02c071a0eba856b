"""What went for lack of space is wanted again by those who asked for it, and nothing else is."""

from pathlib import Path

import pytest

from engine.idle.prefetch import plan_restores, prefixes
from engine.idle.types import Costs, PrefillJob
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
        found.store.shrink(budget)
    assert [found.has(*ASKED[:end]) for end in (1, 2, 3)] == [True, False, False]
    found.store.shrink(PLENTY)
    return found


def units(store: Kept, *asked: tuple[str, int, tuple[tuple[int, ...], ...]]) -> list[PrefillJob]:
    return plan_restores([(name, times, prefixes(ids)) for name, times, ids in asked], ROOT, store.store.queries)


def test_the_segments_that_went_are_wanted_for_what_they_took_and_as_often_as_they_were_asked_for(store: Kept) -> None:
    found = units(store, ("when?", 3, ASKED), ("who?", 2, ASKED[:2]))
    assert [(one.path, one.expected, one.seconds) for one in found] == [(ASKED[:2], 5, 2.0), (ASKED, 3, 3.0)]
    assert all(one.bytes > 1024 for one in found)


def test_what_never_was_kept_is_not_wanted_nor_what_would_stand_behind_it(store: Kept) -> None:
    assert units(store, ("what?", 9, (A, C, B)), ("why?", 1, (C, *ASKED))) == []


def test_where_some_was_refused_what_never_was_kept_is_wanted_too_at_its_cost_a_token(store: Kept) -> None:
    asked = [("what?", 9.0, prefixes((A, C)))]
    (found,) = plan_restores(asked, ROOT, store.store.queries, Costs(0.5, 100.0))
    assert (found.path, found.why) == ((A, C), "not stored for lack of space")
    assert (found.seconds, found.bytes) == (0.5 * len(C), 100 * len(C))


def test_what_is_back_is_not_wanted(store: Kept) -> None:
    assert store.keep(*ASKED[:2])
    assert [one.path for one in units(store, ("when?", 1, ASKED))] == [ASKED]


def test_without_evicting_nothing_goes_and_nothing_is_kept_beyond_the_room(store: Kept) -> None:
    store.store.shrink(store.used() + 50_000)
    free, nodes = store.store.free(), store.files()
    assert 0 < free < 50_000
    assert store.store.keep(ROOT, None, C, 1.0, tensors(2 * free), evict=False) is None
    assert store.files() == nodes
    assert store.store.keep(ROOT, None, C, 1.0, tensors(free // 2), evict=False)
    assert store.store.free() < free // 2
    assert store.store.keep(ROOT, None, B, 1.0, tensors(free))
