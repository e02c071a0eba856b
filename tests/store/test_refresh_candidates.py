"""Refresh candidates and rejected answers."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from store.answers import AnswerBank, CachedAnswer, RefreshCandidates, RejectedAnswers
from store.database import Ledger, open_ledger

ENTRY = CachedAnswer("when?", "{}", "quote-1/5", None, "Friday", (), 1, "full", 1.0, 1.0)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """Yield a ledger of three entries, of which b was used most often."""
    with closing(open_ledger(tmp_path / "l.db", create=True)) as made:
        for key in (b"a", b"b", b"c"):
            AnswerBank(made).put(key, ENTRY, 10_000)
        AnswerBank(made).record_use(b"b", 1, 9.0)
        yield made


def test_candidates_come_most_used_question_first(ledger: Ledger) -> None:
    hints = RefreshCandidates(ledger)
    hints.add([b"a", b"b", b"c"], "c1", 5.0)
    assert hints.all()[:2] == [(b"b", "c1", 5.0), (b"a", "c1", 5.0)]
    assert len(hints.all()) == 3


def test_a_question_is_one_candidate_the_latest(ledger: Ledger) -> None:
    hints = RefreshCandidates(ledger)
    hints.add([b"a"], "c1", 5.0)
    hints.add([b"a"], "c2", 6.0)
    assert hints.all() == [(b"a", "c2", 6.0)]


def test_a_refreshed_question_is_no_candidate(ledger: Ledger) -> None:
    hints = RefreshCandidates(ledger)
    hints.add([b"a", b"b"], "c1", 5.0)
    hints.remove(b"b")
    assert hints.all() == [(b"a", "c1", 5.0)]


def test_deleted_entries_are_no_candidates(ledger: Ledger) -> None:
    hints = RefreshCandidates(ledger)
    hints.add([b"a", b"gone"], "c1", 5.0)
    AnswerBank(ledger).drop(b"a")
    assert hints.all() == []


def test_candidates_can_be_added_inside_a_transaction(ledger: Ledger) -> None:
    with ledger.transaction():
        RefreshCandidates(ledger).add([b"a"], "c1", 5.0)
    assert len(RefreshCandidates(ledger).all()) == 1


def test_a_rejected_answer_is_remembered_after_its_entry_is_deleted(ledger: Ledger) -> None:
    wrong = RejectedAnswers(ledger)
    wrong.add(b"a", "Friday", 5.0)
    AnswerBank(ledger).drop(b"a")
    assert (wrong.find(b"a"), wrong.find(b"b"), wrong.count()) == (("Friday", 5.0), None, 1)


def test_of_two_rejected_answers_the_later_is_remembered(ledger: Ledger) -> None:
    wrong = RejectedAnswers(ledger)
    wrong.add(b"a", "Friday", 5.0)
    wrong.add(b"a", "Monday", 6.0)
    assert (wrong.find(b"a"), wrong.count()) == (("Monday", 6.0), 1)
