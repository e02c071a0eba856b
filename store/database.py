"""The ledger (SQLite): its connection, its schema and numbered migrations, which never change once released.

A table with checksums has a view, `intact_TABLE`, to read from: its readers skip a damaged row, which SQLite does not
notice. Triggers keep checksums current for every writer. Does not know what the rows mean.
"""

import os
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Final, NoReturn
from zlib import crc32

from store.checksums import list_files
from store.errors import DamagedLedger, NoStore, PkbError

BUSY_MS = 20_000
EPOCH: Final = "forget.epoch"  # the counter of how often forgetting began or ended: odd while it goes on
DOUBTFUL = "tables.doubtful"  # the small value that says that the tables may have other documents or chunks
CHANGED_SINCE = "changed.since"  # the generation from which on the ledger knows which documents changed
HIDDEN: Final = 1 << 40  # instead of a generation: of changed documents with vectors that questions do not find yet
NO_VECTORS = "vectors"  # instead of the name of their table: before the first embedder is used
HOLDS_TEXT = "(depth > 1 OR coalesce(document, '') != '')"  # of nodes of the KV cache: the first of a prompt may not
UNCOMPACTED = "uncompacted"  # the counter of rows added to LanceDB, or deleted, since its tables were last rewritten
_APPLICATION_ID = 0x706B6231  # "pkb1"
_LISTS_FILES = 24  # the migration from which on the ledger lists the files of the tables
FAILURES: Final = (PkbError, OSError, RuntimeError, ValueError, sqlite3.Error)  # that are not bugs in pkb
DAMAGE: Final = (sqlite3.DatabaseError, UnicodeDecodeError)  # the latter for a message that quotes a damaged schema


# Rows are in the order of digests: what is added to a large ledger lies all over it.
_FOR_MANY = {"cache_size": -128 << 10, "wal_autocheckpoint": 32 << 10}  # KB, if negative; pages


class Ledger:
    """An open ledger; `rows` is its connection, for the modules that own tables in it.

    What is derived from documents rests on what was read at an epoch. Triggers drop it where anything was forgotten
    since then, or is being forgotten: whoever writes it, in the transaction of the write.
    """

    def __init__(self, rows: sqlite3.Connection, *, temporary: bool = False) -> None:
        self.rows, self.temporary = rows, temporary  # the latter: what is written to it is lost when it is closed
        self._epoch = epoch = [0]  # no reference to this object, which would keep it open
        rows.execute("PRAGMA foreign_keys = ON")
        register(rows)
        rows.create_function("is_current", 1, lambda now: epoch == [int(now or 0)] and epoch[0] % 2 == 0)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit the block as one transaction, or roll it back; waits for other writers first."""
        self.rows.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.rows.execute("COMMIT")
        except BaseException:
            self.roll_back()  # which SQLite may have done itself, on a full disk
            raise

    @contextmanager
    def many_changes(self) -> Iterator[None]:
        """Hold more of it in memory during the block, and write its log back less often."""
        before = [self.rows.execute(f"PRAGMA {name}").fetchone()[0] for name in _FOR_MANY]
        try:
            for name, value in _FOR_MANY.items():
                self.rows.execute(f"PRAGMA {name} = {value}")
            yield
        finally:
            for name, value in zip(_FOR_MANY, before, strict=True):
                with suppress(sqlite3.Error):  # where the disk failed, its error is the one to tell
                    self.rows.execute(f"PRAGMA {name} = {value}")
            with suppress(sqlite3.Error):  # no text that was removed stays in a long log
                self.rows.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def get(self, name: str) -> str | None:
        """Return a small value by name."""
        row = self.rows.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else None

    def set(self, name: str, value: str) -> None:
        """Store a small value by name."""
        self.rows.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))

    def count(self, name: str) -> int:
        """Return a counter, 0 where it was never raised."""
        return int(self.get(name) or 0)

    def add(self, name: str, amount: int) -> None:
        """Change a counter inside a transaction of the caller's."""
        self.set(name, str(self.count(name) + amount))

    @property
    def has_nodes(self) -> bool:
        """Return whether any KV node is stored, whatever its state."""
        return self.rows.execute("SELECT 1 FROM kv_nodes LIMIT 1").fetchone() is not None

    @property
    def vectors(self) -> str:
        """Return the name of the table of the vectors in use."""
        return self.get("vectors") or NO_VECTORS

    @property
    def unembedded(self) -> int:
        """Return how many chunks have no vector of the embedder in use."""
        return self.count("chunks") - self.count("embedded")

    @property
    def epoch(self) -> int:
        """Return the epoch that what is written rests on."""
        return self._epoch[0]

    def renew(self, epoch: int | None = None) -> None:
        """Start a new read: later writes depend on what is read from now on, or was read at an epoch."""
        self._epoch[0] = self.count(EPOCH) if epoch is None else epoch

    @property
    def is_current(self) -> bool:
        """Return whether nothing was forgotten since `renew`, or is being forgotten; reliable only in a transaction."""
        return self.epoch == self.count(EPOCH) and self.epoch % 2 == 0

    @property
    def generation(self) -> int:
        """Return the number that every change of what can be retrieved raises."""
        return self.count("generation")

    def raise_generation(self) -> None:
        """Mark what can be retrieved as changed, or about to change."""
        self.add("generation", 1)

    def show_vectors(self) -> None:
        """Have questions find all vectors, inside a transaction of the caller's."""
        sql = "UPDATE changed_documents SET generation = ? WHERE generation >= ?"
        if self.rows.execute(sql, (self.generation, HIDDEN)).rowcount:
            self.raise_generation()

    def roll_back(self) -> None:
        """End a transaction that was interrupted; nothing where none is open."""
        if self.rows.in_transaction:
            self.rows.execute("ROLLBACK")

    def close(self) -> None:
        """Close the file."""
        self.rows.close()


