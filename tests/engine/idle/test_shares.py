"""Which predictors are paused."""

from engine.idle.predict import WEEK_S, is_paused, paused_predictors
from store.jobs import PredictorCounts

NOW = 20 * WEEK_S


def source(
    name: str, predicted: int, paid: float, last_paid: float | None = None, last: float = NOW
) -> PredictorCounts:
    return PredictorCounts(name, predicted, paid, 0.0, last, last_paid)


def test_a_predictor_with_a_recent_hit_or_few_predictions_is_not_paused() -> None:
    assert [is_paused(one, NOW, 3) for one in (source("a", 100, 5, NOW - WEEK_S), source("b", 9, 0), None)] == [
        False
    ] * 3


def test_a_predictor_whose_last_hit_was_weeks_ago_is_paused() -> None:
    assert is_paused(source("a", 100, 5, NOW - 4 * WEEK_S), NOW, 3)


def test_a_predictor_that_was_paused_for_weeks_is_tried_again() -> None:
    assert not is_paused(source("a", 100, 0, last=NOW - 4 * WEEK_S), NOW, 3)


def test_a_sentence_names_the_paused_predictors() -> None:
    said = paused_predictors([source("history/form", 80, 0), source("chunks/model", 5, 0)], NOW, 3)
    assert said == "paused predictors (none of their questions asked in 3 weeks): history/form"


def test_a_sentence_names_all_but_standing_questions() -> None:
    said = paused_predictors([source(name, 100, 0) for name in ("b", "a", "standing/who was there")], NOW, 2.5)
    assert said is not None
    assert said.endswith("in 2.5 weeks): a, b")


def test_without_paused_predictors_there_is_no_sentence() -> None:
    assert paused_predictors([source("a", 100, 50, NOW)], NOW, 3) is None
