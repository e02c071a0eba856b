"""Verifications: added while both entries exist, resolved once, and their results are counted."""

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
            AnswerBank(made).put(key, ENTRY, 10_000)
        yield made


@pytest.fixture
def verifications(ledger: Ledger) -> Verifications:
    return Verifications(ledger)


def pending(key: bytes, matched: bytes = b"c", at: float = 1.0, similarity: float = 0.9) -> PendingVerification:
    return PendingVerification(key, matched, similarity, "Friday", at)


def test_pending_verifications_are_listed_oldest_first(verifications: Verifications) -> None:
    for one in (pending(b"a", at=2.0), pending(b"b", at=1.0)):
        assert verifications.add(one)
    assert verifications.all() == [pending(b"b"), pending(b"a", at=2.0)]


def test_a_question_has_one_pending_verification_the_latest(verifications: Verifications) -> None:
    for one in (pending(b"a", b"b"), pending(b"a", b"c", at=2.0)):
        verifications.add(one)
    assert (verifications.all(), verifications.find(b"a"), verifications.find(b"b")) == (
        [pending(b"a", at=2.0)],
        pending(b"a", at=2.0),
        None,
    )


@pytest.mark.parametrize(("key", "matched"), [(b"gone", b"c"), (b"a", b"gone")])
def test_no_verification_is_added_for_a_deleted_entry(verifications: Verifications, key: bytes, matched: bytes) -> None:
    assert (verifications.add(pending(key, matched)), verifications.all()) == (False, [])


def test_deleting_either_entry_deletes_its_verification(ledger: Ledger, verifications: Verifications) -> None:
    verifications.add(pending(b"a"))
    verifications.add(pending(b"b"))
    AnswerBank(ledger).drop(b"a")
    assert verifications.all() == [pending(b"b")]
    AnswerBank(ledger).drop(b"c")
    assert verifications.all() == []


def test_a_verification_survives_a_new_answer_of_its_entry(ledger: Ledger, verifications: Verifications) -> None:
    verifications.add(pending(b"a"))
    AnswerBank(ledger).put(b"a", ENTRY, 10_000)
    assert verifications.all() == [pending(b"a")]


def test_results_are_counted_and_label_the_matched_entries(verifications: Verifications) -> None:
    for key, matched, similarity, right in (
        (b"a", b"c", 0.9, True),
        (b"b", b"c", 0.86, False),
        (b"a", b"b", 0.95, True),
    ):
        verifications.add(pending(key, matched, similarity=similarity))
        verifications.resolve(key, correct=right, at=3.0)
    assert (verifications.result_counts(), verifications.all()) == ((3, 1), [])
    assert (verifications.labels(b"c"), verifications.labels(b"b")) == ([(0.9, True), (0.86, False)], [(0.95, True)])
    assert verifications.labels(None) == [(0.9, True), (0.86, False), (0.95, True)]


def test_a_verification_is_resolved_once(verifications: Verifications) -> None:
    verifications.add(pending(b"a"))
    for _ in range(2):
        verifications.resolve(b"a", correct=True, at=3.0)
    verifications.resolve(b"b", correct=False, at=3.0)
    assert verifications.result_counts() == (1, 0)


def test_a_verification_can_be_resolved_inside_a_transaction(ledger: Ledger, verifications: Verifications) -> None:
    verifications.add(pending(b"a"))
    with ledger.transaction():
        verifications.resolve(b"a", correct=False, at=3.0)
    assert (verifications.result_counts(), verifications.all()) == ((1, 1), [])


def test_without_verifications_there_are_no_results(verifications: Verifications) -> None:
    assert (verifications.result_counts(), verifications.labels(None), verifications.all()) == ((0, 0), [], [])