class LedgerRows:
    """What one idea keeps in a ledger; `_rows` is the connection of that."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger, self._rows = ledger, ledger.rows


def exists(path: Path) -> bool:
    """Return whether there is a ledger, without creating one."""
    return path.is_file() and path.stat().st_size > 0  # an empty file is what a full disk leaves


def open_ledger(path: Path, *, create: bool = False, durable: bool = False) -> Ledger:
    """Open the ledger and migrate an older schema; NoStore if there is none and `create` is off, DamagedLedger.

    `durable` waits for the disk at each commit, for what LanceDB commits depend on; without it a power cut may lose the
    last answers, never corrupt the file.
    """
    if not create and not exists(path):
        raise NoStore
    try:
        # By its URI: then others can be attached to read them alone.
        name, timeout = path.absolute().as_uri(), BUSY_MS / 1000
        rows = sqlite3.connect(name, uri=True, timeout=timeout, isolation_level=None, check_same_thread=False)
        path.chmod(0o600)  # whatever the umask of the process that made it
        _turn_wal_on(rows)
        rows.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        rows.execute("PRAGMA secure_delete = ON")
        ledger = Ledger(rows)
        _migrate(ledger, path)
        ledger.renew()
    except DAMAGE as error:
        _explain(error, path)
    except OSError as error:
        raise PkbError(f"cannot open {path}: {error.strerror}", "pkb doctor") from None
    return ledger


def _explain(error: Exception, path: Path) -> NoReturn:
    code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    if isinstance(error, UnicodeDecodeError) or code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        raise DamagedLedger(path) from None
    raise error  # a full or failing disk, a missing permission: not this file's fault


def read_only(path: Path) -> sqlite3.Connection:
    """Connect to a ledger that is there, to read it as it is."""
    name = f"{path.as_uri()}?mode=ro"
    return sqlite3.connect(name, uri=True, timeout=BUSY_MS / 1000, isolation_level=None, check_same_thread=False)


def open_copy(path: Path) -> Ledger:
    """Open a copy in memory, for reading and answering on a disk that has no room for SQLite's own files."""
    if not exists(path):
        raise NoStore
    rows = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    try:
        _copy_into(rows, path)
    except DAMAGE as error:
        _explain(error, path)
    ledger = Ledger(rows, temporary=True)
    _migrate(ledger, path)
    ledger.renew()
    return ledger


