"""Verdicts on near misses are counted at several thresholds."""

from tests.bench.judging import Judgement, figures, share

JUDGED = (
    Judgement("words", is_right=True, same=True, yes=0.95),
    Judgement("words", is_right=False, same=True, yes=0.6),
    Judgement("words", is_right=True, same=False, yes=0.2),
    Judgement("evidence", is_right=False, same=False, yes=0.8),  # the other check said no
)


def test_a_pair_is_approved_by_the_product_and_a_yes_that_reaches_the_threshold() -> None:
    assert [[one.approved(least) for one in JUDGED] for least in (0.5, 0.9)] == [
        [True, True, False, False],
        [True, False, False, False],
    ]


def test_figures_are_shares_of_what_was_judged_approved_and_right() -> None:
    counts = [[one.partition(",")[0] for one in figures(JUDGED, least)] for least in (0.5, 0.7)]
    assert counts == [["2 of 4", "1 of 2", "1 of 2", "1 of 2"], ["1 of 4", "1 of 1", "0 of 1", "1 of 2"]]


def test_a_share_has_an_interval_unless_it_is_of_none() -> None:
    assert share(5, 10) == "5 of 10, 0.50 [0.24, 0.76]"
    assert share(0, 0) == "0 of 0"
