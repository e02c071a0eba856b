"""Planners against brute force, and the closed forms against the program that they solve."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.kv.costs import Unit, auto, computing_s, loading_s, overlap_s
from tests.bench.recompute import PRINTED_C1, DecodingSetup, equation_1, equation_2, lp, met, split

SECONDS = st.floats(1e-6, 100)
UNITS = st.lists(st.builds(Unit, st.integers(1, 200), st.just(1 << 20), SECONDS, SECONDS), max_size=12)
EVEN = st.builds(
    lambda count, compute_s, load_s: [Unit(64, 1 << 21, compute_s, load_s)] * count,
    st.integers(1, 40),
    SECONDS,
    SECONDS,
)


def taken(units: list[Unit], computed: int) -> float:
    """Return the seconds of computing so many units while the others are loaded."""
    front, back = units[:computed], units[computed:]
    return max(sum(unit.compute_s for unit in front), sum(unit.load_s or 0.0 for unit in back))


@given(UNITS)
def test_overlapping_is_planned_as_the_best_of_all_divisions(units: list[Unit]) -> None:
    best = min(taken(units, computed) for computed in range(len(units) + 1))
    assert overlap_s(units) == pytest.approx(best)


@given(EVEN)
def test_the_closed_form_is_the_best_division_of_even_units_up_to_one_of_them(units: list[Unit]) -> None:
    best = min(taken(units, computed) for computed in range(len(units) + 1))
    one = max(units[0].compute_s, units[0].load_s or 0.0)
    assert taken(units, split(units)) <= best + one / 2 + 1e-9


@given(UNITS)
def test_the_linear_program_divides_where_the_closed_form_does(units: list[Unit]) -> None:
    assert lp(units) == pytest.approx(split(units), abs=1)  # a tie may go either way
    assert taken(units, lp(units)) == pytest.approx(taken(units, split(units)), rel=0.01)


@given(UNITS)
@example([Unit(1, 1 << 20, 1.0, 39.0), Unit(1, 1 << 20, 1.0, 1.0)])  # found by make soak
def test_the_default_is_expected_to_be_within_a_twentieth_of_the_best(units: list[Unit]) -> None:
    seconds = {"load": loading_s(units) or 0.0, "compute": computing_s(units), "overlap": overlap_s(units)}[auto(units)]
    best = min(taken(units, computed) for computed in range(len(units) + 1))
    assert seconds <= max(best * 1.05, 0.02) + 1e-9
    assert seconds <= computing_s(units) + 1e-9


@pytest.mark.parametrize(
    ("compute_s", "load_s", "way"),
    [
        (1.0, 0.04, "load"),
        (1.0, 0.2, "overlap"),
        (1.0, 5.0, "overlap"),
        (1.0, 25.0, "compute"),
        (0.001, 0.002, "compute"),
        (0.015, 0.01, "load"),
    ],
)
def test_the_default_loads_computes_or_does_both(compute_s: float, load_s: float, way: str) -> None:
    assert auto([Unit(64, 1 << 21, compute_s / 8, load_s / 8)] * 8) == way


def test_without_figures_about_loading_both_are_tried_at_once() -> None:
    units = [Unit(64, 1 << 21, 0.1, None)] * 3
    assert (auto(units), auto(units[:1])) == ("overlap", "load")  # the latter is little enough
    assert (loading_s(units), split(units), lp(units)) == (None, 0, 0)


def test_one_way_alone_takes_the_sum_of_its_units() -> None:
    units = [Unit(64, 1 << 21, 0.1, 0.3), Unit(32, 1 << 21, 0.2, 0.1)]
    assert (loading_s(units), computing_s(units)) == (0.3 + 0.1, 0.1 + 0.2)


@given(EVEN)
def test_overlapping_by_its_rule_is_the_best_division_up_to_a_unit(units: list[Unit]) -> None:
    one = max(units[0].compute_s, units[0].load_s or 0.0)
    assert met(units) <= overlap_s(units) + one + 1e-9
    assert met(units) >= max(0.0, overlap_s(units) - one) - 1e-9


def test_the_program_of_decoding_is_solved_by_the_closed_form() -> None:
    for tokens in (1024, 8192):
        setup = DecodingSetup(tokens, 4096, 4096, 2, 16e9, 1e14)
        assert setup.lp() == pytest.approx(equation_1(setup), rel=1e-6)
        assert replace(setup, kv=1024).lp() == 0


SETUPS = st.builds(
    DecodingSetup,
    tokens=st.integers(64, 4096),
    hidden=st.sampled_from([576, 4096]),
    kv=st.just(0),
    size=st.sampled_from([2, 4]),
    link=st.floats(1e8, 1e11),
    device=st.floats(1e10, 1e14),
).map(lambda one: DecodingSetup(one.tokens, one.hidden, one.hidden, one.size, one.link, one.device))


@given(SETUPS)
def test_equation_1_is_the_optimum_of_the_program(setup: DecodingSetup) -> None:
    grid = min(setup.seconds(float(tokens)) for tokens in np.linspace(0, setup.tokens, 2001))
    assert setup.seconds(equation_1(setup)) <= grid * (1 + 1e-9)
    assert setup.seconds(equation_1(setup)) <= setup.seconds(equation_1(setup, PRINTED_C1))


def test_the_printed_constant_is_off_by_its_size() -> None:
    setup = DecodingSetup(1024, 4096, 4096, 2, 1e10, 1e13)
    assert equation_1(setup) / equation_1(setup, PRINTED_C1) == pytest.approx(1.013)


def test_equation_2_recomputes_nothing_where_it_would_be_negative() -> None:
    slow = DecodingSetup(1024, 4096, 4096, 2, 1e10, 1e13)
    assert slow.size * slow.device < slow.hidden * slow.link
    assert equation_2(slow) == 0
    assert 0 < equation_2(DecodingSetup(1024, 4096, 4096, 2, 1e8, 1e13)) < 1024


def test_with_few_key_heads_the_program_recomputes_nothing() -> None:
    setup = DecodingSetup(1024, 4096, 1024, 2, 1e10, 1e14)
    assert min(range(0, 1025, 8), key=setup.seconds) == 0