def _copy_into(rows: sqlite3.Connection, path: Path) -> None:
    """Copy a database without creating a file.

    One without a write-ahead log can be opened as immutable. With one, an exclusive lock keeps SQLite from creating its
    shared-memory file; where another process has the database open, that file is there.
    """
    pending = exists(path.with_name(f"{path.name}-wal"))
    name = f"{path.as_uri()}?{'mode=rw' if pending else 'mode=ro&immutable=1'}"
    for mode in ("EXCLUSIVE", "NORMAL") if pending else ("NORMAL",):
        try:
            with closing(sqlite3.connect(name, uri=True)) as source:
                source.execute(f"PRAGMA locking_mode = {mode}")
                source.backup(rows)
            return
        except sqlite3.OperationalError as error:
            if mode == "NORMAL" or error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise


def _turn_wal_on(rows: sqlite3.Connection) -> None:
    """Turn the write-ahead log on; when two processes do that at once, SQLite refuses one without waiting."""
    last = time.monotonic() + BUSY_MS / 1000
    while True:
        try:
            rows.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > last:
                raise
            time.sleep(0.01)


def _migrate(ledger: Ledger, path: Path) -> None:
    """Run the migrations that this file has not seen, in one transaction; PkbError if the file is newer than pkb."""
    version = int(ledger.rows.execute("PRAGMA user_version").fetchone()[0])
    if version > NEWEST:
        raise PkbError("this home was written by a newer pkb", "upgrade pkb")
    if version == NEWEST:
        _check_application(ledger, version)
        return
    with ledger.transaction():
        # Read again under the lock: two processes may open a new home at once.
        version = int(ledger.rows.execute("PRAGMA user_version").fetchone()[0])
        _check_application(ledger, version)
        if 0 < version < OLDEST:
            raise PkbError("this home is from before the first release of pkb", "move it away, then pkb ingest")
        for number in range(max(version + 1, OLDEST), NEWEST + 1):
            migrate_to(ledger.rows, number)
            if number == _LISTS_FILES and version:
                list_files(ledger.rows, path.with_name("tables"))
        ledger.rows.execute(f"PRAGMA application_id = {_APPLICATION_ID}")


def has_schema(ledger: Ledger) -> bool:
    """Return whether all tables, indexes, views and triggers are as the migrations leave them."""
    with closing(sqlite3.connect(":memory:")) as rows:
        for number in range(OLDEST, NEWEST + 1):
            migrate_to(rows, number)
        return _schema(ledger.rows) == _schema(rows)


def _schema(rows: sqlite3.Connection) -> set[tuple[str, ...]]:
    found = rows.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'")
    # Without quotes and spaces: SQLite writes others where it changed a statement.
    spaced = partial(re.sub, r"\s*([(),])\s*", r"\1 ")
    return {(*names, " ".join(spaced((sql or "").replace('"', "")).split())) for *names, sql in found}


def migrate_to(rows: sqlite3.Connection, number: int) -> None:
    """Run one numbered change."""
    register(rows)
    for statement in _sections()[number - OLDEST]:
        rows.execute(statement)
    rows.execute(f"PRAGMA user_version = {number}")


def _check_application(ledger: Ledger, version: int) -> None:
    owner = int(ledger.rows.execute("PRAGMA application_id").fetchone()[0])
    empty = ledger.rows.execute("SELECT 1 FROM sqlite_schema").fetchone() is None
    if owner != _APPLICATION_ID and not (version == 0 and empty):
        raise PkbError("the ledger of this home is another program's file", "pkb doctor")


def path_key(path: str | os.PathLike[str]) -> bytes:
    """Return a path as SQLite stores it: bytes, since a file name need not be text; half a character is in none."""
    return os.fsencode(re.sub("[\ud800-\udc7f\udd00-\udfff]", "\ufffd", os.fspath(path)))


# The tables that hold, or are looked up by, what was made of documents: nothing is added that rests on what was read
# before something was forgotten. See `Ledger.renew`.
DERIVED: Final = (
    "answers", "question_vectors", "verifications", "notices", "refresh_candidates", "rejected_answers", "history",
    "retrievals", "question_documents", "predictions", "jobs", "job_outputs", "kv_nodes",
)  # fmt: skip
_CURRENT = """CREATE TRIGGER {0}_current BEFORE INSERT ON {0}
    WHEN NOT is_current((SELECT value FROM meta WHERE name = 'forget.epoch')) BEGIN SELECT RAISE(IGNORE); END"""

