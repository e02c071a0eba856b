"""LanceDB, and the only module that knows it: typed tables, their indexes, search, compaction.

Knows columns and conditions; what a row means is the business of knowledge.py.
"""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa
from lancedb.index import FTS, BTree, IvfFlat, LabelList
from lancedb.query import MatchQuery

from store.filters import among
from store.hits import Vectors

Row = dict[str, Any]

_DATE = pa.timestamp("us", "UTC")
_ABOUT = [
    pa.field("date", _DATE),
    pa.field("sender", pa.string(), nullable=False),
    pa.field("recipients", pa.string(), nullable=False),  # one per line
    pa.field("collections", pa.list_(pa.string()), nullable=False),
]
_DOCUMENTS = [
    pa.field("id", pa.string(), nullable=False),
    pa.field("kind", pa.string(), nullable=False),
    pa.field("title", pa.string(), nullable=False),
    pa.field("message_id", pa.string()),
    pa.field("text", pa.large_string(), nullable=False),
    *_ABOUT,
]
_CHUNKS = [
    pa.field("id", pa.string(), nullable=False),
    pa.field("document", pa.string(), nullable=False),
    pa.field("position", pa.int32(), nullable=False),
    pa.field("header", pa.string(), nullable=False),
    pa.field("text", pa.string(), nullable=False),
    pa.field("words", pa.string(), nullable=False),
    pa.field("first", pa.int32(), nullable=False),
    pa.field("last", pa.int32(), nullable=False),
    pa.field("title", pa.string(), nullable=False),
    *_ABOUT,
]
# Apart from the chunks: filling a column rewrites its rows, and leaves them outside the full-text index until it is
# rebuilt (540 ms a query at 100,000 chunks, against 7).
_VECTORS = [pa.field("id", pa.string(), nullable=False), pa.field("document", pa.string(), nullable=False), *_ABOUT]

_ABSTRACTS = [
    pa.field("id", pa.string(), nullable=False),
    pa.field("text", pa.string(), nullable=False),
    pa.field("chunks", pa.list_(pa.string()), nullable=False),
    pa.field("documents", pa.list_(pa.string()), nullable=False),
    pa.field("date", _DATE),
    pa.field("made", pa.float64(), nullable=False),
    pa.field("writer", pa.string(), nullable=False),
    pa.field("asked", pa.int32(), nullable=False),
    pa.field("drawn", pa.int32(), nullable=False),
]

# Our own words, already folded and stemmed: the candidates and rank-bm25 must agree on what a word is.
_WORDS = FTS(
    base_tokenizer="whitespace", lower_case=False, stem=False, remove_stop_words=False, ascii_folding=False,
    max_token_length=None,
)  # fmt: skip
_CLUSTERED_FROM = 50_000  # vectors; a flat scan of fewer takes under 35 ms
_PROBES = 16  # of about 256 clusters: recall@100 1.0 in 7 ms at 100,000
_OLD = timedelta(minutes=30)  # versions that a reader may still hold; cleaning up at once breaks readers


