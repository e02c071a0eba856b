"""The QA bank: answers by key, within a budget of bytes. Knows no questions' meaning and imports no LanceDB.

A key is made by the engine of all that an answer depends on except the data; for the data, each answer carries the
generation it was made in and its evidence. What hangs on an entry (its vector, debts, hints) goes with it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from store.ledger import Ledger
from store.pending import table_of

State = Literal["answered", "owed", "undecoded"]
Origin = Literal["user", "predicted"]
KEPT_COLUMNS: Final = """question, scope, writer, day, reply, evidence, generation, tier, created, made_ms,
              state, origin, source, tau, uses, used"""
_REPLACED = ("reply", "evidence", "generation", "tier", "created", "made_ms", "state", "origin", "source", "bytes")
_OVER = ", ".join(f"{name} = excluded.{name}" for name in ("question", *_REPLACED))


@dataclass(frozen=True, slots=True)
class Kept:
    """An entry: `reply` is the JSON of the answer as it was given, `evidence` the ids of its chunks, in order.

    `reply` is empty unless the state is answered. How often it was used is no part of what it is: it is not compared.
    """

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
    state: State = "answered"
    origin: Origin = "user"
    source: str = ""  # what predicted it
    tau: float | None = None  # the similarity that this entry was found to need; None: the usual one
    uses: int = field(default=0, compare=False)
    used: float = field(default=0.0, compare=False)  # seconds since the epoch

    def __post_init__(self) -> None:
        assert bool(self.reply) == (self.state == "answered"), f"{self.state} with {len(self.reply)} characters"


class Bank:
    """Entries by key; each method is one short transaction of its own."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._rows = ledger, ledger.rows

    def find(self, key: bytes) -> Kept | None:
        """Give the entry under a key, whatever its state."""
        row = self._rows.execute(f"SELECT {KEPT_COLUMNS} FROM answers WHERE key = ?", (key,)).fetchone()
        return kept_of(row) if row else None

    def keep(
        self,
        key: bytes,
        kept: Kept,
        budget: int,
        vector: bytes | None = None,
        floor: float | None = None,
        embedder: str = "",
    ) -> None:
        """Keep an entry in place of the one under its key, and the whole bank within `budget` bytes.

        `vector` is the question's, float32 and of length 1, made by the embedder of that fingerprint, or by the one in
        use; above `floor`, a cosine, a new chunk is among the nearest to it. What a former entry learnt lives on: its
        uses and tau, and its vector where none is given.
        """
        with self._ledger.transaction():
            size = _size(key, kept) + (self._vector_bytes(key) if vector is None else len(vector))
            if size > budget:
                self.drop(key)
                return
            self._make_room(budget - size, key)
            self._write(key, kept, size)
            if vector is not None:
                self._place(key, vector, table_of(embedder) if embedder else self._ledger.get("vectors") or "")
            if vector is not None or floor is not None:
                self._rows.execute("UPDATE bank_vectors SET floor = ? WHERE key = ?", (floor, key))

    def used(self, key: bytes, generation: int, now: float, evidence: Sequence[str] | None = None) -> None:
        """Count one use of an answer, found to be right in this generation.

        `evidence` is what it was found right by: another process may have put another answer in its place meanwhile.
        """
        sql = """UPDATE answers SET uses = uses + 1, used = ?1,
                 generation = iif(?3 IS NULL OR evidence = ?3, max(generation, ?2), generation) WHERE key = ?4"""
        self._rows.execute(sql, (now, generation, None if evidence is None else json.dumps(evidence), key))

    def raise_tau(self, key: bytes, tau: float) -> None:
        """Have an entry ask for at least this similarity; it never asks for less again."""
        self._rows.execute("UPDATE answers SET tau = max(coalesce(tau, ?1), ?1) WHERE key = ?2", (tau, key))

    def drop(self, key: bytes) -> None:
        """Remove an entry and what hangs on it."""
        self._rows.execute("DELETE FROM answers WHERE key = ?", (key,))

    def size(self) -> tuple[int, int]:
        """Give the number of entries and their bytes."""
        count, size = self._rows.execute("SELECT answers, bytes FROM bank_size").fetchone()
        return int(count), int(size)

    def census(self) -> dict[str, int]:
        """Count the entries by state, and those that nobody has asked."""
        what = ("state = 'answered'", "state = 'owed'", "state = 'undecoded'", "origin = 'predicted'")
        sql = f"SELECT {', '.join(f'count(*) FILTER (WHERE {each})' for each in what)} FROM answers"
        return dict(zip(("answers", "owed", "undecoded", "predicted"), self._rows.execute(sql).fetchone(), strict=True))

    def _vector_bytes(self, key: bytes) -> int:
        row = self._rows.execute("SELECT length(vector) FROM bank_vectors WHERE key = ?", (key,)).fetchone()
        return int(row[0]) if row else 0

    def _make_room(self, budget: int, key: bytes) -> None:
        """Drop the least frequently used of the others, the longest unused first (LFU, PerCache 4.1.1)."""
        own = self._rows.execute("SELECT bytes FROM answers WHERE key = ?", (key,)).fetchone()
        excess, going = self.size()[1] - (own[0] if own else 0) - budget, list[bytes]()
        rows = self._rows.execute("SELECT key, bytes FROM answers WHERE key != ? ORDER BY uses, used", (key,))
        while excess > 0:
            other, size = rows.fetchone()
            going.append(other)
            excess -= size
        rows.close()
        for other in going:
            self.drop(other)

    def _write(self, key: bytes, kept: Kept, size: int) -> None:
        """Write the row, over a former one without removing it: what hangs on that stays."""
        new = (kept.question, kept.scope, kept.writer, kept.day, kept.reply, json.dumps(kept.evidence))
        made = (kept.generation, kept.tier, kept.created, kept.made_ms, kept.state, kept.origin, kept.source)
        sql = f"""INSERT INTO answers (key, {KEPT_COLUMNS}, bytes) VALUES ({", ".join("?" * 18)})
                  ON CONFLICT (key) DO UPDATE SET {_OVER}, tau = coalesce(tau, excluded.tau)"""
        self._rows.execute(sql, (key, *new, *made, kept.tau, 0, kept.created, size))

    def _place(self, key: bytes, vector: bytes, embedder: str) -> None:
        """Give a vector a new number, unless it is the one that is there."""
        same = "SELECT 1 FROM bank_vectors WHERE key = ? AND embedder = ? AND vector = ?"
        if self._rows.execute(same, (key, embedder, vector)).fetchone() is None:
            self._rows.execute("DELETE FROM bank_vectors WHERE key = ?", (key,))
            sql = "INSERT INTO bank_vectors (key, embedder, vector) VALUES (?, ?, ?)"
            self._rows.execute(sql, (key, embedder, vector))


def kept_of(row: Sequence[Any]) -> Kept:
    """Make an entry of a row of KEPT_COLUMNS."""
    question, scope, writer, day, reply, evidence, *rest = row
    return Kept(question, scope, writer, day, reply, tuple(json.loads(evidence)), *rest)


def _size(key: bytes, kept: Kept) -> int:
    texts = (kept.question, kept.scope, kept.writer, kept.reply, kept.source, json.dumps(kept.evidence))
    return len(key) + sum(len(text.encode()) for text in texts)
