"""Notices: told once, of what was seen and what is now."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from store.answers import AnswerBank, CachedAnswer, Notice, Notices
from store.database import Ledger, open_ledger
from store.types import replace

ENTRY = CachedAnswer("when?", "{}", "quote-1/5", None, "Friday", (), 1, "full", 1.0, 1.0)
CHANGED = Notice(b"a", "changed", "Friday", "Monday", '{"title": "Moved"}', 5.0)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with closing(open_ledger(tmp_path / "l.db", create=True)) as made:
        AnswerBank(made).put(b"a", ENTRY, 10_000)
        yield made


@pytest.fixture
def notices(ledger: Ledger) -> Notices:
    return Notices(ledger)


def test_a_notice_is_told_once(notices: Notices) -> None:
    notices.add(CHANGED)
    assert (notices.count(), notices.pop(b"a"), notices.pop(b"a"), notices.count()) == (1, CHANGED, None, 0)


def test_a_question_is_told_its_own_notice(notices: Notices) -> None:
    notices.add(CHANGED)
    assert (notices.pop(b"b"), notices.count()) == (None, 1)


def test_an_answer_that_is_none_any_more_is_told_too(notices: Notices) -> None:
    notices.add(replace(CHANGED, after=None))
    assert notices.pop(b"a") == replace(CHANGED, after=None)


def test_of_two_changes_that_nobody_saw_the_first_answer_and_the_last_are_told(notices: Notices) -> None:
    notices.add(CHANGED)
    notices.add(Notice(b"a", "changed", "Monday", "Tuesday", "{}", 6.0))
    assert notices.pop(b"a") == Notice(b"a", "changed", "Friday", "Tuesday", "{}", 6.0)


def test_an_answer_that_is_again_what_was_seen_is_no_news(notices: Notices) -> None:
    notices.add(CHANGED)
    notices.add(Notice(b"a", "changed", "Monday", "Friday", "{}", 6.0))
    assert notices.pop(b"a") is None


def test_a_wrong_answer_stays_one_when_the_right_one_changes(notices: Notices) -> None:
    notices.add(replace(CHANGED, kind="wrong"))
    notices.add(Notice(b"a", "changed", "Monday", "Tuesday", "{}", 6.0))
    assert notices.pop(b"a") == Notice(b"a", "wrong", "Friday", "Tuesday", "{}", 6.0)


def test_nothing_is_told_of_an_entry_that_has_gone(ledger: Ledger, notices: Notices) -> None:
    notices.add(CHANGED)
    AnswerBank(ledger).drop(b"a")
    assert notices.count() == 0
    notices.add(CHANGED)
    assert notices.count() == 0


def test_a_notice_can_be_put_inside_a_transaction(ledger: Ledger, notices: Notices) -> None:
    with ledger.transaction():
        notices.add(CHANGED)
    assert notices.pop(b"a") == CHANGED
