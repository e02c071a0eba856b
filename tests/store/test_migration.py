"""The migration to the field's names: a ledger of version 7 with rows in every table, opened by today's program."""

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from store.answers import (
    AnswerBank,
    Notice,
    Notices,
    PendingVerification,
    RefreshCandidates,
    RejectedAnswers,
    Verifications,
)
from store.database import has_schema, migrate_to, open_ledger
from store.documents import newest_documents
from store.history import History, RetrievalLog
from store.jobs import JobAccount, JobBenefit, Jobs, PredictionLog, PredictorCounts
from store.kv_index import Ghost, KvCounts, KvIndex, KvQueries
from store.migrations import MIGRATIONS

SCHEMA = Path(__file__).with_name("schema_7.sql")
PKB1 = int.from_bytes(b"pkb1", "big")
ANSWER = ("{}", "w/5", None)
OLD: dict[str, list[tuple[Any, ...]]] = {
    "meta": [("generation", "7"), ("untidy", "3"), ("slice.at", "6b31"), ("rested", "ab"), ("kv.freed", "9"),
             ("upkeep.questions", "1.5"), ("upkeep.tables", "2.5"), ("vectors", "vectors_1")],
    "roots": [(b"/mail", "home", "mail")],
    "files": [(b"/mail/a", 10, 20, 30)],
    "places": [(b"/mail/a", 0, "d1", "1@x", None, "home"), (b"/mail/b", 0, "d2", None, 3, "home")],
    "moved": [("d1", '["home"]')],
    "problems": [(b"/mail/a", 1, "no date")],
    "documents": [("d1", "2024-05-03", "t1", 2, 0), ("d2", "2024-05-04", "t1", 1, 1)],
    "threads": [("id:1@x", "t1")],
    "passages": [(b"p1", "d1")],
    "quoting": [(b"p1", "d2")],
    "frequencies": [("spare", 2)],
    "pending": [("c3", "d2", "2024-05-04")],
    "journal": [(4, 1.0, "[]")],
    "answers": [
        (b"a", "when?", *ANSWER, "Friday", '["c1"]', 4, "full", 1.0, 12.5, 9.0, 2, 40, "answered", "user", "", 0.9),
        (b"b", "at what time?", *ANSWER, "", '["c1"]', 4, "full", 2.0, 12.5, 2.0, 0, 30, "owed", "user", "", None),
        (b"c", "who?", *ANSWER, "", '["c2"]', 4, "full", 3.0, 9.0, 3.0, 0, 20, "undecoded", "predicted", "form", None),
    ],
    "asked": [(7, 5.0, "when?", "full", 1, 20.0, 0.5, 300, 200, b"a", None, 0),
              (8, 6.0, "at what time?", "semantic", 1, 2.0, 18.0, None, None, b"b", b"a", 1)],
    "retrieved": [(7, '["c1"]')],
    "bank_vectors": [(5, b"a", "vectors_1", b"1234", 0.5)],
    "owed": [(b"b", b"a", 0.95, "Friday", 6.0)],
    "judged": [(2, b"a", 0.93, 0, 5.5), (3, b"a", 0.97, 1, 5.6)],
    "notices": [(b"a", "changed", "Thursday", "Friday", "{}", 5.0)],
    "hints": [(b"a", "c3", 5.0)],
    "wrong": [(b"a", "Thursday", 4.0)],
    "kv_nodes": [
        (b"k1", b"r", b"r", b"p1", 1, b"\1\0\0\0", b"f", 100, 2.0, 5.0, 6.0, 3, "whole", None, 1, 2, 3, 4),
        (b"k2", b"r", b"k1", b"p2", 2, b"\2\0\0\0", None, 50, 1.0, 5.0, 6.0, 0, "reserved", "1-a", *[None] * 4),
        (b"k3", b"r", b"k1", b"p3", 2, b"\3\0\0\0", None, 60, 1.0, 5.0, 6.0, 0, "dying", "1-a", *[None] * 4),
    ],
    "kv_pins": [(1, b"k1", "1-a", 99.0)],
    "kv_ghosts": [(b"g", 8, 200, 3.0, 1, 4.0, 500)],
    "kv_written": [(20_000, 150)],
    "kv_counts": [("hit", "all", 4, 80, 400, 3.5), ("removed", "room", 1, 8, 200, 3.0),
                  ("removed", "torn", 2, 8, 200, 3.0), ("refused", "day", 3, 8, 200, 3.0),
                  ("refused", "room", 5, 8, 200, 3.0), ("ghost", "missed", 1, 8, 200, 3.0)],
    "jobs": [(1, "first", "s1", 1.0, 2.0, 1, "begun", 5.0, ""), (2, "refill", "s2", 1.0, 2.0, 0, "waiting", 5.0, ""),
             (3, "owed", "s3", 1.0, 2.0, 0, "waiting", 5.0, ""),
             (4, "populate", "who?", 1.0, 2.0, 5, "waiting", 5.0, "form")],
    "idle_spent": [("owed", 1, 2.0, 10, 5, 1e9, 0, 1, 0.5, 0.0), ("first", 4, 8.0, 99, 0, 2e9, 700, 3, 6.0, 0.1)],
    "idle_made": [(b"c", "populate", 0, "form", 1.0), (b"k1", "first", 3, "", 0.0)],
    "foreseen": [("form", 6, 2.0, 1.0, 5.0, 4.0)],
}  # fmt: skip


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Return a ledger of version 7 with rows in every table."""
    path = tmp_path / "ledger.db"
    with closing(sqlite3.connect(path)) as rows:
        rows.executescript(SCHEMA.read_text("utf-8"))
        names = {name for (name,) in rows.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        assert names - set(OLD) == {"bank_size", "sqlite_sequence"}  # kept by triggers, and by SQLite
        for table, values in OLD.items():
            marks = ", ".join("?" * len(values[0]))
            rows.executemany(f"INSERT INTO {table} VALUES ({marks})", values)
        rows.execute(f"PRAGMA application_id = {PKB1}")
        rows.execute("PRAGMA user_version = 7")
        rows.commit()
    return path


def contents(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return all rows of all tables, and the schema, as SQLite has them."""
    with closing(sqlite3.connect(path)) as rows:
        found = {"": rows.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY type, name").fetchall()}
        tables = [name for kind, name, _ in found[""] if kind == "table"]
        return found | {table: rows.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in tables}


def checked(found: dict[str, list[tuple[Any, ...]]], table: str) -> list[tuple[Any, ...]]:
    """Return the rows of a table less their checksums, which must be there."""
    assert all(isinstance(row[-1], int) for row in found[table])
    return [row[:-1] for row in found[table]]


def without(table: str, *columns: int) -> list[tuple[Any, ...]]:
    return sorted(tuple(one for at, one in enumerate(row) if at not in columns) for row in OLD[table])


def test_every_row_is_there_under_the_new_names(old: Path) -> None:
    open_ledger(old).close()
    found = contents(old)
    same = ("problems", "passages", "quoting", "frequencies", "journal",
            "kv_pins", "kv_written")  # fmt: skip
    assert {table: found[table] for table in same} == {table: OLD[table] for table in same}
    moved = {
        "roots": [(*row, None) for row in OLD["roots"]],
        "relocations": OLD["moved"], "missing_embeddings": OLD["pending"],
        "retrievals": [(*row, None) for row in OLD["retrieved"]],
        "question_vectors": OLD["bank_vectors"], "verifications": OLD["owed"], "verification_results": OLD["judged"],
        "refresh_candidates": OLD["hints"], "rejected_answers": OLD["wrong"], "predictor_stats": OLD["foreseen"],
        "documents": [(*row[:-1], 1, "{}") for row in without("documents", 2)],
        "notices": OLD["notices"], "places": OLD["places"],
        "history": without("asked", 10), "kv_ghosts": without("kv_ghosts", 4, 6),
    }  # fmt: skip
    found |= {table: checked(found, table) for table in ("verifications", "notices", "rejected_answers", "places")}
    assert {table: found[table] for table in moved} == moved
    assert found["answers_size"] == [(3, 90)]
    assert found["files"] == [(b"/mail/a", 10, -1, 30, -1, b"")]  # to be read again, for the names in its documents
    values = dict(found["meta"])
    assert len(values.pop("index")) == 16
    assert values == {
        "generation": "7", "uncompacted": "3", "integrity.position": "6b31", "maintenance.tables": "2.5",
        "vectors": "vectors_1",
    }  # fmt: skip


def test_every_file_is_to_be_read_again_for_local_days_and_names(old: Path) -> None:
    open_ledger(old).close()
    found = contents(old)
    assert found["files"] == [(b"/mail/a", 10, -1, 30, -1, b"")]
    assert found["documents"] == [
        ("d1", "2024-05-03", 2, 1, "{}"), ("d2", "2024-05-04", 1, 1, "{}"),
    ]  # fmt: skip


def test_stored_values_have_the_new_words(old: Path) -> None:
    open_ledger(old).close()
    found = contents(old)
    assert [(row[0], row[14]) for row in found["answers"]] == [
        (b"a", "answered"),
        (b"b", "pending"),
        (b"c", "prefilled"),
    ]
    assert [(row[0], row[11]) for row in found["kv_nodes"]] == [
        (b"k1", "complete"), (b"k2", "reserved"), (b"k3", "deleting"),
    ]  # fmt: skip
    assert [(row[1], row[6]) for row in found["jobs"]] == [
        ("prefetch", "running"), ("restore", "pending"), ("verify", "pending"), ("populate", "pending"),
    ]  # fmt: skip
    assert found["job_outputs"] == [(b"c", "populate", 0, "form", 1.0), (b"k1", "prefetch", 3, "", 0.0)]
    assert [row[:3] for row in found["kv_counts"]] == [
        ("ghost", "missed", 1), ("hit", "all", 4), ("refused", "daily_limit", 3), ("refused", "no_space", 5),
        ("removed", "evicted", 1), ("removed", "truncated", 2),
    ]  # fmt: skip


def test_the_program_finds_what_it_stored(old: Path) -> None:
    with closing(open_ledger(old)) as ledger:
        bank, index = AnswerBank(ledger), KvIndex(ledger)
        assert bank.counts() == {"answered": 1, "pending": 1, "prefilled": 1, "predicted": 1}
        assert [(one.uses, one.last_used, one.tau) for one in [bank.find(b"a")] if one] == [(2, 9.0, 0.9)]
        assert Verifications(ledger).all() == [PendingVerification(b"b", b"a", 0.95, "Friday", 6.0)]
        assert Verifications(ledger).labels(b"a") == [(0.93, False), (0.97, True)]
        assert RefreshCandidates(ledger).all() == [(b"a", "c3", 5.0)]
        assert RejectedAnswers(ledger).find(b"a") == ("Thursday", 4.0)
        assert Notices(ledger).pop(b"a") == Notice(b"a", "changed", "Thursday", "Friday", "{}", 5.0)
        assert (History(ledger).newest(), History(ledger).latest_time(), History(ledger).stale()) == (8, 6.0, 1)
        assert RetrievalLog(ledger).lists(9) == [("c1",)]
        assert newest_documents(ledger, 9) == ["d2", "d1"]
        assert [one.subject for kind in ("prefetch", "restore", "verify") for one in Jobs(ledger).pending(kind)] == [
            "s1", "s2", "s3",
        ]  # fmt: skip
        assert JobAccount(ledger).by_kind() == {
            "verify": JobBenefit(1, 2.0, 1, 0.5),
            "prefetch": JobBenefit(4, 8.0, 3, 6.0),
        }
        assert PredictionLog(ledger).all() == [PredictorCounts("form", 6, 2.0, 1.0, 5.0, 4.0)]
        assert [(entry.node.key, entry.state) for entry in index.entries() if entry.verified] == [(b"k1", "complete")]
        assert KvQueries(ledger, index, KvCounts(ledger)).ghost(b"g") == Ghost(8, 200, 3.0)


def test_what_refers_to_an_answer_still_goes_with_it(old: Path) -> None:
    with closing(open_ledger(old)) as ledger:
        AnswerBank(ledger).drop(b"a")
        tables = ("question_vectors", "verifications", "notices", "refresh_candidates")
        assert [ledger.rows.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables] == [0] * 4
        assert Verifications(ledger).labels(None) == [(0.93, False), (0.97, True)]
        assert AnswerBank(ledger).size() == (2, 50)
        ledger.rows.execute("DELETE FROM history WHERE id = 7")
        assert RetrievalLog(ledger).lists(9) == []


def test_a_second_open_changes_nothing(old: Path) -> None:
    open_ledger(old).close()
    before = contents(old), old.read_bytes()
    open_ledger(old).close()
    assert (contents(old), old.read_bytes()) == before


_KILLED = """
import os, signal, sys
from pathlib import Path
from store import database

def until_killed(statements, number):
    yield from statements[:number]
    os.kill(os.getpid(), signal.SIGKILL)

last = database.MIGRATIONS[-1]
database.MIGRATIONS = (*database.MIGRATIONS[:-1], until_killed(last, int(sys.argv[2])))
database.open_ledger(Path(sys.argv[1]))
"""


@pytest.mark.parametrize("number", [1, 8, len(MIGRATIONS[-1]) // 2, len(MIGRATIONS[-1])])
def test_a_kill_within_the_migration_leaves_the_old_ledger_which_opens(old: Path, number: int) -> None:
    before = contents(old)
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED, str(old), str(number)], check=False, cwd=Path(__file__).parents[2]
    )
    assert (killed.returncode, contents(old)) == (-signal.SIGKILL, before)
    open_ledger(old).close()
    with closing(sqlite3.connect(old)) as rows:
        assert rows.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
        assert rows.execute("SELECT count(*) FROM verifications").fetchone() == (1,)
        assert rows.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_ledger_with_judged_paraphrases_opens_without_them(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with closing(sqlite3.connect(path)) as rows:
        for number in range(1, 18):
            migrate_to(rows, number)
        rows.execute("CREATE TABLE aliases (key BLOB PRIMARY KEY REFERENCES answers (key) ON DELETE CASCADE, crc INT)")
        rows.execute("CREATE VIEW intact_aliases AS SELECT * FROM aliases WHERE crc = 1")
        rows.execute(
            """INSERT INTO jobs (kind, subject, cost_s, benefit_s, attempts, state, created, source)
               VALUES ('judge', '61', 1, 1, 0, 'pending', 1, '')"""
        )
        rows.execute(f"PRAGMA application_id = {PKB1}")
        rows.commit()
    with closing(open_ledger(path)) as ledger:
        assert has_schema(ledger)
        assert Jobs(ledger).counts() == {}
