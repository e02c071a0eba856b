"""Seconds of a segment, as stored. test_cache_equivalence.py compares loaded with computed prefill."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.kv.restore import evened


@pytest.mark.parametrize(
    ("seconds", "reused", "taken"),
    [
        ([3.7, 0.2, 0.3], [0, 0, 0], [0.1, 0.2, 0.3]),  # kernels were made in the first
        ([0.05, 0.2, 0.3], [0, 0, 0], [0.05, 0.2, 0.3]),
        ([0.0, 3.0, 0.3], [50, 0, 0], [0.0, 0.3, 0.3]),
        ([0.0, 3.0, 0.3], [50, 30, 0], [0.0, 0.3, 0.3]),
        ([0.0, 0.0, 3.0], [50, 100, 0], [0.0, 0.0, 3.0]),  # there is nothing to hold it against
    ],
)
def test_the_first_segment_that_is_computed_takes_no_more_a_token_than_the_next(
    seconds: list[float], reused: list[int], taken: list[float]
) -> None:
    assert evened(seconds, [50, 100, 100], reused) == pytest.approx(taken)


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(1, 300), st.booleans()), max_size=6))
def test_no_segment_is_charged_more_than_its_time(parts: list[tuple[float, int, bool]]) -> None:
    seconds, lengths = [one for one, _, _ in parts], [length for _, length, _ in parts]
    found = evened(seconds, lengths, [length if there else 0 for _, length, there in parts])
    assert len(found) == len(seconds)
    assert all(after <= before for after, before in zip(found, seconds, strict=True))
