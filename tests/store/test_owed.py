"""Debts: noted while both entries are there, settled once, and what they teach is counted."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from store.answers import AnswerBank, CachedAnswer, PendingVerification, Verifications
from store.database import Ledger, open_ledger

ENTRY = CachedAnswer("when?", "{}", "quote-1/5", None, "Friday", (), 1, "full", 1.0, 1.0)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """Yield a ledger of three entries, a, b and c."""
    with closing(open_ledger(tmp_path / "l.db", create=True)) as made:
        for key in (b"a", b"b", b"c"):
            AnswerBank(made).keep(key, ENTRY, 10_000)
        yield made


@pytest.fixture
def owed(ledger: Ledger) -> Verifications:
    return Verifications(ledger)


def debt(key: bytes, matched: bytes = b"c", at: float = 1.0, similarity: float = 0.9) -> PendingVerification:
    return PendingVerification(key, matched, similarity, "Friday", at)


def test_debts_come_back_oldest_first(owed: Verifications) -> None:
    for one in (debt(b"a", at=2.0), debt(b"b", at=1.0)):
        assert owed.add(one)
    assert (owed.all(), owed.count()) == ([debt(b"b"), debt(b"a", at=2.0)], 2)


def test_a_question_owes_one_debt_the_latest(owed: Verifications) -> None:
    for one in (debt(b"a", b"b"), debt(b"a", b"c", at=2.0)):
        owed.add(one)
    assert (owed.all(), owed.find(b"a"), owed.find(b"b")) == ([debt(b"a", at=2.0)], debt(b"a", at=2.0), None)


@pytest.mark.parametrize(("key", "matched"), [(b"gone", b"c"), (b"a", b"gone")])
def test_no_debt_is_noted_of_an_entry_that_has_gone(owed: Verifications, key: bytes, matched: bytes) -> None:
    assert (owed.add(debt(key, matched)), owed.all()) == (False, [])


def test_a_debt_goes_with_either_of_its_entries(ledger: Ledger, owed: Verifications) -> None:
    owed.add(debt(b"a"))
    owed.add(debt(b"b"))
    AnswerBank(ledger).drop(b"a")
    assert owed.all() == [debt(b"b")]
    AnswerBank(ledger).drop(b"c")
    assert owed.all() == []


def test_a_debt_outlives_the_answer_that_its_entry_gets(ledger: Ledger, owed: Verifications) -> None:
    owed.add(debt(b"a"))
    AnswerBank(ledger).keep(b"a", ENTRY, 10_000)
    assert owed.all() == [debt(b"a")]


def test_judgements_give_the_rate_of_errors_and_what_each_entry_is_to_learn_from(owed: Verifications) -> None:
    for key, matched, similarity, right in (
        (b"a", b"c", 0.9, True),
        (b"b", b"c", 0.86, False),
        (b"a", b"b", 0.95, True),
    ):
        owed.add(debt(key, matched, similarity=similarity))
        owed.settle(key, right=right, at=3.0)
    assert (owed.rate(), owed.count()) == ((3, 1), 0)
    assert (owed.labels(b"c"), owed.labels(b"b")) == ([(0.9, True), (0.86, False)], [(0.95, True)])
    assert owed.labels(None) == [(0.9, True), (0.86, False), (0.95, True)]


def test_a_debt_is_settled_once_and_no_debt_is_no_judgement(owed: Verifications) -> None:
    owed.add(debt(b"a"))
    for _ in range(2):
        owed.settle(b"a", right=True, at=3.0)
    owed.settle(b"b", right=False, at=3.0)
    assert owed.rate() == (1, 0)


def test_a_debt_can_be_settled_inside_a_transaction(ledger: Ledger, owed: Verifications) -> None:
    owed.add(debt(b"a"))
    with ledger.transaction():
        owed.settle(b"a", right=False, at=3.0)
    assert (owed.rate(), owed.all()) == ((1, 1), [])


def test_a_bank_without_debts_has_judged_nothing(owed: Verifications) -> None:
    assert (owed.rate(), owed.labels(None), owed.all()) == ((0, 0), [], [])
