"""How many questions each predictor foresaw, and how many of them were asked later. Knows no predictor.

A question that was asked later is one whose kept answer was used for the first time.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from store.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What one source predicted and what of that paid; times in seconds since the epoch."""

    source: str
    predicted: int
    paid: float
    first: float
    last: float
    last_paid: float | None


class Foresights:
    """The counts of one home."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._rows = ledger, ledger.rows

    def predicted(self, counts: Mapping[str, int], at: float) -> None:
        """Count predictions by source."""
        sql = """INSERT INTO foreseen VALUES (?1, ?2, 0, ?3, ?3, NULL) ON CONFLICT DO UPDATE SET
                 predicted = predicted + excluded.predicted, last = excluded.last"""
        with self._ledger.transaction():
            self._rows.executemany(sql, [(source, count, at) for source, count in counts.items()])

    def gather(self, at: float) -> None:
        """Count those that were used for the first time since they were made; for a transaction of the caller's."""
        sql = """SELECT source, count(*) FROM idle_made JOIN answers USING (key)
                 WHERE idle_made.uses = 0 AND answers.uses > 0 AND source != '' GROUP BY source"""
        for source, count in self._rows.execute(sql).fetchall():
            update = "UPDATE foreseen SET paid = paid + ?, last_paid = ? WHERE source = ?"
            self._rows.execute(update, (count, at, source))

    def all(self) -> list[Foreseen]:
        """Give the counts by source."""
        sql = "SELECT source, predicted, paid, first, last, last_paid FROM foreseen ORDER BY source"
        return [Foreseen(*row) for row in self._rows.execute(sql)]
