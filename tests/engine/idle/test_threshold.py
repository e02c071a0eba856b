"""The learnt threshold: never below the setting, above what was wrong too often, and no higher than that needs."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.idle.refresh import learned_tau
from store.answers import upper

labels = st.lists(st.tuples(st.floats(0.8, 1.0), st.booleans()), max_size=40)


def test_with_nothing_judged_or_nothing_wrong_it_stays_where_it_was_set() -> None:
    assert learned_tau([], 0.02, 0.85) == 0.85
    assert learned_tau([(0.9, True), (0.86, True)], 0.02, 0.85) == 0.85


def test_one_wrong_hit_among_few_lifts_it_just_above_that_one() -> None:
    assert learned_tau([(0.9, False), (0.95, True), (0.88, True)], 0.02, 0.85) == math.nextafter(0.9, 1)


def test_one_wrong_hit_among_many_is_borne_where_so_much_error_may_be() -> None:
    judged = [(0.9, False), *((0.9 + number / 5000, True) for number in range(400))]
    assert learned_tau(judged, 0.02, 0.85) == 0.85
    assert learned_tau(judged, 0.002, 0.85) > 0.9


def test_what_was_wrong_below_the_setting_counts_no_more() -> None:
    assert learned_tau([(0.7, False), (0.9, True)], 0.02, 0.85) == 0.85


@given(labels, st.floats(0, 0.5))
def test_above_it_the_error_is_within_its_bound_to_be_safe(judged: list[tuple[float, bool]], most: float) -> None:
    tau = learned_tau(judged, most, 0.85)
    above = [right for similarity, right in judged if similarity >= tau]
    assert tau >= 0.85
    assert above.count(False) == 0 or upper(above.count(False), len(above)) <= most


@given(labels, st.floats(0, 0.5))
def test_it_is_the_floor_or_just_above_something_wrong(judged: list[tuple[float, bool]], most: float) -> None:
    tau = learned_tau(judged, most, 0.85)
    assert tau == 0.85 or (math.nextafter(tau, 0), False) in judged


@pytest.mark.parametrize(
    ("wrong", "judged", "least", "most"), [(0, 0, 1, 1), (0, 1000, 0, 0.003), (5, 100, 0.05, 0.11)]
)
def test_the_upper_end_lies_above_the_share_and_nears_it_with_more_judged(
    wrong: int, judged: int, least: float, most: float
) -> None:
    assert least <= upper(wrong, judged) <= most


@given(st.integers(1, 5000))
def test_with_nothing_wrong_the_upper_end_is_that_of_the_rule_of_three(judged: int) -> None:
    assert upper(0, judged) == pytest.approx(1 - 0.05 ** (1 / judged), abs=1e-9)


def test_the_upper_end_is_clopper_s_and_pearson_s() -> None:
    assert [upper(1, 10), upper(5, 100), upper(10, 10)] == pytest.approx([0.39416, 0.10225, 1.0], abs=1e-5)
    assert upper(2, 10, 0.975) == pytest.approx(0.55610, abs=1e-5)
