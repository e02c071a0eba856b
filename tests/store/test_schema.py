"""Older ledgers: brought up to date with nothing lost, and then the same as new ones."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from engine.ask.keys import key
from engine.ask.prepare import answer_of
from engine.types import Answer, Source
from store.answers import AnswerBank, CachedAnswer, upgrade_answer_json
from store.database import Ledger, migrate_to, open_ledger
from store.history import History, HistoryEntry, RetrievalLog
from store.migrations import MIGRATIONS
from store.types import Scope
from tests.effort import slow_only

# As a former version wrote it, with schema 8 of the ledger.
OLD_ANSWER = (
    '{"answer": "Gus Tindall: From today I keep the spare key to the workshop.", "writer": "quote", "model": null, '
    '"sources": [{"path": "/home/ann/2024-02-27 workshop meeting.vtt", "message_id": null, "title": "workshop meeting",'
    ' "date": "2024-02-27T00:00:00+00:00", "lines": [5, 77], "score": 2.67405, "quote": "From today I keep the spare '
    'key to the workshop.", "own_lines": true, "copy": false}, {"path": "/home/ann/Mail \\udcff", "message_id": '
    '"f390-0313@example.com", "title": "Sundays so far", "date": "2024-03-13T17:44:15+00:00", "lines": [1, 11], '
    '"score": 0.582009, "quote": "the first two Sundays brought 9 and 4 people.", "own_lines": false, "copy": true}], '
    '"highlight": [0, 11], "matched_question": null, "similarity": null}'
)


def make(path: Path, version: int) -> None:
    """Make a ledger as a program did that knew so many schema changes."""
    with closing(open_ledger(path.with_name("new.db"), create=True)) as new:
        owner = new.rows.execute("PRAGMA application_id").fetchone()[0]
    with closing(sqlite3.connect(path)) as rows:
        for number in range(1, version + 1):
            migrate_to(rows, number)
        rows.execute(f"PRAGMA application_id = {owner}")
        rows.commit()


def shape(ledger: Ledger) -> dict[str, list[tuple[object, ...]]]:
    names = [name for (name,) in ledger.rows.execute("SELECT name FROM sqlite_schema WHERE sql NOT NULL ORDER BY name")]
    return {name: ledger.rows.execute(f"SELECT * FROM pragma_table_xinfo('{name}')").fetchall() for name in names}


@pytest.mark.parametrize("version", [1, *slow_only(*range(2, len(MIGRATIONS) - 1)), len(MIGRATIONS) - 1])
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


def test_answers_cached_before_schema_2_are_served(tmp_path: Path) -> None:
    make(tmp_path / "old.db", 8)
    about = ("scope", "quote-1/0.5/5", None, OLD_ANSWER, '["fe72", "beb7"]', 63, "full", 1718784000.0, 2368.249)
    with closing(sqlite3.connect(tmp_path / "old.db")) as rows:
        columns = "key, question, scope, writer, day, reply, evidence, generation, tier, created, made_ms, used, uses"
        sql = f"INSERT INTO answers ({columns}, bytes, state) VALUES ({', '.join('?' * 15)})"
        rows.execute(sql, (b"k", "Who has the spare key?", *about, 0.0, 0, 2000, "answered"))
        rows.execute(sql, (b"o", "Who else?", *about[:3], "", *about[4:], 0.0, 0, 80, "owed"))
        rows.commit()
    with closing(open_ledger(tmp_path / "old.db")) as ledger:
        bank = AnswerBank(ledger)
        cached, pending = bank.find(b"k"), bank.find(b"o")
        assert cached
        assert pending
        assert (cached.question, cached.evidence, cached.generation) == ("Who has the spare key?", ("fe72", "beb7"), 63)
        answer = answer_of(cached)
        assert answer == Answer(
            "Who has the spare key?",
            "Gus Tindall: From today I keep the spare key to the workshop.",
            "full",
            "quote",
            None,
            (
                Source(
                    "/home/ann/2024-02-27 workshop meeting.vtt",
                    None,
                    "workshop meeting",
                    "2024-02-27T00:00:00+00:00",
                    (5, 77),
                    2.67405,
                    "From today I keep the spare key to the workshop.",
                ),
                Source(
                    "/home/ann/Mail \udcff",
                    "f390-0313@example.com",
                    "Sundays so far",
                    "2024-03-13T17:44:15+00:00",
                    (1, 11),
                    0.582009,
                    "the first two Sundays brought 9 and 4 people.",
                    own_lines=False,
                    copy=True,
                ),
            ),
            {"total": 2368.249},
            highlight=(0, 11),
        )
        assert Answer.from_json(json.loads(cached.reply)) == answer
        grown = len(cached.reply) - len(OLD_ANSWER)
        assert (pending.reply, bank.size()) == ("", (2, 2080 + grown))


def test_text_that_is_no_answer_is_left_as_it_is() -> None:
    new = upgrade_answer_json(OLD_ANSWER, "When?", "full", 1.0)
    for text in ("Friday", "", "[]", '{"answer": 1}', new):
        assert upgrade_answer_json(text, "When?", "full", 1.0) == text


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


_VIEWS = next(sql for one in MIGRATIONS for sql in one if sql.startswith("DELETE FROM answers WHERE scope"))


def test_answers_limited_to_a_collection_by_an_older_pkb_are_dropped_for_they_may_tell_of_others(
    tmp_path: Path,
) -> None:
    path, limits = tmp_path / "ledger.db", (Scope(), Scope(sender="collection"), Scope(collection="work"))
    with closing(open_ledger(path, create=True)) as ledger:
        for scope in limits:
            asked = key("when?", scope, "quote", None)
            made = ("{}", ("c",), 1, "full", 1.0, 1.0)
            AnswerBank(ledger).put(asked.digest, CachedAnswer("when?", asked.scope, "quote", None, *made), 10_000)
        ledger.rows.execute(_VIEWS)
        kept = [scope for scope in limits if AnswerBank(ledger).find(key("when?", scope, "quote", None).digest)]
    assert kept == [Scope(), Scope(sender="collection")]
