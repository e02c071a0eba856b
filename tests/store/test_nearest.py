"""Estimates rule out no row that is among the nearest, whatever the vectors are like."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.shards import Chosen, Shard, above, best, estimate, estimates_of, exact
from store.types import Vectors

WIDTH = 24


def rows(count: int, random: np.random.Generator, decay: float, copies: int) -> Vectors:
    """Return unit rows whose spectrum decays so fast, some of them several times."""
    made = random.standard_normal((count, WIDTH)) * np.arange(1, WIDTH + 1) ** -decay
    made[: min(copies, count)] = made[-1]
    found: Vectors = (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)
    return found


def nearest(found: Sequence[Chosen], limit: int) -> list[tuple[float, int, int]]:
    every = [(-s, n, c) for n, one in enumerate(found) for s, c in zip(one.scores, one.chunks.tolist(), strict=True)]
    return [(-float(score), part, chunk) for score, part, chunk in sorted(every)[:limit]]


@given(
    st.lists(st.integers(1, 120), min_size=1, max_size=3),
    st.integers(0, 2**32 - 1),
    st.sampled_from((0.0, 0.5, 1.5, 4.0)),
    st.integers(1, 40),
    st.sampled_from((1, 4, 12, 23)),
    st.sampled_from((0.02, 0.4, 1.0)),
)
def test_the_nearest_are_those_of_a_full_scan(
    sizes: list[int], seed: int, decay: float, limit: int, axes: int, share: float
) -> None:
    random = np.random.default_rng(seed)
    parts = [rows(size, random, decay, int(random.integers(5))) for size in sizes]
    vector = rows(1, random, decay, 0)[0] if seed % 2 else parts[0][0]
    inside = [random.random(size) < share for size in sizes]
    arrays = [{"vectors": part, **estimates_of(part, axes, least=0 if n else 50)} for n, part in enumerate(parts)]
    found = exact([estimate(one, vector) for one in arrays], inside, vector, limit)
    places = [np.flatnonzero(use) for use in inside]
    full = [Chosen(place, part[place] @ vector) for part, place in zip(parts, places, strict=True)]
    few = [[score for score, _, _ in nearest(each, limit)] for each in (found, full)]
    assert few[0] == pytest.approx(few[1], abs=1e-6)
    for one, part, use in zip(found, parts, inside, strict=True):
        assert use[one.chunks].all()
        assert one.scores.tolist() == pytest.approx((part[one.chunks] @ vector).tolist(), abs=1e-6)


@given(
    st.lists(st.integers(1, 300), min_size=1, max_size=3),
    st.integers(0, 2**32 - 1),
    st.integers(1, 30),
    st.sampled_from((3, 50, 10**6)),
    st.sampled_from((0.02, 0.4, 1.0)),
)
def test_the_best_are_those_of_a_full_sort(sizes: list[int], seed: int, limit: int, values: int, share: float) -> None:
    random = np.random.default_rng(seed)
    shards = [
        Shard({"document": random.integers(0, 9, size).astype(np.uint64), "position": np.arange(size)})
        for size in sizes
    ]
    scores = [random.integers(0, values, size).astype(np.float64) for size in sizes]
    inside = [random.random(size) < share for size in sizes]
    every = [
        (-float(score[chunk]), int(one.arrays["document"][chunk]), chunk, number)
        for number, (one, score, use) in enumerate(zip(shards, scores, inside, strict=True))
        for chunk in np.flatnonzero(use & (score > 0)).tolist()
    ]
    found = best(shards, above(scores, inside, limit), limit)
    assert [(-one.score, int(shards[one.shard].arrays["document"][one.chunk]), one.chunk) for one in found] == [
        each[:3] for each in sorted(every)[:limit]
    ]


def test_rows_without_a_vector_are_estimated_as_zero() -> None:
    matrix = np.zeros((3, WIDTH), np.float32)
    matrix[1] = rows(1, np.random.default_rng(1), 0.0, 0)[0]
    found = estimate({"vectors": matrix, **estimates_of(matrix, 8, least=0)}, matrix[1])
    assert (found.values[0], found.values[2]) == (0.0, 0.0)
    assert found.slack is not None
    assert found.values[1] + found.slack[1] >= 1 - 1e-6


def test_most_rows_are_ruled_out_where_vectors_differ_along_few_axes() -> None:
    random = np.random.default_rng(2)
    matrix = rows(2_000, random, 1.5, 0)
    (found,) = exact([estimate({"vectors": matrix, **estimates_of(matrix, 12, least=0)}, matrix[7])],
                     [np.ones(2_000, np.bool_)], matrix[7], 10)  # fmt: skip
    assert 10 <= len(found.chunks) < 200


def test_few_rows_are_scanned_in_full() -> None:
    matrix = rows(9, np.random.default_rng(3), 1.0, 0)
    assert estimates_of(matrix, 8, least=10) == {}
    assert estimate({"vectors": matrix}, matrix[0]).slack is None
