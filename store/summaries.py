"""Abstracts: what sums up a batch of chunks, and goes when one of them goes. Knows columns; writes no sentence.

They are derived: a chunk that lost its abstract wants one again. Each writing method needs the writer lock.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING

from store.database import UNTIDY, Ledger
from store.filters import among

if TYPE_CHECKING:
    from store.tables import Row, Tables


_NAME = "abstracts"
_DONE = "abstracts_done"  # the generation in which no chunk wanted an abstract
_COLUMNS = ("id", "text", "chunks", "date", "made", "writer", "asked", "drawn")


@dataclass(frozen=True, slots=True)
class Abstract:
    """What sums up some chunks; `date` is the newest one of theirs.

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
        """Return the same name to abstracts of the same chunks."""
        return blake2b("\0".join(self.chunks).encode(), digest_size=16).hexdigest()

    @property
    def age(self) -> tuple[float, float, str]:
        """Return what abstracts are put in order by, the oldest first: date, when it was made, name."""
        return (self.date.timestamp() if self.date else 0.0, self.made, self.id)


def is_up_to_date(ledger: Ledger) -> bool:
    """Return whether no chunk wants an abstract, without a look at the tables."""
    return ledger.get(_DONE) == str(ledger.generation)


class Abstracts:
    """The abstracts of one home."""

    def __init__(self, ledger: Ledger, tables: "Tables") -> None:
        self._ledger, self._tables = ledger, tables

    def wanted(self, limit: int) -> list[str]:
        """Give up to `limit` chunks that no abstract sums up: of the newest documents first, in their order."""
        generation = self._ledger.generation
        if is_up_to_date(self._ledger):
            return []
        held = set(chain.from_iterable(row["chunks"] for row in self._tables.select(_NAME, "true", ["chunks"])))
        rows = self._tables.select("chunks", "true", ["id", "document", "position", "date"])
        left = sorted((row for row in rows if row["id"] not in held), key=_newest_first)
        if not left:
            self._ledger.set(_DONE, str(generation))
        return [row["id"] for row in left[:limit]]

    def put(self, abstracts: Sequence[Abstract]) -> int:
        """Keep abstracts, but those of chunks that went meanwhile; returns the number kept."""
        ids = list(dict.fromkeys(chain.from_iterable(one.chunks for one in abstracts)))
        found = self._tables.select("chunks", among("id", ids), ["id", "document"]) if ids else []
        documents = {row["id"]: row["document"] for row in found}
        rows = [_row(one, documents) for one in abstracts if one.chunks and documents.keys() >= set(one.chunks)]
        if rows:
            self._tables.put(_NAME, list({row["id"]: row for row in rows}.values()))
            with self._ledger.transaction():
                self._ledger.add(UNTIDY, len(rows))
        return len(rows)

    def all(self) -> list[Abstract]:
        """Return every abstract, newest first."""
        found = [_abstract(row) for row in self._tables.select(_NAME, "true", _COLUMNS)]
        return sorted(found, key=lambda one: one.age, reverse=True)

    def recount(self, retrieved: Mapping[str, int]) -> None:
        """Say how many questions retrieved each chunk, so that each abstract knows how much it was asked about."""
        counted = [(one, sum(retrieved.get(chunk, 0) for chunk in one.chunks)) for one in self.all()]
        self.put([replace(one, asked=asked) for one, asked in counted if asked != one.asked])

    def draw(self, ids: Iterable[str]) -> None:
        """Count that questions were predicted from these abstracts."""
        drawn = set(ids)
        self.put([replace(one, drawn=one.drawn + 1) for one in self.all() if one.id in drawn])

    def strays(self) -> list[str]:
        """Return the abstracts that rest on a chunk that is not there: none, unless the tables were damaged."""
        there = {row["id"] for row in self._tables.select("chunks", "true", ["id"])}
        rows = self._tables.select(_NAME, "true", ["id", "chunks"])
        return sorted(row["id"] for row in rows if not there.issuperset(row["chunks"]))

    def drop(self, ids: Sequence[str]) -> None:
        """Remove abstracts."""
        if ids:
            self._tables.delete(_NAME, among("id", ids))
            self._ledger.set(_DONE, "")


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
