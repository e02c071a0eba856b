"""The pieces of the numpy back end against plain mathematics in double precision."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.models.minilm import ROWS, gelu, layer_norm, softmax

FINITE = st.floats(-100, 100, width=32)


def test_gelu_is_the_exact_one_to_rounding() -> None:
    points = np.linspace(-12, 12, 96_000, dtype=np.float32).reshape(-1, 3)
    exact = np.array([[x * 0.5 * (1 + math.erf(x / math.sqrt(2))) for x in row] for row in points.astype(float)])
    assert np.abs(gelu(points.copy()) - exact).max() < 1e-6  # a step of a number near 12
    near = np.abs(points) < 2
    assert np.abs(gelu(points.copy()) - exact)[near].max() < 3e-7


@pytest.mark.parametrize("x", [-2000.0, -40.0, -6.0, 6.0, 40.0, 2000.0])
def test_gelu_of_large_numbers_is_zero_or_the_number_without_a_warning(x: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = float(gelu(np.full((1, 1), x, np.float32))[0, 0])
    assert found == pytest.approx(max(x, 0.0), abs=1e-7)


@given(st.integers(1, 3 * ROWS + 1))
@settings(max_examples=20, deadline=None)
def test_gelu_of_many_rows_is_gelu_of_each(count: int) -> None:
    rows = np.random.default_rng(count).standard_normal((count, 8), dtype=np.float32)
    alone = np.concatenate([gelu(rows[i : i + 1].copy()) for i in range(count)])
    assert np.array_equal(gelu(rows.copy()), alone)


@given(st.lists(FINITE, min_size=1, max_size=20))
@settings(deadline=None)
def test_softmax_is_positive_and_sums_to_one(scores: list[float]) -> None:
    found = softmax(np.array([scores], np.float32))
    assert found.min() >= 0
    assert float(found.sum()) == pytest.approx(1, abs=1e-5)


@given(st.lists(FINITE, min_size=2, max_size=20))
@settings(deadline=None)
def test_norm_is_the_textbook_one(values: list[float]) -> None:
    x = np.array([values], np.float32)
    gain, shift = np.full(len(values), 2, np.float32), np.full(len(values), 3, np.float32)
    double = x.astype(np.float64)
    spread = double.std()
    expected = 2 * (double - double.mean()) / math.sqrt(spread**2 + 1e-12) + 3
    found = layer_norm({"norm.weight": gain, "norm.bias": shift}, "norm", x.copy())
    # where all values are nearly one, rounding of the mean is all that is left
    assert np.abs(found - expected).max() < 1e-3 or spread < 1e-3 * float(np.abs(x).max() + 1e-3)
