"""What was asked of a home, each question once in each scope: for who wants to be ready for it. Knows no meaning.

What was asked past the bank is not to be foreseen, and may make no sense by itself.
"""

from dataclasses import dataclass

from store.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Past:
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


def past(ledger: Ledger, writer: str, limit: int) -> list[Past]:
    """Give up to `limit` questions, the latest first, with those scopes that writers of this beginning answered in."""
    sql = """SELECT asked.question, count(*), max(at), scope, writer FROM asked
             LEFT JOIN answers ON answers.question = asked.question AND substr(writer, 1, ?) = ?
             WHERE asked.key IS NOT NULL
             GROUP BY asked.question, answers.key ORDER BY max(at) DESC, max(asked.id) DESC LIMIT ?"""
    return [Past(*row) for row in ledger.rows.execute(sql, (len(writer), writer, limit))]
