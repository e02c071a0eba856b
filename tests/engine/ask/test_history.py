"""The history of a question: its tier, tokens, and retrieved chunks."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from engine.ask.keys import Key, PendingQuestion, Wording
from engine.ask.pipeline import remember
from engine.types import Answer, AskOptions, Evidence, Passage, Trace
from store.database import Ledger, open_ledger
from store.history import History, RetrievalLog
from store.types import Chunk
from tests.engine.ask.passages import passage

NOW = datetime(2024, 6, 19, 8, tzinfo=UTC)
ASK = PendingQuestion("when?", AskOptions(), Key("when?", "", "", None), 1, NOW, Trace(), Wording("when?"))


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with closing(open_ledger(tmp_path / "l.db", create=True)) as made:
        yield made


def read(name: str, day: int | None, first: int, count: int) -> Passage:
    chunks = tuple(Chunk(f"{name}{at}", name, at, "", "text", 1, 1) for at in range(first, first + count))
    return passage(chunks, name, (), datetime(2024, 6, day, tzinfo=UTC) if day else None, 1.0, ())


def evidence(*found: Passage) -> Evidence:
    return Evidence(found, tuple(chunk.id for one in found for chunk in one.chunks), 1.0)


def test_a_question_is_kept_with_its_tokens_and_its_chunks(ledger: Ledger) -> None:
    tokens = {"prompt": 300, "reused": 120, "computed": 180, "generated": 9}
    reply = Answer("when?", "Friday", "prefix", "model", "m", (), {"total": 12.0}, tokens=tokens)
    remember(ledger, ASK, reply, 0.0, evidence(read("late", 9, 0, 1), read("early", 2, 0, 2)), None)
    assert [(t["tier"], t["answered"], t["p50_ms"]) for t in History(ledger).by_tier()] == [("prefix", 1, 12.0)]
    assert History(ledger).prompts()["reused"] == 120
    assert RetrievalLog(ledger).lists(10) == [("late0", "early0", "early1")]
    assert RetrievalLog(ledger).frequencies() == {"early0": 1, "late0": 1}  # the two that fit best


def test_a_question_that_read_nothing_has_neither_tokens_nor_chunks(ledger: Ledger) -> None:
    reply = Answer("when?", "Friday", "exact", "quote", None, (), {"total": 1.0})
    remember(ledger, ASK, reply, 30.0, None, None)
    assert [(t["tier"], t["saved_s"]) for t in History(ledger).by_tier()] == [("exact", 0.03)]
    assert (History(ledger).prompts()["questions"], RetrievalLog(ledger).lists(10)) == (0, [])
