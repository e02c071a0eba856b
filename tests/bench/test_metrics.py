"""ROUGE-L and BLEU, and that each answer scores best against itself."""

from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.metrics import bleu, exact, f1, rouge_l, terms

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
def test_bleu_is_1_of_the_same_words_and_0_of_others(one: list[str], other: list[str]) -> None:
    pytest.importorskip("sacrebleu", reason="the group bench is not installed")
    assert bleu(one, one) == pytest.approx(1.0 if one else 0.0)
    assert 0.0 <= bleu(one, other) <= 1.0
    assert (bleu(one, other) == 0.0) == (not set(one) & set(other))


@given(WORDS, WORDS)
def test_an_exact_match_is_all_the_same_words(one: list[str], other: list[str]) -> None:
    assert (exact(one, other) == 1.0) == (one == other)
    assert [rouge_l(one, one), f1(one, one)] == [float(bool(one))] * 2


def test_bleu_of_a_known_pair() -> None:
    pytest.importorskip("sacrebleu", reason="the group bench is not installed")
    # By hand: 4 of 5 words, 2 of 4 pairs, 1 of 3 triples, and of no four, which counts as half of one of 2; as long.
    expected = (4 / 5 * 2 / 4 * 1 / 3 * 0.5 / 2) ** 0.25
    assert bleu(["u", "v", "w", "x", "z"], ["u", "v", "w", "z", "q"]) == pytest.approx(expected)
