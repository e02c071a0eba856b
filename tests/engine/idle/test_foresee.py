"""Predictors are asked where there is something new to look at, and as much as what they foresaw has paid."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from engine.idle.predict import Prediction, View, plan_predictions
from engine.idle.types import OutOfTime
from store.jobs import Jobs, PredictionLog
from tests.engine.idle.small_home import Home, do, home, states


@pytest.fixture
def choir(tmp_path: Path) -> Home:
    """Return a home with one chunk."""
    found = home(tmp_path)
    found.add("first", "the choir gives a concert")
    return found


def numbered(count: int) -> Sequence[Prediction]:
    return [Prediction(f"Question {number}?", "history", "model") for number in range(count)]


def view(seen: str, predict: Callable[[int], Sequence[Prediction]] = numbered) -> View:
    return View("history", "", seen, ["history/model"], predict)


def predicted_counts(home: Home, *views: View) -> list[str]:
    return states(do(home, plan_predictions(home.reasker(), views, 5)))


def test_a_view_is_asked_once_for_what_it_sees_and_again_when_that_is_new(choir: Home) -> None:
    assert [predicted_counts(choir, view(seen)) for seen in ("1", "1", "2", "")] == [["done"], [], ["done"], []]


def test_what_was_foreseen_waits_to_be_readied_and_is_counted_for_its_source(choir: Home) -> None:
    predicted_counts(choir, view("1"))
    assert sorted(job.subject for job in Jobs(choir.ledger).pending("populate")) == [
        f"Question {number}?" for number in range(5)
    ]
    (counted,) = PredictionLog(choir.ledger).all()
    assert (counted.source, counted.predicted, counted.credited) == ("history/model", 5, 0.0)


def test_what_is_known_or_waits_already_is_not_foreseen_once_more(choir: Home) -> None:
    choir.ask("question 0")
    predicted_counts(choir, view("1"))
    predicted_counts(choir, view("2"))
    (counted,) = PredictionLog(choir.ledger).all()
    assert (counted.predicted, Jobs(choir.ledger).counts()) == (4, {"populate": 4})


def test_who_foresaw_what_was_asked_is_asked_for_more(choir: Home) -> None:
    def two(count: int) -> Sequence[Prediction]:
        return [Prediction(f"{name} {n}?", "history", name) for name in ("model", "form") for n in range(count)]

    PredictionLog(choir.ledger).add({"history/model": 40, "history/form": 40}, 1.0)
    with choir.ledger.transaction():
        choir.ledger.rows.execute(
            "UPDATE predictor_stats SET credited = 30, last_credited = 2 WHERE source = 'history/form'"
        )
    predicted_counts(choir, View("history", "", "1", ["history/model", "history/form"], two))
    counts = {one.source: one.predicted - 40 for one in PredictionLog(choir.ledger).all()}
    assert counts == {"history/form": 4, "history/model": 1}


def test_what_the_bank_knows_one_like_leaves_its_place_to_another(choir: Home) -> None:
    units = plan_predictions(
        choir.reasker(), [view("1", lambda count: numbered(9))], 5, lambda text: text in "Question 1? Question 3?"
    )
    do(choir, units)
    assert [job.subject[-2] for job in Jobs(choir.ledger).pending("populate")] == ["0", "2", "4", "5", "6"]


def test_a_view_that_had_no_time_looks_again(choir: Home) -> None:
    def late(count: int) -> Sequence[Prediction]:
        raise OutOfTime

    assert predicted_counts(choir, view("1", late)) == ["time"]
    assert predicted_counts(choir, view("1")) == ["done"]
