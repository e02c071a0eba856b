"""Query history: each question once per scope that this writer answered it in, latest first."""

from dataclasses import replace
from pathlib import Path

import pytest

from store.answers import AnswerBank, CachedAnswer
from store.database import Ledger, open_ledger
from store.history import History, HistoryEntry, PastQuestion, latest, past

ANSWER = CachedAnswer("when?", "all", "model-1/5", None, "{}", (), 1, "full", 1.0, 1.0)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Return a ledger in which three questions were asked, one of them twice."""
    found = open_ledger(tmp_path / "ledger.db", create=True)
    for at, question in enumerate(("when?", "who?", "when?", "where?")):
        History(found).add(HistoryEntry(float(at), question, "full", True, 1.0, 0.0, key=b"k"))
    return found


def test_each_question_is_listed_once_with_its_count_latest_first(ledger: Ledger) -> None:
    assert past(ledger, "model-1", 9) == [
        PastQuestion("where?", 1, 3.0, None, None),
        PastQuestion("when?", 2, 2.0, None, None),
        PastQuestion("who?", 1, 1.0, None, None),
    ]
    assert [one.question for one in past(ledger, "model-1", 2)] == ["where?", "when?"]


def test_a_question_answered_in_two_scopes_is_listed_in_both(ledger: Ledger) -> None:
    for key, kept in ((b"1", ANSWER), (b"2", replace(ANSWER, scope="ann", writer="model-1/3"))):
        AnswerBank(ledger).put(key, kept, 10_000)
    found = [(one.scope, one.writer) for one in past(ledger, "model-1", 9) if one.question == "when?"]
    assert sorted(found, key=str) == [("all", "model-1/5"), ("ann", "model-1/3")]


def test_a_question_with_many_answers_counts_as_one(ledger: Ledger) -> None:
    for day in ("2024-06-18", "2024-06-19", "2024-06-20"):
        AnswerBank(ledger).put(day.encode(), replace(ANSWER, question="where?", day=day), 10_000)
    assert (latest(ledger, 9), latest(ledger, 2)) == (["where?", "when?", "who?"], ["where?", "when?"])


def test_answers_of_another_writer_add_no_scope(ledger: Ledger) -> None:
    AnswerBank(ledger).put(b"1", ANSWER, 10_000)
    assert {one.scope for one in past(ledger, "model-2", 9)} == {None}


def test_questions_asked_without_the_cache_are_left_out(ledger: Ledger) -> None:
    History(ledger).add(HistoryEntry(1.0, "and where?", "full", True, 1.0, 0.0))
    assert {one.question for one in past(ledger, "", 9)} == {"when?", "who?", "where?"} == set(latest(ledger, 9))