class Tables:
    """The open tables of one home."""

    def __init__(self, folder: Path) -> None:
        # Without the interval, commits of other processes stay unseen.
        self._db = lancedb.connect(folder, read_consistency_interval=timedelta(0))
        self._folder = folder
        self._open: dict[str, Any] = {}

    def put(self, name: str, rows: Sequence[Row], width: int = 0) -> None:
        """Insert rows, replacing those of the same id."""
        table = self._table(name, width)
        data = pa.Table.from_pylist(list(rows), schema=table.schema)
        table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(data)

    def add(self, name: str, rows: Sequence[Row]) -> None:
        """Append rows whose ids are known to be new."""
        table = self._table(name)
        table.add(pa.Table.from_pylist(list(rows), schema=table.schema))

    def delete(self, name: str, condition: str) -> None:
        """Delete the rows under a condition; the disk keeps them until the table is rewritten."""
        if self.has(name):
            self._table(name).delete(condition)

    def set_collections(self, documents: Sequence[str], collections: Sequence[str], vectors: str) -> None:
        """Say which collections documents belong to, in every table that filters by them."""
        for name, column in (("documents", "id"), ("chunks", "document"), (vectors, "document")):
            if self.has(name):
                self._table(name).update(where=among(column, documents), values={"collections": list(collections)})

    def select(self, name: str, condition: str, columns: Sequence[str], limit: int | None = None) -> list[Row]:
        """Return columns of the rows under a condition, in no order."""
        if not self.has(name):
            return []
        query = self._table(name).search().where(condition).select(list(columns))
        found: list[Row] = query.limit(limit).to_list()
        return found

    def by_words(self, words: Sequence[str], condition: str | None, columns: Sequence[str], limit: int) -> list[Row]:
        """Return the chunks that hold any of the words, best first, with `_score`."""
        if not words or not self.has("chunks"):
            return []
        query = self._table("chunks").search(MatchQuery(" ".join(words), "words"), query_type="fts").limit(limit)
        query = query.where(condition, prefilter=True) if condition else query
        found: list[Row] = query.select([*columns, "_score"]).to_list()
        return found

    def by_vector(self, name: str, vector: Vectors, condition: str | None, limit: int) -> dict[str, Vectors]:
        """Return the ids nearest to a unit vector with their own vectors, nearest first."""
        if not self.has(name):
            return {}
        query = self._table(name).search(vector, vector_column_name="vector").distance_type("dot").nprobes(_PROBES)
        query = query.where(condition, prefilter=True) if condition else query
        found = query.limit(limit).select(["id", "vector", "_distance"]).to_arrow()
        return _vectors(found)

    def vectors(self, name: str, ids: Sequence[str]) -> dict[str, Vectors]:
        """Return the vectors of these ids, those that have one."""
        if not ids or not self.has(name):
            return {}
        found = self._table(name).search().where(among("id", ids)).select(["id", "vector"]).limit(len(ids)).to_arrow()
        return _vectors(found)

    def count(self, name: str, condition: str | None = None) -> int:
        """Count rows."""
        return int(self._table(name).count_rows(condition)) if self.has(name) else 0

    def compact(self) -> None:
        """Bring indexes up to date, merge small files, drop versions that no reader holds any more."""
        for name in self.names():
            table = self._table(name)
            self._index(name, table)
            table.optimize(cleanup_older_than=_OLD)

    def names(self) -> list[str]:
        """Return the names of the tables that are there."""
        names: list[str] = self._db.list_tables().tables
        return [name for name in names if self._is_whole(name)]

    def has(self, name: str) -> bool:
        """Return whether a table is there."""
        return name in self._open or name in self.names()

    def drop(self, name: str) -> None:
        """Remove a table, if it is there."""
        self._open.pop(name, None)
        self._db.drop_table(name, ignore_missing=True)

    def _is_whole(self, name: str) -> bool:
        """Tell a table from the folder that a writer leaves who is killed while making one."""
        return any((self._folder / f"{name}.lance" / "_versions").glob("*.manifest"))

    def _table(self, name: str, width: int = 0) -> Any:
        if name not in self._open:
            fields = {"documents": _DOCUMENTS, "chunks": _CHUNKS, "abstracts": _ABSTRACTS}.get(name, _VECTORS)
            schema = pa.schema([*fields, pa.field("vector", pa.list_(pa.float32(), width))] if width else fields)
            there = name in self.names()
            self._open[name] = self._db.open_table(name) if there else self._db.create_table(name, schema=schema)
        return self._open[name]

    def _index(self, name: str, table: Any) -> None:
        """Make the indexes that a table lacks and is large enough for."""
        rows, made = table.count_rows(), {column for index in table.list_indices() for column in index.columns}
        wanted: dict[str, Any] = {"id": BTree(), "collections": LabelList()}
        if name == "abstracts":
            wanted = {"id": BTree(), "documents": LabelList()}
        elif name != "documents":
            wanted["document"] = BTree()
        wanted |= {"words": _WORDS} if name == "chunks" else {}
        if name not in ("documents", "chunks", "abstracts") and rows >= _CLUSTERED_FROM:
            wanted["vector"] = IvfFlat(distance_type="dot", num_partitions=256)
        for column, config in wanted.items():
            if rows and column not in made:
                table.create_index(column, config=config)


def _vectors(found: pa.Table) -> dict[str, Vectors]:
    column = found["vector"].combine_chunks()
    matrix = np.asarray(column.flatten()).reshape(len(found), -1) if len(found) else np.empty((0, 0), np.float32)
    return dict(zip(found["id"].to_pylist(), matrix, strict=True))
