"""Bootstrap intervals: exact where nothing varies, and right about as often as they say."""

import numpy as np
import pytest

from tests.bench.intervals import Interval, change, interval, median


def test_what_does_not_vary_has_no_width() -> None:
    assert interval([5.0] * 8, draws=50) == Interval(5.0, 5.0, 5.0)


def test_a_change_is_paired_by_question() -> None:
    others = [1.0, 10.0, 100.0, 1000.0]
    found = change([0.5 * value for value in others], others, draws=200)
    assert [found.value, found.low, found.high] == pytest.approx([-0.5, -0.5, -0.5])


def test_the_median_of_an_even_number_is_between_the_middle_two() -> None:
    assert interval([1.0, 2.0, 4.0, 100.0], median, draws=50).value == 3.0


def test_the_same_seed_gives_the_same_interval() -> None:
    values = np.arange(20.0).tolist()
    assert interval(values, draws=700, seed=3) == interval(values, draws=700, seed=3)


def test_an_interval_holds_the_true_mean_about_as_often_as_it_says() -> None:
    random = np.random.default_rng(1)
    found = [interval(random.exponential(1.0, 60).tolist(), draws=400, seed=number) for number in range(300)]
    held = np.mean([one.low <= 1.0 <= one.high for one in found])
    assert 0.88 <= held <= 0.98  # exponential values are skewed: a little below 95 %
