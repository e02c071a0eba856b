"""A damaged ledger is moved aside, and a new one takes over what cannot be made from documents: folders and history.

Everything else is derived: the search tables are removed with it, and the next ingest reads all documents again.
"""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from store.database import Ledger, exists, open_ledger
from store.errors import DamagedLedger
from store.home import Home, has_tables

_KEPT = ("roots", "history", "rejected_answers")
_VALUES = ("threads",)  # small values that later results must agree with
_DAMAGED = ".damaged"
_FRESH = "ledger.new"


def ledger_is_damaged(home: Home) -> bool:
    """Return whether the ledger is missing beside tables, cannot be opened, or has damaged pages."""
    if not exists(home.ledger):
        return home.ledger.is_dir() or has_tables(home)
    try:
        with closing(open_ledger(home.ledger)) as ledger:
            return page_damage(ledger) != ""
    except DamagedLedger:
        return True


def page_damage(ledger: Ledger, *, whole: bool = True) -> str:
    """Return how SQLite says that the ledger's pages are damaged, empty where they are not."""
    try:
        found = ledger.rows.execute(f"PRAGMA {'integrity_check' if whole else 'quick_check'}(1)").fetchone()[0]
    except sqlite3.DatabaseError as error:
        found = str(error)
    return "" if found == "ok" else str(found.splitlines()[-1])


def rebuild_ledger(home: Home) -> None:
    """Replace the ledger by a new one with what can be read from it; it is kept beside it. Needs to be alone."""
    fresh = home.data / _FRESH
    for path in home.data.glob(f"{_FRESH}*"):
        path.unlink()
    with closing(open_ledger(fresh, create=True, durable=True)) as ledger:
        for table in _KEPT:
            _copy(home.ledger, ledger, table)
        for name in _VALUES:
            with suppress(sqlite3.DatabaseError), closing(_read_only(home.ledger)) as rows:
                for (value,) in rows.execute("SELECT value FROM meta WHERE name = ?", (name,)):
                    ledger.set(name, str(value))
    for suffix in ("-wal", "-shm"):
        home.ledger.with_name(home.ledger.name + suffix).unlink(missing_ok=True)
    if home.ledger.exists():
        _move_aside(home.ledger)
    fresh.replace(home.ledger)
    shutil.rmtree(home.tables, ignore_errors=True)
    home.create()


def _copy(damaged: Path, ledger: Ledger, table: str) -> None:
    """Copy the rows of a table that can be read, from either end up to the damage."""
    width = len(ledger.rows.execute(f"SELECT * FROM pragma_table_info('{table}')").fetchall())
    rows = {row for order in ("ASC", "DESC") for row in _rows(damaged, table, order) if len(row) == width}
    with ledger.transaction():
        for row in sorted(rows, key=repr):
            with suppress(sqlite3.IntegrityError):
                ledger.rows.execute(f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * width)})", row)


def _rows(damaged: Path, table: str, order: str) -> Iterator[tuple[object, ...]]:
    with suppress(sqlite3.DatabaseError), closing(_read_only(damaged)) as rows:
        rows.text_factory = _text
        yield from rows.execute(f"SELECT * FROM {table} ORDER BY 1 {order}")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)


def _move_aside(path: Path) -> None:
    """Keep a damaged ledger under another name, in place of an earlier one; a folder in its place is of no use."""
    aside = path.with_name(path.name + _DAMAGED)
    if aside.is_dir():
        aside.rmdir()
    path.replace(aside)
