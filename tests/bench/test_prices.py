"""Prices of made-up traces are what their curves say, to the millisecond."""

from dataclasses import replace

import pytest

from tests.bench.prices import Curve, Curves, Machine, own, path_of, price, projected, totals
from tests.bench.traces import Row, Work

FAST = {
    "body": Curve((1, 100), (1.0, 100.0), (0.0, 0.1)),
    "head": Curve((1, 100), (2.0, 101.0), (0.0, 0.0)),
    "decode": Curve((1, 9), (10.0, 18.0), (0.01, 0.01)),
}
PLAIN = {**FAST, "body": Curve((1, 100), (2.0, 200.0), (0.0, 0.2))}
CURVES = Curves(
    "135M", "wall", FAST, PLAIN, (2.0, 0.01), (1.0, 0.02, 3.0, 0.001), {"mail": {"5": {"made": 7.0, "exact": 1.0}}}
)
# Two steps of 100 rows behind 50 and 150 tokens, one of 1 with logits; 3 tokens in 2 steps, the second of 5 rows.
WORK = Work(
    [["body", 100, 2, 200], ["head", 1, 1, 250], ["decode", 1, 1, 251], ["decode", 5, 1, 252]], [3, 756], [2, 100], 0
)
ROW = Row(
    "mail", "ann", 1, "ragcache", 5, "prefix", None, False, 351, 100, 3, 1, 5, 1, (0, 0), ["retrieve"], WORK, None
)


def test_a_step_takes_its_rows_and_the_tokens_before_it() -> None:
    assert FAST["body"].ms(100, 2, 200) == 2 * 100 + 200 * 0.1


def test_rows_between_two_knots_are_interpolated() -> None:
    assert FAST["decode"].ms(5, 1, 0) == 14.0


def test_a_question_is_its_steps_its_loads_and_pkbs_own_time() -> None:
    found = price(ROW, CURVES)
    assert (found.engine, found.load) == (7.0, 2 * 2.0 + 100 * 0.01)
    assert found.prefill == 2 * 100 + 200 * 0.1 + 2.0
    assert found.decode == pytest.approx(10 + 251 * 0.01 + 14 + 252 * 0.01)
    assert found.total == pytest.approx(7 + 5 + 222 + 29.03)


def test_as_published_nothing_is_guessed_and_the_attention_is_plain() -> None:
    found = price(ROW, CURVES, "published")
    assert found.prefill == 2 * 200 + 200 * 0.2 + 2.0
    assert found.decode == pytest.approx(3 * 10 + 756 * 0.01)


def test_block_mode_loads_and_moves_segments() -> None:
    row = replace(ROW, moved=(351, 10), work=replace(WORK, loads=[0, 0]))
    share = 100 / 351
    assert price(row, CURVES).load == pytest.approx(share * 10 * 1.0 + 100 * 0.02 + 10 * 3.0 + 351 * 0.001)


def pricing(row: Row) -> float:
    """Return the price of a row."""
    return price(row, CURVES).total


def test_a_wrong_answer_costs_that_of_asking_again() -> None:
    hit = replace(ROW, policy="meancache", tier="exact", right=False, work=Work([], [0, 0], [0, 0], 0))
    asked_again = replace(ROW, policy="naive", tier="full")
    assert totals([hit], [asked_again], pricing) == {("mail", "ann", 1): 1.0 + pricing(asked_again)}
    assert totals([replace(hit, right=True)], [asked_again], pricing) == {("mail", "ann", 1): 1.0}


def test_the_path_of_a_question_tells_pkbs_look_up_from_others() -> None:
    looked_up = replace(ROW, stages=["similar"])
    assert [path_of(one) for one in (ROW, looked_up, replace(looked_up, policy="pkb"))] == [
        "made",
        "looked up",
        "guarded",
    ]


def test_a_path_that_was_not_met_costs_what_the_nearest_does() -> None:
    assert own(replace(ROW, stages=["similar"]), CURVES) == 7.0
    assert own(replace(ROW, tier="semantic"), CURVES) == 1.0


def test_a_projection_prices_rows_by_published_speeds() -> None:
    machine = Machine("Mac", 1000.0, 10.0, 1000, 1e6)
    loaded = 100 * 1000 / 1e6
    assert projected(ROW, CURVES, machine) == pytest.approx(1000 * (0.201 + 0.2 + loaded) + 7)
    assert projected(ROW, CURVES, machine, "published") == pytest.approx(1000 * (0.201 + 0.3 + loaded) + 7)
