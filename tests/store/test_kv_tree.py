"""Keys and shared beginnings, against what they must tell apart."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.kv_files import (
    KEY_BYTES,
    DocumentSegment,
    borders,
    child_key,
    document_of,
    first_key,
    grouped,
    pack,
    root_key,
    root_of,
    shared,
    unpack,
)

IDS = st.lists(st.integers(0, 2**32 - 1), max_size=12)
FEW = st.lists(st.integers(0, 2), max_size=20)


def test_the_same_chunk_under_another_prefix_is_another_node() -> None:
    root = root_key({"model": "a"})
    assert child_key(child_key(root, [1]), [5]) != child_key(child_key(root, [2]), [5])


def test_the_order_of_a_roots_parts_does_not_matter() -> None:
    assert root_key({"a": "1", "b": "2"}) == root_key({"b": "2", "a": "1"})


def test_parts_that_read_the_same_when_joined_are_two_roots() -> None:
    assert root_key({"a": "1", "b": "2"}) != root_key({"a": '1","b":"2'})


@given(st.dictionaries(st.text(max_size=4), st.text(max_size=4)), st.text(max_size=4), st.text(max_size=4))
@settings(deadline=None)
def test_every_part_of_a_root_changes_its_key(parts: dict[str, str], name: str, value: str) -> None:
    assert (root_key(parts | {name: value}) == root_key(parts)) == (parts.get(name) == value)


def test_adapters_share_the_path_and_not_the_key() -> None:
    one, other = (root_of({"model": "a", "adapter": name}) for name in ("none", "mine"))
    assert (one.path == other.path, one.key == other.key) == (True, False)


def test_anything_but_the_adapter_changes_the_path() -> None:
    assert root_of({"model": "a"}).path != root_of({"model": "b"}).path


@given(IDS, IDS)
@settings(deadline=None)
def test_a_key_is_equal_for_equal_ids_alone(one: list[int], other: list[int]) -> None:
    root = root_key({})
    assert (child_key(root, one) == child_key(root, other)) == (one == other)


def test_keys_have_sixteen_bytes() -> None:
    root = root_key({})
    assert [len(root), len(child_key(root, [1])), len(first_key([1], 1) or b"")] == [KEY_BYTES] * 3


def test_two_segments_are_not_one_of_both() -> None:
    root = root_key({})
    assert child_key(child_key(root, [1]), [2]) != child_key(root, [1, 2])


@given(IDS)
@settings(deadline=None)
def test_packed_ids_come_back(ids: list[int]) -> None:
    assert unpack(pack(ids)) == tuple(ids)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([1, 2, 3, 4, 5], [1, 2, 3, 4, 9], 4),
        ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5], 5),  # the same: grouped alike to the last token
        ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6], 4),
        ([1, 2, 3], [1, 2, 3, 4], 2),
        ([1], [1, 2], 0),
        ([1, 2], [3, 2], 0),
        ([], [], 0),
    ],
)
def test_shared_tokens_end_at_a_sub_step(one: list[int], other: list[int], expected: int) -> None:
    assert (shared(one, other, 2), shared(other, one, 2)) == (expected, expected)


@pytest.mark.parametrize(
    ("length", "ends"),
    [
        (0, []),
        (3, [3]),
        (64, [64]),
        (95, [95]),
        (96, [64, 96]),
        (128, [64, 128]),
        (130, [64, 130]),
        (200, [64, 128, 200]),
    ],
)
def test_a_short_rest_is_read_with_the_sub_step_before_it(length: int, ends: list[int]) -> None:
    assert borders(length, 64) == ends


@given(st.integers(1, 500), st.integers(1, 70))
def test_what_is_left_of_a_segment_behind_a_border_has_the_same_borders(length: int, step: int) -> None:
    ends = borders(length, step)
    for start in ends[:-1]:
        assert [start + end for end in borders(length - start, step)] == [end for end in ends if end > start]


@given(FEW, FEW, st.integers(1, 5))
@settings(deadline=None)
def test_what_is_shared_is_the_longest_common_beginning_of_whole_sub_steps(
    one: list[int], other: list[int], step: int
) -> None:
    def ends(n: int, ids: list[int]) -> bool:
        return n in (0, len(ids)) or 2 * (len(ids) - n) >= step  # a shorter rest is read with what is before it

    there = [n for n in range(0, len(one) + 1, step) if one[:n] == other[:n]]
    naive = max(n for n in there if ends(n, one) and ends(n, other))
    assert shared(one, other, step) == (len(one) if one == other else naive)


SEGMENTS = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=9).map(tuple), max_size=8)


@given(SEGMENTS, SEGMENTS, SEGMENTS, st.integers(1, 24))
def test_prompts_that_begin_alike_are_grouped_alike_up_to_what_half_a_step_needs(
    alike: list[tuple[int, ...]], one: list[tuple[int, ...]], other: list[tuple[int, ...]], step: int
) -> None:
    both = [grouped([*alike, *rest], step) for rest in (one, other)]
    for found, rest in zip(both, (one, other), strict=True):
        assert [id for ids in found for id in ids] == [id for ids in [*alike, *rest] for id in ids]
        assert all(2 * len(ids) >= step for ids in found[:-1])
    closed = [ids for ids in grouped(alike, step) if 2 * len(ids) >= step]
    assert all(found[: len(closed)] == closed for found in both)


def test_segments_that_are_long_enough_stay_alone() -> None:
    assert grouped([(1, 2), (3,), (4,), (5, 6)], 4) == [(1, 2), (3, 4), (5, 6)]
    assert grouped([(1,), (2, 3)], 1) == [(1,), (2, 3)]


def test_a_group_is_of_the_documents_of_all_its_segments() -> None:
    segments = [(1,), *(DocumentSegment.of((number,), name) for number, name in enumerate(("a", "b", "a"), 2))]
    assert [document_of(ids) for ids in grouped(segments, 100)] == ["a b"]
    assert [document_of(ids) for ids in grouped(segments, 1)] == ["", "a", "b", "a"]


@given(FEW, FEW, st.integers(1, 5))
@settings(deadline=None)
def test_segments_that_share_a_sub_step_have_the_same_first_key(one: list[int], other: list[int], step: int) -> None:
    alike = first_key(one, step) == first_key(other, step) is not None
    assert alike == (len(one) >= step and one[:step] == other[:step])
