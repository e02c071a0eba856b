"""Keyword and vector search over the index, for retrieval. Knows no ranking."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from store import documents, vectors
from store.database import Ledger
from store.errors import DamagedTable
from store.filters import among, documents_within, titled, within
from store.hits import Hit, Totals, Vectors
from store.tables import Row, Tables
from store.types import Chunk, Scope, in_own_zone

_COLUMNS = (
    "id", "document", "position", "header", "text", "words", "first", "last",
    "role", "written", "author", "origin", "claimed", "title", "date", "local", "sender", "recipients",
)  # fmt: skip


class Reader:
    """Reads the index; every method sees what other processes have committed."""

    def __init__(self, ledger: Ledger, tables: Tables) -> None:
        self._ledger, self._tables = ledger, tables

    def by_words(self, words: Sequence[str], scope: Scope, limit: int) -> list[Hit]:
        """Find the chunks within the scope that contain any of the words, best full-text score first."""
        if not self._tables.has("chunks") and self._ledger.count("chunks"):
            raise DamagedTable("chunks")
        return self._hits(self._tables.by_words(words, within(scope), _COLUMNS, limit))

    def by_vector(self, vector: Vectors, scope: Scope, limit: int) -> list[Hit]:
        """Find the embedded chunks within the scope nearest to a unit vector (one dimension), nearest first."""
        near = self._tables.by_vector(self._vectors, vector, within(scope), limit)
        rows = {row["id"]: row for row in self._tables.select("chunks", among("id", near), _COLUMNS)} if near else {}
        return [_hit(rows[name], near[name]) for name in near if name in rows]

    def frequencies(self, words: Sequence[str]) -> Mapping[str, int]:
        """Count the chunks of the whole index that contain each word; unknown words are left out."""
        return documents.frequencies_of(self._ledger, list(dict.fromkeys(words)))

    def totals(self) -> Totals:
        """Count the chunks of the whole index."""
        chunks, words = self._ledger.count("chunks"), self._ledger.count("words")
        return Totals(chunks, words / chunks if chunks else 0.0, chunks - vectors.count_missing(self._ledger))

    def chunks_of(self, documents: Sequence[str], scope: Scope) -> list[Hit]:
        """Return all chunks of these documents within the scope, in no order and without vectors."""
        return self._where([among("document", documents), within(scope)])

    def chunks(self, ids: Sequence[str]) -> list[Hit]:
        """Return those of the chunks that are stored, in no order and without vectors."""
        return self._where([among("id", ids)])

    def documents(self, ids: Sequence[str], *, texts: bool = True) -> dict[str, Row]:
        """Return the rows of documents, by id."""
        about = ("id", "kind", "title", "sender", "recipients", "date", "local", "claimed", "message_id")
        columns = (*about, "text") if texts else about
        rows = self._tables.select("documents", among("id", ids), columns)
        return {row["id"]: row | {"date": in_own_zone(row["date"], row["local"])} for row in rows}

    def by_date(self, scope: Scope, title: Sequence[str], limit: int | None, *, oldest: bool) -> tuple[list[str], int]:
        """Return the ids of up to `limit` documents within the scope, by date, and how many there are.

        Their titles have all the words; undated ones come last.
        """
        conditions = [one for one in (documents_within(scope), *titled(title)) if one]
        return self._tables.by_date("documents", " AND ".join(conditions) or None, limit, oldest=oldest)

    def _where(self, conditions: Sequence[str | None]) -> list[Hit]:
        condition = " AND ".join(f"({one})" for one in conditions if one)
        return [_hit(row, None) for row in self._tables.select("chunks", condition, _COLUMNS)]

    @property
    def _vectors(self) -> str:
        return self._ledger.get("vectors") or "vectors"

    def _hits(self, rows: Sequence[Row]) -> list[Hit]:
        try:
            vectors = self._tables.vectors(self._vectors, [row["id"] for row in rows])
        except DamagedTable:
            vectors = {}  # keyword search needs none
        return [_hit(row, vectors.get(row["id"])) for row in rows]


def _hit(row: Row, vector: Vectors | None) -> Hit:
    place = (row["id"], row["document"], row["position"], row["header"], row["text"], row["first"], row["last"])
    written = datetime.fromisoformat(row["written"]) if row["written"] else None
    chunk = Chunk(*place, row["role"] or "body", written, row["author"] or "", row["origin"] or "")
    recipients = tuple(name for name in row["recipients"].split("\n") if name)
    moment = in_own_zone(row["date"], row["local"])
    claimed = datetime.fromisoformat(row["claimed"]) if row["claimed"] else None
    return Hit(chunk, row["words"], vector, moment, row["sender"], recipients, row["title"], claimed=claimed)
