"""A question that was served the answer of another gets its own, and the two are compared."""

from pathlib import Path

import pytest

from engine.ask.keys import begin, gather_context, pending_entry
from engine.idle.refresh import TAU, plan_verifications, verify
from engine.settings import Settings
from engine.types import AskOptions
from store.answers import Notices, PendingVerification, Verifications
from tests.engine.idle.small_home import NOW, Home, home, run_jobs, states

TAU_SET, ALIKE = Settings().bank.tau, 0.91


@pytest.fixture
def choir(tmp_path: Path) -> Home:
    """Return a home that knows when a choir and a band play."""
    found = home(tmp_path)
    found.add("choir", "the choir sings on Friday")
    found.add("band", "the band plays on Saturday")
    return found


def serve(home: Home, question: str, served: str) -> tuple[bytes, bytes]:
    """Serve a question the answer of another; return both keys."""
    reasker, matched = home.reasker(), home.ask("choir?")
    ask = begin(reasker.backend, home.ledger, question, AskOptions(), NOW)
    home.bank.put(
        ask.key.digest, pending_entry(ask, gather_context(reasker.backend, ask).read), reasker.settings.bank.bytes
    )
    assert Verifications(home.ledger).add(PendingVerification(ask.key.digest, matched, ALIKE, served, 1.0))
    return ask.key.digest, matched


def run(home: Home) -> list[str]:
    """Verify what can be verified; return the states of the jobs."""
    reasker = home.reasker()
    jobs = plan_verifications(reasker)
    return states(run_jobs(home, jobs, lambda job: verify(reasker, job)))


def test_where_the_own_answer_is_the_same_the_hit_was_right(choir: Home) -> None:
    key, matched = serve(choir, "our choir?", "the choir sings on Friday")
    assert run(choir) == ["done"]
    assert choir.found(key).state == "answered"
    assert Verifications(choir.ledger).labels(None) == [(ALIKE, True)]
    assert (choir.found(matched).tau, Notices(choir.ledger).count()) == (None, 0)
    assert float(choir.ledger.get(TAU) or 0) == TAU_SET
    assert run(choir) == []


def test_where_it_differs_the_threshold_of_the_entry_is_raised_and_a_notice_is_stored(choir: Home) -> None:
    key, matched = serve(choir, "our band?", "the choir sings on Friday")
    run(choir)
    assert Verifications(choir.ledger).result_counts() == (1, 1)
    assert (choir.found(matched).tau or 0) > ALIKE
    told = Notices(choir.ledger).pop(key)
    assert told
    assert (told.kind, told.before, told.after) == ("wrong", "the choir sings on Friday", "the band plays on Saturday")


def test_the_threshold_of_all_entries_is_learned_from_wrong_hits(choir: Home) -> None:
    serve(choir, "our band?", "the choir sings on Friday")
    run(choir)
    assert float(choir.ledger.get(TAU) or 0) > ALIKE


def test_a_verification_of_a_question_answered_since_is_dropped_and_not_counted(choir: Home) -> None:
    serve(choir, "our band?", "the choir sings on Friday")
    choir.ask("our band?")
    assert run(choir) == []
    assert (Verifications(choir.ledger).all(), Verifications(choir.ledger).result_counts()) == ([], (0, 0))


def test_verifications_that_cannot_be_made_today_do_not_hold_up_others(
    choir: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.idle.refresh._MOST", 1)
    past, _ = serve(choir, "our band today?", "the choir sings on Friday")
    choir.ledger.rows.execute("UPDATE answers SET day = '2024-06-18' WHERE key = ?", (past,))
    key, _ = serve(choir, "our choir?", "the choir sings on Friday")
    assert run(choir) == ["done"]
    assert choir.found(key).state == "answered"


def test_after_new_mail_a_different_answer_is_not_counted_as_a_wrong_hit(choir: Home) -> None:
    key, matched = serve(choir, "our choir?", "the choir sings on Friday")
    choir.add("moved", "the choir sings on Sunday")
    run(choir)
    assert (Verifications(choir.ledger).result_counts(), Verifications(choir.ledger).all()) == ((0, 0), [])
    assert choir.found(matched).tau is None
    told = Notices(choir.ledger).pop(key)
    assert told
    assert (told.kind, told.after) == ("changed", "the choir sings on Sunday")
