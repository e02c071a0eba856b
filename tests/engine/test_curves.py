"""What questions have in common: hand-made cases, and the fast ways against the naive ones."""

from collections import Counter
from collections.abc import Sequence
from itertools import takewhile
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.curves import MORE, curve, frequency, prefix_overlap, seen_before, set_overlap

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
def test_the_set_in_common_is_the_largest_with_any_earlier_set(asked: Lists) -> None:
    naive = [
        max((len(set(chunks) & set(earlier)) for earlier in asked[:number]), default=0) / max(1, len(chunks))
        for number, chunks in enumerate(asked)
    ]
    assert list(set_overlap(asked)) == naive


@given(lists)
def test_what_was_seen_before_is_in_any_earlier_list(asked: Lists) -> None:
    naive = [
        sum(any(chunk in earlier for earlier in asked[:number]) for chunk in chunks) / max(1, len(chunks))
        for number, chunks in enumerate(asked)
    ]
    assert list(seen_before(asked)) == naive


@given(lists)
def test_a_beginning_is_part_of_a_set_and_a_set_of_all_that_was_seen(asked: Lists) -> None:
    shares = list(zip(prefix_overlap(asked), set_overlap(asked), seen_before(asked), strict=True))
    assert [found for found in shares if sorted(found) != list(found)] == []


def test_the_same_chunks_in_another_order_share_a_set_and_no_beginning() -> None:
    asked = [[1, 2, 3], [3, 2, 1]]
    assert (list(prefix_overlap(asked)), list(set_overlap(asked))) == ([0.0, 0.0], [0.0, 1.0])


def test_chunks_of_two_earlier_questions_are_seen_but_in_no_one_set() -> None:
    asked = [[1, 2], [3, 4], [1, 3]]
    assert (list(set_overlap(asked))[-1], list(seen_before(asked))[-1]) == (0.5, 1.0)


@given(st.lists(st.integers(1, 40), max_size=60))
def test_frequencies_are_what_counting_one_by_one_gives(counts: list[int]) -> None:
    found = frequency(counts)
    names = {1: "1", 2: "2", 3: "3-4", 4: "3-4", **dict.fromkeys(range(5, 10), "5-9")}
    classes = Counter(names.get(count, MORE) for count in counts)
    assert (found.chunks, found.retrievals) == (len(counts), sum(counts))
    assert found.by_times == {name: classes[name] / max(1, len(counts)) for name in ("1", "2", "3-4", "5-9", MORE)}
    repeated = sorted((chunk for chunk, count in enumerate(counts) for _ in range(count)), key=lambda c: -counts[c])
    for percent, share in found.on_hottest.items():
        hottest = set(sorted(range(len(counts)), key=lambda chunk: -counts[chunk])[: ceil(len(counts) * percent / 100)])
        assert share == pytest.approx(sum(chunk in hottest for chunk in repeated) / max(1, sum(counts)))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=55))
def test_the_parts_of_a_curve_cover_every_question_once(shares: list[float]) -> None:
    found = curve(shares)
    count = len(found.over_time)
    sizes = [len(shares) * (part + 1) // count - len(shares) * part // count for part in range(count)]
    weighed = sum(mean * size for mean, size in zip(found.over_time, sizes, strict=True)) / len(shares)
    assert count == min(10, len(shares))
    assert max(sizes) - min(sizes) <= 1
    assert weighed == pytest.approx(found.mean)


def test_a_curve_runs_from_the_oldest_to_the_newest() -> None:
    assert curve([0.0] * 10 + [1.0] * 10).over_time == (0.0,) * 5 + (1.0,) * 5


def test_no_questions_have_nothing_in_common() -> None:
    assert (curve([]).mean, curve([]).over_time, frequency([]).on_hottest[10]) == (0.0, (), 0.0)
