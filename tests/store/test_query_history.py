"""Query history: each question once per scope that this writer answered it in, latest first."""

from dataclasses import replace
from pathlib import Path

import pytest

from store.answers import AnswerBank, CachedAnswer
from store.database import Ledger, open_ledger
from store.history import History, HistoryEntry, latest

ANSWER = CachedAnswer("when?", "all", "model-1/5", None, "{}", (), 1, "full", 1.0, 1.0)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Return a ledger in which three questions were asked, one of them twice."""
    found = open_ledger(tmp_path / "ledger.db", create=True)
    for at, question in enumerate(("when?", "who?", "when?", "where?")):
        History(found).add(HistoryEntry(float(at), question, "full", True, 1.0, 0.0, key=b"k"))
    return found


def test_a_question_with_many_answers_counts_as_one(ledger: Ledger) -> None:
    for day in ("2024-06-18", "2024-06-19", "2024-06-20"):
        AnswerBank(ledger).put(day.encode(), replace(ANSWER, question="where?", day=day), 10_000)
    assert (latest(ledger, 9), latest(ledger, 2)) == (["where?", "when?", "who?"], ["where?", "when?"])


def test_questions_asked_without_the_cache_are_left_out(ledger: Ledger) -> None:
    History(ledger).add(HistoryEntry(1.0, "and where?", "full", True, 1.0, 0.0))
    assert set(latest(ledger, 9)) == {"when?", "who?", "where?"}
