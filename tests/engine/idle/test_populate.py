"""Foreseen questions are readied as if asked, unless the bank knows them; and what was only read is answered later."""

from contextlib import closing
from pathlib import Path

import pytest

from engine.idle import predict, refresh
from engine.idle.predict import Prediction, Strategy, decodes, offer, quota
from engine.idle.refresh import Reasker
from engine.idle.types import IdleJob
from engine.types import AskOptions
from store.jobs import MAX_ATTEMPTS, JobAccount, Jobs
from tests.engine.ask.small_home import SmallHome, ask, ingest
from tests.engine.idle.small_home import Home, do, home, runner, states

ANSWERED, READ = Strategy(AskOptions(), True, 0.85), Strategy(AskOptions(), False, 0.85)
LIKE = ("Where, of the choir, is the concert?", "When is the concert of the choir?")
FORESEEN = (
    Prediction("Which concert?", "history", "model", 0.2),
    Prediction("Whose choir?", "abstracts", "model", 0.9),
)


@pytest.fixture
def choir(tmp_path: Path) -> Home:
    """Return a home with one chunk, and two questions foreseen."""
    found = home(tmp_path)
    found.add("first", "the choir gives a concert")
    offer(found.reasker(), FORESEEN)
    return found


def units(home: Home, strategy: Strategy = ANSWERED, most: int = 99) -> list[IdleJob]:
    return predict.plan_population(home.reasker(), strategy, quota(most))


def test_the_likeliest_question_comes_first_and_says_who_foresaw_it(choir: Home) -> None:
    assert [(unit.what, unit.source, unit.expected) for unit in units(choir)] == [
        ("Whose choir?", "abstracts/model", 0.9),
        ("Which concert?", "history/model", 0.2),
    ]
    assert units(choir)[0].why == "predicted by abstracts/model"


def test_a_foreseen_question_is_answered_and_its_entry_says_that_nobody_asked(choir: Home) -> None:
    done = do(choir, units(choir))
    assert states(done) == ["done", "done"]
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
    assert units(choir) == []


def test_above_the_cutoff_questions_are_read_and_not_answered_and_below_it_answered() -> None:
    assert [decodes(tau, 0.88) for tau in (0.85, 0.88, 0.90)] == [True, True, False]


def test_what_was_only_read_is_answered_once_answers_are_wanted_and_keeps_its_source(choir: Home) -> None:
    do(choir, units(choir, READ))
    assert (choir.written, len(choir.read)) == ([], 2)
    assert refresh.plan_conversions(choir.reasker(), decode=False) == []
    assert states(do(choir, refresh.plan_conversions(choir.reasker(), decode=True))) == ["done", "done"]
    assert sorted(choir.written) == ["Which concert?", "Whose choir?"]
    sources = choir.ledger.rows.execute("SELECT state, origin, source FROM answers ORDER BY question").fetchall()
    assert sources == [("answered", "predicted", "history/model"), ("answered", "predicted", "abstracts/model")]
    assert refresh.plan_conversions(choir.reasker(), decode=True) == []


def test_a_question_that_the_bank_knows_is_not_readied_and_not_kept_waiting(choir: Home) -> None:
    choir.ask("whose CHOIR")
    assert [unit.what for unit in units(choir)] == ["Which concert?"]
    do(choir, units(choir))
    assert Jobs(choir.ledger).counts() == {}


def test_a_question_that_was_asked_since_it_was_planned_is_there(choir: Home) -> None:
    planned = units(choir)
    choir.ask("Whose choir?")
    assert states(do(choir, planned)) == ["there", "done"]


def test_so_many_questions_are_readied_and_the_rest_waits(choir: Home) -> None:
    assert states(do(choir, units(choir, most=1))) == ["done", "units"]
    assert Jobs(choir.ledger).counts() == {"populate": 1}


def test_no_more_questions_wait_than_may(choir: Home) -> None:
    many = [Prediction(f"Question {number}?", "history", "model", 0.5) for number in range(1200)]
    assert offer(choir.reasker(), many) == predict.MOST_WAITING
    assert Jobs(choir.ledger).counts() == {"populate": predict.MOST_WAITING}
    assert Jobs(choir.ledger).pending("populate")[0].subject == "Whose choir?"


def test_a_question_that_was_given_up_stays_so_though_it_is_foreseen_again(choir: Home) -> None:
    for _ in range(MAX_ATTEMPTS):
        Jobs(choir.ledger).start("populate", "Whose choir?")
    for expected in (["given up", "done"], ["given up"]):
        assert sorted(states(do(choir, units(choir))), reverse=True) == expected
        offer(choir.reasker(), FORESEEN[1:])
    assert choir.written == ["Which concert?"]


def test_what_is_used_later_is_counted_for_the_kind_that_made_it(choir: Home) -> None:
    do(choir, units(choir))
    account = JobAccount(choir.ledger)
    account.update(1.0)
    assert account.by_kind()["populate"].hits == 0
    key = choir.ledger.rows.execute("SELECT key, made_ms FROM answers").fetchone()
    for _ in range(3):
        choir.bank.record_use(key[0], 1, 1.0)
    account.update(1.0)
    account.update(1.0)
    paid = account.by_kind()["populate"]
    assert paid.hits == 3
    assert paid.saved_s == pytest.approx(3 * key[1] / 1000)


def test_a_foreseen_question_that_the_bank_has_in_other_words_is_not_readied_and_another_is(tmp_path: Path) -> None:
    """With real vectors, though of hashed words: the same words in another order are one question to the bank."""
    small = SmallHome(tmp_path)
    small.write("choir", "The choir gives a concert in the town hall on Friday.")
    with closing((session := small.open()).ledger):
        ingest(session, small.mail)
        ask(session, "Where is the concert of the choir?")
        reasker = Reasker(session.ledger, session.backend, session.room, session.now)
        offer(reasker, [Prediction(one, "history", "form", 0.5) for one in LIKE])
        done = list(
            runner(session.ledger).work({"populate": lambda: predict.plan_population(reasker, ANSWERED, quota(9))})
        )
        assert {one.unit.what: one.state for one in done} == dict(zip(LIKE, ("there", "done"), strict=True))
