"""Stale answers are refreshed: kept where their evidence is the same, else made anew, and the change is told."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from engine.idle.refresh import plan_refreshes, refresh
from store.answers import Notices, RefreshCandidates
from tests.engine.idle.small_home import Home, home, run_jobs, states


@pytest.fixture
def concert(tmp_path: Path) -> Home:
    """Return a home with one chunk about a concert and one about a choir."""
    found = home(tmp_path)
    found.add("first", "the concert is on Friday")
    found.add("choir", "our choir sings")
    return found


def run(home: Home, *, decode: bool = True) -> list[str]:
    """Refresh what is stale; return the states of the jobs."""
    reasker = replace(home.reasker(), decode=decode)
    return states(run_jobs(home, plan_refreshes(reasker), partial(refresh, reasker)))


def test_without_new_mail_nothing_is_refreshed(concert: Home) -> None:
    concert.ask("concert?")
    assert plan_refreshes(concert.reasker()) == []


def test_an_answer_with_the_same_evidence_only_gets_the_new_generation(concert: Home) -> None:
    key = concert.ask("concert?", uses=2)
    concert.add("other", "nothing of interest")
    assert run(concert) == ["done"]
    assert concert.written == []
    assert (concert.found(key).generation, concert.found(key).uses) == (concert.ledger.generation, 2)
    assert Notices(concert.ledger).count() == 0


def test_a_source_that_was_moved_gets_its_new_path(concert: Home) -> None:
    key = concert.ask("concert?")
    concert.folder = "/elsewhere"
    concert.ledger.raise_generation()
    run(concert)
    assert json.loads(concert.found(key).reply)["sources"][0]["path"] == "/elsewhere/first"


def test_an_answer_that_changed_is_made_anew_and_a_notice_names_the_new_message(concert: Home) -> None:
    key = concert.ask("concert?")
    concert.add("second", "the concert is on Saturday")
    assert run(concert) == ["done"]
    assert concert.found(key).evidence[:-1] == ("second", "first")
    told = Notices(concert.ledger).pop(key)
    assert told
    assert (told.kind, told.before, told.after) == (
        "changed",
        "the concert is on Friday",
        "the concert is on Saturday",
    )
    assert json.loads(told.cause)["path"] == "/mail/second"


def test_an_answer_that_nobody_has_seen_gets_no_notice(concert: Home) -> None:
    unseen, seen = concert.ask("concert?", predicted=True), concert.ask("the concert?", predicted=True, uses=1)
    concert.add("second", "the concert is on Saturday")
    run(concert)
    assert Notices(concert.ledger).pop(unseen) is None
    assert Notices(concert.ledger).pop(seen)
    assert (concert.found(unseen).origin, concert.found(unseen).uses) == ("predicted", 0)


def test_the_same_words_from_another_message_are_no_change(concert: Home) -> None:
    key = concert.ask("concert?")
    concert.add("copy", "The concert is on Friday.")
    run(concert)
    assert concert.found(key).evidence[:-1] == ("copy", "first")
    assert Notices(concert.ledger).count() == 0


def test_questions_similar_to_new_mail_come_first_and_then_the_most_used(concert: Home) -> None:
    seldom, often, similar = (
        concert.ask(f"{word} concert?", uses=uses) for word, uses in (("a", 0), ("b", 3), ("c", 0))
    )
    concert.add("second", "the concert is on Saturday")
    RefreshCandidates(concert.ledger).add([similar], "second", 1.0)
    assert [bytes.fromhex(job.subject) for job in plan_refreshes(concert.reasker())] == [similar, often, seldom]
    run(concert)
    assert RefreshCandidates(concert.ledger).all() == []
    assert plan_refreshes(concert.reasker()) == []


def test_without_answers_a_prefilled_question_is_prefilled_again(concert: Home) -> None:
    key = concert.ask("concert?", decode=False, predicted=True)
    concert.add("second", "the concert is on Saturday")
    run(concert, decode=False)
    assert (concert.found(key).state, concert.found(key).evidence[:-1]) == ("prefilled", ("second", "first"))
    assert concert.written == []


def test_a_question_of_another_day_or_another_writer_is_not_refreshed(concert: Home) -> None:
    concert.ask("concert tomorrow?")
    concert.ask("concert?")
    with concert.ledger.transaction():
        concert.ledger.rows.execute("UPDATE answers SET day = '2020-01-01' WHERE day NOT NULL")
        concert.ledger.rows.execute("UPDATE answers SET writer = 'writer-2/5' WHERE day IS NULL")
    concert.add("second", "the concert is on Saturday")
    assert plan_refreshes(concert.reasker()) == []
