"""The knowledge bank: documents, chunks and vectors, changed so that a kill at any moment loses and doubles nothing.

Writes go LanceDB first, ledger last, between two rows of the journal; what is not in the ledger was never acknowledged.
Knows no files: the catalogue's rows are written by the caller's `record`, in the transaction that acknowledges.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from store import frequencies, journal, moved, passages
from store.catalogue import Catalogue
from store.entry import Entry, chunk_rows, document_row
from store.filters import among, holding
from store.frequencies import Tally
from store.journal import Change
from store.ledger import UNTIDY, Ledger
from store.threads import thread_of

if TYPE_CHECKING:
    from store.tables import Tables

_AT_ONCE = 5000  # documents in one condition


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
        if not entries and not removes:
            with self._ledger.transaction():
                record()
            return
        adds = [entry.document.id for entry in entries]
        leaving = [*self.holds(adds), *removes]
        change = Change(tuple(adds), tuple(leaving), self._tally(leaving))
        number = journal.begin(self._ledger, change, time.time())
        self._delete(leaving)
        if entries:
            self._tables.put("documents", [document_row(entry) for entry in entries])
            self._tables.put("chunks", [row for entry in entries for row in chunk_rows(entry)])
        with self._ledger.transaction():
            self._forget_rows(change, gone=set(leaving) - set(adds))
            for entry in entries:
                self._keep_rows(entry)
            frequencies.apply(self._ledger, Tally().count(t for entry in entries for t in entry.tokens), 1)
            self._ledger.add(UNTIDY, len(adds) + len(leaving))
            record()
            journal.end(self._ledger, number)

    def recover(self) -> int:
        """Undo what killed writers left half done, have its files read again; gives how many changes that were."""
        dead = journal.unfinished(self._ledger)
        for number, change in dead.items():
            touched = [*change.adds, *change.removes]
            self._delete(touched)
            with self._ledger.transaction():
                Catalogue(self._ledger).read_again(touched)
                self._forget_rows(change, gone=set(touched))
                self._ledger.add(UNTIDY, len(touched))
                journal.end(self._ledger, number)
        self.settle()
        return len(dead)

    def is_settled(self, document: str) -> bool:
        """Tell whether a document is kept and need not be split into chunks anew."""
        sql = "SELECT 1 FROM documents WHERE id = ? AND NOT again"
        return self._ledger.rows.execute(sql, (document,)).fetchone() is not None

    def orphans(self) -> list[str]:
        """Give the documents that stand in no file any more."""
        sql = "SELECT id FROM documents WHERE id NOT IN (SELECT document FROM places) ORDER BY id"
        return [row[0] for row in self._ledger.rows.execute(sql)]

    def settle(self) -> None:
        """Tell the tables the collections of documents whose places have changed."""
        marked = [one for one in moved.marked(self._ledger) if one.now]  # the rest is about to go
        changed: dict[tuple[str, ...], list[str]] = {}
        for one in marked:
            if one.now != one.told:
                changed.setdefault(one.now, []).append(one.document)
        if changed:
            with self._ledger.transaction():
                self._ledger.raise_generation()
                moved.doubt(self._ledger, chain(*changed.values()))
                self._ledger.add(UNTIDY, sum(map(len, changed.values())))
        for collections, members in changed.items():
            for start in range(0, len(members), _AT_ONCE):
                some = members[start : start + _AT_ONCE]
                self._tables.set_collections(some, collections, self._ledger.get("vectors") or "vectors")
        if marked:
            with self._ledger.transaction():
                moved.settle(self._ledger, (one.document for one in marked))
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

    def _tally(self, documents: Sequence[str]) -> Tally:
        rows = self._tables.select("chunks", among("document", documents), ["words"]) if documents else []
        return Tally().count(row["words"] for row in rows)

    def _delete(self, documents: Sequence[str]) -> None:
        if documents:
            self._tables.delete("documents", among("id", documents))
            for name in ("chunks", self._ledger.get("vectors") or "vectors"):
                self._tables.delete(name, among("document", documents))
            self._tables.delete("abstracts", holding("documents", documents))

    def _keep_rows(self, entry: Entry) -> None:
        document, date = entry.document, entry.date
        row = (document.id, date, thread_of(self._ledger, document), len(entry.chunks))
        self._ledger.rows.execute("INSERT INTO documents (id, date, thread, chunks) VALUES (?, ?, ?, ?)", row)
        waiting = [(chunk.id, document.id, date) for chunk in entry.chunks]
        self._ledger.rows.executemany("INSERT OR REPLACE INTO pending VALUES (?, ?, ?)", waiting)
        passages.own(self._ledger, document.id, entry.owned)
        passages.quote(self._ledger, document.id, entry.quoted)

    def _forget_rows(self, change: Change, gone: set[str]) -> None:
        """Remove the rows of documents that leave; what merely quoted those that are `gone` is to be read again."""
        leaving = [(d,) for d in change.removes]
        for table, column in (("documents", "id"), ("pending", "document")):
            self._ledger.rows.executemany(f"DELETE FROM {table} WHERE {column} = ?", leaving)
        moved.settle(self._ledger, change.removes)
        bereft = passages.leave(self._ledger, gone)
        self._ledger.rows.executemany("UPDATE documents SET again = 1 WHERE id = ?", [(d,) for d in bereft])
        Catalogue(self._ledger).read_again(bereft)
        frequencies.apply(self._ledger, change.tally, -1)
