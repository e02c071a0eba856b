"""Answer metrics: bounds, and that each answer scores best against itself."""

from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.metrics import exact, f1, rouge_l, terms

WORDS = st.lists(st.sampled_from("abcde"), max_size=7)


def longest(one: Sequence[str], other: Sequence[str]) -> int:
    """Try every subsequence."""
    return max(size for size in range(len(one) + 1) if {*combinations(one, size)} & {*combinations(other, size)})


@given(WORDS, WORDS)
def test_rouge_l_is_f1_of_the_longest_common_subsequence(one: list[str], other: list[str]) -> None:
    common = longest(one, other)
    precision, recall = common / max(1, len(one)), common / max(1, len(other))
    expected = 2 * precision * recall / (precision + recall) if common else 0.0
    assert rouge_l(one, other) == pytest.approx(expected)


@given(WORDS, WORDS)
def test_the_measures_have_bounds_and_order_counts_for_rouge_l_alone(one: list[str], other: list[str]) -> None:
    assert 0.0 <= rouge_l(one, other) <= f1(one, other) <= 1.0
    assert rouge_l(one, other) == rouge_l(other, one)
    assert f1(one, other) == f1(sorted(one), sorted(other))


@given(st.text(max_size=40))
def test_terms_are_words_in_no_case(text: str) -> None:
    assert [word for word in terms(text) if word.split() != [word]] == []
    assert terms(text.upper()) == terms(text.upper().casefold())


def test_articles_case_and_marks_do_not_count() -> None:
    assert terms("The 3rd of May, a Friday!") == ("3rd", "of", "may", "friday")


@given(WORDS, WORDS)
def test_an_exact_match_is_all_the_same_words(one: list[str], other: list[str]) -> None:
    assert (exact(one, other) == 1.0) == (one == other)
    assert [rouge_l(one, one), f1(one, one)] == [float(bool(one))] * 2
