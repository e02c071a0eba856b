"""Measures how long the language model in use takes for a unit, and keeps what predicts it best in the ledger.

Knows a loaded model and small values by name; no plans.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median
from time import perf_counter

from engine.kv.unit_times import UnitLine, UnitShape, UnitTime, error, line, measure, roofline
from engine.models.layerwise import layerwise
from engine.models.mlx import Mlx
from store.database import Ledger

_NAME = "unit_times "  # and the model's, of the value in the ledger
_TOKENS, _POSITIONS, _LAYERS, _ROUNDS = (16, 64, 128), 12, 3, 3
_HELD_OUT = 4  # every so many shapes are not fitted on


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was measured of a model; errors are mean shares of the times of units that were not fitted on."""

    model: str
    longest: int  # position of the last unit, in tokens
    units: int
    seconds: float
    line: UnitLine
    line_error: float
    roofline_error: float


def calibrate(model: Mlx, longest: int, clock: Callable[[], float] = perf_counter) -> Calibration:
    """Measure units at positions up to `longest` and fit to them; PkbError if the model cannot run by layers."""
    began, longest = clock(), min(longest, model.context - max(_TOKENS))
    run = layerwise(model, longest + max(_TOKENS))
    positions = [longest * number // (_POSITIONS - 1) for number in range(_POSITIONS)]
    shapes = [UnitShape(tokens, position) for position in positions for tokens in _TOKENS]
    layers = sorted({number * (run.layers - 1) // (_LAYERS - 1) for number in range(_LAYERS)})
    list(measure(run, shapes[: len(_TOKENS)], layers))  # the first steps of a process are slow
    measured = [one for _ in range(_ROUNDS) for one in measure(run, shapes, layers, clock)]
    times = [UnitTime(shape, median(one.seconds for one in measured if one.shape == shape)) for shape in shapes]
    held = set(shapes[1::_HELD_OUT])
    fitted = [one for one in times if one.shape not in held]
    others = [one for one in times if one.shape in held]
    errors = [error(fit, others) for fit in (line(fitted), roofline(fitted, run.layer_size))]
    return Calibration(model.name, longest, len(measured), clock() - began, line(times), *errors)


def keep(ledger: Ledger, found: Calibration) -> None:
    """Store the fit of a model."""
    ledger.set(_NAME + found.model, json.dumps(asdict(found.line)))


def kept(ledger: Ledger, model: str) -> UnitLine | None:
    """Return the fit of a model; None before the first calibration."""
    stored = ledger.get(_NAME + model)
    if stored is None:
        return None
    fields = json.loads(stored)
    return UnitLine(tuple(fields["factors"]), fields["least"])
