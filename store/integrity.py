"""Consistency checks of ledger, tables and KV files, and their repair. Knows no content."""

import os
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from stat import S_ISLNK, S_ISREG

from store.catalog import Catalog, recount_people
from store.checksums import PLACE
from store.database import DAMAGE, PRIMARY, TABLES, Ledger, exists, has_schema, intact, open_ledger, read_only
from store.documents import Knowledge, differing_chunks, differing_documents
from store.erasure import is_unfinished
from store.errors import DamagedLedger, PkbError
from store.home import Home, has_tables
from store.kv_index import PATIENT_S, KvFolder
from store.mapped_index import MappedIndex
from store.tables import MARKS, Tables


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: its name, what is wrong (empty if nothing is), and the documents concerned."""

    name: str
    wrong: str = ""
    documents: tuple[str, ...] = ()
    note: str = ""  # on something that is not wrong and needs no repair


def examine(home: Home, ledger: Ledger, tables: Tables, *, read_data: bool) -> Iterator[Finding]:
    """Run all checks, with the writer lock; `read_data` reads every page, file and word, not what has changed alone."""
    damage = page_damage(ledger, whole=read_data)
    yield Finding("ledger", f"SQLite says: {damage}" if damage else "")
    if damage:
        return  # nothing read from it is reliable
    yield _damaged_rows(ledger)
    interrupted = "a write was interrupted: the next pkb ingest does it again"
    yield Finding("journal", note=interrupted if tables.files.unlisted() else "")
    unfinished = "pkb forget was interrupted: deleted text may be left; the next pkb forget or pkb ingest finishes it"
    yield Finding("forget", unfinished if is_unfinished(ledger) else "")
    yield _privacy(home)
    strange = len([*home.data.glob(f"{_FRESH}*")])
    aside = [path.name for path in home.data.glob(f"*{_DAMAGED}")]
    kept = f"a damaged ledger was kept aside ({aside[0]}): delete it when you no longer need it" if aside else ""
    yield Finding("leftovers", f"{strange} files of a killed process" if strange else "", note=kept)
    damaged = ", ".join(f"{name} ({len(files)} files)" for name, files in tables.damaged(reads=read_data).items())
    yield Finding("index", f"damaged: {damaged}" if damaged else "")
    uneven: tuple[str, ...] = ()
    if not damaged:  # else nothing read from it is reliable
        alone, uneven = (tuple(sorted(differ(ledger, tables))) for differ in (differing_documents, differing_chunks))
        yield Finding("documents", f"{len(alone)} are in only one of ledger and tables" if alone else "", alone)
        yield Finding("chunks", f"{len(uneven)} documents have too many or too few chunks" if uneven else "", uneven)
    yield _places(ledger)
    if not damaged:
        yield _vectors(ledger, tables)
    index = MappedIndex(home, ledger, lambda: tables)
    bad = len(index.damaged(reads=read_data))
    differs = not (bad or damaged or uneven) and index.view().count != ledger.count("chunks")
    wrong = "the mapped index has too many or too few chunks" if differs else ""
    yield Finding("mapped", f"{bad} files of the mapped index are damaged" if bad else wrong)
    yield _kv(home, ledger, read_data)


@dataclass(frozen=True, slots=True)
class Repaired:
    """What a repair leaves to the next `pkb ingest`: documents to read again from these files, chunks to embed."""

    documents: int = 0
    files: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()  # those of the files that cannot be read again
    embeddings: int = 0
    roots: bool = True  # whether the ingested folders are still known


def repair(home: Home, ledger: Ledger, tables: Tables, knowledge: Knowledge) -> Repaired:
    """Repair what can be repaired; needs to be alone.

    Damaged tables are rebuilt or removed. Documents on which ledger and tables disagree are removed from both, and
    their files are marked as changed.
    """
    tables.repair()
    knowledge.recover()
    rmtree(home.compiled, ignore_errors=True)
    MappedIndex(home, ledger, lambda: tables).clear()  # made again from the tables
    for path in home.data.glob(f"{_FRESH}*"):
        path.unlink(missing_ok=True)
    for path in home.entries():
        with suppress(FileNotFoundError, PermissionError):  # the latter where it is another user's
            if not path.is_symlink():
                path.chmod(0o700 if path.is_dir() else 0o600)
    torn = {*knowledge.reconcile()}
    unread = {*_places(ledger).documents, *_repair_rows(ledger)}
    with ledger.transaction():
        Catalog(ledger).mark_changed(unread)
    folder = KvFolder(ledger, home.kv)
    for node in folder.index.nodes():
        folder.check(node, read_data=True)
    folder.collect(PATIENT_S)
    files = tuple(os.fsdecode(path) for path in Catalog(ledger).changed())
    gone = tuple(path for path in files if not os.path.lexists(path))
    return Repaired(len(torn | unread), files, gone, ledger.unembedded, bool(Catalog(ledger).roots()))


def _damaged_rows(ledger: Ledger) -> Finding:
    counts = {table: ledger.rows.execute(f"SELECT count(*) {_damaged(table)}").fetchone()[0] for table in TABLES}
    wrong = ", ".join(f"{table} ({count} rows)" for table, count in counts.items() if count)
    return Finding("rows", f"damaged: {wrong}" if wrong else "")


def _damaged(table: str) -> str:
    return f"FROM {table} WHERE {intact(table)} IS NOT TRUE"


def _repair_rows(ledger: Ledger) -> list[str]:
    """Delete damaged rows; returns the documents whose provenance was lost."""
    if not _damaged_rows(ledger).wrong:
        return []
    with ledger.transaction():
        # Its names cannot be counted off: what counts them could not read them.
        ledger.rows.execute(f"UPDATE provenance SET people = '[]' WHERE {intact('provenance')} IS NOT TRUE")
        for table in TABLES:
            ledger.rows.execute(f"DELETE {_damaged(table)}")
        recount_people(ledger)
        ledger.rows.execute("UPDATE answers_size SET (answers, bytes) = (SELECT count(*), total(bytes) FROM answers)")
        lost = "SELECT id FROM documents WHERE id NOT IN (SELECT document FROM provenance)"
        return [document for (document,) in ledger.rows.execute(lost)]


def _privacy(home: Home) -> Finding:
    """Find files of the home and its cache that others can read, own, or hold under another name."""
    modes = list[os.stat_result]()
    for path in home.entries():
        with suppress(FileNotFoundError):  # a lock or a version that another process removed meanwhile
            modes.append(path.lstat())
    counts = {
        "can be read by other users": sum(bool(one.st_mode & 0o077) and not S_ISLNK(one.st_mode) for one in modes),
        "belong to another user": sum(one.st_uid != os.geteuid() for one in modes),
        "are links": sum(S_ISLNK(one.st_mode) or (S_ISREG(one.st_mode) and one.st_nlink > 1) for one in modes),
    }
    return Finding("privacy", ", ".join(f"{n} files or folders {what}" for what, n in counts.items() if n))


def _places(ledger: Ledger) -> Finding:
    """Find documents without a place, and places of documents that are not stored."""
    lost = "SELECT document FROM places WHERE document NOT IN (SELECT id FROM documents)"
    homeless = "SELECT id FROM documents WHERE id NOT IN (SELECT document FROM places)"
    sql = (lost, f"{homeless} AND NOT rechunk")  # an interrupted removal has marked its documents: see `Catalog.drop`
    found = tuple(sorted({row[0] for one in sql for row in ledger.rows.execute(one)}))
    former = """SELECT count(DISTINCT document) FROM places WHERE document NOT IN (
                SELECT document FROM places WHERE item >= 0)"""
    if not found and (kept := ledger.rows.execute(former).fetchone()[0]):  # by the guard against unmounted disks
        return Finding("places", f"{kept} documents are in no file any more: pkb ingest --prune")
    left = ledger.rows.execute(f"{homeless} AND rechunk").fetchall()
    note = f"a removal was interrupted: the next pkb ingest removes {len(left)} documents" if left else ""
    return Finding("places", f"{len(found)} documents and files do not match" if found else "", found, note)


def _vectors(ledger: Ledger, tables: Tables) -> Finding:
    chunks = {row["id"] for row in tables.select("chunks", "true", ["id"])}
    found = [row["id"] for row in tables.select(ledger.vectors, "true", ["id"])]
    missing, orphans = max(0, ledger.count("embedded") - len(found)), len(found) - len(chunks.intersection(found))
    return Finding("vectors", f"{missing} missing, {orphans} orphaned" if missing or orphans else "")


def _kv(home: Home, ledger: Ledger, read_data: bool) -> Finding:
    folder = KvFolder(ledger, home.kv)
    bad = [node.key for node in folder.index.nodes() if not folder.is_intact(node, read_data=read_data)]
    still, orphans = sum(folder.index.find(key) is not None for key in bad), len(folder.orphans())
    return Finding("kv", f"{still} damaged KV cache entries, {orphans} orphaned files" if still or orphans else "")


_POSITION = "integrity.position"  # the small value of the ledger that holds the end of the last slice


def check_slice(home: Home, ledger: Ledger, count: int, is_over: Callable[[], bool] = lambda: False) -> int:
    """Verify the files of the next `count` KV nodes and remove damaged ones; returns the number removed.

    Stops before the next file when `is_over` returns True; the next call resumes there. After the last node it checks
    the ledger's pages and starts over; PkbError if those are damaged.
    """
    at = bytes.fromhex(ledger.get(_POSITION) or "")
    sql = "SELECT key FROM kv_nodes WHERE key > ? ORDER BY key LIMIT ?"
    keys = [key for (key,) in ledger.rows.execute(sql, (at, count))]
    folder, removed = KvFolder(ledger, home.kv), 0
    for key in keys:
        if is_over():
            break
        at = key
        if node := folder.index.find(key):
            removed += not folder.check(node, read_data=True)
    is_last = len(keys) < count and at == (keys or [at])[-1]
    ledger.set(_POSITION, "" if is_last else at.hex())
    if is_last and page_damage(ledger, whole=False):
        raise PkbError("the ledger is damaged", "pkb doctor --data --repair")
    return removed


# A damaged ledger is moved aside, and a new one takes over what cannot be made from documents: folders and history.

_KEPT = ("roots", "history", "rejected_answers", "question_documents", "forgotten")
_VALUES = ("threads", "forget.key", PLACE, MARKS)  # small values that later results must agree with
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
    """Return how SQLite says that the ledger is damaged, empty if it is not; `whole` reads every text, too."""
    try:
        if not has_schema(ledger):
            return "its schema is damaged"
        for table in TABLES:  # sqlite3.Error if the schema is damaged
            ledger.rows.execute(f"SELECT 1 FROM intact_{table} LIMIT 1").fetchone()
        for table in PRIMARY:  # which a repair cannot do without
            if ledger.rows.execute(f"SELECT 1 {_damaged(table)} LIMIT 1").fetchone():
                return f"rows of {table} are damaged"
        if whole:  # sqlite3.OperationalError if a text without checksum is not UTF-8
            tables = ledger.rows.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
            for table in {name for (name,) in tables}.difference(TABLES, PRIMARY):
                deque(ledger.rows.execute(f"SELECT * FROM {table}"), maxlen=0)
        found = ledger.rows.execute(f"PRAGMA {'integrity_check' if whole else 'quick_check'}(1)").fetchone()[0]
    except DAMAGE as error:
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
            with suppress(*DAMAGE), closing(read_only(home.ledger)) as rows:
                for (value,) in rows.execute("SELECT value FROM meta WHERE name = ?", (name,)):
                    ledger.set(name, str(value))
    for suffix in ("-wal", "-shm"):
        home.ledger.with_name(home.ledger.name + suffix).unlink(missing_ok=True)
    if home.ledger.exists():
        aside = home.ledger.with_name(home.ledger.name + _DAMAGED)  # in place of an earlier one
        if aside.is_dir():
            aside.rmdir()
        home.ledger.replace(aside)
    fresh.replace(home.ledger)
    rmtree(home.tables, ignore_errors=True)
    rmtree(home.index, ignore_errors=True)
    home.create()


def _copy(damaged: Path, ledger: Ledger, table: str) -> None:
    """Copy the rows of a table that can be read, from either end up to the damage; columns may have been added."""
    width = len(ledger.rows.execute(f"SELECT * FROM pragma_table_info('{table}')").fetchall())
    rows = {row for order in ("ASC", "DESC") for row in _rows(damaged, table, order) if len(row) <= width}
    sql = f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * width)})"
    with ledger.transaction():
        for row in sorted(rows, key=repr):
            with suppress(sqlite3.IntegrityError):
                ledger.rows.execute(sql, (*row, *[None] * (width - len(row))))


def _rows(damaged: Path, table: str, order: str) -> Iterator[tuple[object, ...]]:
    with suppress(*DAMAGE), closing(read_only(damaged)) as rows:
        rows.text_factory = lambda raw: raw.decode("utf-8", "replace")
        yield from rows.execute(f"SELECT * FROM {table} ORDER BY 1 {order}")
