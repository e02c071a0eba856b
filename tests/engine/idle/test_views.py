"""Views predict where they have something new, and predictors get shares by how many predictions were asked."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from engine.idle.predict import Prediction, View, plan_predictions, predict
from store.answers import AnswerBank, CachedAnswer
from store.jobs import Jobs, OutOfTime
from tests.engine.idle.small_home import Home, home, run_jobs, states


@pytest.fixture
def choir(tmp_path: Path) -> Home:
    """Return a home with one chunk."""
    found = home(tmp_path)
    found.add("first", "the choir gives a concert")
    return found


def numbered(count: int) -> Sequence[Prediction]:
    return [Prediction(f"Question {number}?", "history/model") for number in range(count)]


def view(seen: str, of: Callable[[int], Sequence[Prediction]] = numbered) -> View:
    return View("history", "", seen, ["history/model"], of)


def run(home: Home, *views: View, is_similar: Callable[[str], bool] = lambda _: False) -> list[str]:
    """Predict five questions from each view; return the states of the jobs."""
    reasker, by_name = home.reasker(), {one.name: one for one in views}
    jobs = plan_predictions(reasker, views)
    return states(run_jobs(home, jobs, lambda job: predict(reasker, by_name[job.subject], 5, is_similar)))


def test_a_view_predicts_once_and_again_when_it_has_something_new(choir: Home) -> None:
    assert [run(choir, view(seen)) for seen in ("1", "1", "2", "")] == [["done"], [], ["done"], []]


def test_predictions_are_queued_and_counted_for_their_predictor(choir: Home) -> None:
    run(choir, view("1"))
    assert sorted(job.subject for job in Jobs(choir.ledger).pending("populate")) == [
        f"Question {number}?" for number in range(5)
    ]
    assert {job.source for job in Jobs(choir.ledger).all("populate")} == {"history/model"}


def test_stored_and_queued_questions_are_not_predicted_again(choir: Home) -> None:
    choir.ask("question 0")
    run(choir, view("1"))
    run(choir, view("2"))
    assert Jobs(choir.ledger).counts() == {"populate": 4}


def test_a_predictor_whose_questions_were_asked_gets_more(choir: Home) -> None:
    def two(count: int) -> Sequence[Prediction]:
        return [Prediction(f"{name} {n}?", f"history/{name}") for name in ("model", "form") for n in range(count)]

    for number in range(80):
        source, uses = ("history/form", 1) if number % 2 else ("history/model", 0)
        kept = CachedAnswer(
            f"Why {number}?", "{}", "w/5", None, "{}", (), 1, "full", 1.0, 1.0, "answered", "predicted", source
        )
        AnswerBank(choir.ledger).put(bytes([number]), kept, 1 << 20)
        if uses:
            AnswerBank(choir.ledger).record_use(bytes([number]), 1, 2.0)
    run(choir, View("history", "", "1", ["history/model", "history/form"], two))
    counts = Counter(job.source for job in Jobs(choir.ledger).all("populate"))
    assert counts == {"history/form": 4, "history/model": 1}


def test_a_question_similar_to_a_stored_one_is_replaced_by_another(choir: Home) -> None:
    run(choir, view("1", lambda count: numbered(9)), is_similar=lambda text: text in "Question 1? Question 3?")
    assert [job.subject[-2] for job in Jobs(choir.ledger).pending("populate")] == ["0", "2", "4", "5", "6"]


def test_a_view_that_ran_out_of_time_predicts_again(choir: Home) -> None:
    def too_late(count: int) -> Sequence[Prediction]:
        raise OutOfTime

    assert run(choir, view("1", too_late)) == ["no time"]
    assert run(choir, view("1")) == ["done"]
