"""The vectors of chunks: which are missing, newest first, and the table of the embedder in use.

Each embedder has its own table, so that a change of embedder creates a table and changes no column.
"""

from collections.abc import Sequence
from itertools import islice
from math import inf
from typing import TYPE_CHECKING

from store.database import UNCOMPACTED, Ledger
from store.types import among, table_of

if TYPE_CHECKING:
    from store.tables import Tables
    from store.types import Row, Vectors


_EMBEDDED = """INSERT OR REPLACE INTO embedded_documents
    SELECT ?, coalesce(max(CAST(value AS INTEGER)), 0) FROM meta WHERE name = 'generation'"""


def count_missing(ledger: Ledger) -> int:
    """Count the chunks without a vector."""
    return ledger.count("chunks") - ledger.count("embedded")


def note_counts(ledger: Ledger, tables: "Tables") -> None:
    """Note how many chunks and vectors the tables have, inside the caller's transaction."""
    ledger.set("chunks", str(tables.count("chunks")))
    ledger.set("embedded", str(tables.count(ledger.get("vectors") or "vectors")))


class VectorStore:
    """Filled by one process at a time (the embedder lock); each `put` needs the writer lock."""

    def __init__(self, ledger: Ledger, tables: "Tables") -> None:
        self._ledger, self._tables = ledger, tables
        self._queue, self._generation = dict[str, None](), -1  # ids of chunks without a vector, and when that was so

    def use(self, fingerprint: str) -> bool:
        """Make this embedder the one in use; where another was, mark all vectors as missing and return True."""
        name = table_of(fingerprint)
        before = self._ledger.get("vectors")
        if before == name:
            return False
        self._tables.delete(name, "true")  # from an earlier time, of other chunks
        with self._ledger.transaction():
            self._ledger.set("vectors", name)
            note_counts(self._ledger, self._tables)
            self._ledger.raise_generation()
        return before is not None

    @property
    def _name(self) -> str:
        return self._ledger.get("vectors") or "vectors"

    @property
    def former(self) -> list[str]:
        """Name the tables of embedders that were in use before."""
        return [n for n in self._tables.names() if n.startswith("vectors") and n != self._ledger.get("vectors")]

    def drop_former(self) -> None:
        """Remove the tables of former embedders; breaks readers, so be alone."""
        for name in self.former:
            self._tables.drop(name)

    @property
    def missing(self) -> int:
        """Count the chunks that have no vector."""
        return count_missing(self._ledger)

    def wanted(self, limit: int) -> "list[Row]":
        """Return up to `limit` chunks without a vector, newest first, as id, header and text."""
        if self._generation != (now := self._ledger.generation):
            there = {row["id"] for row in self._tables.each(self._name, ["id"])}
            missing = (row for row in self._tables.each("chunks", ["id", "date"]) if row["id"] not in there)
            dated = sorted((-row["date"].timestamp() if row["date"] else inf, row["id"]) for row in missing)
            self._queue, self._generation = dict.fromkeys(one for _, one in dated), now
        ids = list(islice(self._queue, limit))
        return self._tables.select("chunks", among("id", ids), ["id", "header", "text"]) if ids else []

    def put(self, ids: Sequence[str], vectors: "Vectors") -> None:
        """Store unit vectors, one row an id; ids whose chunk was removed meanwhile are left out."""
        columns = ["id", "document", "date", "local", "sender", "recipients", "collections"]
        there = {row["id"]: row for row in self._tables.select("chunks", among("id", ids), columns)}
        rows = [{**there[i], "vector": v} for i, v in zip(ids, vectors, strict=True) if i in there]
        changed = sorted({row["document"] for row in rows})
        is_next = self._ledger.generation == self._generation
        with self._tables.change() as acknowledge:
            if rows:
                self._tables.put(self._name, rows, width=vectors.shape[1])
            with acknowledge():
                note_counts(self._ledger, self._tables)
                self._ledger.rows.executemany(_EMBEDDED, [(one,) for one in changed])
                self._ledger.add(UNCOMPACTED, len(rows))
                self._ledger.raise_generation()
        if is_next:
            self._generation += 1
            for one in ids:
                self._queue.pop(one, None)
