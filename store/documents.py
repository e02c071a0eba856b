"""The knowledge bank: documents, chunks and vectors, changed so that a kill at any moment loses and doubles nothing.

Writes go LanceDB first, ledger last, between two rows of the journal; what is not in the ledger was never acknowledged.
Knows no files: the catalogue's rows are written by the caller's `record`, in the transaction that acknowledges.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from store import catalog
from store.catalog import Catalog
from store.database import UNTIDY, Ledger
from store.filters import among, holding
from store.types import Document, IndexedDocument, chunk_rows, document_row

if TYPE_CHECKING:
    from store.tables import Tables


_BATCH = 500  # variables in one statement, under SQLite's limit


@dataclass(slots=True)
class FrequencyDelta:
    """A change to the frequencies; grows as chunks are counted in."""

    chunks: int = 0
    words: int = 0
    frequencies: Counter[str] = field(default_factory=Counter)

    def count(self, tokens: Iterable[str]) -> "FrequencyDelta":
        """Count chunks in, each given as its words joined by spaces."""
        for words in tokens:
            split = words.split(" ") if words else []
            self.chunks, self.words = self.chunks + 1, self.words + len(split)
            self.frequencies.update(set(split))
        return self


def apply(ledger: Ledger, tally: FrequencyDelta, sign: int) -> None:
    """Add (sign 1) or take away (sign -1) a tally, inside the caller's transaction."""
    sql = "INSERT INTO frequencies VALUES (?1, ?2) ON CONFLICT (word) DO UPDATE SET chunks = chunks + ?2"
    ledger.rows.executemany(sql, [(word, sign * count) for word, count in sorted(tally.frequencies.items())])
    if sign < 0:
        ledger.rows.executemany(
            "DELETE FROM frequencies WHERE word = ? AND chunks <= 0", [(w,) for w in tally.frequencies]
        )
    ledger.add("chunks", sign * tally.chunks)
    ledger.add("words", sign * tally.words)


def of(ledger: Ledger, words: Sequence[str]) -> Mapping[str, int]:
    """Return the number of chunks that hold each word; unknown words are left out."""
    found: dict[str, int] = {}
    for start in range(0, len(words), _BATCH):
        some = words[start : start + _BATCH]
        marks = ", ".join("?" * len(some))
        found |= dict(ledger.rows.execute(f"SELECT word, chunks FROM frequencies WHERE word IN ({marks})", some))
    return found


@dataclass(frozen=True, slots=True)
class Change:
    """Documents about to be added and removed, and the word counts that go with the removed ones."""

    adds: tuple[str, ...]
    removes: tuple[str, ...]
    tally: FrequencyDelta


def begin(ledger: Ledger, change: Change, now: float) -> int:
    """Write down what is about to be done, and raise the generation: answers from before must look again."""
    tally = change.tally
    payload = json.dumps([change.adds, change.removes, tally.chunks, tally.words, tally.frequencies])
    with ledger.transaction():
        ledger.raise_generation()
        row = ledger.rows.execute("INSERT INTO journal (begun, payload) VALUES (?, ?)", (now, payload))
    return int(row.lastrowid or 0)


def end(ledger: Ledger, number: int) -> None:
    """Acknowledge, inside the transaction that holds the rest: answers made in between must look again too."""
    ledger.rows.execute("DELETE FROM journal WHERE id = ?", (number,))
    ledger.raise_generation()


def unfinished(ledger: Ledger) -> dict[int, Change]:
    """Return the changes of writers that died; only a holder of the writer lock may ask."""
    found = {}
    for number, payload in ledger.rows.execute("SELECT id, payload FROM journal ORDER BY id"):
        adds, removes, chunks, words, frequencies = json.loads(payload)
        tally = FrequencyDelta(chunks, words)
        tally.frequencies.update(frequencies)
        found[int(number)] = Change(tuple(adds), tuple(removes), tally)
    return found


def owners(ledger: Ledger, digests: Iterable[bytes]) -> Mapping[bytes, str]:
    """Return the document that each passage is searched in, for those that are known."""
    sql = "SELECT document FROM passages WHERE digest = ?"
    found = ((digest, ledger.rows.execute(sql, (digest,)).fetchone()) for digest in set(digests))
    return {digest: row[0] for digest, row in found if row}


def own(ledger: Ledger, document: str, digests: Iterable[bytes]) -> None:
    """Say that passages are searched in this document, unless another one has them already."""
    ledger.rows.executemany("INSERT OR IGNORE INTO passages VALUES (?, ?)", [(d, document) for d in digests])


