"""The most retrieved chunks come first, and newer chunks replace older prefetched ones that no question used."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.idle.prefetch import Evictable, WantedSegment, make_room, most_retrieved
from store.jobs import Job
from store.kv_files import Node

ASKED = [("a", "b"), ("b", "c"), ("a", "c"), ("c",), ("d",)]
HOT = -1.0  # age of a chunk that was retrieved


def wanted(*sizes: int) -> list[tuple[float, WantedSegment]]:
    """Return new segments of these bytes, the newest first."""
    return [
        (age, WantedSegment(Job("prefetch", "", "", "new", 0.0, 0.1), ((age,),), size))
        for age, size in enumerate(sizes)
    ]


def nodes(*sizes: int, first: float = 10.0) -> list[Evictable]:
    """Return prefetched nodes of these bytes, each older than the one before."""
    return [(first + at, Node(bytes([at]), b"", b"", 2, (), size, 0.1, 0.0, 0.0, 0)) for at, size in enumerate(sizes)]


def evicted(segments: Sequence[tuple[float, WantedSegment]], free: int, there: list[Evictable]) -> list[list[int]]:
    return [[node.key[0] for node in one.instead] for one in make_room(segments, free, lambda: list(there))]


def test_chunks_are_counted_once_a_question_and_of_equals_the_latest_comes_first() -> None:
    assert list(most_retrieved(ASKED, 9).items()) == [("c", 3), ("a", 2), ("b", 2), ("d", 1)]
    assert most_retrieved([("a", "a")], 9) == {"a": 1}
    assert list(most_retrieved(ASKED, 2)) == ["c", "a"]


def test_eviction_candidates_are_not_listed_where_all_have_room() -> None:
    found = list(make_room(wanted(10, 10), 20, lambda: pytest.fail("there was room")))
    assert [(one.job.reason, one.instead) for one in found] == [("new", ())] * 2


def test_the_oldest_are_evicted_and_no_more_than_needed() -> None:
    assert evicted(wanted(10, 25, 10), 10, nodes(10, 10, 10, 10)) == [[], [3, 2, 1], [0]]


def test_space_left_over_from_an_eviction_goes_to_the_next_segment() -> None:
    assert evicted(wanted(10, 10), 0, nodes(5, 30)) == [[1], []]


def test_nothing_newer_is_evicted_and_nothing_in_vain() -> None:
    assert evicted([(12.0, wanted(10)[0][1])], 0, nodes(10, 10, 10)) == [[]]
    assert evicted(wanted(25, 10), 0, nodes(10, 10)) == [[], [1]]


def test_a_chunk_that_was_retrieved_replaces_whatever_no_question_used() -> None:
    assert evicted([(HOT, wanted(10)[0][1])], 0, nodes(10, first=0.0)) == [[0]]


@given(st.lists(st.integers(0, 40), max_size=9), st.lists(st.integers(1, 40), max_size=9), st.integers(0, 60))
def test_nodes_are_evicted_once_and_only_for_a_segment_that_then_fits(
    sizes: list[int], there: list[int], free: int
) -> None:
    evicted_keys = list[bytes]()
    for one in make_room(wanted(*sizes), free, lambda: nodes(*there, first=0.0)):
        assert not one.instead or one.bytes > free
        free += sum(node.bytes for node in one.instead)
        assert not one.instead or one.bytes <= free
        free -= one.bytes if one.bytes <= free else 0
        evicted_keys += [node.key for node in one.instead]
    assert len(evicted_keys) == len(set(evicted_keys))
