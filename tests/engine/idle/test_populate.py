"""Predicted questions are precomputed as if asked, unless they are stored; those only prefilled are answered later."""

from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from engine.idle import predict, refresh
from engine.idle.predict import Prediction, offer
from engine.idle.refresh import Reasker
from store.jobs import MAX_ATTEMPTS, Job, JobAccount, JobResult, Jobs
from tests.engine.ask.small_home import SmallHome, ask, ingest
from tests.engine.idle.small_home import Home, home, run_jobs, runner, states

REWORDED = ("Where, of the choir, is the concert?", "When is the concert of the choir?")
PREDICTED = (
    Prediction("Which concert?", "history/model", 0.2),
    Prediction("Whose choir?", "chunks/model", 0.9),
)


@pytest.fixture
def choir(tmp_path: Path) -> Home:
    """Return a home with one chunk and two predicted questions."""
    found = home(tmp_path)
    found.add("first", "the choir gives a concert")
    offer(found.reasker(), PREDICTED)
    return found


def jobs(home: Home, *, decode: bool = True) -> list[Job]:
    return predict.plan_population(replace(home.reasker(), decode=decode))


def run(home: Home, *, decode: bool = True, planned: list[Job] | None = None) -> list[JobResult]:
    """Precompute predicted questions."""
    found = jobs(home, decode=decode) if planned is None else planned
    return run_jobs(home, found, lambda job: predict.populate(replace(home.reasker(), decode=decode), job))


def convert(home: Home) -> list[str]:
    """Answer questions that were only prefilled; return the states of the jobs."""
    reasker = home.reasker()
    return states(run_jobs(home, refresh.plan_refreshes(reasker), lambda job: refresh.refresh(reasker, job)))


def test_the_most_probable_question_comes_first_and_names_its_predictor(choir: Home) -> None:
    assert [(job.what, job.source, job.expected) for job in jobs(choir)] == [
        ("Whose choir?", "chunks/model", 0.9),
        ("Which concert?", "history/model", 0.2),
    ]
    assert jobs(choir)[0].reason == "predicted by chunks/model"


def test_a_predicted_question_is_answered_and_stored_as_predicted(choir: Home) -> None:
    assert states(run(choir)) == ["done", "done"]
    (key,) = choir.ledger.rows.execute("SELECT key FROM answers ORDER BY question").fetchone()
    kept = choir.found(key)
    assert (kept.question, kept.state, kept.origin, kept.source, kept.uses) == (
        "Which concert?",
        "answered",
        "predicted",
        "history/model",
        0,
    )
    assert choir.ledger.rows.execute("SELECT count(*) FROM history").fetchone() == (0,)
    assert jobs(choir) == []


def test_a_prefilled_question_is_answered_once_answers_are_wanted_and_keeps_its_source(choir: Home) -> None:
    run(choir, decode=False)
    assert (choir.written, len(choir.read)) == ([], 2)
    assert refresh.plan_refreshes(replace(choir.reasker(), decode=False)) == []
    assert convert(choir) == ["done", "done"]
    assert sorted(choir.written) == ["Which concert?", "Whose choir?"]
    sources = choir.ledger.rows.execute("SELECT state, origin, source FROM answers ORDER BY question").fetchall()
    assert sources == [("answered", "predicted", "history/model"), ("answered", "predicted", "chunks/model")]
    assert refresh.plan_refreshes(choir.reasker()) == []


def test_a_stored_question_is_not_precomputed_and_leaves_the_queue(choir: Home) -> None:
    choir.ask("whose choir")
    assert [job.what for job in jobs(choir)] == ["Which concert?"]
    run(choir)
    assert Jobs(choir.ledger).counts() == {}


def test_a_question_that_was_asked_since_it_was_planned_is_cached(choir: Home) -> None:
    planned = jobs(choir)
    choir.ask("Whose choir?")
    assert states(run(choir, planned=planned)) == ["cached", "done"]


@pytest.mark.parametrize(("question", "lasts"), [("When is my next meeting?", False), ("What is on tomorrow?", True)])
def test_no_idle_work_is_done_for_an_answer_that_lasts_a_minute(choir: Home, question: str, lasts: bool) -> None:
    offer(choir.reasker(), [Prediction(question, "history/model", 0.5)])  # as an older version may have queued it
    assert (question in [job.what for job in jobs(choir)]) is lasts
    found = [Prediction(question.upper(), "history/model")]
    assert len(predict.pick(found, {"history/model": 1}, [], lambda _: False)) == lasts
    key = choir.ask(question, decode=False)
    assert (key in [bytes.fromhex(job.subject) for job in refresh.plan_refreshes(choir.reasker())]) is lasts
    choir.ask(question)
    choir.add("second", "the next meeting is tomorrow")
    assert (key in [bytes.fromhex(job.subject) for job in refresh.plan_refreshes(choir.reasker())]) is lasts


def test_the_queue_has_a_limit(choir: Home) -> None:
    many = [Prediction(f"Question {number}?", "history/model", 0.5) for number in range(1200)]
    offer(choir.reasker(), many)
    assert Jobs(choir.ledger).counts() == {"populate": predict.MOST_QUEUED}
    assert Jobs(choir.ledger).pending("populate")[0].subject == "Whose choir?"


def test_a_question_that_was_given_up_stays_so_though_it_is_predicted_again(choir: Home) -> None:
    for _ in range(MAX_ATTEMPTS):
        Jobs(choir.ledger).start("populate", "Whose choir?")
    for expected in (["done", "gave up"], ["gave up"]):
        assert sorted(states(run(choir))) == expected
        offer(choir.reasker(), PREDICTED[1:])
    assert choir.written == ["Which concert?"]


def test_later_uses_are_counted_for_the_kind_that_made_the_answer(choir: Home) -> None:
    run(choir)
    account = JobAccount(choir.ledger)
    account.update()
    assert account.by_kind()["populate"]["hits"] == 0
    key = choir.ledger.rows.execute("SELECT key, made_ms FROM answers").fetchone()
    for _ in range(3):
        choir.bank.record_use(key[0], 1, 1.0)
    account.update()
    account.update()
    paid = account.by_kind()["populate"]
    assert paid["hits"] == 3
    assert paid["saved_s"] == pytest.approx(3 * key[1] / 1000, abs=0.0005)


def test_a_predicted_question_that_is_stored_in_other_words_is_not_precomputed(tmp_path: Path) -> None:
    """With real vectors, though of hashed words: the same words in another order are a semantic hit."""
    small = SmallHome(tmp_path)
    small.write("choir", "The choir gives a concert in the town hall on Friday.")
    with closing((session := small.open()).ledger):
        ingest(session, small.mail)
        ask(session, "Where is the concert of the choir?")
        reasker = Reasker(session.ledger, session.backend, session.settings, session.now)
        offer(reasker, [Prediction(one, "history/form", 0.5) for one in REWORDED])
        planned = [(job, partial(predict.populate, reasker, job)) for job in predict.plan_population(reasker)]
        results = list(runner(session.ledger).run({"populate": lambda: planned}))
        assert {one.job.what: one.state for one in results} == dict(zip(REWORDED, ("cached", "done"), strict=True))
