"""The asker says that the last answer is wrong: it is let go of, and given to no other question again."""

from datetime import datetime

from engine.ask.reply import answer_of
from store.answers import Bank, Owed, Wrong
from store.database import Ledger
from store.history import History, HistoryEntry


def doubt(ledger: Ledger, now: datetime) -> HistoryEntry | None:
    """Take back the last answer and give the question; None where nothing is kept of it.

    The question gets an answer of its own when it is asked again. One that was made for it is never lent; one that was
    lent to it is lent to no question that is as far from its own.
    """
    last = History(ledger).last()
    kept = Bank(ledger).find(last.key) if last and last.key else None
    if last is None or last.key is None or kept is None:
        return None
    with ledger.transaction():
        answer = answer_of(kept.reply) if kept.state == "answered" else _return(ledger, last.key, now)
        Wrong(ledger).add(last.key, answer or "", now.timestamp())
        Bank(ledger).drop(last.key)
    return last


def _return(ledger: Ledger, key: bytes, now: datetime) -> str | None:
    """Hold a lent answer against the entry that lent it, and give it."""
    debt = Owed(ledger).find(key)
    if debt is None:
        return None
    Bank(ledger).raise_tau(debt.matched, above(debt.similarity))
    Owed(ledger).settle(key, right=False, at=now.timestamp())
    return debt.served


def above(similarity: float) -> float:
    """Give the least threshold that a similarity does not reach."""
    return similarity + 1e-6
