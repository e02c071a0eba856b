"""The best chunks of several shards are those of a full sort; frequent words and far vectors are looked at last."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from store.shards import Query, Shard, _postings, _signs, best, nearest
from store.types import Vectors

SIZES, SEEDS = st.lists(st.integers(1, 300), min_size=1, max_size=3), st.integers(0, 2**32 - 1)


@given(SIZES, SEEDS, st.integers(1, 30), st.sampled_from((3, 50, 10**6)), st.sampled_from((0.02, 0.4, 1.0)))
def test_the_best_are_those_of_a_full_sort(sizes: list[int], seed: int, limit: int, values: int, share: float) -> None:
    random = np.random.default_rng(seed)
    shards = [
        Shard({"document": random.integers(0, 9, size).astype(np.uint64), "position": np.arange(size)})
        for size in sizes
    ]
    chunks = [np.flatnonzero(random.random(size) < share) for size in sizes]
    found = [(own, random.integers(-values, values, len(own)).astype(np.float64)) for own in chunks]
    every = [
        (-float(score), int(one.arrays["document"][chunk]), int(chunk), number)
        for number, (one, (own, scores)) in enumerate(zip(shards, found, strict=True))
        for chunk, score in zip(own, scores, strict=True)
    ]
    scores = [dict(zip(own.tolist(), values.tolist(), strict=True)) for own, values in found]
    assert [
        (-scores[at][chunk], int(shards[at].arrays["document"][chunk]), chunk)
        for at, chunk in best(shards, found, limit)
    ] == [each[:3] for each in sorted(every)[:limit]]


@given(SIZES, SEEDS, st.sampled_from((8, 64, 72, 384)), st.integers(1, 400), st.sampled_from((0.02, 0.4, 1.0)))
def test_cosines_are_computed_of_those_with_the_fewest_other_signs(
    sizes: list[int], seed: int, width: int, most: int, share: float
) -> None:
    random = np.random.default_rng(seed)
    matrices: list[Vectors] = [random.standard_normal((size, width)).astype(np.float32) for size in sizes]
    shards = [
        Shard({"document": np.zeros(len(one), np.uint64), "vectors": one, "signs": _signs(one)}) for one in matrices
    ]
    vector = random.standard_normal(width).astype(np.float32)
    inside = [random.random(size) < share for size in sizes]
    others = [np.count_nonzero((one > 0) != (vector > 0), axis=1) for one in matrices]
    every = np.sort(np.concatenate([each[use] for each, use in zip(others, inside, strict=True)]))
    last = every[min(most, len(every)) - 1] if len(every) else -1
    for (chunks, cosines), matrix, other, use in zip(
        nearest(shards, vector, inside, most), matrices, others, inside, strict=True
    ):
        assert chunks.tolist() == np.flatnonzero(use & (other <= last)).tolist()
        np.testing.assert_allclose(cosines, matrix[chunks] @ vector, rtol=1e-4, atol=1e-4)


@given(st.integers(1, 300), SEEDS, st.floats(0, 1), st.sampled_from((0.3, 1.0)))
def test_words_that_are_looked_up_last_score_as_those_before(size: int, seed: int, part: float, share: float) -> None:
    random = np.random.default_rng(seed)
    texts = [" ".join(map(str, random.zipf(1.5, random.integers(1, 30)))) for _ in range(size)]
    shard = Shard({"document": np.zeros(size, np.uint64), **_postings(texts)})
    asked = list(dict.fromkeys(map(str, random.zipf(1.5, 12))))
    held = shard.frequencies(asked)
    query = Query({word: np.log(1 + (size + 0.5) / (held[word] + 0.5)) for word in asked if word in held}, 10.0)
    inside = random.random(size) < share
    chunks, scores = shard.score_words(query, inside, 0.0)
    least = float(np.quantile(scores, part)) if len(scores) else 1.0
    found, values = shard.score_words(query, inside, least)
    assert found.tolist() == chunks[scores >= least].tolist()
    assert values.tolist() == scores[scores >= least].tolist()
