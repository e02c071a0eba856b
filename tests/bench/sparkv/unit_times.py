"""How long computing a unit takes: measured on a model, predicted by a line or a roofline.

A unit is one layer for a block of tokens. Its time depends on the tokens, on those before them, and on what else the
machine does. Knows numbers: no plans, streams or files.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from tests.bench.sparkv.layerwise import LayerSize, LayerwiseModel

Predictor = Callable[["UnitShape"], float]  # seconds

_TINY = 1e-12


@dataclass(frozen=True, slots=True)
class UnitShape:
    """What the time of a unit depends on; `load` are other busy processes for each core."""

    tokens: int
    position: int  # tokens before it
    load: float = 0.0

    @property
    def active(self) -> int:
        """Return the pairs of a token and one that it attends to."""
        return self.tokens * self.position + self.tokens * (self.tokens + 1) // 2


@dataclass(frozen=True, slots=True)
class UnitTime:
    """A measured unit."""

    shape: UnitShape
    seconds: float


def measure(
    model: LayerwiseModel, shapes: Sequence[UnitShape], layers: Sequence[int], clock: Callable[[], float] = perf_counter
) -> Iterator[UnitTime]:
    """Yield the time of each shape in each of some layers; the cache needs space for the longest."""
    states = {shape.tokens: model.embed([1] * shape.tokens) for shape in shapes}
    for shape in shapes:
        for layer in layers:
            began = clock()
            model.forward(layer, states[shape.tokens], shape.position)
            yield UnitTime(shape, clock() - began)


def roofline(times: Sequence[UnitTime], size: LayerSize) -> Predictor:
    """Return the larger of the times of computing and of reading, by the highest speeds that were measured."""

    def work(shape: UnitShape) -> tuple[float, float]:
        operations = 2 * shape.tokens * size.parameters + 4 * shape.active * size.width
        return operations, size.bytes + (shape.tokens + shape.position) * size.token_bytes

    works = [(work(one.shape), one.seconds) for one in times]
    speed = max(operations / seconds for (operations, _), seconds in works)
    bandwidth = max(read / seconds for (_, read), seconds in works)
    return lambda shape: max(work(shape)[0] / speed, work(shape)[1] / bandwidth)


@dataclass(frozen=True, slots=True)
class UnitLine:
    """Seconds of a unit: some for itself, each of its tokens and each of its pairs, all quadratic in the load."""

    factors: tuple[float, ...]
    least: float

    def __call__(self, shape: UnitShape) -> float:
        """Return the predicted seconds of a unit."""
        return max(self.least, sum(factor * term for factor, term in zip(self.factors, _terms(shape), strict=True)))


def _terms(shape: UnitShape) -> list[float]:
    plain = [1.0, shape.tokens, shape.active]
    return [term * shape.load**power for power in range(3) for term in plain]


def line(times: Sequence[UnitTime]) -> UnitLine:
    """Return the line of least error, where errors count relative to the time."""
    seconds = np.array([one.seconds for one in times])
    rows = np.array([_terms(one.shape) for one in times]) / seconds[:, None]
    scales = np.maximum(np.abs(rows).max(axis=0), _TINY)
    found, *_ = np.linalg.lstsq(rows / scales, np.ones(len(rows)), rcond=None)
    return UnitLine(tuple(map(float, found / scales)), float(seconds.min()) / 2)


def error(predictor: Predictor, times: Sequence[UnitTime]) -> float:
    """Return the mean error of a predictor, as a share of the measured times."""
    return float(np.mean([abs(predictor(one.shape) - one.seconds) / one.seconds for one in times]))
