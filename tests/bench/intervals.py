"""Bootstrap intervals of means, medians and their changes against a baseline, paired by question."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

DRAWS = 10_000
SHARE = 0.95
_BATCH = 500  # draws at a time: their indices fit in memory

Floats = NDArray[np.float64]
Statistic = Callable[[Floats], Floats]  # of the last axis


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with the ends of its 95 % interval."""

    value: float
    low: float
    high: float


def mean(values: Floats) -> Floats:
    """Return means over the last axis."""
    return np.asarray(values.mean(axis=-1))


def median(values: Floats) -> Floats:
    """Return medians over the last axis."""
    return np.asarray(np.median(values, axis=-1))


def interval(values: Sequence[float], statistic: Statistic = mean, draws: int = DRAWS, seed: int = 0) -> Interval:
    """Return a statistic of at least one value, with its percentile interval."""
    own = np.asarray(values, dtype=np.float64)
    drawn = np.concatenate([statistic(own[at]) for at in _samples(len(own), draws, seed)])
    return _interval(float(statistic(own)), drawn)


def change(
    values: Sequence[float], others: Sequence[float], statistic: Statistic = mean, draws: int = DRAWS, seed: int = 0
) -> Interval:
    """Return the relative change from `others` to `values`, of the same questions in the same order."""
    own, theirs = np.asarray(values, dtype=np.float64), np.asarray(others, dtype=np.float64)
    assert own.shape == theirs.shape, "they are paired"
    drawn = np.concatenate([statistic(own[at]) / statistic(theirs[at]) - 1 for at in _samples(len(own), draws, seed)])
    return _interval(float(statistic(own) / statistic(theirs) - 1), drawn)


@lru_cache(4)
def _samples(count: int, draws: int, seed: int) -> "tuple[NDArray[np.int32], ...]":
    """Return indices drawn with replacement, in batches: (draws, count) in all."""
    random = np.random.default_rng(seed)
    sizes = (min(_BATCH, draws - done) for done in range(0, draws, _BATCH))
    return tuple(random.integers(0, count, (size, count), dtype=np.int32) for size in sizes)


def _interval(value: float, drawn: Floats) -> Interval:
    tail = 100 * (1 - SHARE) / 2
    low, high = np.percentile(drawn, [tail, 100 - tail])
    return Interval(value, float(low), float(high))
