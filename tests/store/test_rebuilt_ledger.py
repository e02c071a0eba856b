"""A damaged ledger: a new one keeps folders and history, and the damaged file stays beside it."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from store.catalog import SourceRoot
from store.database import open_ledger
from store.errors import DamagedLedger
from store.history import History, HistoryEntry
from store.integrity import ledger_is_damaged, rebuild_ledger
from tests.store.kit import Opened, entry


@pytest.fixture
def used(opened: Opened) -> Opened:
    """Return a home with a folder, documents and questions asked, closed."""
    with opened.ledger.transaction():
        opened.catalogue.put_root(SourceRoot("/mail", "Mail", None))
    opened.keep(*(entry(f"d{n}", f"w{n}") for n in range(200)))
    for number in range(5):
        History(opened.ledger).add(HistoryEntry(float(number), f"q{number}", "full", True, 1.0, 0.0))
    opened.ledger.rows.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    opened.ledger.close()
    return opened


def _flip_middle(path: Path) -> None:
    """Overwrite pages of documents, behind those of the schema."""
    raw = bytearray(path.read_bytes())
    with closing(sqlite3.connect(path)) as rows:
        page = rows.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'documents'").fetchone()[0]
    raw[4096 * (page - 1) : 4096 * page] = b"\xff" * 4096
    path.write_bytes(raw)


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _replace(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _overwrite(path: Path) -> None:
    path.write_bytes(b"not a ledger " * 1000)


@pytest.mark.parametrize("damage", [_flip_middle, _truncate, _replace, _empty, _overwrite, Path.unlink])
def test_whatever_is_damaged_a_new_ledger_takes_its_place(used: Opened, damage: Callable[[Path], None]) -> None:
    assert not ledger_is_damaged(used.home)
    damage(used.home.ledger)
    assert ledger_is_damaged(used.home)
    rebuild_ledger(used.home)
    assert not ledger_is_damaged(used.home)
    assert list(used.home.tables.glob("*.lance")) == []


def test_folders_and_questions_are_kept_as_far_as_they_can_be_read(used: Opened) -> None:
    damaged = used.home.ledger
    _flip_middle(damaged)
    before = damaged.read_bytes()
    rebuild_ledger(used.home)
    again = Opened(used.home)
    assert [root.path for root in again.catalogue.roots()] == ["/mail"]
    assert again.ledger.rows.execute("SELECT count(*) FROM history").fetchone() == (5,)
    assert again.ledger.rows.execute("SELECT count(*) FROM documents").fetchone() == (0,)
    assert damaged.with_name("ledger.db.damaged").read_bytes() == before
    again.ledger.close()


def test_a_second_rebuild_replaces_the_copy_of_the_first(used: Opened) -> None:
    for text in (b"first " * 1000, b"second " * 1000):
        used.home.ledger.write_bytes(text)
        rebuild_ledger(used.home)
    assert used.home.ledger.with_name("ledger.db.damaged").read_bytes() == text


def test_a_ledger_that_is_none_is_named_with_what_to_do(used: Opened) -> None:
    used.home.ledger.write_bytes(b"not a ledger " * 1000)
    with pytest.raises(DamagedLedger, match=r"ledger\.db is damaged") as raised:
        open_ledger(used.home.ledger)
    assert raised.value.next_step == "restore it from a backup, or rebuild it: pkb doctor --data --repair"


def test_a_home_that_holds_nothing_has_no_damaged_ledger(opened: Opened) -> None:
    opened.ledger.close()
    opened.home.ledger.unlink()
    assert not ledger_is_damaged(opened.home)
