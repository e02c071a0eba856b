"""How many questions each predictor foresaw, and how many of them were asked later. Knows no predictor.

A question was asked later if its kept answer was used, or if it was only read ahead and a person has had it answered
since. One whose kept tensors alone were used, by whatever question, was so in part.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from store.ledger import Ledger

_USED = {
    "answers": "answers.uses > 0 OR answers.origin = 'user'",
    "kv_nodes": "kv_nodes.uses > idle_made.uses",
}


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What one source predicted and what of that paid, maybe in parts; times in seconds since the epoch."""

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
        """Pay for what was used for the first time since it was made; for a transaction of the caller's."""
        for table, used in _USED.items():
            sql = f"""SELECT idle_made.source, sum(pays) FROM idle_made JOIN {table} USING (key)
                      WHERE pays > 0 AND ({used}) GROUP BY 1"""
            for source, paid in self._rows.execute(sql).fetchall():
                update = "UPDATE foreseen SET paid = paid + ?, last_paid = ? WHERE source = ?"
                self._rows.execute(update, (paid, at, source))
            sql = f"UPDATE idle_made SET pays = 0 FROM {table} WHERE {table}.key = idle_made.key AND ({used})"
            self._rows.execute(sql)

    def all(self) -> list[Foreseen]:
        """Give the counts by source."""
        sql = "SELECT source, predicted, paid, first, last, last_paid FROM foreseen ORDER BY source"
        return [Foreseen(*row) for row in self._rows.execute(sql)]
