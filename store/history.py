"""What was asked, when, from which tier it was answered and what that took: the ground of `pkb stats`."""

import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass

from store.database import Ledger

KEPT = 20_000  # questions; older ones are dropped, with what they retrieved
_COLUMNS = "at, question, tier, answered, total_ms, saved_ms, prompt_tokens, reused_tokens, key, matched, stale"


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One question as it was answered; `saved_ms` is what making the answer had taken, less what this one took.

    `prompt` and `reused` are the tokens that a model was to read and those of them it had read before, where one did.
    `key` is the question's in the bank (None: it was asked past that), `matched` that of the kept answer it was given,
    `stale` if it may be outdated.
    """

    at: float
    question: str
    tier: str
    answered: bool
    total_ms: float
    saved_ms: float
    prompt: int | None = None
    reused: int | None = None
    key: bytes | None = None
    matched: bytes | None = None
    stale: bool = False


@dataclass(frozen=True, slots=True)
class TierCount:
    """How often a tier answered, and its times; what a model `read` for takes far longer than what was quoted."""

    tier: str
    read: bool
    questions: int
    answered: int
    median_ms: float
    saved_ms: float


@dataclass(frozen=True, slots=True)
class Prompts:
    """The prompts that models were given, how many of them began with what was read before, and their tokens."""

    questions: int
    with_reuse: int
    tokens: int
    reused: int


class History:
    """The questions asked of one home."""

    def __init__(self, ledger: Ledger) -> None:
        self._rows = ledger.rows

    def add(self, asked: HistoryEntry) -> int:
        """Keep one question, and no more than the newest KEPT; returns its number."""
        sql = f"INSERT INTO asked ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        newest = self._rows.execute(sql, astuple(asked)).lastrowid or 0
        self._rows.execute("DELETE FROM asked WHERE id <= ?", (newest - KEPT,))
        return newest

    def last(self) -> HistoryEntry | None:
        """Return the question asked last."""
        row = self._rows.execute(f"SELECT {_COLUMNS} FROM asked ORDER BY id DESC LIMIT 1").fetchone()
        return HistoryEntry(*row) if row else None

    def stale(self) -> int:
        """Count the answers given although what they rest on may have changed."""
        return int(self._rows.execute("SELECT count(*) FROM asked WHERE stale").fetchone()[0])

    def by_tier(self) -> list[TierCount]:
        """Count questions by tier, those that a model read for apart, most frequent first."""
        sql = """SELECT tier, prompt_tokens IS NOT NULL, count(*), sum(answered), sum(saved_ms) FROM asked
                 GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2"""
        rows = self._rows.execute(sql).fetchall()
        return [TierCount(tier, bool(r), n, a, self._median(tier, r, n), saved) for tier, r, n, a, saved in rows]

    def prompts(self) -> Prompts:
        """Count the questions that a model read, and their tokens."""
        sql = """SELECT count(prompt_tokens), count(nullif(reused_tokens, 0)), coalesce(sum(prompt_tokens), 0),
                 coalesce(sum(reused_tokens), 0) FROM asked"""
        return Prompts(*self._rows.execute(sql).fetchone())

    def most_reused(self, limit: int) -> int:
        """Return the most tokens of a prompt that had been read before, of the last so many questions."""
        sql = "SELECT max(reused_tokens) FROM (SELECT reused_tokens FROM asked ORDER BY id DESC LIMIT ?)"
        return int(self._rows.execute(sql, (limit,)).fetchone()[0] or 0)

    def _median(self, tier: str, read: int, count: int) -> float:
        sql = """SELECT total_ms FROM asked WHERE tier = ? AND (prompt_tokens IS NOT NULL) = ?
                 ORDER BY total_ms LIMIT 1 OFFSET ?"""
        return float(self._rows.execute(sql, (tier, read, (count - 1) // 2)).fetchone()[0])


@dataclass(frozen=True, slots=True)
class PastQuestion:
    """A question as it was asked, how often, and when last; `scope` (JSON) and `writer` where its answer is kept."""

    question: str
    times: int
    last: float  # seconds since the epoch
    scope: str | None
    writer: str | None


def latest(ledger: Ledger, limit: int) -> list[str]:
    """Give up to `limit` questions, each once, the latest first."""
    sql = """SELECT question FROM asked WHERE key IS NOT NULL
             GROUP BY question ORDER BY max(at) DESC, max(id) DESC LIMIT ?"""
    return [question for (question,) in ledger.rows.execute(sql, (limit,))]


def past(ledger: Ledger, writer: str, limit: int) -> list[PastQuestion]:
    """Give up to `limit` questions, the latest first, with those scopes that writers of this beginning answered in."""
    sql = """SELECT asked.question, count(*), max(at), scope, writer FROM asked
             LEFT JOIN answers ON answers.question = asked.question AND substr(writer, 1, ?) = ?
             WHERE asked.key IS NOT NULL
             GROUP BY asked.question, answers.key ORDER BY max(at) DESC, max(asked.id) DESC LIMIT ?"""
    return [PastQuestion(*row) for row in ledger.rows.execute(sql, (len(writer), writer, limit))]


class RetrievalLog:
    """The chunk ids that questions retrieved."""

    def __init__(self, ledger: Ledger) -> None:
        self._rows = ledger.rows

    def add(self, question: int, chunks: Sequence[str]) -> None:
        """Keep what a row of the history retrieved; nothing where that was nothing."""
        if chunks:
            self._rows.execute("INSERT INTO retrieved VALUES (?, ?)", (question, json.dumps(chunks)))

    def frequencies(self) -> dict[str, int]:
        """Return how many questions retrieved each chunk, the most frequent first; the chunk may be gone since."""
        sql = "SELECT value, count(*) FROM retrieved, json_each(chunks) GROUP BY value ORDER BY 2 DESC, 1"
        return dict(self._rows.execute(sql).fetchall())

    def lists(self, limit: int) -> list[tuple[str, ...]]:
        """Return what the last so many questions retrieved, oldest first."""
        sql = "SELECT chunks FROM retrieved ORDER BY asked DESC LIMIT ?"
        return [tuple(json.loads(chunks)) for (chunks,) in self._rows.execute(sql, (limit,))][::-1]