def quote(ledger: Ledger, document: str, digests: Iterable[bytes]) -> None:
    """Say that a document quotes these passages, and no others, which are searched elsewhere."""
    ledger.rows.execute("DELETE FROM quoting WHERE document = ?", (document,))
    ledger.rows.executemany("INSERT OR IGNORE INTO quoting VALUES (?, ?)", [(d, document) for d in digests])


def leave(ledger: Ledger, documents: Iterable[str]) -> set[str]:
    """Let go of the passages of documents that go; returns the documents that quote them, and now hold them alone."""
    orphaned: set[str] = set()
    sql = "SELECT quoting.document FROM quoting JOIN passages USING (digest) WHERE passages.document = ?"
    for document in sorted(documents):
        orphaned.update(row[0] for row in ledger.rows.execute(sql, (document,)))
        for table in ("passages", "quoting"):
            ledger.rows.execute(f"DELETE FROM {table} WHERE document = ?", (document,))
    return orphaned


def thread_of(ledger: Ledger, document: Document) -> str:
    """Return the thread of a document and remember what leads to it, inside the caller's transaction.

    Documents should come oldest first: a subject leads to the thread that last used it. A message that ties two
    threads together makes them one.
    """
    links = [f"id:{link}" for link in document.links]
    known = list(dict.fromkeys(filter(None, (_lookup(ledger, key) for key in links))))
    answered = len(document.links) > 1 or not document.topic
    topic = f"topic:{document.topic}"
    if not known and not answered and document.is_reply and (earlier := _lookup(ledger, topic)):
        known = [earlier]
    thread = known[0] if known else document.id
    for other in known[1:]:
        _merge(ledger, other, thread)
    keys = [*links, *([topic] if document.topic and document.kind == "mail" else [])]
    ledger.rows.executemany("INSERT OR REPLACE INTO threads VALUES (?, ?)", [(key, thread) for key in keys])
    return thread


def members(ledger: Ledger, thread: str) -> list[str]:
    """Return the documents of a thread, oldest first."""
    sql = "SELECT id FROM documents WHERE thread = ? ORDER BY date, id"
    return [row[0] for row in ledger.rows.execute(sql, (thread,))]


def _lookup(ledger: Ledger, key: str) -> str | None:
    row = ledger.rows.execute("SELECT thread FROM threads WHERE key = ?", (key,)).fetchone()
    return str(row[0]) if row else None


def _merge(ledger: Ledger, old: str, new: str) -> None:
    for table in ("threads", "documents"):
        ledger.rows.execute(f"UPDATE {table} SET thread = ? WHERE thread = ?", (new, old))


_AT_ONCE = 5000  # documents in one condition


