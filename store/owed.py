"""Questions that were served another one's answer, and what their own answers said of that. Knows no meaning.

A debt goes with either of its two entries; a judgement outlives them, since the rate of errors is made of all.
"""

from contextlib import nullcontext
from dataclasses import astuple, dataclass

from store.ledger import Ledger

JUDGED = 20_000  # the latest judgements are kept


@dataclass(frozen=True, slots=True)
class Debt:
    """A question (`key`) that was served the answer of another (`matched`), and is owed its own."""

    key: bytes
    matched: bytes
    similarity: float  # the cosine of the two questions
    served: str  # the answer it was given
    at: float  # seconds since the epoch


class Owed:
    """The debts of one bank."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._rows = ledger, ledger.rows

    def add(self, debt: Debt) -> bool:
        """Note a debt in place of a former one of the question; False where one of the two entries has gone."""
        sql = """INSERT OR REPLACE INTO owed SELECT ?1, ?2, ?3, ?4, ?5
                 WHERE (SELECT count(*) FROM answers WHERE key IN (?1, ?2)) = 2"""
        return self._rows.execute(sql, astuple(debt)).rowcount > 0

    def find(self, key: bytes) -> Debt | None:
        """Give what a question is owed."""
        row = self._rows.execute("SELECT * FROM owed WHERE key = ?", (key,)).fetchone()
        return Debt(*row) if row else None

    def all(self) -> list[Debt]:
        """Give the debts, the oldest first."""
        return [Debt(*row) for row in self._rows.execute("SELECT * FROM owed ORDER BY at, key")]

    def count(self) -> int:
        """Count the debts."""
        return int(self._rows.execute("SELECT count(*) FROM owed").fetchone()[0])

    def settle(self, key: bytes, right: bool, at: float) -> None:
        """Strike a question's debt out, and keep whether what it was served was right; nothing where it has none."""
        with nullcontext() if self._rows.in_transaction else self._ledger.transaction():
            keep = """INSERT INTO judged (matched, similarity, "right", at)
                      SELECT matched, similarity, ?, ? FROM owed WHERE key = ?"""
            if self._rows.execute(keep, (right, at, key)).rowcount:
                self._rows.execute("DELETE FROM owed WHERE key = ?", (key,))
                self._rows.execute("DELETE FROM judged WHERE id <= (SELECT max(id) FROM judged) - ?", (JUDGED,))

    def drop(self, key: bytes) -> None:
        """Strike a question's debt out without a judgement."""
        self._rows.execute("DELETE FROM owed WHERE key = ?", (key,))

    def rate(self) -> tuple[int, int]:
        """Give how many served answers were judged, and how many of them were wrong."""
        judged, wrong = self._rows.execute(
            'SELECT count(*), count(*) FILTER (WHERE NOT "right") FROM judged'
        ).fetchone()
        return int(judged), int(wrong)

    def labels(self, matched: bytes | None) -> list[tuple[float, bool]]:
        """Give the similarity, and whether right, of each judgement on an entry, or on all (None); oldest first."""
        sql = 'SELECT similarity, "right" FROM judged WHERE ?1 IS NULL OR matched = ?1 ORDER BY id'
        return [(similarity, bool(right)) for similarity, right in self._rows.execute(sql, (matched,))]
