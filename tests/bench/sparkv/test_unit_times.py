"""Predictors of the time of a unit, on times made by a formula and on a real model."""

from itertools import count
from pathlib import Path
from random import Random

import pytest

from engine.models.load import load
from tests.bench.home import NANO
from tests.bench.sparkv.layerwise import LayerSize, layerwise
from tests.bench.sparkv.network import network
from tests.bench.sparkv.unit_times import UnitShape, UnitTime, error, line, measure, roofline

SIZE = LayerSize(parameters=1_000_000, width=512, bytes=4_000_000, token_bytes=1024)


def formula(shape: UnitShape) -> float:
    return (1e-4 + 1e-5 * shape.tokens + 2e-8 * shape.active) * (1 + shape.load)


def times(seed: int, number: int = 120, noise: float = 0.02) -> list[UnitTime]:
    rng = Random(seed)
    shapes = [
        UnitShape(rng.choice((16, 32, 64, 128)), rng.randrange(4096), rng.choice((0.0, 0.5, 1.0)))
        for _ in range(number)
    ]
    return [UnitTime(shape, formula(shape) * rng.uniform(1 - noise, 1 + noise)) for shape in shapes]


def test_a_line_and_a_network_predict_times_that_they_were_not_fitted_on() -> None:
    assert error(line(times(1)), times(2)) < 0.03
    assert error(network(times(1)), times(2)) < 0.1


def test_a_network_is_the_same_for_the_same_seed() -> None:
    shape = UnitShape(64, 1000, 0.5)
    assert network(times(1), seed=3)(shape) == network(times(1), seed=3)(shape)


def test_a_line_never_predicts_less_than_half_of_the_shortest_time() -> None:
    own = times(1)
    assert line(own)(UnitShape(1, 0, -5.0)) >= min(one.seconds for one in own) / 2


def test_a_roofline_is_the_slower_of_computing_and_reading() -> None:
    long, short = UnitShape(128, 0), UnitShape(1, 0)
    found = roofline([UnitTime(long, 1.0), UnitTime(short, 0.5)], SIZE)
    assert found(long) == pytest.approx(1.0)
    assert found(short) == pytest.approx(0.5)


def test_active_attention_counts_the_pairs_of_a_causal_mask() -> None:
    assert UnitShape(3, 2).active == 3 + 4 + 5


def test_units_of_a_model_are_measured_by_the_clock(tmp_path: Path) -> None:
    model = layerwise(load(NANO, name="nano", cache=tmp_path, memory_share=0.9), 300)
    ticks = count()
    shapes = [UnitShape(64, 0), UnitShape(20, 256)]
    found = list(measure(model, shapes, [0, 1], clock=lambda: float(next(ticks))))
    assert [one.shape for one in found] == [shapes[0]] * 2 + [shapes[1]] * 2
    assert {one.seconds for one in found} == {1.0}
    assert model.layer_size.token_bytes == 2 * 4 * model.heads * model.width
