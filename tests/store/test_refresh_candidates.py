"""Hints of what to refresh, and answers that were said to be wrong."""

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


def test_hints_come_with_the_question_that_was_used_most_often_first(ledger: Ledger) -> None:
    hints = RefreshCandidates(ledger)
    hints.add([b"a", b"b", b"c"], "c1", 5.0)
    assert hints.all()[:2] == [(b"b", "c1", 5.0), (b"a", "c1", 5.0)]
    assert (len(hints.all()), hints.count()) == (3, 3)


def test_a_question_has_one_hint_the_latest(ledger: Ledger) -> None:
    hints = RefreshCandidates(ledger)
    hints.add([b"a"], "c1", 5.0)
    hints.add([b"a"], "c2", 6.0)
    assert hints.all() == [(b"a", "c2", 6.0)]


def test_a_refreshed_question_has_no_hint(ledger: Ledger) -> None:
    hints = RefreshCandidates(ledger)
    hints.add([b"a", b"b"], "c1", 5.0)
    hints.remove(b"b")
    assert hints.all() == [(b"a", "c1", 5.0)]


def test_there_are_no_hints_of_entries_that_have_gone(ledger: Ledger) -> None:
    hints = RefreshCandidates(ledger)
    hints.add([b"a", b"gone"], "c1", 5.0)
    AnswerBank(ledger).drop(b"a")
    assert hints.all() == []


def test_hints_can_be_added_inside_a_transaction(ledger: Ledger) -> None:
    with ledger.transaction():
        RefreshCandidates(ledger).add([b"a"], "c1", 5.0)
    assert RefreshCandidates(ledger).count() == 1


def test_a_wrong_answer_is_known_when_its_entry_has_gone(ledger: Ledger) -> None:
    wrong = RejectedAnswers(ledger)
    wrong.add(b"a", "Friday", 5.0)
    AnswerBank(ledger).drop(b"a")
    assert (wrong.find(b"a"), wrong.find(b"b"), wrong.count()) == (("Friday", 5.0), None, 1)


def test_of_two_wrong_answers_the_later_is_known(ledger: Ledger) -> None:
    wrong = RejectedAnswers(ledger)
    wrong.add(b"a", "Friday", 5.0)
    wrong.add(b"a", "Monday", 6.0)
    assert (wrong.find(b"a"), wrong.count()) == (("Monday", 6.0), 1)
