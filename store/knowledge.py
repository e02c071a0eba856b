"""The knowledge bank: documents, chunks and vectors, changed so that a kill at any moment loses and doubles nothing.

Writes go LanceDB first, ledger last, between two rows of the journal; what is not in the ledger was never acknowledged.
Knows no files: the catalogue's rows are written by the caller's `record`, in the transaction that acknowledges.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from store import frequencies, journal, passages
from store.catalogue import Catalogue
from store.filters import among
from store.frequencies import Tally
from store.journal import Change
from store.ledger import Ledger
from store.records import Chunk, Document

if TYPE_CHECKING:
    from store.tables import Row, Tables


@dataclass(frozen=True, slots=True)
class Entry:
    """A document ready to be kept: its chunks, their words (joined by spaces), its collections and its thread."""

    document: Document
    chunks: tuple[Chunk, ...]
    tokens: tuple[str, ...]
    collections: tuple[str, ...]
    thread: str


class Knowledge:
    """Changes to the bank; every method but `holds` needs the writer lock."""

    def __init__(self, ledger: Ledger, open_tables: "Callable[[], Tables]") -> None:
        self._ledger, self._open_tables = ledger, open_tables

    def holds(self, documents: Iterable[str]) -> set[str]:
        """Tell which of these documents are kept."""
        sql = "SELECT id FROM documents WHERE id = ?"
        return {d for d in documents if self._ledger.rows.execute(sql, (d,)).fetchone()}

    def commit(self, entries: Sequence[Entry], record: Callable[[], None], removes: Sequence[str] = ()) -> None:
        """Keep documents with their chunks, in place of those with the same id, and remove others, all or nothing."""
        adds = [entry.document.id for entry in entries]
        leaving = [*self.holds(adds), *removes]
        change = Change(tuple(adds), tuple(leaving), self._tally(leaving))
        number = journal.begin(self._ledger, change, time.time())
        self._delete(leaving)
        if entries:
            self._tables.put("documents", [_document_row(entry) for entry in entries])
            self._tables.put("chunks", [row for entry in entries for row in _chunk_rows(entry)])
        with self._ledger.transaction():
            self._forget_rows(change)
            for entry in entries:
                self._keep_rows(entry)
            frequencies.apply(self._ledger, Tally().count(t for entry in entries for t in entry.tokens), 1)
            record()
            journal.end(self._ledger, number)

    def recover(self) -> int:
        """Undo what killed writers left half done and have its files read again; gives how many changes that were."""
        dead = journal.unfinished(self._ledger)
        for number, change in dead.items():
            touched = [*change.adds, *change.removes]
            self._delete(touched)
            with self._ledger.transaction():
                Catalogue(self._ledger).read_again(touched)
                self._forget_rows(change)
                journal.end(self._ledger, number)
        return len(dead)

    def is_settled(self, document: str) -> bool:
        """Tell whether a document is kept and need not be split into chunks anew."""
        sql = "SELECT 1 FROM documents WHERE id = ? AND NOT again"
        return self._ledger.rows.execute(sql, (document,)).fetchone() is not None

    def orphans(self) -> list[str]:
        """Give the documents that stand in no file any more."""
        sql = "SELECT id FROM documents WHERE id NOT IN (SELECT document FROM places) ORDER BY id"
        return [row[0] for row in self._ledger.rows.execute(sql)]

    def set_collections(self, documents: dict[str, tuple[str, ...]]) -> None:
        """Say which collections documents belong to now."""
        by_collections: dict[tuple[str, ...], list[str]] = {}
        for document, collections in documents.items():
            by_collections.setdefault(collections, []).append(document)
        for collections, members in by_collections.items():
            self._tables.set_collections(members, collections, self._ledger.get("vectors") or "vectors")
        if documents:
            with self._ledger.transaction():
                self._ledger.raise_generation()

    def compact(self) -> None:
        """Tidy the tables after many small changes."""
        self._tables.compact()

    @cached_property
    def _tables(self) -> "Tables":
        return self._open_tables()  # only for a change: looking for one must not wait for LanceDB

    def _tally(self, documents: Sequence[str]) -> Tally:
        rows = self._tables.select("chunks", among("document", documents), ["words"]) if documents else []
        return Tally().count(row["words"] for row in rows)

    def _delete(self, documents: Sequence[str]) -> None:
        if documents:
            self._tables.delete("documents", among("id", documents))
            for name in ("chunks", self._ledger.get("vectors") or "vectors"):
                self._tables.delete(name, among("document", documents))

    def _keep_rows(self, entry: Entry) -> None:
        document, date = entry.document, _iso(entry.document.date)
        row = (document.id, date, entry.thread, len(entry.chunks))
        self._ledger.rows.execute("INSERT INTO documents (id, date, thread, chunks) VALUES (?, ?, ?, ?)", row)
        waiting = [(chunk.id, document.id, date) for chunk in entry.chunks]
        self._ledger.rows.executemany("INSERT OR REPLACE INTO pending VALUES (?, ?, ?)", waiting)

    def _forget_rows(self, change: Change) -> None:
        """Remove the rows of documents that leave; what merely quoted those that leave for good is to be read again."""
        leaving = [(d,) for d in change.removes]
        for table, column in (("documents", "id"), ("pending", "document")):
            self._ledger.rows.executemany(f"DELETE FROM {table} WHERE {column} = ?", leaving)
        bereft = passages.leave(self._ledger, set(change.removes) - set(change.adds))
        self._ledger.rows.executemany("UPDATE documents SET again = 1 WHERE id = ?", [(d,) for d in bereft])
        Catalogue(self._ledger).read_again(bereft)
        frequencies.apply(self._ledger, change.tally, -1)


def _iso(date: datetime | None) -> str | None:
    return date.isoformat() if date else None


def _about(entry: Entry) -> "Row":
    document = entry.document
    return {"date": document.date, "recipients": "\n".join(document.recipients), "collections": list(entry.collections)}


def _document_row(entry: Entry) -> "Row":
    d = entry.document
    kept = {
        "id": d.id,
        "kind": d.kind,
        "title": d.title,
        "message_id": d.message_id,
        "text": d.text,
        "sender": d.sender,
    }
    return kept | _about(entry)


def _chunk_rows(entry: Entry) -> "list[Row]":
    about = _about(entry) | {"title": entry.document.title}
    return [
        {
            "id": chunk.id, "document": chunk.document, "position": chunk.position, "header": chunk.header,
            "text": chunk.text, "words": tokens, "first": chunk.first, "last": chunk.last,
            "sender": _sender(entry.document, chunk), **about,
        }
        for chunk, tokens in zip(entry.chunks, entry.tokens, strict=True)
    ]  # fmt: skip


def _sender(document: Document, chunk: Chunk) -> str:
    """Give who speaks in a chunk: a mail's sender, or those attendees of a meeting whose turns are in it."""
    if document.kind == "mail":
        return document.sender
    return "\n".join(name for name in document.recipients if f"{name}:" in chunk.text)
