"""Readers' homes: what the ledger of one takes over of the sources that another ledger knows.

A reader's home has its own answers, history, mapped index and KV cache, and reads the search tables of the other one.
It may be limited to some collections: then no row of another one enters its ledger, nor what is made from that.
"""

import json
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.json import decode, encode
from msgspec.structs import replace

from store.answers import REMOVED_S, drop_derived
from store.database import CHANGED_SINCE, EPOCH, NEWEST, Ledger, exists, open_ledger
from store.errors import NoStore, PkbError

_TAKEN = "taken"  # the small value of a reader's ledger that says what it took over last


class _State(Struct, frozen=True):
    """What a source was when it was taken over: counters, the files of its tables, the state of its roots."""

    generation: int
    epoch: int
    files: str
    roots: str
    collections: list[str] | None
    at: float  # seconds since the epoch


# Of which rows of the source a reader's ledger has copies, by table.
_INSIDE = "(:names IS NULL OR collection IN (SELECT value FROM json_each(:names)))"
_OF = f"(:names IS NULL OR {{}} IN (SELECT {{}} FROM source.places WHERE {_INSIDE}))"
_COPIED = {
    **dict.fromkeys(("roots", "places"), _INSIDE),
    **dict.fromkeys(("files", "problems"), _OF.format("path", "path")),
    "documents": _OF.format("id", "document"),  # before their titles, which go with them
    **dict.fromkeys(("titles", "provenance"), _OF.format("document", "document")),
    "table_files": "true",
}
# What goes with documents that are gone; and what may rest on them, where the source does not tell their chunks.
_OF_GONE = "IN (SELECT key FROM question_documents WHERE document IN (SELECT value FROM json_each(?)))"
_OF_UNKNOWN = "NOT IN (SELECT key FROM question_documents)"
_UNSURE = (
    *(f"DELETE FROM {table} WHERE key {_OF_UNKNOWN}" for table in ("answers", "rejected_answers")),
    *(f"DELETE FROM {table}" for table in ("refresh_candidates", "predictions", "jobs")),
)


def take_over(ledger: Ledger, source: Path, collections: Collection[str] | None = None) -> list[str]:
    """Make what a ledger says of sources what another file says, of some collections or all of them.

    Only rows that differ are written, in one transaction; the mapped index is told which documents changed, and what
    was derived from documents that are gone goes with them: their ids are returned. While the source is forgetting,
    nothing is taken over. NoStore where it does not exist, PkbError where a newer pkb wrote it.
    """
    names = None if collections is None else sorted(collections)
    with _attached(ledger, source):
        if _is_taken(ledger, _state(ledger, names)):
            return []
        with ledger.transaction():
            now = _state(ledger, names)
            gone = [] if now.epoch % 2 or _is_taken(ledger, now) else _copy(ledger, now)
    ledger.renew()
    return gone


@contextmanager
def _attached(ledger: Ledger, source: Path) -> Iterator[None]:
    if not exists(source):
        raise NoStore
    ledger.rows.execute("ATTACH ? AS source", (f"{source.as_uri()}?mode=ro",))
    try:
        version = int(ledger.rows.execute("PRAGMA source.user_version").fetchone()[0])
        if version > NEWEST:
            raise PkbError("the home that this one reads was written by a newer pkb", "upgrade pkb")
        if version < NEWEST:
            open_ledger(source).close()  # which migrates it
        yield
    finally:
        ledger.rows.execute("DETACH source")


def _state(ledger: Ledger, names: list[str] | None) -> _State:
    sql = """SELECT (SELECT value FROM source.meta WHERE name = 'generation'),
                    (SELECT value FROM source.meta WHERE name = ?),
                    (SELECT count(*) || ' ' || total(crc) FROM source.table_files),
                    (SELECT count(*) || ' ' || total(row_checksum(path, CAST(collection AS BLOB), CAST(read AS BLOB)))
                     FROM source.roots)"""
    generation, epoch, files, roots = ledger.rows.execute(sql, (EPOCH,)).fetchone()
    return _State(int(generation or 0), int(epoch or 0), files, roots, names, time.time())


