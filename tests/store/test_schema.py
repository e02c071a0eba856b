"""Older ledgers: brought up to date with nothing lost, and then the same as new ones."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from store.answers import AnswerBank, CachedAnswer
from store.database import MIGRATIONS, Ledger, open_ledger
from store.history import History, HistoryEntry, RetrievalLog


def make(path: Path, version: int) -> None:
    """Make a ledger as a program did that knew so many schema changes."""
    with closing(open_ledger(path.with_name("new.db"), create=True)) as new:
        owner = new.rows.execute("PRAGMA application_id").fetchone()[0]
    with closing(sqlite3.connect(path)) as rows:
        for statement in (statement for change in MIGRATIONS[:version] for statement in change):
            rows.execute(statement)
        rows.execute(f"PRAGMA application_id = {owner}")
        rows.execute(f"PRAGMA user_version = {version}")
        rows.commit()


def shape(ledger: Ledger) -> dict[str, list[tuple[object, ...]]]:
    names = [name for (name,) in ledger.rows.execute("SELECT name FROM sqlite_schema WHERE sql NOT NULL ORDER BY name")]
    return {name: ledger.rows.execute(f"SELECT * FROM pragma_table_xinfo('{name}')").fetchall() for name in names}


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS)))
def test_an_older_ledger_becomes_what_a_new_one_is(tmp_path: Path, version: int) -> None:
    make(tmp_path / "old.db", version)
    with closing(open_ledger(tmp_path / "old.db")) as old, closing(open_ledger(tmp_path / "new.db")) as new:
        assert shape(old) == shape(new)
        assert old.rows.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)


def test_a_home_from_before_similar_questions_keeps_every_row(tmp_path: Path) -> None:
    make(tmp_path / "old.db", 3)
    answer = (b"k", "when?", "{}", "w", None, "Friday", '["c1"]', 4, "full", 1.0, 12.5, 9.0, 2, 40)
    with closing(sqlite3.connect(tmp_path / "old.db")) as rows:
        rows.execute(f"INSERT INTO answers VALUES ({', '.join('?' * 14)})", answer)
        rows.execute("INSERT INTO asked VALUES (7, 1.0, 'when?', 'full', 1, 20.0, 0.0, 300, 200)")
        rows.execute("INSERT INTO retrieved VALUES (7, '[\"c1\"]')")
        rows.commit()
    with closing(open_ledger(tmp_path / "old.db")) as ledger:
        bank = AnswerBank(ledger)
        found = bank.find(b"k")
        assert found == CachedAnswer("when?", "{}", "w", None, "Friday", ("c1",), 4, "full", 1.0, 12.5)
        assert (found.uses, found.last_used, bank.size(), bank.counts()["predicted"]) == (2, 9.0, (1, 40), 0)
        assert ledger.rows.execute("SELECT id, question, key, stale FROM history").fetchall() == [(7, "when?", None, 0)]
        assert RetrievalLog(ledger).lists(9) == [("c1",)]
        bank.put(b"k", found, 1000, b"1234", 0.5, "e")
        bank.drop(b"k")
        assert bank.size() == (0, 0)


def test_questions_asked_before_tokens_were_counted_stay(tmp_path: Path) -> None:
    make(tmp_path / "old.db", 2)
    with closing(sqlite3.connect(tmp_path / "old.db")) as rows:
        rows.execute("INSERT INTO asked VALUES (7, 1.0, 'when?', 'full', 1, 20.0, 0.0)")
        rows.commit()
    with closing(open_ledger(tmp_path / "old.db")) as ledger:
        history = History(ledger)
        assert history.prompts().questions == 0
        assert history.add(HistoryEntry(2.0, "when?", "prefix", True, 10.0, 0.0, 300, 200)) == 8
        assert [(t.tier, t.questions) for t in history.by_tier()] == [("full", 1), ("prefix", 1)]
        assert RetrievalLog(ledger).lists(10) == []