OLDEST: Final = 22  # of the sections of schema.sql
NEWEST: Final = 33


@cache
def _sections() -> list[list[str]]:
    """Return the statements of the oldest schema, and of each change of it."""
    text = Path(__file__).with_name("schema.sql").read_text("utf-8")
    sections = re.split(r"^-- Schema \d+.*\n", text, flags=re.MULTILINE)[1:]
    checksums = (statement for table in _COVERED for statement in _add_checksum(table))
    first, *changes = (section.strip().split("\n\n") for section in sections)
    return [[*first, *checksums, *map(_CURRENT.format, DERIVED)], *changes]


# Tables that are shown, or decide what is shown: key, other numbers, texts. How often a row was used is left out.
# The oldest schema is made by this: change no released line of it, and add none.
_COVERED = {
    "answers": (
        "key",
        "generation created made_ms tau bytes",
        "question scope writer day reply evidence tier state origin source",
    ),
    "verifications": ("key", "matched similarity at", "served"),
    "notices": ("key", "at", "kind before after cause"),
    "rejected_answers": ("key", "at", "answer"),
    "predictions": ("question chunk", "", "question chunk"),
    "provenance": ("document", "", "document seen warnings people"),
    "people": ("name address sends", "documents", "name address seen"),
    "places": ("path item", "lines_before", "document message_id collection"),
}

PRIMARY: Final = ("places",)  # cannot be made from anything else in the home

TABLES: Final = tuple(name for name in _COVERED if name not in PRIMARY)


def intact(table: str, row: str = "") -> str:
    """Return the SQL condition that a row is as it was written; NULL where it has no checksum."""
    return f"{row or table}.crc = {row_checksum_of(table, row or table)}"


def row_checksum(*values: bytes | float | str | None) -> int:
    """Return the CRC32 of a row, numbers as float, as SQLite may store them; -1 where damage made a text of one."""
    try:  # in lists, as it is called a dozen times for a message
        each = [one if isinstance(one, bytes) else b"" if one is None else repr(float(one)).encode() for one in values]
        return crc32(b"".join([b"%d:%b" % (len(raw), raw) for raw in each]))
    except ValueError:
        return -1


def register(rows: sqlite3.Connection) -> None:
    """Let the triggers and views of a connection compute checksums."""
    rows.create_function("row_checksum", -1, row_checksum, deterministic=True)
    rows.execute("PRAGMA trusted_schema = ON")  # off in some builds of SQLite


def _add_checksum(table: str) -> tuple[str, ...]:
    key, numbers, texts = (names.split() for names in _COVERED[table])
    columns = ", ".join(dict.fromkeys((*key, *numbers, *texts)))
    update = f"UPDATE {table} SET crc = {row_checksum_of(table, table)}"
    this = " AND ".join(f"{name} = new.{name}" for name in key)
    # Updating a damaged row must not give it a valid checksum.
    return (
        f"ALTER TABLE {table} ADD COLUMN crc INTEGER",
        update,
        f"""CREATE TRIGGER {table}_crc_insert AFTER INSERT ON {table} WHEN new.crc IS NULL BEGIN
            {update} WHERE {this}; END""",
        f"""CREATE TRIGGER {table}_crc_update AFTER UPDATE OF {columns} ON {table} WHEN {intact(table, "old")} BEGIN
            {update} WHERE {this}; END""",
        f"CREATE VIEW intact_{table} AS SELECT * FROM {table} WHERE {intact(table)}",
    )


def row_checksum_of(table: str, row: str) -> str:
    """Return the SQL expression of the checksum that a row should have."""
    key, numbers, texts = (names.split() for names in _COVERED[table])
    plain = [f"{row}.{name}" for name in (*key, *numbers) if name not in texts]
    # Read texts as bytes: a damaged one may not be UTF-8.
    return f"row_checksum({', '.join([*plain, *(f'CAST({row}.{name} AS BLOB)' for name in texts)])})"