def _is_taken(ledger: Ledger, now: _State) -> bool:
    return (before := _before(ledger)) is not None and replace(before, at=now.at) == now


def _before(ledger: Ledger) -> _State | None:
    return decode(found, type=_State) if (found := ledger.get(_TAKEN)) else None


def _of_source(ledger: Ledger, name: str) -> int:
    row = ledger.rows.execute("SELECT value FROM source.meta WHERE name = ?", (name,)).fetchone()
    return int(row[0]) if row else -1


def _copy(ledger: Ledger, now: _State) -> list[str]:
    """Copy rows, inside the caller's transaction; returns the documents that are gone."""
    rows, before, listed = ledger.rows, _before(ledger), "SELECT id FROM main.documents"
    values = {"names": None if now.collections is None else json.dumps(now.collections)}
    there = {one for (one,) in rows.execute(listed)}
    for table, inside in _COPIED.items():
        columns = [name for (name,) in rows.execute("SELECT name FROM pragma_table_info(?)", (table,))]
        names, same = ", ".join(columns), " AND ".join(f"other.{name} IS one.{name}" for name in columns)
        old = f"NOT EXISTS (SELECT 1 FROM source.{table} AS other WHERE {same} AND {inside})"
        new = f"{inside} AND NOT EXISTS (SELECT 1 FROM main.{table} AS other WHERE {same})"
        rows.execute(f"DELETE FROM main.{table} AS one WHERE {old}", values)
        sql = f"INSERT INTO {table} ({names}) SELECT {names} FROM source.{table} AS one WHERE {new}"
        rows.execute(sql, values)
    if gone := sorted(there.difference(one for (one,) in rows.execute(listed))):
        _drop(ledger, gone, now, before)
    _note(ledger, now, before)
    return gone


def _drop(ledger: Ledger, gone: list[str], now: _State, before: _State | None) -> None:
    """Drop what was derived from documents that are gone, and what other processes derive from them now."""
    for table in ("rejected_answers", "answers"):
        ledger.rows.execute(f"DELETE FROM {table} WHERE key {_OF_GONE}", (json.dumps(gone),))
    if before and now.collections == before.collections is None and now.at - before.at < REMOVED_S:
        ledger.rows.execute("INSERT OR REPLACE INTO removed_chunks SELECT * FROM source.removed_chunks")
        drop_derived(ledger, now.at)
        return
    for sql in _UNSURE:
        ledger.rows.execute(sql)
    ledger.set(EPOCH, str((ledger.count(EPOCH) | 1) + 1))


def _note(ledger: Ledger, now: _State, before: _State | None) -> None:
    """Note what was taken over, and the documents whose chunks or vectors may have changed."""
    since = _of_source(ledger, CHANGED_SINCE)
    start = before.generation if before and 0 <= since <= before.generation <= now.generation else -1
    sql = """INSERT OR REPLACE INTO changed_documents SELECT id, ?1 FROM main.documents
             WHERE ?2 < 0 OR id IN (SELECT document FROM source.changed_documents WHERE generation >= ?2)"""
    ledger.rows.execute(sql, (ledger.generation, start))
    (chunks,) = ledger.rows.execute("SELECT coalesce(sum(chunks), 0) FROM main.documents").fetchone()
    missing = _of_source(ledger, "chunks") - _of_source(ledger, "embedded")
    sql = "INSERT OR REPLACE INTO meta SELECT * FROM source.meta WHERE name = 'vectors'"
    ledger.rows.execute(sql)
    ledger.set("chunks", str(chunks))
    ledger.set("embedded", str(max(0, chunks - missing)))
    if before is None or replace(now, files=before.files, roots=before.roots, at=before.at) != before:
        ledger.set("generation", str(max(ledger.generation + 1, now.generation)))
    ledger.set(_TAKEN, encode(now).decode())
