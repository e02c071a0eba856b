"""How long computing a unit takes: measured on a model, predicted by a small network, a line, or a roofline.

A unit is one layer for a block of tokens. Its time depends on the tokens, on those before them, and on what else the
machine does. Knows numbers: no plans, streams or files.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.models.layerwise import LayerwiseModel

Floats = NDArray[np.float64]
Predictor = Callable[["UnitShape"], float]  # seconds

_HIDDEN = (48, 24)  # widths of the hidden layers
_STEPS, _RATE, _DECAY = 3000, 3e-3, 1e-4  # of Adam
_FIRST, _SECOND, _TINY = 0.9, 0.999, 1e-8


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


@dataclass(frozen=True, slots=True)
class LayerSize:
    """What a roofline knows of a layer: its parameters, the width of its queries, its bytes and those of a token."""

    parameters: int
    width: int
    bytes: int
    token_bytes: int


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


def size(model: LayerwiseModel) -> LayerSize:
    """Return the size of a model's layers, which are alike."""
    from mlx.utils import tree_flatten

    layer: Any = model.model.model.model.layers[0]
    arrays = dict(tree_flatten(layer.parameters())).values()
    attention, part = layer.self_attn, model.cache[0]
    return LayerSize(
        sum(array.size for array in arrays),
        attention.n_heads * model.width,
        sum(array.nbytes for array in arrays),
        2 * model.heads * model.width * part.keys.dtype.size,
    )


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
    """Seconds of a unit as a sum of seconds for it, each of its tokens and each of its pairs, plain and by the load."""

    factors: tuple[float, ...]
    least: float

    def __call__(self, shape: UnitShape) -> float:
        """Return the predicted seconds of a unit."""
        return max(self.least, sum(factor * term for factor, term in zip(self.factors, _terms(shape), strict=True)))


def _terms(shape: UnitShape) -> list[float]:
    plain = [1.0, shape.tokens, shape.active]
    return [*plain, *(term * shape.load for term in plain)]


def line(times: Sequence[UnitTime]) -> UnitLine:
    """Return the line of least error, where errors count relative to the time."""
    seconds = np.array([one.seconds for one in times])
    rows = np.array([_terms(one.shape) for one in times]) / seconds[:, None]
    scales = np.maximum(np.abs(rows).max(axis=0), _TINY)
    found, *_ = np.linalg.lstsq(rows / scales, np.ones(len(rows)), rcond=None)
    return UnitLine(tuple(map(float, found / scales)), float(seconds.min()) / 2)


def network(times: Sequence[UnitTime], seed: int = 0) -> Predictor:
    """Return a network with two hidden layers, trained on the logarithm of the time."""
    inputs = np.array([_features(one.shape) for one in times])
    goals = np.log([one.seconds for one in times])
    middle, spread = inputs.mean(axis=0), np.maximum(inputs.std(axis=0), _TINY)
    centre, scale = float(goals.mean()), max(float(goals.std()), _TINY)
    layers = _trained((inputs - middle) / spread, (goals - centre) / scale, np.random.default_rng(seed))

    def predicted(shape: UnitShape) -> float:
        values = (np.array([_features(shape)]) - middle) / spread
        return float(np.exp(_forward(layers, values)[-1][0, 0] * scale + centre))

    return predicted


def error(predictor: Predictor, times: Sequence[UnitTime]) -> float:
    """Return the mean error of a predictor, as a share of the measured times."""
    return float(np.mean([abs(predictor(one.shape) - one.seconds) / one.seconds for one in times]))


Layers = list[tuple[Floats, Floats]]  # weights and biases


def _features(shape: UnitShape) -> list[float]:
    return [shape.tokens, shape.position, np.log1p(shape.active), shape.active, shape.load]


def _forward(layers: Layers, values: Floats) -> list[Floats]:
    """Return the values of each layer, the inputs first."""
    found = [values]
    for number, (weights, biases) in enumerate(layers):
        values = values @ weights + biases
        if number + 1 < len(layers):
            values = np.tanh(values)
        found.append(values)
    return found


def _trained(inputs: Floats, goals: Floats, rng: np.random.Generator) -> Layers:
    """Return the layers of a network with the least squared error, by Adam over all inputs at once."""
    widths = (inputs.shape[1], *_HIDDEN, 1)
    layers: Layers = [
        (rng.normal(size=(before, after)) / np.sqrt(before), np.zeros(after)) for before, after in pairwise(widths)
    ]
    firsts, seconds = ([[np.zeros_like(part) for part in layer] for layer in layers] for _ in range(2))
    for step in range(1, _STEPS + 1):
        values = _forward(layers, inputs)
        slope = 2 * (values[-1] - goals[:, None]) / len(goals)
        rate = _RATE * (1 - step / _STEPS)
        for number in reversed(range(len(layers))):
            weights, biases = layers[number]
            gradients = (values[number].T @ slope + _DECAY * weights, slope.sum(axis=0))
            slope = (slope @ weights.T) * (1 - values[number] ** 2)
            for part, gradient, first, second in zip(
                (weights, biases), gradients, firsts[number], seconds[number], strict=True
            ):
                first += (1 - _FIRST) * (gradient - first)
                second += (1 - _SECOND) * (gradient**2 - second)
                part -= rate * (first / (1 - _FIRST**step)) / (np.sqrt(second / (1 - _SECOND**step)) + _TINY)
    return layers
