"""Search: keywords and vectors over the index, and the nearest questions of the answer cache. Knows no ranking."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from msgspec import Struct

from store.answers import ANSWER_COLUMNS, CachedAnswer, answer_from_row
from store.catalog import Catalog
from store.database import Ledger
from store.types import Hit, Kind, Row, Scope, Totals, Vectors, among, in_own_zone, is_within, table_of

if TYPE_CHECKING:
    from store.mapped_index import IndexView, MappedIndex, Matches
    from store.shards import Query
    from store.tables import Tables

_ROUNDING = 1e-4  # by which two ways of computing a cosine may differ


class Reader:
    """Reads the index; every method sees what other processes have committed.

    All is found in the mapped index; LanceDB has the texts of documents, and those without a chunk.
    """

    def __init__(
        self,
        ledger: Ledger,
        open_tables: "Callable[[], Tables]",
        mapped: "MappedIndex | IndexView",
        collection: str | None = None,
    ) -> None:
        self._ledger, self._open_tables, self._mapped, self._collection = ledger, open_tables, mapped, collection
        self._read: tuple[int, dict[str, list[Any]]] = -1, {}

    def snapshot(self) -> Self:
        """Return a reader of what is committed now, for searches that belong together; any thread may search by it."""
        return type(self)(self._ledger, self._open_tables, self._mapped.view(), self._collection)

    def by_words(self, words: Sequence[str], scope: Scope, limit: int) -> list[Hit]:
        """Find the chunks within the scope that contain any of the words, best by BM25 over the whole index first."""
        view = self._mapped.view()
        return view.by_words(self._query(view, words), scope.inside(self._collection), limit)

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

    def matching(self, scope: Scope, kind: Kind | None = None, words: Sequence[str] = ()) -> "Matches":
        """Return the documents within a scope, of a kind, with all these words, but for those without any chunk."""
        rows = self._rows("SELECT document FROM titles WHERE kind = 'transcript'")
        return self.view.documents(scope.inside(self._collection), words, kind, tuple(one for (one,) in rows))

    def chunkless(self, scope: Scope, kind: Kind | None = None) -> list[Row]:
        """Return the documents within a scope, of a kind, that have neither text nor title, and so no chunk."""
        found = self._rows("SELECT id, kind FROM documents JOIN titles ON id = document WHERE chunks = 0")
        ids = [id for id, own in found if kind in (None, own)]
        rows, scope = self.documents(ids, texts=False) if ids else {}, scope.inside(self._collection)
        of = Catalog(self._ledger).collections
        return [row for row in rows.values() if is_within(row | {"collections": of(row["id"])}, scope)]

    def _rows(self, sql: str) -> list[Any]:
        """Return rows as they are in this generation; to find them, all documents are read."""
        if (now := self._ledger.generation) != self._read[0]:
            self._read = now, {}
        if sql not in self._read[1]:
            self._read[1][sql] = self._ledger.rows.execute(sql).fetchall()
        return self._read[1][sql]

    @property
    def view(self) -> "IndexView":
        """Return the mapped index as it stands."""
        return self._mapped.view()

    def documents(self, ids: Sequence[str], *, texts: bool = True) -> dict[str, Row]:
        """Return the rows of documents, by id."""
        about = ("id", "kind", "title", "sender", "recipients", "date", "local", "claimed", "message_id")
        columns = (*about, "text") if texts else about
        rows = self._open_tables().select("documents", among("id", ids), columns)
        return {row["id"]: row | {"date": in_own_zone(row["date"], row["local"])} for row in rows}

    def by_date(
        self, scope: Scope, title: Sequence[str], limit: int | None, *, oldest: bool, of: Sequence[str] | None = None
    ) -> tuple[list[str], int]:
        """Return the ids of up to `limit` documents within the scope, by date, and how many there are.

        Their titles have all the words; undated ones come last. Only those `of` some ids, if these are given.
        """
        found, spare, sign = self.matching(scope), self.chunkless(scope), 1 if oldest else -1
        if title:  # long words may be inflected
            words = [rf"(?i)(^|\W){re.escape(word)}\w{{0,{3 * (len(word) > 3)}}}(\W|$)" for word in title]
            rows = self._ledger.rows.execute("SELECT document, title FROM titles")
            titled = {name for name, text in rows if all(re.search(word, text) for word in words)}
            of = [*titled] if of is None else [*titled.intersection(of)]
        if of is not None:
            found, spare = found.among(of), [row for row in spare if row["id"] in of]
        total = len(found) + len(spare)
        most = total if limit is None else limit
        dated = [(one.date, one.chunk.document) for one in (found.by_date(most, oldest=oldest) if most else ())]
        dated += [(row["date"], row["id"]) for row in spare]
        dated.sort(key=lambda one: (one[0] is None, sign * one[0].timestamp() if one[0] else 0, one[1]))
        return [name for _, name in dated[:most]], total

    def _query(self, view: "IndexView", words: Sequence[str]) -> "Query":
        from store.shards import Query

        counted, totals = view.frequencies(list(dict.fromkeys(words))), view.totals
        weights = {word: totals.inverse_frequency(counted[word]) for word in dict.fromkeys(words) if counted.get(word)}
        return Query(weights, totals.mean_words)


class Near(Struct, frozen=True):
    """An answered question, and the cosine of its vector with the one that was looked for."""

    key: bytes
    answer: CachedAnswer
    similarity: float


class QuestionVectors:
    """The questions of the answer cache under one embedder; create one per process, because it stays loaded.

    SQLite stores the vectors; they are read into one array, and later only the new rows.
    """

    def __init__(self, ledger: Ledger, embedder: str, width: int) -> None:
        self.embedder, self._rows, self._table = embedder, ledger.rows, table_of(embedder)
        self._numbers, self._vectors = np.empty(0, np.int64), np.empty((0, width), np.float32)

    def near(
        self, vector: Vectors, *, scope: str, writer: str, day: str | None, least: float, most: int = 8
    ) -> list[Near]:
        """Return up to `most` answered questions of this scope, writer and day, by their cosine, `least` or more."""
        self._refresh()
        cosines, found = self._vectors @ vector, list[Near]()
        likely = np.flatnonzero(cosines >= least - _ROUNDING)
        for at in likely[np.argsort(-cosines[likely], kind="stable")].tolist():
            if len(found) >= most and cosines[at] + _ROUNDING < sorted(one.similarity for one in found)[-most]:
                break
            # The product of two rows, unlike one of many, does not depend on the other rows.
            similarity = float(self._vectors[at] @ vector)
            if similarity >= least and (entry := self._answered(int(self._numbers[at]), scope, writer, day)):
                found.append(Near(*entry, similarity))
        return sorted(found, key=lambda near: (-near.similarity, near.key))[:most]

    def affected_by(self, chunk_vectors: Vectors) -> list[tuple[bytes, int]]:
        """Return the keys of questions that a new chunk, of these unit rows, is among the nearest to, with its row."""
        self._refresh()
        sql = "SELECT number, key, floor FROM question_vectors WHERE embedder = ? AND floor IS NOT NULL"
        floors = {number: (key, floor) for number, key, floor in self._rows.execute(sql, (self._table,))}
        found = [floors.get(number, (b"", np.inf)) for number in self._numbers.tolist()]
        least = np.array([floor for _, floor in found], np.float32)
        at, rows = np.nonzero(self._vectors @ chunk_vectors.T > least[:, None])
        return sorted((found[question][0], row) for question, row in zip(at.tolist(), rows.tolist(), strict=True))

    def _answered(self, number: int, scope: str, writer: str, day: str | None) -> tuple[bytes, CachedAnswer] | None:
        sql = f"""SELECT key, {ANSWER_COLUMNS} FROM question_vectors JOIN intact_answers USING (key)
                  WHERE number = ? AND state = 'answered' AND scope = ? AND writer = ? AND day IS ?"""
        row = self._rows.execute(sql, (number, scope, writer, day)).fetchone()
        return (row[0], answer_from_row(row[1:])) if row else None

    def _refresh(self) -> None:
        """Read the new rows, since numbers only grow; of those that were removed, `near` finds no answer."""
        after, width = int(self._numbers[-1]) if len(self._numbers) else 0, self._vectors.shape[1]
        sql = """SELECT number, vector FROM question_vectors
                 WHERE embedder = ? AND number > ? AND length(vector) = ? ORDER BY number"""
        found = self._rows.execute(sql, (self._table, after, 4 * width)).fetchall()
        if found:
            read = np.frombuffer(b"".join(vector for _, vector in found), np.float32).reshape(-1, width)
            self._vectors = np.concatenate([self._vectors, read])
            self._numbers = np.append(self._numbers, [number for number, _ in found])
