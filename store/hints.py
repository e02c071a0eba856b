"""Questions that new chunks may answer otherwise, to be refreshed first (PerCache 4.1.3): hints, never proofs."""

from collections.abc import Iterable
from contextlib import nullcontext

from store.ledger import Ledger


class Hints:
    """At most one hint a question: the chunk that was met last."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._rows = ledger, ledger.rows

    def add(self, keys: Iterable[bytes], chunk: str, at: float) -> None:
        """Note that a new chunk is near to these questions, as far as they are still kept."""
        sql = "INSERT OR REPLACE INTO hints SELECT key, ?, ? FROM answers WHERE key = ?"
        with nullcontext() if self._rows.in_transaction else self._ledger.transaction():
            self._rows.executemany(sql, [(chunk, at, key) for key in keys])

    def all(self) -> list[tuple[bytes, str, float]]:
        """Give keys with chunk and time, the question that was used most often first."""
        sql = """SELECT key, chunk, at FROM hints JOIN answers USING (key)
                 ORDER BY uses DESC, answers.used DESC, key"""
        return [(key, chunk, at) for key, chunk, at in self._rows.execute(sql)]

    def done(self, key: bytes) -> None:
        """Strike a question out: it was answered anew."""
        self._rows.execute("DELETE FROM hints WHERE key = ?", (key,))

    def count(self) -> int:
        """Count the questions."""
        return int(self._rows.execute("SELECT count(*) FROM hints").fetchone()[0])
