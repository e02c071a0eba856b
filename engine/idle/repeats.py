"""What idle would have saved on questions that were asked again, by the history alone; all else it foresees is more.

A question is asked again where its key was met before: same words, scope, writer and, where it matters, day.
"""

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from store.ledger import Ledger

_SQL = """SELECT tier, total_ms, saved_ms FROM asked AS one
          WHERE at >= ? AND EXISTS (SELECT 1 FROM asked AS other WHERE other.key = one.key AND other.id < one.id)"""


@dataclass(frozen=True, slots=True)
class Repeats:
    """Of the questions since a time those that were asked again, and of these those that the bank answered.

    `saved_s` is what these spared, `missed_s` what the others took that an exact hit would not have.
    """

    questions: int
    repeated: int
    from_bank: int
    saved_s: float
    missed_s: float


def repeats(ledger: "Ledger", since: float) -> Repeats:
    """Count the questions asked since a time, in seconds since the epoch."""
    rows = ledger.rows.execute(_SQL, (since,)).fetchall()
    kept, made = ([row for row in rows if (row[0] == "exact") is exact] for exact in (True, False))
    hit = median(ms for _, ms, _ in kept) if kept else 0.0
    return Repeats(
        questions=ledger.rows.execute("SELECT count(*) FROM asked WHERE at >= ?", (since,)).fetchone()[0],
        repeated=len(rows),
        from_bank=len(kept),
        saved_s=sum(max(0.0, saved) for _, _, saved in kept) / 1000,
        missed_s=sum(max(0.0, ms - hit) for _, ms, _ in made) / 1000,
    )
