"""The QA bank: answers by key, within a budget of bytes. Knows no questions' meaning and imports no LanceDB.

A key is made by the engine of all that an answer depends on except the data; for the data, each answer carries the
generation it was made in and its evidence.
"""

import json
from dataclasses import dataclass

from store.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Kept:
    """An answer as it was given: `reply` is its JSON, `evidence` the ids of the chunks it rests on, in order."""

    question: str
    scope: str
    writer: str
    day: str | None  # the local date, for questions whose meaning moves with it
    reply: str
    evidence: tuple[str, ...]
    generation: int
    tier: str
    created: float  # seconds since the epoch
    made_ms: float  # what making it took


class Bank:
    """Answers by key; each method is one short transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._rows = ledger, ledger.rows

    def find(self, key: bytes) -> Kept | None:
        """Give the answer under a key."""
        sql = """SELECT question, scope, writer, day, reply, evidence, generation, tier, created, made_ms
                 FROM answers WHERE key = ?"""
        row = self._rows.execute(sql, (key,)).fetchone()
        if row is None:
            return None
        question, scope, writer, day, reply, evidence, *made = row
        return Kept(question, scope, writer, day, reply, tuple(json.loads(evidence)), *made)

    def keep(self, key: bytes, kept: Kept, budget: int) -> None:
        """Keep an answer in place of the one under its key, and the whole bank within `budget` bytes."""
        evidence = json.dumps(kept.evidence)
        texts = (kept.question, kept.scope, kept.writer, kept.reply, evidence)
        size = len(key) + sum(len(text.encode()) for text in texts)
        row = (key, kept.question, kept.scope, kept.writer, kept.day, kept.reply, evidence, kept.generation, kept.tier)
        with self._ledger.transaction():
            self._rows.execute("DELETE FROM answers WHERE key = ?", (key,))
            if size > budget:
                return
            self._make_room(budget - size)
            sql = "INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?)"
            self._rows.execute(sql, (*row, kept.created, kept.made_ms, kept.created, size))

    def used(self, key: bytes, generation: int, now: float) -> None:
        """Count one use of an answer, found to be right in this generation."""
        sql = "UPDATE answers SET uses = uses + 1, used = ?, generation = max(generation, ?) WHERE key = ?"
        self._rows.execute(sql, (now, generation, key))

    def drop(self, key: bytes) -> None:
        """Remove an answer."""
        self._rows.execute("DELETE FROM answers WHERE key = ?", (key,))

    def size(self) -> tuple[int, int]:
        """Give the number of answers and their bytes."""
        count, size = self._rows.execute("SELECT count(*), coalesce(sum(bytes), 0) FROM answers").fetchone()
        return int(count), int(size)

    def _make_room(self, budget: int) -> None:
        """Drop the least frequently used answers, the longest unused of them first (LFU, PerCache 4.1.1)."""
        excess = self.size()[1] - budget
        if excess <= 0:
            return
        for key, size in self._rows.execute("SELECT key, bytes FROM answers ORDER BY uses, used").fetchall():
            self.drop(key)
            excess -= size
            if excess <= 0:
                return
