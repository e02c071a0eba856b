"""The best chunks of several shards are those of a full sort."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from store.shards import Shard, best


@given(
    st.lists(st.integers(1, 300), min_size=1, max_size=3),
    st.integers(0, 2**32 - 1),
    st.integers(1, 30),
    st.sampled_from((3, 50, 10**6)),
    st.sampled_from((0.02, 0.4, 1.0)),
    st.booleans(),
)
def test_the_best_are_those_of_a_full_sort(
    sizes: list[int], seed: int, limit: int, values: int, share: float, negative: bool
) -> None:
    random = np.random.default_rng(seed)
    shards = [
        Shard({"document": random.integers(0, 9, size).astype(np.uint64), "position": np.arange(size)})
        for size in sizes
    ]
    scores = [random.integers(-negative * values, values, size).astype(np.float64) for size in sizes]
    least = -10.0 * values if negative else 1e-9
    inside = [random.random(size) < share for size in sizes]
    every = [
        (-float(score[chunk]), int(one.arrays["document"][chunk]), chunk, number)
        for number, (one, score, use) in enumerate(zip(shards, scores, inside, strict=True))
        for chunk in np.flatnonzero(use & (score > least)).tolist()
    ]
    found = best(shards, scores, inside, limit, least)
    assert [(-float(scores[at][chunk]), int(shards[at].arrays["document"][chunk]), chunk) for at, chunk in found] == [
        each[:3] for each in sorted(every)[:limit]
    ]
