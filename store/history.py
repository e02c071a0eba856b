"""The query history: questions with time, tier, cost and the chunks retrieved."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import astuple

from store.database import EPOCH, Ledger, LedgerRows

# A hit does a part of the work of its answer: where it took longer, it did so in a slower process, and saved nothing.
_SAVED = "max(saved_ms, 0)"
MAX_QUESTIONS = 20_000  # older ones are deleted, with what they retrieved
_COLUMNS = "at, question, tier, answered, total_ms, saved_ms, prompt_tokens, reused_tokens, key, stale"


class HistoryEntry(Struct, frozen=True):
    """One question as it was answered."""

    at: float
    question: str
    tier: str
    answered: bool
    total_ms: float
    saved_ms: float  # the cost of computing the answer, less the time of this answer
    prompt: int | None = None  # tokens, where a model ran
    reused: int | None = None  # those of them that came from the KV cache
    key: bytes | None = None  # the question's in the answer cache; None: it was asked past that
    stale: bool = False  # the answer may be outdated


class History(LedgerRows):
    """The questions asked of one home."""

    def add(self, entry: HistoryEntry) -> int:
        """Add one question, delete all but the newest MAX_QUESTIONS, and return its number."""
        sql = f"INSERT INTO history ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        newest = self._rows.execute(sql, astuple(entry)).lastrowid or 0
        self._rows.execute("DELETE FROM history WHERE id <= ?", (newest - MAX_QUESTIONS,))
        return newest

    def last(self, question: str | None = None) -> HistoryEntry | None:
        """Return the question asked last, or when that one was."""
        sql = f"SELECT {_COLUMNS} FROM history WHERE question = coalesce(?, question) ORDER BY id DESC LIMIT 1"
        row = self._rows.execute(sql, (question,)).fetchone()
        return HistoryEntry(*row) if row else None

    def newest(self) -> int:
        """Return the number of the question asked last, 0 if nothing was asked."""
        return int(self._rows.execute("SELECT coalesce(max(id), 0) FROM history").fetchone()[0])

    def by_tier(self) -> list[dict[str, Any]]:
        """Count questions by tier and by whether the language model read a prompt, most frequent first.

        With the median and 95th percentile of milliseconds, by the nearest rank, and the seconds saved.
        """
        sql = f"""SELECT tier, by_model, count(*), sum(answered), round(min(total_ms) FILTER (WHERE rank >= 0.5), 3),
                         round(min(total_ms) FILTER (WHERE rank >= 0.95), 3), round(sum({_SAVED}) / 1000, 3)
                 FROM (SELECT tier, prompt_tokens IS NOT NULL AS by_model, answered, total_ms, saved_ms, cume_dist()
                              OVER (PARTITION BY tier, prompt_tokens IS NOT NULL ORDER BY total_ms) AS rank
                       FROM history)
                 GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2"""
        names = ("tier", "by_model", "questions", "answered", "p50_ms", "p95_ms", "saved_s")
        found = (dict(zip(names, row, strict=True)) for row in self._rows.execute(sql))
        return [one | {"by_model": bool(one["by_model"])} for one in found]

    def by_week(self, until: float) -> list[tuple[str, str, int, float, str]]:
        """Count questions up to a time, in seconds since the epoch, by the Monday (ISO) of their week and by tier.

        Returns Monday, tier, number, milliseconds saved and first day of each, oldest first; weeks and days are local.
        """
        sql = f"""SELECT date(at, 'unixepoch', 'localtime', 'weekday 0', '-6 days'), tier, count(*), sum({_SAVED}),
                         min(date(at, 'unixepoch', 'localtime')) FROM history
                 WHERE at BETWEEN 0 AND ? GROUP BY 1, 2 ORDER BY 1, 2"""
        return self._rows.execute(sql, (until,)).fetchall()

    def prompts(self) -> dict[str, int]:
        """Count the prompts of models, how many of them had a KV cache hit, and their tokens."""
        sql = """SELECT count(prompt_tokens), count(nullif(reused_tokens, 0)), coalesce(sum(prompt_tokens), 0),
                 coalesce(sum(reused_tokens), 0) FROM history"""
        names = ("questions", "with_reuse", "tokens", "reused")
        return dict(zip(names, self._rows.execute(sql).fetchone(), strict=True))


def latest(ledger: Ledger, limit: int) -> list[str]:
    """Return up to `limit` questions, each once, the latest first."""
    sql = """SELECT question FROM history WHERE key IS NOT NULL
             GROUP BY question ORDER BY max(at) DESC, max(id) DESC LIMIT ?"""
    return [question for (question,) in ledger.rows.execute(sql, (limit,))]


def link_documents(ledger: Ledger, key: bytes, documents: Iterable[str], like: bytes | None = None) -> None:
    """Record documents that a question was answered from, and those of the question that it is `like`.

    `key` is the question's in the answer cache, or its number in the history as text.
    """
    sql = "INSERT OR IGNORE INTO question_documents VALUES (?, ?)"
    ledger.rows.executemany(sql, [(key, document) for document in documents])
    if like not in (None, key):
        sql = "INSERT OR IGNORE INTO question_documents SELECT ?, document FROM question_documents WHERE key = ?"
        ledger.rows.execute(sql, (key, like))


def may_be_followed(ledger: Ledger, question: str) -> bool:
    """Return whether a question of a conversation cannot be about what was forgotten: it is known, or nothing was."""
    found = ledger.rows.execute("SELECT 1 FROM history WHERE question = ? LIMIT 1", (question,)).fetchone()
    return found is not None or not ledger.count(EPOCH)


class RetrievalLog(LedgerRows):
    """The chunk ids that each question retrieved, and the best of them, which count as asked about."""

    def add(self, question: int, chunks: Sequence[str], best: Sequence[str]) -> None:
        """Add the chunks that a question of the history retrieved, if any, and the `best` of them, best first."""
        if chunks:
            sql = "INSERT INTO retrievals (question, chunks, best) VALUES (?, ?, ?)"
            self._rows.execute(sql, (question, json.dumps(chunks), json.dumps(best)))

    def frequencies(self) -> dict[str, int]:
        """Count the questions for which each chunk was among the best, in older rows retrieved; some may be removed."""
        sql = """SELECT value, count(*) FROM retrievals, json_each(coalesce(best, chunks))
                 GROUP BY value ORDER BY 2 DESC, 1"""
        return dict(self._rows.execute(sql).fetchall())

    def lists(self, limit: int) -> list[tuple[str, ...]]:
        """Return the chunks that each of the last `limit` questions retrieved, oldest first."""
        sql = "SELECT chunks FROM retrievals ORDER BY question DESC LIMIT ?"
        return [tuple(json.loads(chunks)) for (chunks,) in self._rows.execute(sql, (limit,))][::-1]
