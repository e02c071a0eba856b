"""Similarity of two adapters' tensors, and the error bounds that follow from it."""

from dataclasses import replace
from math import log1p

import numpy as np
import pytest

from tests.bench.delta.similarity import BOUNDS, ERRORS, Pair, coded, printed, relative, segments
from tests.bench.sparkv.bitstream import Chunk32


def normal(seed: int) -> Chunk32:
    made: Chunk32 = np.random.default_rng(seed).normal(size=(3, 300, 16)).astype(np.float32)
    return made


def pair(apart: float, scale: float = 1.0) -> Pair:
    anchor = normal(0)
    return Pair(0, 0, scale * anchor, (scale * (anchor + apart * normal(1))).astype(np.float32))


@pytest.mark.parametrize(("apart", "group"), [(0.0, 0), (0.1, 0), (0.4, 1), (2.0, 2)])
def test_tensors_are_grouped_by_the_cosine_of_a_tokens_numbers(apart: float, group: int) -> None:
    assert pair(apart).similarity == pytest.approx(1 / (1 + apart**2) ** 0.5, abs=0.01)
    assert pair(apart).group == group


def test_printed_bounds_are_absolute_and_relative_ones_follow_the_spread() -> None:
    small, large = pair(0.1), pair(0.1, scale=50.0)
    assert printed(small) == printed(large) == log1p(ERRORS[0])
    assert relative(large) == pytest.approx(50 * relative(small))


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_hold_and_a_difference_takes_fewer_bits_than_the_whole(name: str) -> None:
    pairs = [replace(one, kv=kv) for kv in (0, 1) for one in segments([pair(0.1)])]
    apart, layers = coded(pairs, BOUNDS[name], is_delta=True, count=1)
    whole, _ = coded(pairs, BOUNDS[name], is_delta=False, count=1)
    assert apart["largest_error_of_bound"] <= 1
    assert whole["largest_error_of_bound"] <= 1
    assert 0 < apart["bits"] < whole["bits"]
    assert layers[0][0].shape == (3, 300, 16)
