"""One SQLite file for all that is counted or looked up by key: opened, migrated, and asked for its small values.

It knows the schema and the counters (generation, totals); what the rows mean is the business of the modules beside it.
"""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from store.errors import NoStore, PkbError
from store.schema import MIGRATIONS

BUSY_MS = 20_000
UNTIDY = "untidy"  # the counter of rows written to LanceDB since it was last tidied
_OURS = 0x706B6231  # SQLite's application id


class Ledger:
    """An open ledger; `rows` is its connection, for the modules that own tables in it."""

    def __init__(self, rows: sqlite3.Connection) -> None:
        self.rows = rows

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Do all of the block or nothing, waiting for other writers first."""
        self.rows.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.rows.execute("ROLLBACK")
            raise
        self.rows.execute("COMMIT")

    def get(self, name: str) -> str | None:
        """Give a small value by name."""
        row = self.rows.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else None

    def set(self, name: str, value: str) -> None:
        """Keep a small value by name."""
        self.rows.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))

    def count(self, name: str) -> int:
        """Give a counter, 0 where it was never raised."""
        return int(self.get(name) or 0)

    def add(self, name: str, amount: int) -> None:
        """Change a counter inside a transaction of the caller's."""
        self.set(name, str(self.count(name) + amount))

    @property
    def generation(self) -> int:
        """Give the number that every change of what can be retrieved raises."""
        return self.count("generation")

    def raise_generation(self) -> None:
        """Say that what can be retrieved has changed, or is about to."""
        self.add("generation", 1)

    def close(self) -> None:
        """Let go of the file."""
        self.rows.close()


def exists(path: Path) -> bool:
    """Tell whether there is a ledger, without making one."""
    return path.is_file() and path.stat().st_size > 0  # an empty file is what a full disk leaves


def open_ledger(path: Path, *, create: bool = False, durable: bool = False) -> Ledger:
    """Open the ledger, bringing an older schema up to date; NoStore where there is none and none may be made.

    `durable` waits for the disk at each commit, for what LanceDB commits depend on; without it a power cut may lose the
    last answers, never the file's soundness.
    """
    if not create and not exists(path):
        raise NoStore
    try:
        rows = sqlite3.connect(path, timeout=BUSY_MS / 1000, isolation_level=None, check_same_thread=False)
        path.chmod(0o600)  # whatever the umask of the process that made it
        _turn_wal_on(rows)
        rows.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        rows.execute("PRAGMA foreign_keys = ON")
        rows.execute("PRAGMA secure_delete = ON")
        ledger = Ledger(rows)
        _migrate(ledger)
    except sqlite3.DatabaseError as error:
        if (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF not in (
            sqlite3.SQLITE_CORRUPT,
            sqlite3.SQLITE_NOTADB,
        ):
            raise  # a full or failing disk, a missing permission: not this file's fault
        raise PkbError(f"{path} is damaged", "restore it from a backup, or remove it and: pkb ingest FOLDER") from None
    except OSError as error:
        raise PkbError(f"cannot open {path}: {error.strerror}", "pkb doctor") from None
    return ledger


def _turn_wal_on(rows: sqlite3.Connection) -> None:
    """Turn the write-ahead log on; where two processes do that at once, SQLite refuses one of them without waiting."""
    last = time.monotonic() + BUSY_MS / 1000
    while True:
        try:
            rows.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > last:
                raise
            time.sleep(0.01)


def _migrate(ledger: Ledger) -> None:
    """Run the schema changes that this file has not seen; PkbError where the file is newer than this program."""
    version = int(ledger.rows.execute("PRAGMA user_version").fetchone()[0])
    if version > len(MIGRATIONS):
        raise PkbError("this home was written by a newer pkb", "upgrade pkb")
    if version == len(MIGRATIONS):
        _check_ours(ledger, version)
        return
    with ledger.transaction():
        # Read again under the lock: two processes may open a new home at once.
        version = int(ledger.rows.execute("PRAGMA user_version").fetchone()[0])
        _check_ours(ledger, version)
        for number, statements in enumerate(MIGRATIONS[version:], version + 1):
            for statement in statements:
                ledger.rows.execute(statement)
            ledger.rows.execute(f"PRAGMA user_version = {number}")
        ledger.rows.execute(f"PRAGMA application_id = {_OURS}")


def _check_ours(ledger: Ledger, version: int) -> None:
    """Raise PkbError where the file is another program's."""
    owner = int(ledger.rows.execute("PRAGMA application_id").fetchone()[0])
    empty = ledger.rows.execute("SELECT 1 FROM sqlite_schema").fetchone() is None
    if owner != _OURS and not (version == 0 and empty):
        raise PkbError("the ledger of this home is another program's file", "pkb doctor")


def path_key(path: str | os.PathLike[str]) -> bytes:
    """Give a path as SQLite keeps it: bytes, since a file name need not be text."""
    return os.fsencode(path)