class Knowledge:
    """Changes to the bank; every method but `holds` needs the writer lock."""

    def __init__(self, ledger: Ledger, open_tables: "Callable[[], Tables]") -> None:
        self._ledger, self._open_tables = ledger, open_tables

    def holds(self, documents: Iterable[str]) -> set[str]:
        """Return which of these documents are kept."""
        sql = "SELECT id FROM documents WHERE id = ?"
        return {d for d in documents if self._ledger.rows.execute(sql, (d,)).fetchone()}

    def commit(
        self, entries: Sequence[IndexedDocument], record: Callable[[], None], removes: Sequence[str] = ()
    ) -> None:
        """Keep documents with their chunks, in place of those with the same id, and remove others, all or nothing."""
        if not entries and not removes:
            with self._ledger.transaction():
                record()
            return
        adds = [entry.document.id for entry in entries]
        leaving = [*self.holds(adds), *removes]
        change = Change(tuple(adds), tuple(leaving), self._tally(leaving))
        number = begin(self._ledger, change, time.time())
        self._delete(leaving)
        if entries:
            self._tables.put("documents", [document_row(entry) for entry in entries])
            self._tables.put("chunks", [row for entry in entries for row in chunk_rows(entry)])
        with self._ledger.transaction():
            self._forget_rows(change, gone=set(leaving) - set(adds))
            for entry in entries:
                self._keep_rows(entry)
            apply(self._ledger, FrequencyDelta().count(t for entry in entries for t in entry.tokens), 1)
            self._ledger.add(UNTIDY, len(adds) + len(leaving))
            record()
            end(self._ledger, number)

    def recover(self) -> int:
        """Undo what killed writers left half done, have its files read again; returns how many changes that were."""
        dead = unfinished(self._ledger)
        for number, change in dead.items():
            touched = [*change.adds, *change.removes]
            self._delete(touched)
            with self._ledger.transaction():
                Catalog(self._ledger).read_again(touched)
                self._forget_rows(change, gone=set(touched))
                self._ledger.add(UNTIDY, len(touched))
                end(self._ledger, number)
        self.settle()
        return len(dead)

    def is_settled(self, document: str) -> bool:
        """Return whether a document is kept and need not be split into chunks anew."""
        sql = "SELECT 1 FROM documents WHERE id = ? AND NOT again"
        return self._ledger.rows.execute(sql, (document,)).fetchone() is not None

    def orphans(self) -> list[str]:
        """Return the documents that stand in no file any more."""
        sql = "SELECT id FROM documents WHERE id NOT IN (SELECT document FROM places) ORDER BY id"
        return [row[0] for row in self._ledger.rows.execute(sql)]

    def settle(self) -> None:
        """Tell the tables the collections of documents whose places have changed."""
        marked = [one for one in catalog.marked(self._ledger) if one.now]  # the rest is about to go
        changed: dict[tuple[str, ...], list[str]] = {}
        for one in marked:
            if one.now != one.told:
                changed.setdefault(one.now, []).append(one.document)
        if changed:
            with self._ledger.transaction():
                self._ledger.raise_generation()
                catalog.reject(self._ledger, chain(*changed.values()))
                self._ledger.add(UNTIDY, sum(map(len, changed.values())))
        for collections, members in changed.items():
            for start in range(0, len(members), _AT_ONCE):
                some = members[start : start + _AT_ONCE]
                self._tables.set_collections(some, collections, self._ledger.get("vectors") or "vectors")
        if marked:
            with self._ledger.transaction():
                catalog.settle(self._ledger, (one.document for one in marked))
                self._ledger.raise_generation()

    @property
    def untidy(self) -> int:
        """Count the rows written since the tables were last tidied."""
        return self._ledger.count(UNTIDY)

    def compact(self) -> None:
        """Tidy the tables after many small changes; among many chunks, words may find others from then on."""
        stirs = self.untidy > 0
        if stirs:
            self._ledger.raise_generation()  # for a kill in between
        self._tables.compact()
        with self._ledger.transaction():
            self._ledger.set(UNTIDY, "0")
            if stirs:
                self._ledger.raise_generation()  # for who has looked in between

    @cached_property
    def _tables(self) -> "Tables":
        return self._open_tables()  # only for a change: looking for one must not wait for LanceDB

    def _tally(self, documents: Sequence[str]) -> FrequencyDelta:
        rows = self._tables.select("chunks", among("document", documents), ["words"]) if documents else []
        return FrequencyDelta().count(row["words"] for row in rows)

    def _delete(self, documents: Sequence[str]) -> None:
        if documents:
            self._tables.delete("documents", among("id", documents))
            for name in ("chunks", self._ledger.get("vectors") or "vectors"):
                self._tables.delete(name, among("document", documents))
            self._tables.delete("abstracts", holding("documents", documents))

    def _keep_rows(self, entry: IndexedDocument) -> None:
        document, date = entry.document, entry.date
        row = (document.id, date, thread_of(self._ledger, document), len(entry.chunks))
        self._ledger.rows.execute("INSERT INTO documents (id, date, thread, chunks) VALUES (?, ?, ?, ?)", row)
        waiting = [(chunk.id, document.id, date) for chunk in entry.chunks]
        self._ledger.rows.executemany("INSERT OR REPLACE INTO pending VALUES (?, ?, ?)", waiting)
        own(self._ledger, document.id, entry.owned)
        quote(self._ledger, document.id, entry.quoted)

    def _forget_rows(self, change: Change, gone: set[str]) -> None:
        """Remove the rows of documents that leave; what merely quoted those that are `gone` is to be read again."""
        leaving = [(d,) for d in change.removes]
        for table, column in (("documents", "id"), ("pending", "document")):
            self._ledger.rows.executemany(f"DELETE FROM {table} WHERE {column} = ?", leaving)
        catalog.settle(self._ledger, change.removes)
        bereft = leave(self._ledger, gone)
        self._ledger.rows.executemany("UPDATE documents SET again = 1 WHERE id = ?", [(d,) for d in bereft])
        Catalog(self._ledger).read_again(bereft)
        apply(self._ledger, change.tally, -1)
