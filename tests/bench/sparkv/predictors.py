"""The time of computing one layer for a block of tokens: measured, and predicted by network, line and roofline.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.sparkv.predictors [--model 135M] [--longest N] [--rounds N]
[--busy N...]`.
Units of 16 to 128 tokens at positions up to the longest are measured in three layers, beside so many busy processes.
Nine tenths of the shapes train each predictor, the others are held out. Prints JSON lines.
"""

import json
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from os import cpu_count
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

from tests.bench.kv_reuse import loaded
from tests.bench.sparkv.layerwise import LayerwiseModel, layerwise
from tests.bench.sparkv.network import network
from tests.bench.sparkv.unit_times import Predictor, UnitShape, UnitTime, error, line, measure, roofline

TOKENS = (16, 32, 64, 128)


def main() -> None:
    """Measure, fit and print."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="135M")
    parser.add_argument("--longest", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--busy", type=int, nargs="+", default=[0, 1, 2])
    given = parser.parse_args()
    with TemporaryDirectory(prefix="pkb-units-") as scratch:
        model = layerwise(loaded(Path(scratch), given.model), given.longest + max(TOKENS))
        shapes = shapes_of(given.longest)
        list(measure(model, shapes[:4], [0]))  # the first steps of a process are slow
        times = [one for number in given.busy for one in measured(model, shapes, number, given.rounds)]
        for row in compared(times, model):
            print(json.dumps({"model": given.model, "n": len(times)} | row))


def shapes_of(longest: int) -> list[UnitShape]:
    """Return shapes at positions that lie closer at the beginning."""
    rng = Random(5)
    positions = sorted({0, *(int(longest * rng.random() ** 1.5) for _ in range(24)), longest})
    return [UnitShape(tokens, position) for position in positions for tokens in TOKENS]


def measured(model: LayerwiseModel, shapes: Sequence[UnitShape], number: int, rounds: int) -> list[UnitTime]:
    """Return the median time of each shape, beside so many busy processes."""
    layers = [0, model.layers // 2, model.layers - 1]
    found: dict[UnitShape, list[float]] = {}
    with busy(number):
        for _ in range(rounds):
            for one in measure(model, shapes, layers):
                found.setdefault(one.shape, []).append(one.seconds)
    load = number / (cpu_count() or 1)
    return [UnitTime(UnitShape(one.tokens, one.position, load), median(seconds)) for one, seconds in found.items()]


def compared(times: Sequence[UnitTime], model: LayerwiseModel) -> Iterator[dict[str, object]]:
    """Yield the error of each predictor on shapes that it was not fitted on, in turns of ten."""
    shapes = sorted({(one.shape.position, one.shape.tokens) for one in times})
    Random(1).shuffle(shapes)
    errors: dict[str, list[float]] = {}
    fitting = 0.0
    for turn in range(10):
        held = set(shapes[turn::10])
        train = [one for one in times if (one.shape.position, one.shape.tokens) not in held]
        test = [one for one in times if (one.shape.position, one.shape.tokens) in held]
        began = perf_counter()
        trained = network(train)
        fitting += perf_counter() - began
        fits: dict[str, Predictor] = {
            "network": trained,
            "line": line(train),
            "roofline": roofline(train, model.layer_size),
        }
        for name, fit in fits.items():
            errors.setdefault(name, []).append(error(fit, test))
    for name, own in errors.items():
        yield {"predictor": name, "mean_error": round(sum(own) / len(own), 4), "worst_turn": round(max(own), 4)}
    yield {"network_seconds_to_fit": round(fitting / 10, 2)}


def _spin() -> None:
    while True:
        sum(range(10_000))


@contextmanager
def busy(number: int) -> Iterator[None]:
    """Keep so many processes busy."""
    processes = [get_context("spawn").Process(target=_spin, daemon=True) for _ in range(number)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.terminate()
            process.join()


if __name__ == "__main__":
    main()
