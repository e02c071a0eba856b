"""A question that was given another one's answer gets its own, and what it was given is judged by that."""

from pathlib import Path

import pytest

from engine.ask.prepare import begin, gather_context, pending_entry
from engine.idle.refresh import TAU, plan_verifications
from engine.types import AskOptions
from store.answers import Notices, PendingVerification, Verifications
from tests.engine.idle.small_home import NOW, Home, do, home, states

TAU_SET, MAX_ERROR, ALIKE = 0.85, 0.02, 0.91


@pytest.fixture
def choir(tmp_path: Path) -> Home:
    """Return a home that knows when a choir and a band play."""
    found = home(tmp_path)
    found.add("choir", "the choir sings on Friday")
    found.add("band", "the band plays on Saturday")
    return found


def lend(home: Home, question: str, served: str) -> tuple[bytes, bytes]:
    """Return a question another one's answer; returns both keys."""
    reasker, matched = home.reasker(), home.ask("choir?")
    ask = begin(reasker.backend, home.ledger, question, AskOptions(), NOW)
    home.bank.put(ask.key.digest, pending_entry(ask, gather_context(reasker.backend, ask)), reasker.room.bytes)
    assert Verifications(home.ledger).add(PendingVerification(ask.key.digest, matched, ALIKE, served, 1.0))
    return ask.key.digest, matched


def settle(home: Home) -> list[str]:
    return states(do(home, plan_verifications(home.reasker(), TAU_SET, MAX_ERROR)))


def test_where_the_own_answer_is_the_same_what_was_served_was_right(choir: Home) -> None:
    key, matched = lend(choir, "our choir?", "the choir sings on Friday")
    assert settle(choir) == ["done"]
    assert choir.found(key).state == "answered"
    assert Verifications(choir.ledger).labels(None) == [(ALIKE, True)]
    assert (choir.found(matched).tau, Notices(choir.ledger).count()) == (None, 0)
    assert float(choir.ledger.get(TAU) or 0) == TAU_SET
    assert settle(choir) == []


def test_where_it_is_another_one_the_entry_asks_for_more_and_the_next_one_who_asks_is_told(choir: Home) -> None:
    key, matched = lend(choir, "our band?", "the choir sings on Friday")
    settle(choir)
    assert Verifications(choir.ledger).result_counts() == (1, 1)
    assert (choir.found(matched).tau or 0) > ALIKE
    told = Notices(choir.ledger).pop(key)
    assert told
    assert (told.kind, told.before, told.after) == ("wrong", "the choir sings on Friday", "the band plays on Saturday")


def test_the_threshold_of_the_whole_bank_is_learnt_from_what_was_wrong(choir: Home) -> None:
    lend(choir, "our band?", "the choir sings on Friday")
    settle(choir)
    assert float(choir.ledger.get(TAU) or 0) > ALIKE


def test_a_debt_whose_question_was_answered_since_is_struck_out_and_teaches_nothing(choir: Home) -> None:
    lend(choir, "our band?", "the choir sings on Friday")
    choir.ask("our band?")
    assert settle(choir) == []
    assert (Verifications(choir.ledger).count(), Verifications(choir.ledger).result_counts()) == (0, (0, 0))


def test_debts_that_cannot_be_paid_today_keep_no_other_one_from_being_paid(
    choir: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.idle.refresh.MOST_VERIFICATIONS", 1)
    past, _ = lend(choir, "our band today?", "the choir sings on Friday")
    choir.ledger.rows.execute("UPDATE answers SET day = '2024-06-18' WHERE key = ?", (past,))
    key, _ = lend(choir, "our choir?", "the choir sings on Friday")
    assert settle(choir) == ["done"]
    assert choir.found(key).state == "answered"


def test_after_new_mail_another_answer_says_nothing_of_likeness(choir: Home) -> None:
    key, matched = lend(choir, "our choir?", "the choir sings on Friday")
    choir.add("moved", "the choir sings on Sunday")
    settle(choir)
    assert (Verifications(choir.ledger).result_counts(), Verifications(choir.ledger).count()) == ((0, 0), 0)
    assert choir.found(matched).tau is None
    told = Notices(choir.ledger).pop(key)
    assert told
    assert (told.kind, told.after) == ("changed", "the choir sings on Sunday")
