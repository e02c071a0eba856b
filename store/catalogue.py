"""What was read from where: roots, files, places of documents, problems. Knows paths and ids, no text."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from store.ledger import Ledger, path_key
from store.records import FileState, Place


@dataclass(frozen=True, slots=True)
class Root:
    """A folder or file that was named to `pkb ingest`, the collection it feeds, and the kind it was said to be."""

    path: str
    collection: str
    kind: str | None


@dataclass(frozen=True, slots=True)
class Problem:
    """An item of a file that could not be read, or not wholly, and why, in words that name no content."""

    path: str
    item: int
    reason: str


_BELOW = "(path = ?1 OR (path > ?2 AND path < ?3))"


def _below(root: str) -> tuple[bytes, bytes, bytes]:
    """Give the values for `_BELOW`: the path itself, and the open range of all paths inside it."""
    key = path_key(root)
    folder = key.rstrip(b"/")
    return key, folder + b"/", folder + b"0"  # "0" follows "/"


class Catalogue:
    """The ledger's rows about files; every method that changes rows is called inside a transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._rows = ledger.rows

    def roots(self) -> list[Root]:
        """Give every root, in order of its path."""
        rows = self._rows.execute("SELECT path, collection, kind FROM roots ORDER BY path")
        return [Root(os.fsdecode(path), collection, kind) for path, collection, kind in rows]

    def put_root(self, root: Root) -> None:
        """Keep a root, or its new collection and kind."""
        self._rows.execute(
            "INSERT OR REPLACE INTO roots VALUES (?, ?, ?)", (path_key(root.path), root.collection, root.kind)
        )

    def files(self, root: str) -> dict[bytes, FileState]:
        """Give the files read at or below a path, by the bytes of their paths."""
        sql = f"SELECT path, size, mtime_ns, inode FROM files WHERE {_BELOW}"
        return {path: FileState(*state) for path, *state in self._rows.execute(sql, _below(root))}

    def changed(self) -> list[str]:
        """Give the files that `read_again` has marked."""
        return [os.fsdecode(path) for (path,) in self._rows.execute("SELECT path FROM files WHERE mtime_ns = -1")]

    def put_file(self, path: str, state: FileState, places: Sequence[Place], problems: Sequence[Problem]) -> None:
        """Say that a file was read whole: its former places and problems give way to these."""
        key = path_key(path)
        kept = (key, state.size, state.mtime_ns, state.inode)
        self._rows.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)", kept)
        self._rows.execute("DELETE FROM places WHERE path = ?", (key,))
        self._rows.execute("DELETE FROM problems WHERE path = ?", (key,))
        self.put_places(places)
        problem_rows = [(key, problem.item, problem.reason) for problem in problems]
        self._rows.executemany("INSERT OR REPLACE INTO problems VALUES (?, ?, ?)", problem_rows)

    def put_places(self, places: Iterable[Place]) -> None:
        """Keep places, replacing what stood there."""
        rows = ((path_key(p.path), p.item, p.document, p.message_id, p.lines_before, p.collection) for p in places)
        self._rows.executemany("INSERT OR REPLACE INTO places VALUES (?, ?, ?, ?, ?, ?)", rows)

    def drop_files(self, paths: Iterable[bytes]) -> None:
        """Forget files and what they held; their documents go with `orphans`, unless they stand elsewhere."""
        keys = [(path,) for path in paths]
        for table in ("files", "places", "problems"):
            self._rows.executemany(f"DELETE FROM {table} WHERE path = ?", keys)

    def read_again(self, documents: Iterable[str]) -> None:
        """Make the next look at the files that hold these documents find them changed."""
        sql = "UPDATE files SET mtime_ns = -1 WHERE path IN (SELECT path FROM places WHERE document = ?)"
        self._rows.executemany(sql, [(document,) for document in documents])

    def places(self, document: str) -> list[Place]:
        """Give every place of a document, those whose lines are the file's own first, then by path."""
        sql = """SELECT path, item, document, message_id, lines_before, collection FROM places
                 WHERE document = ? ORDER BY lines_before IS NULL, path, item"""
        return [Place(os.fsdecode(path), *rest) for path, *rest in self._rows.execute(sql, (document,))]

    def standing_at(self, path: str) -> list[Place]:
        """Give the documents of one file, in their order there."""
        sql = (
            "SELECT path, item, document, message_id, lines_before, collection FROM places WHERE path = ? ORDER BY item"
        )
        return [Place(os.fsdecode(path), *rest) for path, *rest in self._rows.execute(sql, (path_key(path),))]

    def only_in(self, root: str, gone: Iterable[bytes]) -> tuple[int, int]:
        """Count the documents that stand in these files alone, and all documents at or below the root."""
        self._rows.execute("CREATE TEMP TABLE IF NOT EXISTS gone (path BLOB PRIMARY KEY) WITHOUT ROWID")
        self._rows.execute("DELETE FROM gone")
        self._rows.executemany("INSERT OR IGNORE INTO gone VALUES (?)", [(path,) for path in gone])
        lost = """SELECT count(DISTINCT document) FROM places WHERE path IN (SELECT path FROM gone) AND document NOT IN
                  (SELECT document FROM places WHERE path NOT IN (SELECT path FROM gone))"""
        every = f"SELECT count(DISTINCT document) FROM places WHERE {_BELOW}"
        return self._one(lost), self._one(every, *_below(root))

    def problems(self, root: str) -> list[Problem]:
        """Give all that could not be read at or below a path, in order of path and item."""
        sql = f"SELECT path, item, reason FROM problems WHERE {_BELOW} ORDER BY path, item"
        return [
            Problem(os.fsdecode(path), item, reason) for path, item, reason in self._rows.execute(sql, _below(root))
        ]

    def move(self, root: str, collection: str) -> list[str]:
        """Put all at or below a path into one collection; gives the documents for which that is a change."""
        values = (*_below(root), collection)
        sql = f"SELECT DISTINCT document FROM places WHERE {_BELOW} AND collection <> ?4"
        moved = [row[0] for row in self._rows.execute(sql, values)]
        update = f"UPDATE places SET collection = ?4 WHERE {_BELOW} AND collection <> ?4"
        self._rows.execute(update, values)
        return moved

    def collections(self, document: str) -> list[str]:
        """Give the collections that a document belongs to, by its places."""
        sql = "SELECT DISTINCT collection FROM places WHERE document = ? ORDER BY collection"
        return [name for (name,) in self._rows.execute(sql, (document,))]

    def by_collection(self) -> dict[str, int]:
        """Count the documents of each collection."""
        sql = "SELECT collection, count(DISTINCT document) FROM places GROUP BY collection ORDER BY collection"
        return dict(self._rows.execute(sql).fetchall())

    def counts(self) -> dict[str, int]:
        """Count files, documents, places and problems."""
        return {
            name: self._one(f"SELECT count(*) FROM {name}") for name in ("files", "documents", "places", "problems")
        }

    def _one(self, sql: str, *values: bytes) -> int:
        return int(self._rows.execute(sql, values).fetchone()[0])
