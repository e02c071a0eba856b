"""New chunks take the place of older ones that nobody used, and of nothing else."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from engine.idle.room import Aged, make_way
from engine.idle.segment import Segment
from store.kv_peek import Unused

BYTES = st.integers(1, 50)
WITHIN = 100


def candidates(sizes: Sequence[int]) -> list[Segment]:
    """Make segments whose first token is their age: the newest first."""
    return [Segment("first", "", "new", ((0,), (age,)), 1.0, 1.0, size, WITHIN) for age, size in enumerate(sizes)]


def old(*ages: float, size: int = 10) -> list[Aged]:
    return [Aged(age, Unused(str(age).encode(), size)) for age in sorted(ages, reverse=True)]


def age(segment: Segment) -> float:
    return segment.path[-1][0]


def way(sizes: Sequence[int], kept: int, unused: Sequence[Aged]) -> list[list[str]]:
    made = make_way(candidates(sizes), kept, lambda: unused, age)
    return [[node.key.decode() for node in one.instead] for one in made]


def test_where_there_is_room_nothing_goes_and_nobody_looks_for_what_might() -> None:
    def looked() -> list[Aged]:
        raise AssertionError("nothing need go")

    assert [one.instead for one in make_way(candidates([40, 30, 30]), 0, looked, age)] == [(), (), ()]


def test_the_oldest_goes_first_and_what_is_gone_from_the_mail_before_it() -> None:
    assert way([10, 10, 10], 100, old(7, 9, inf)) == [["inf"], ["9"], ["7"]]


def test_only_as_many_go_as_are_needed() -> None:
    assert way([25, 10, 5], 90, old(6, 7, 8, 9)) == [["9", "8"], ["7"], []]


def test_nothing_goes_for_what_is_older_or_for_what_there_is_no_room_for_even_so() -> None:
    assert way([10, 10, 10], 100, old(1, size=30)) == [["1"], [], []]
    assert way([10, 10], 100, old(0)) == [[], []]
    assert way([30, 10], 100, old(8, 9)) == [[], ["9"]]


def test_what_may_take_all_the_room_there_is_makes_no_way() -> None:
    free = [replace(one, within=None) for one in candidates([10])]
    assert list(make_way(free, 1000, lambda: old(7), age)) == free


def test_where_more_is_kept_than_new_chunks_may_fill_as_much_goes_as_comes() -> None:
    assert way([10, 10], 400, old(5, 6, 7)) == [["7"], ["6"]]


def test_a_person_is_told_why() -> None:
    first, second = make_way(candidates([10, 10]), 95, lambda: old(7), age)
    assert (first.why, second.why) == ("new; replaces older, never used entries", "new")


@given(sizes=st.lists(BYTES, max_size=8), kept=st.integers(0, 200), unused=st.lists(BYTES, max_size=8))
def test_what_is_kept_never_grows_beyond_what_it_may(sizes: list[int], kept: int, unused: list[int]) -> None:
    left = [Aged(age + 3.5, Unused(bytes([age]), size)) for age, size in enumerate(unused)][::-1]
    gone = set[bytes]()
    total = kept
    for one in make_way(candidates(sizes), kept, lambda: left, age):
        assert gone.isdisjoint(node.key for node in one.instead)
        gone |= {node.key for node in one.instead}
        freed = sum(node.bytes for node in one.instead)
        if one.instead or total + one.bytes <= WITHIN:
            total += one.bytes - freed
        assert total <= max(kept, WITHIN)
