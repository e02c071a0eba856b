"""Epochs of forgetting: what rests on what was read before something was forgotten is not stored, whoever writes it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from store.answers import AnswerBank, RejectedAnswers
from store.database import DERIVED, EPOCH, Ledger, open_ledger
from store.history import History, HistoryEntry, RetrievalLog, link_documents, may_be_followed
from store.jobs import JobRow, Jobs, link_predictions
from tests.store.test_answers import kept

STORE = Path(__file__).parents[2] / "store"
ASKED = HistoryEntry(1.0, "when?", "full", True, 1.0, 0.0, key=b"k")
# What is known of files, documents and people, which goes with the documents; and numbers, which tell nothing.
OF_DOCUMENTS = {
    "roots", "files", "places", "moved", "problems", "documents", "passages", "quoting",
    "titles", "table_files", "names", "provenance", "people", "removed_chunks",
    "changed_documents", "forgotten", "former_names",
}  # fmt: skip
NUMBERS = {
    "meta", "answers_size", "verification_results", "job_stats", "kv_written", "kv_counts",
}  # fmt: skip


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """Return an open ledger."""
    opened = open_ledger(tmp_path / "ledger.db", create=True)
    yield opened
    opened.close()


def forget(ledger: Ledger, epoch: int) -> None:
    """Have another process forget, up to an epoch."""
    ledger.set(EPOCH, str(epoch))


def write(ledger: Ledger) -> dict[str, int]:
    """Write what comes of a question, and count the rows."""
    AnswerBank(ledger).put(b"k", kept("Monday"), 1 << 20, b"\0" * 4, 0.5, "e")
    RetrievalLog(ledger).add(History(ledger).add(ASKED), ["c1"], ["c1"])
    link_documents(ledger, b"k", ["d1"])
    RejectedAnswers(ledger).add(b"k", "Monday", 1.0)
    link_predictions(ledger, {"where?": ["c1"]})
    Jobs(ledger).offer([JobRow("populate", "where?", 1.0, 1.0, 1.0)])
    tables = ("answers", "question_vectors", "history", "retrievals", "question_documents", "rejected_answers",
              "predictions", "jobs")  # fmt: skip
    return {table: ledger.rows.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}


def test_every_table_is_known_to_hold_derived_data_or_not(ledger: Ledger) -> None:
    found = ledger.rows.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    assert {name for (name,) in found} - {*DERIVED} - OF_DOCUMENTS - NUMBERS == set()


def test_every_table_that_is_written_to_is_known() -> None:
    text = "".join(path.read_text() for path in STORE.glob("*.py") if path.name != "migrations.py")
    written = set(re.findall(r"INSERT (?:OR \w+ )?INTO ([a-z_]+)", text))
    assert written - {"gone"} <= {*DERIVED} | OF_DOCUMENTS | NUMBERS


def test_only_the_store_writes_to_tables() -> None:
    engine = [path for part in ("engine", "cli") for path in (STORE.parent / part).rglob("*.py")]
    assert [path for path in engine if re.search(r"INSERT (?:OR \w+ )?INTO", path.read_text())] == []


def test_what_is_read_and_written_in_one_epoch_is_stored(ledger: Ledger) -> None:
    assert set(write(ledger).values()) == {1}


def test_nothing_is_stored_that_rests_on_what_was_read_before_forgetting_began(ledger: Ledger) -> None:
    forget(ledger, 1)
    assert set(write(ledger).values()) == {0}
    forget(ledger, 2)
    assert set(write(ledger).values()) == {0}


def test_nothing_is_stored_that_rests_on_what_was_read_while_it_went_on(ledger: Ledger) -> None:
    forget(ledger, 1)
    ledger.renew()
    assert set(write(ledger).values()) == {0}
    forget(ledger, 2)
    assert set(write(ledger).values()) == {0}


def test_what_is_read_after_it_is_stored(ledger: Ledger) -> None:
    forget(ledger, 2)
    ledger.renew()
    assert set(write(ledger).values()) == {1}
    assert ledger.is_current


def test_a_ledger_that_is_opened_later_stores_at_once(ledger: Ledger, tmp_path: Path) -> None:
    forget(ledger, 2)
    later = open_ledger(tmp_path / "ledger.db")
    assert set(write(later).values()) == {1}
    later.close()


def test_an_answer_that_is_there_is_not_replaced_by_one_from_before(ledger: Ledger) -> None:
    write(ledger)
    forget(ledger, 2)
    AnswerBank(ledger).put(b"k", kept("Sunday"), 1 << 20)
    found = AnswerBank(ledger).find(b"k")
    assert found
    assert found.reply == "Monday"


@pytest.mark.parametrize("table", DERIVED)
def test_whatever_inserts_into_a_derived_table_is_stopped(ledger: Ledger, table: str) -> None:
    columns = ledger.rows.execute(f"SELECT * FROM pragma_table_info('{table}')").fetchall()
    named = [name for _, name, *_ in columns if name != "crc"]
    sql = f"INSERT INTO {table} ({', '.join(named)}) VALUES ({', '.join('1' for _ in named)})"
    forget(ledger, 2)
    ledger.rows.execute(sql)
    assert ledger.rows.execute(f"SELECT count(*) FROM {table}").fetchone()[0] == 0
    ledger.rows.execute("PRAGMA foreign_keys = OFF")
    ledger.renew()
    ledger.rows.execute(sql)
    assert ledger.rows.execute(f"SELECT count(*) FROM {table}").fetchone()[0] == 1


def documents(ledger: Ledger) -> list[tuple[bytes, str]]:
    """Return what is linked."""
    return ledger.rows.execute("SELECT key, document FROM question_documents ORDER BY key, document").fetchall()


def test_documents_stay_with_a_question_as_long_as_any_row_of_it(ledger: Ledger) -> None:
    write(ledger)
    AnswerBank(ledger).drop(b"k")
    ledger.rows.execute("DELETE FROM rejected_answers")
    assert documents(ledger) == [(b"k", "d1")]
    ledger.rows.execute("DELETE FROM history")
    assert documents(ledger) == []


def test_a_rejected_answer_alone_keeps_them(ledger: Ledger) -> None:
    write(ledger)
    AnswerBank(ledger).drop(b"k")
    ledger.rows.execute("DELETE FROM history")
    assert documents(ledger) == [(b"k", "d1")]
    ledger.rows.execute("DELETE FROM rejected_answers")
    assert documents(ledger) == []


def test_a_question_past_the_cache_has_them_by_its_number(ledger: Ledger) -> None:
    number = History(ledger).add(HistoryEntry(1.0, "who?", "full", True, 1.0, 0.0))
    link_documents(ledger, str(number).encode(), ["d1"])
    ledger.rows.execute("DELETE FROM history")
    assert documents(ledger) == []


def test_a_paraphrase_has_those_of_the_question_that_it_is_like(ledger: Ledger) -> None:
    write(ledger)
    link_documents(ledger, b"p", ["d2"], b"k")
    assert documents(ledger) == [(b"k", "d1"), (b"p", "d1"), (b"p", "d2")]


def test_a_question_of_a_conversation_is_followed_unless_it_may_be_forgotten(ledger: Ledger) -> None:
    assert may_be_followed(ledger, "never asked?")
    forget(ledger, 2)
    ledger.renew()
    write(ledger)
    assert (may_be_followed(ledger, "never asked?"), may_be_followed(ledger, "when?")) == (False, True)
