"""A small network that predicts the time of a unit, in numpy: two hidden layers, of 48 and 24.

It is no better than a line with terms for the load, so the product has the line alone.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tests.bench.sparkv.unit_times import Predictor, UnitShape, UnitTime

Floats = NDArray[np.float64]

_HIDDEN = (48, 24)
_STEPS, _RATE, _DECAY = 3000, 3e-3, 1e-4  # of Adam
_FIRST, _SECOND, _TINY = 0.9, 0.999, 1e-8


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
