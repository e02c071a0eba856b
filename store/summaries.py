"""Abstracts: summaries of batches of chunks, removed when one of their chunks is. Knows columns, generates no text.

They are derived: a chunk that lost its abstract needs another one. Each writing method needs the writer lock.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING

from store.database import UNCOMPACTED, Ledger
from store.filters import among

if TYPE_CHECKING:
    from store.tables import Row, Tables


_NAME = "abstracts"
ABSTRACTS_DONE = "abstracts_done"  # the generation in which no chunk lacked an abstract
_COLUMNS = ("id", "text", "chunks", "date", "made", "writer", "asked", "drawn")


@dataclass(frozen=True, slots=True)
class Abstract:
    """A summary of some chunks; `date` is the newest one of theirs.

    `asked` counts the questions that retrieved one of them, `drawn` the times that questions were predicted from it.
    """

    text: str
    chunks: tuple[str, ...]
    date: datetime | None  # aware
    made: float  # seconds since the epoch
    writer: str
    asked: int = 0
    drawn: int = 0

    @property
    def id(self) -> str:
        """Return the id, the same for abstracts of the same chunks."""
        return blake2b("\0".join(self.chunks).encode(), digest_size=16).hexdigest()

    @property
    def age(self) -> tuple[float, float, str]:
        """Return the sort key, oldest first: date, time of creation, id."""
        return (self.date.timestamp() if self.date else 0.0, self.made, self.id)


def is_up_to_date(ledger: Ledger) -> bool:
    """Return whether no chunk lacks an abstract, without opening the tables."""
    return ledger.get(ABSTRACTS_DONE) == str(ledger.generation)


class Abstracts:
    """The abstracts of one home."""

    def __init__(self, ledger: Ledger, tables: "Tables") -> None:
        self._ledger, self._tables = ledger, tables

    def unsummarized(self, limit: int) -> list[str]:
        """Return up to `limit` chunks without an abstract: of the newest documents first, in their order."""
        generation = self._ledger.generation
        if is_up_to_date(self._ledger):
            return []
        summarized = set(chain.from_iterable(row["chunks"] for row in self._tables.select(_NAME, "true", ["chunks"])))
        rows = self._tables.select("chunks", "true", ["id", "document", "position", "date"])
        left = sorted((row for row in rows if row["id"] not in summarized), key=_newest_first)
        if not left:
            self._ledger.set(ABSTRACTS_DONE, str(generation))
        return [row["id"] for row in left[:limit]]

    def put(self, abstracts: Sequence[Abstract]) -> int:
        """Store abstracts except those of chunks removed meanwhile; returns the number stored."""
        ids = list(dict.fromkeys(chain.from_iterable(one.chunks for one in abstracts)))
        found = self._tables.select("chunks", among("id", ids), ["id", "document"]) if ids else []
        documents = {row["id"]: row["document"] for row in found}
        rows = [_row(one, documents) for one in abstracts if one.chunks and documents.keys() >= set(one.chunks)]
        if rows:
            self._tables.put(_NAME, list({row["id"]: row for row in rows}.values()))
            with self._ledger.transaction():
                self._ledger.add(UNCOMPACTED, len(rows))
        return len(rows)

    def all(self) -> list[Abstract]:
        """Return every abstract, newest first."""
        found = [_abstract(row) for row in self._tables.select(_NAME, "true", _COLUMNS)]
        return sorted(found, key=lambda one: one.age, reverse=True)

    def recount(self, retrieved: Mapping[str, int]) -> None:
        """Update, from the questions that retrieved each chunk, how often each abstract was asked about."""
        counted = [(one, sum(retrieved.get(chunk, 0) for chunk in one.chunks)) for one in self.all()]
        self.put([replace(one, asked=asked) for one, asked in counted if asked != one.asked])

    def count_drawn(self, ids: Iterable[str]) -> None:
        """Count that questions were predicted from these abstracts."""
        drawn = set(ids)
        self.put([replace(one, drawn=one.drawn + 1) for one in self.all() if one.id in drawn])

    def orphans(self) -> list[str]:
        """Return the abstracts of a chunk that is not stored: none, unless the tables were damaged."""
        stored = {row["id"] for row in self._tables.select("chunks", "true", ["id"])}
        rows = self._tables.select(_NAME, "true", ["id", "chunks"])
        return sorted(row["id"] for row in rows if not stored.issuperset(row["chunks"]))

    def drop(self, ids: Sequence[str]) -> None:
        """Remove abstracts."""
        if ids:
            self._tables.delete(_NAME, among("id", ids))
            self._ledger.set(ABSTRACTS_DONE, "")


def _newest_first(row: "Row") -> tuple[float, str, int]:
    return (-row["date"].timestamp() if row["date"] else 0.0, row["document"], row["position"])


def _row(one: Abstract, documents: Mapping[str, str]) -> "Row":
    return {
        "id": one.id, "text": one.text, "chunks": list(one.chunks), "date": one.date, "made": one.made,
        "documents": sorted({documents[chunk] for chunk in one.chunks}), "writer": one.writer,
        "asked": one.asked, "drawn": one.drawn,
    }  # fmt: skip


def _abstract(row: "Row") -> Abstract:
    return Abstract(**{name: row[name] for name in _COLUMNS if name != "id"} | {"chunks": tuple(row["chunks"])})
