"""What was asked, when, from which tier it was answered and what that took: the ground of `pkb stats`."""

from dataclasses import dataclass

from store.ledger import Ledger

KEPT = 10_000  # questions; older ones are dropped


@dataclass(frozen=True, slots=True)
class Asked:
    """One question as it was answered; `saved_ms` is what making the answer had taken, less what this one took."""

    at: float
    question: str
    tier: str
    answered: bool
    total_ms: float
    saved_ms: float


@dataclass(frozen=True, slots=True)
class TierCount:
    """How often a tier answered, and its times."""

    tier: str
    questions: int
    answered: int
    median_ms: float
    saved_ms: float


class History:
    """The questions asked of one home."""

    def __init__(self, ledger: Ledger) -> None:
        self._rows = ledger.rows

    def add(self, asked: Asked) -> None:
        """Keep one question, and no more than the newest KEPT."""
        row = (asked.at, asked.question, asked.tier, asked.answered, asked.total_ms, asked.saved_ms)
        sql = "INSERT INTO asked (at, question, tier, answered, total_ms, saved_ms) VALUES (?, ?, ?, ?, ?, ?)"
        newest = self._rows.execute(sql, row).lastrowid or 0
        self._rows.execute("DELETE FROM asked WHERE id <= ?", (newest - KEPT,))

    def by_tier(self) -> list[TierCount]:
        """Count questions by tier, most frequent first."""
        sql = "SELECT tier, count(*), sum(answered), sum(saved_ms) FROM asked GROUP BY tier ORDER BY 2 DESC, 1"
        return [TierCount(t, n, a, self._median(t, n), s) for t, n, a, s in self._rows.execute(sql).fetchall()]

    def _median(self, tier: str, count: int) -> float:
        sql = "SELECT total_ms FROM asked WHERE tier = ? ORDER BY total_ms LIMIT 1 OFFSET ?"
        return float(self._rows.execute(sql, (tier, (count - 1) // 2)).fetchone()[0])
