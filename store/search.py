"""Keyword and vector search over the index, for retrieval. Knows no ranking."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from store.database import Ledger
from store.types import Hit, Row, Scope, Totals, Vectors, among, documents_within, in_own_zone, titled

if TYPE_CHECKING:
    from store.mapped_index import MappedIndex
    from store.shards import Query
    from store.tables import Tables


class Reader:
    """Reads the index; every method sees what other processes have committed.

    Chunks are those of the mapped index, documents those of LanceDB.
    """

    def __init__(
        self,
        ledger: Ledger,
        open_tables: "Callable[[], Tables]",
        mapped: "MappedIndex",
        collection: str | None = None,
    ) -> None:
        self._ledger, self._open_tables, self._mapped, self._collection = ledger, open_tables, mapped, collection

    def by_words(self, words: Sequence[str], scope: Scope, limit: int) -> list[Hit]:
        """Find the chunks within the scope that contain any of the words, best by BM25 over the whole index first."""
        return self._mapped.view().by_words(self._query(words), scope.inside(self._collection), limit)

    def by_vector(self, vector: Vectors, scope: Scope, limit: int) -> list[Hit]:
        """Find the embedded chunks within the scope nearest to a unit vector (one dimension), nearest first."""
        return self._mapped.view().by_vector(vector, scope.inside(self._collection), limit)

    def frequencies(self, words: Sequence[str]) -> Mapping[str, int]:
        """Count the chunks of the whole index that contain each word; unknown words are left out."""
        return self._mapped.view().frequencies(list(dict.fromkeys(words)))

    def totals(self) -> Totals:
        """Count the chunks of the whole index."""
        return self._mapped.view().totals

    def chunks_of(self, documents: Sequence[str], scope: Scope) -> list[Hit]:
        """Return all chunks of these documents within the scope, in no order and without vectors."""
        return self._mapped.view().chunks_of(documents, scope.inside(self._collection))

    def chunks(self, ids: Sequence[str]) -> list[Hit]:
        """Return those of the chunks that are stored, in no order and without vectors."""
        return self._mapped.view().chunks(ids)

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

    def _query(self, words: Sequence[str]) -> "Query":
        from store.shards import Query

        counted, totals = self.frequencies(words), self.totals()
        known = [word for word in dict.fromkeys(words) if counted.get(word)]
        return Query({word: totals.inverse_frequency(counted[word]) for word in known}, totals.mean_words)

    @cached_property
    def _tables(self) -> "Tables":
        return self._open_tables()  # LanceDB takes long to import, and the mapped index needs none of it
