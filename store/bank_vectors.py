"""Which of the bank's questions is near to a vector. Knows vectors and keys, neither words nor embedders.

SQLite holds the vectors; a matrix beside it, a copy, is searched. A match is what SQLite says is one.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np

from store.bank import KEPT_COLUMNS, Kept, kept_of
from store.bank_matrix import Matrix, Rows
from store.hits import Vectors
from store.ledger import Ledger
from store.pending import table_of

_FILE = "questions.vectors"
_ROUNDING = 1e-4  # by which two ways of computing a cosine may differ
_ROUND, _BATCH = 1024, 4096  # rows added between looks at how many have gone; rows compared at once


@dataclass(frozen=True, slots=True)
class Near:
    """An answered question, and the cosine of its vector with the one that was looked for."""

    key: bytes
    kept: Kept
    similarity: float


class QuestionVectors:
    """The bank's questions as one embedder sees them."""

    def __init__(self, ledger: Ledger, folder: Path, embedder: str, width: int) -> None:
        self.embedder, self.width = embedder, width
        self._rows, self._table = ledger.rows, table_of(embedder)
        self._matrix = Matrix(folder / _FILE, embedder, width)

    def near(
        self, vector: Vectors, *, scope: str, writer: str, day: str | None, least: float, most: int = 8
    ) -> list[Near]:
        """Give up to `most` answered questions of this scope, writer and day, nearest first.

        `vector` is a unit row; the cosine of each found is at least `least`.
        """
        wanted = np.ascontiguousarray(vector, np.float32)
        found: dict[bytes, Near] = {}
        for number, cosine in self._candidates(wanted, group(scope, writer, day), least - _ROUNDING):
            if len(found) >= most and cosine + _ROUNDING < sorted(n.similarity for n in found.values())[-most]:
                break
            if (near := self._verified(number, wanted, (scope, writer, day))) and near.similarity >= least:
                found[near.key] = near
        return sorted(found.values(), key=lambda near: (-near.similarity, near.key))[:most]

    def meeting(self, chunk_vectors: Vectors, margin: float = 0.0) -> list[tuple[bytes, int]]:
        """Give the key of each question that a new chunk is among the nearest to, with the chunk's row; see Bank.keep.

        `chunk_vectors` are unit rows; `margin` is taken from each question's floor.
        """
        sql = "SELECT number, key, floor FROM bank_vectors WHERE embedder = ? AND floor IS NOT NULL"
        floors = {number: (key, floor) for number, key, floor in self._rows.execute(sql, (self._table,))}
        met = [
            (floors[number][0], row)
            for part in self._parts()
            for start in range(0, len(part), _BATCH)
            for number, row in _above(part[start : start + _BATCH], chunk_vectors, floors, margin)
        ]
        return sorted(set(met))

    def check(self) -> bool:
        """Hold all of the matrix against SQLite, and make it anew where they differ; True where they did not."""
        rows, kept = self._matrix.rows(), self._since(0)
        same = rows[np.isin(rows["number"], kept["number"])].tobytes() == kept.tobytes()
        if not same:
            self._matrix.replace(kept)
        return same

    def _candidates(self, vector: Vectors, wanted: int, least: float) -> Iterator[tuple[int, float]]:
        """Yield the numbers of rows that may match, the nearest first."""
        near: list[tuple[float, int]] = []
        for part in self._parts():
            with np.errstate(all="ignore"):  # a damaged row may hold anything
                cosines = part["vector"] @ vector
            at = np.flatnonzero(cosines >= least)
            at = at[part["group"][at] == wanted]
            near += zip(cosines[at].tolist(), part["number"][at].tolist(), strict=True)
        yield from ((number, cosine) for cosine, number in sorted(near, reverse=True))

    def _verified(self, number: int, vector: Vectors, about: tuple[str, str, str | None]) -> Near | None:
        """Give the entry of a number as SQLite has it now."""
        sql = f"""SELECT answers.key, vector, {KEPT_COLUMNS} FROM bank_vectors JOIN answers USING (key)
                  WHERE number = ? AND embedder = ? AND state = 'answered' AND scope = ? AND writer = ? AND day IS ?"""
        row = self._rows.execute(sql, (number, self._table, *about)).fetchone()
        if row is None or len(row[1]) != 4 * self.width:
            return None
        return Near(row[0], kept_of(row[2:]), float(np.frombuffer(row[1], "<f4") @ vector))

    def _parts(self) -> Iterator[Rows]:
        """Yield all rows: those of the matrix, and those that it lacks, which are added to it."""
        rows = self._matrix.rows()
        if len(rows) and rows["number"][-1] > self._last():
            rows = self._matrix.none  # the ledger is an older one, put back from a backup
        new = self._since(int(rows["number"][-1]) if len(rows) else 0)
        if len(new):
            self._add(rows, new)
        yield rows
        yield new

    def _last(self) -> int:
        """Give the last number that was ever given."""
        sql = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'bank_vectors'"
        return int(self._rows.execute(sql).fetchone()[0])

    def _add(self, rows: Rows, new: Rows) -> None:
        """Add rows to the matrix, or make it anew where it is not there or more than half of it has gone."""
        before, after = len(rows), len(rows) + len(new)
        if not before or (before // _ROUND < after // _ROUND and after > 2 * self._live() + _ROUND):
            self._matrix.replace(self._since(0))
        else:
            self._matrix.append(new, int(rows["number"][-1]))

    def _live(self) -> int:
        sql = "SELECT count(*) FROM bank_vectors WHERE embedder = ?"
        return int(self._rows.execute(sql, (self._table,)).fetchone()[0])

    def _since(self, number: int) -> Rows:
        """Give the rows behind a number as SQLite has them."""
        sql = """SELECT number, scope, writer, day, vector FROM bank_vectors JOIN answers USING (key)
                 WHERE embedder = ? AND number > ? AND length(vector) = ? ORDER BY number"""
        found = self._rows.execute(sql, (self._table, number, 4 * self.width)).fetchall()
        groups = {about: group(*about) for about in {row[1:4] for row in found}}
        rows = np.empty(len(found), self._matrix.dtype)
        for at, (own, scope, writer, day, vector) in enumerate(found):
            rows[at] = (own, groups[scope, writer, day], np.frombuffer(vector, "<f4"))
        return rows


def group(scope: str, writer: str, day: str | None) -> int:
    """Give a number for what must be equal for two questions to share an answer; equal numbers prove nothing."""
    text = json.dumps([scope, writer, day]).encode()
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little", signed=True)


def _above(
    part: Rows, chunks: Vectors, floors: dict[int, tuple[bytes, float]], margin: float
) -> Iterator[tuple[int, int]]:
    """Yield the number of each question and the row of each chunk that is nearer to it than its floor."""
    numbers = part["number"].tolist()
    least = np.array([floors[n][1] - margin if n in floors else np.inf for n in numbers], np.float32)
    with np.errstate(all="ignore"):
        at, rows = np.nonzero(part["vector"] @ chunks.T > least[:, None])
    yield from zip((numbers[i] for i in at.tolist()), rows.tolist(), strict=True)
