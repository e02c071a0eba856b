"""Keyword and vector search over the index, for retrieval. Knows no ranking."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from store import documents, vectors
from store.database import Ledger
from store.errors import DamagedTable
from store.filters import among, documents_within, titled, within
from store.hits import Hit, Totals, Vectors, hit_of
from store.types import Row, Scope, in_own_zone

if TYPE_CHECKING:
    from store.mapped_index import IndexView, MappedIndex
    from store.shards import Query
    from store.tables import Tables

_MORE = 2  # times as many rows of LanceDB, which are then scored as the mapped index scores them

_COLUMNS = (
    "id", "document", "position", "header", "text", "words", "first", "last",
    "role", "written", "author", "origin", "claimed", "title", "date", "local", "sender", "recipients",
)  # fmt: skip


class Reader:
    """Reads the index; every method sees what other processes have committed.

    Searches go to the mapped index, and to LanceDB where there is none of this generation. Candidates have the same
    scores either way.
    """

    def __init__(
        self,
        ledger: Ledger,
        open_tables: "Callable[[], Tables]",
        mapped: "MappedIndex | None" = None,
        collection: str | None = None,
    ) -> None:
        self._ledger, self._open_tables, self._mapped, self._collection = ledger, open_tables, mapped, collection

    def by_words(self, words: Sequence[str], scope: Scope, limit: int) -> list[Hit]:
        """Find the chunks within the scope that contain any of the words, best by BM25 over the whole index first."""
        view, query, scope = self._view(), self._query(words), scope.inside(self._collection)
        if view:
            return view.by_words(query, scope, limit)
        if not self._tables.has("chunks") and self._ledger.count("chunks"):
            raise DamagedTable("chunks")
        # LanceDB's own scores also count rows that were deleted, until its index is rebuilt.
        rows = self._tables.by_words(list(query.weights), self._within(scope), _COLUMNS, _MORE * limit)
        return self._hits(_best(rows, query, limit))

    def by_vector(self, vector: Vectors, scope: Scope, limit: int) -> list[Hit]:
        """Find the embedded chunks within the scope nearest to a unit vector (one dimension), nearest first."""
        scope = scope.inside(self._collection)
        if view := self._view():
            return view.by_vector(vector, scope, limit)
        near = self._tables.by_vector(self._vectors, vector, self._within(scope), limit)
        rows = {row["id"]: row for row in self._tables.select("chunks", among("id", near), _COLUMNS)} if near else {}
        return [hit_of(rows[name], near[name]) for name in near if name in rows]

    def frequencies(self, words: Sequence[str]) -> Mapping[str, int]:
        """Count the chunks of the whole index that contain each word; unknown words are left out."""
        return documents.frequencies_of(self._ledger, list(dict.fromkeys(words)))

    def totals(self) -> Totals:
        """Count the chunks of the whole index."""
        chunks, words = self._ledger.count("chunks"), self._ledger.count("words")
        return Totals(chunks, words / chunks if chunks else 0.0, chunks - vectors.count_missing(self._ledger))

    def chunks_of(self, documents: Sequence[str], scope: Scope) -> list[Hit]:
        """Return all chunks of these documents within the scope, in no order and without vectors."""
        scope = scope.inside(self._collection)
        if view := self._view():
            return view.chunks_of(documents, scope)
        return self._where([among("document", documents), self._within(scope)])

    def chunks(self, ids: Sequence[str]) -> list[Hit]:
        """Return those of the chunks that are stored, in no order and without vectors."""
        if view := self._view():
            return view.chunks(ids)
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
        scope = scope.inside(self._collection)
        conditions = [one for one in (documents_within(scope, self._tables.people(scope)), *titled(title)) if one]
        return self._tables.by_date("documents", " AND ".join(conditions) or None, limit, oldest=oldest)

    def _within(self, scope: Scope) -> str | None:
        return within(scope, self._tables.people(scope))

    def _where(self, conditions: Sequence[str | None]) -> list[Hit]:
        condition = " AND ".join(f"({one})" for one in conditions if one)
        return [hit_of(row, None) for row in self._tables.select("chunks", condition, _COLUMNS)]

    def _view(self) -> "IndexView | None":
        return self._mapped.view() if self._mapped else None

    def _query(self, words: Sequence[str]) -> "Query":
        from store.shards import Query

        counted, totals = self.frequencies(words), self.totals()
        known = [word for word in dict.fromkeys(words) if counted.get(word)]
        return Query({word: totals.inverse_frequency(counted[word]) for word in known}, totals.mean_words)

    @cached_property
    def _tables(self) -> "Tables":
        return self._open_tables()  # LanceDB takes long to import, and the mapped index needs none of it

    @property
    def _vectors(self) -> str:
        return self._ledger.get("vectors") or "vectors"

    def _hits(self, rows: Sequence[Row]) -> list[Hit]:
        try:
            vectors = self._tables.vectors(self._vectors, among("id", (row["id"] for row in rows))) if rows else {}
        except DamagedTable:
            vectors = {}  # keyword search needs none
        return [hit_of(row, vectors.get(row["id"])) for row in rows]


def _best(rows: Sequence[Row], query: "Query", limit: int) -> list[Row]:
    """Return the rows with the best BM25 scores; equal ones in the order of the mapped index."""
    from store.shards import digest, length_norm, saturation

    def order(row: Row) -> tuple[float, int, int]:
        held = Counter(row["words"].split(" "))
        norm = length_norm(held.total(), query.mean_words)
        parts = (weight * saturation(held[word], norm) for word, weight in query.weights.items() if word in held)
        return -sum(parts), digest(row["document"]), row["position"]

    return sorted(rows, key=order)[:limit]
