"""Overlap of prompts: hand-made cases, and the fast way against the naive one."""

from collections.abc import Sequence
from itertools import takewhile

from hypothesis import given
from hypothesis import strategies as st

from tests.bench.overlap import prefix_overlap, seen_before

Lists = list[list[int]]
lists = st.lists(st.lists(st.integers(0, 8), max_size=6, unique=True), max_size=30)


def alike(one: Sequence[int], other: Sequence[int]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


@given(lists)
def test_the_beginning_in_common_is_the_longest_with_any_earlier_list(asked: Lists) -> None:
    naive = [
        max((alike(chunks, earlier) for earlier in asked[:number]), default=0) / max(1, len(chunks))
        for number, chunks in enumerate(asked)
    ]
    assert list(prefix_overlap(asked)) == naive


@given(lists)
def test_what_was_seen_before_is_in_any_earlier_list(asked: Lists) -> None:
    naive = [
        sum(any(chunk in earlier for earlier in asked[:number]) for chunk in chunks) / max(1, len(chunks))
        for number, chunks in enumerate(asked)
    ]
    assert list(seen_before(asked)) == naive


@given(lists)
def test_a_beginning_is_part_of_what_was_seen(asked: Lists) -> None:
    shares = list(zip(prefix_overlap(asked), seen_before(asked), strict=True))
    assert [found for found in shares if sorted(found) != list(found)] == []


def test_the_same_chunks_in_another_order_were_seen_and_share_no_beginning() -> None:
    asked = [[1, 2, 3], [3, 2, 1]]
    assert (list(prefix_overlap(asked)), list(seen_before(asked))) == ([0.0, 0.0], [0.0, 1.0])
