"""The QA bank: answers by key, within a budget of bytes. Knows no questions' meaning and imports no LanceDB.

A key is made by the engine of all that an answer depends on except the data; for the data, each answer carries the
generation it was made in and its evidence. What hangs on an entry (its vector, debts, hints) goes with it.
"""

import json
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import astuple, dataclass, field
from typing import Any, Final, Literal

from store.database import Ledger
from store.vectors import table_of

State = Literal["answered", "owed", "undecoded"]
Origin = Literal["user", "predicted"]
KEPT_COLUMNS: Final = """question, scope, writer, day, reply, evidence, generation, tier, created, made_ms,
              state, origin, source, tau, uses, used"""
_REPLACED = ("reply", "evidence", "generation", "tier", "created", "made_ms", "state", "origin", "source", "bytes")
_OVER = ", ".join(f"{name} = excluded.{name}" for name in ("question", *_REPLACED))


@dataclass(frozen=True, slots=True)
class CachedAnswer:
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


class AnswerBank:
    """Entries by key; each method is one short transaction of its own."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._rows = ledger, ledger.rows

    def find(self, key: bytes) -> CachedAnswer | None:
        """Return the entry under a key, whatever its state."""
        row = self._rows.execute(f"SELECT {KEPT_COLUMNS} FROM answers WHERE key = ?", (key,)).fetchone()
        return kept_of(row) if row else None

    def keep(
        self,
        key: bytes,
        kept: CachedAnswer,
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
        """Return the number of entries and their bytes."""
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

    def _write(self, key: bytes, kept: CachedAnswer, size: int) -> None:
        """Write the row, over a former one without removing it: what hangs on that stays."""
        new = (kept.question, kept.scope, kept.writer, kept.day, kept.reply, json.dumps(kept.evidence))
        made = (kept.generation, kept.tier, kept.created, kept.made_ms, kept.state, kept.origin, kept.source)
        sql = f"""INSERT INTO answers (key, {KEPT_COLUMNS}, bytes) VALUES ({", ".join("?" * 18)})
                  ON CONFLICT (key) DO UPDATE SET {_OVER}, tau = coalesce(tau, excluded.tau)"""
        self._rows.execute(sql, (key, *new, *made, kept.tau, 0, kept.created, size))

    def _place(self, key: bytes, vector: bytes, embedder: str) -> None:
        """Return a vector a new number, unless it is the one that is there."""
        same = "SELECT 1 FROM bank_vectors WHERE key = ? AND embedder = ? AND vector = ?"
        if self._rows.execute(same, (key, embedder, vector)).fetchone() is None:
            self._rows.execute("DELETE FROM bank_vectors WHERE key = ?", (key,))
            sql = "INSERT INTO bank_vectors (key, embedder, vector) VALUES (?, ?, ?)"
            self._rows.execute(sql, (key, embedder, vector))


def kept_of(row: Sequence[Any]) -> CachedAnswer:
    """Make an entry of a row of KEPT_COLUMNS."""
    question, scope, writer, day, reply, evidence, *rest = row
    return CachedAnswer(question, scope, writer, day, reply, tuple(json.loads(evidence)), *rest)


def _size(key: bytes, kept: CachedAnswer) -> int:
    texts = (kept.question, kept.scope, kept.writer, kept.reply, kept.source, json.dumps(kept.evidence))
    return len(key) + sum(len(text.encode()) for text in texts)


class RefreshCandidates:
    """At most one hint a question: the chunk that was met last."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._rows = ledger, ledger.rows

    def add(self, keys: Iterable[bytes], chunk: str, at: float) -> None:
        """Note that a new chunk is near to these questions, as far as they are still kept."""
        sql = "INSERT OR REPLACE INTO hints SELECT key, ?, ? FROM answers WHERE key = ?"
        with nullcontext() if self._rows.in_transaction else self._ledger.transaction():
            self._rows.executemany(sql, [(chunk, at, key) for key in keys])

    def all(self) -> list[tuple[bytes, str, float]]:
        """Return keys with chunk and time, the question that was used most often first."""
        sql = """SELECT key, chunk, at FROM hints JOIN answers USING (key)
                 ORDER BY uses DESC, answers.used DESC, key"""
        return [(key, chunk, at) for key, chunk, at in self._rows.execute(sql)]

    def done(self, key: bytes) -> None:
        """Strike a question out: it was answered anew."""
        self._rows.execute("DELETE FROM hints WHERE key = ?", (key,))

    def count(self) -> int:
        """Count the questions."""
        return int(self._rows.execute("SELECT count(*) FROM hints").fetchone()[0])


def upgrade_answer_json(reply: str, question: str, tier: str, made_ms: float) -> str:
    """Return the JSON of a cached answer from before schema 2 as schema 2 has it; any other text as it is."""
    try:
        old = json.loads(reply)
        sources = old["sources"]
        text = old["answer"]
    except (KeyError, TypeError, ValueError):
        return reply
    if "schema" in old:
        return reply
    stages = ("embed", "match", "retrieve", "load", "prefill", "first_token", "decode", "total")
    new = {
        "schema": 2,
        "question": question,
        "answer": text,
        "answered": text is not None,
        "highlight": old["highlight"],
        "tier": tier,
        "writer": old["writer"],
        "model": old["model"],
        "matched_question": old["matched_question"],
        "similarity": old["similarity"],
        "age_s": None,
        "stale": False,
        "lead": old.get("lead", 0),
        "sources": sources,
        "tokens": None,
        "ms": dict.fromkeys(stages) | {"total": made_ms},
    }
    return json.dumps(new)


@dataclass(frozen=True, slots=True)
class Notice:
    """An answer as it was seen and as it is now (None: there is none any more).

    `because` is the JSON of the source that changed it, empty where none did.
    """

    key: bytes
    kind: Literal["wrong", "changed"]
    before: str
    after: str | None
    because: str
    at: float  # seconds since the epoch


class Notices:
    """What is still to be told, at most one notice a question."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._rows = ledger, ledger.rows

    def put(self, notice: Notice) -> None:
        """Have this told: after an untold notice what was seen is what that says, and a way there and back is nothing.

        Nothing is told of an entry that has gone.
        """
        sql = """INSERT INTO notices SELECT ?1, ?2, ?3, ?4, ?5, ?6 FROM answers WHERE key = ?1
                 ON CONFLICT (key) DO UPDATE SET after = excluded.after, because = excluded.because, at = excluded.at"""
        with nullcontext() if self._rows.in_transaction else self._ledger.transaction():
            self._rows.execute(sql, astuple(notice))
            self._rows.execute("DELETE FROM notices WHERE key = ? AND before IS after", (notice.key,))

    def take(self, key: bytes) -> Notice | None:
        """Return what is to be told of a question; nobody is given it again."""
        row = self._rows.execute("DELETE FROM notices WHERE key = ? RETURNING *", (key,)).fetchone()
        return Notice(*row) if row else None

    def count(self) -> int:
        """Count what is untold."""
        return int(self._rows.execute("SELECT count(*) FROM notices").fetchone()[0])


JUDGED = 20_000  # the latest judgements are kept


@dataclass(frozen=True, slots=True)
class PendingVerification:
    """A question (`key`) that was served the answer of another (`matched`), and is owed its own."""

    key: bytes
    matched: bytes
    similarity: float  # the cosine of the two questions
    served: str  # the answer it was given
    at: float  # seconds since the epoch


class Verifications:
    """The debts of one bank."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._rows = ledger, ledger.rows

    def add(self, pending: PendingVerification) -> bool:
        """Note a debt in place of a former one of the question; False where one of the two entries has gone."""
        sql = """INSERT OR REPLACE INTO owed SELECT ?1, ?2, ?3, ?4, ?5
                 WHERE (SELECT count(*) FROM answers WHERE key IN (?1, ?2)) = 2"""
        return self._rows.execute(sql, astuple(pending)).rowcount > 0

    def find(self, key: bytes) -> PendingVerification | None:
        """Return what a question is owed."""
        row = self._rows.execute("SELECT * FROM owed WHERE key = ?", (key,)).fetchone()
        return PendingVerification(*row) if row else None

    def all(self) -> list[PendingVerification]:
        """Return the debts, the oldest first."""
        return [PendingVerification(*row) for row in self._rows.execute("SELECT * FROM owed ORDER BY at, key")]

    def count(self) -> int:
        """Count the debts."""
        return int(self._rows.execute("SELECT count(*) FROM owed").fetchone()[0])

    def settle(self, key: bytes, right: bool, at: float) -> None:
        """Strike a question's debt out, and keep whether what it was served was right; nothing where it has none."""
        with nullcontext() if self._rows.in_transaction else self._ledger.transaction():
            keep = """INSERT INTO judged (matched, similarity, "right", at)
                      SELECT matched, similarity, ?, ? FROM owed WHERE key = ?"""
            if self._rows.execute(keep, (right, at, key)).rowcount:
                self._rows.execute("DELETE FROM owed WHERE key = ?", (key,))
                self._rows.execute("DELETE FROM judged WHERE id <= (SELECT max(id) FROM judged) - ?", (JUDGED,))

    def drop(self, key: bytes) -> None:
        """Strike a question's debt out without a judgement."""
        self._rows.execute("DELETE FROM owed WHERE key = ?", (key,))

    def rate(self) -> tuple[int, int]:
        """Return how many served answers were judged, and how many of them were wrong."""
        judged, wrong = self._rows.execute(
            'SELECT count(*), count(*) FILTER (WHERE NOT "right") FROM judged'
        ).fetchone()
        return int(judged), int(wrong)

    def labels(self, matched: bytes | None) -> list[tuple[float, bool]]:
        """Return the similarity, and whether right, of each judgement on an entry, or on all (None); oldest first."""
        sql = 'SELECT similarity, "right" FROM judged WHERE ?1 IS NULL OR matched = ?1 ORDER BY id'
        return [(similarity, bool(right)) for similarity, right in self._rows.execute(sql, (matched,))]


@dataclass(frozen=True, slots=True)
class WriterKey:
    """Entries that can be made now: by writers whose names begin so; of those whose meaning moves, on this day."""

    writer: str
    day: str  # local, ISO

    @property
    def condition(self) -> tuple[str, tuple[object, ...]]:
        """Return it as SQL, and its values."""
        sql = "substr(writer, 1, ?) = ? AND coalesce(day, ?) = ?"
        return sql, (len(self.writer), self.writer, self.day, self.day)


def older(ledger: Ledger, writer_key: WriterKey, generation: int, limit: int) -> list[bytes]:
    """Return the keys of what was made in an older generation, the most used first."""
    return _keys(ledger, writer_key, "generation < ? AND state != 'owed'", (generation,), "used", limit)


def undecoded(ledger: Ledger, writer_key: WriterKey, limit: int) -> list[bytes]:
    """Return the keys of what was read ahead and not answered, the latest first."""
    return _keys(ledger, writer_key, "state = 'undecoded'", (), "created", limit)


def stamp(ledger: Ledger, key: bytes, generation: int, evidence: Sequence[str]) -> None:
    """Say that what was made from this evidence was found right in a generation, without counting a use."""
    sql = "UPDATE answers SET generation = max(generation, ?) WHERE key = ? AND evidence = ?"
    ledger.rows.execute(sql, (generation, key, json.dumps(evidence)))


def typical_s(ledger: Ledger, writer: str) -> float | None:
    """Return the seconds that an answer of such a writer takes to make, on average; None where there is none."""
    sql = "SELECT avg(made_ms) / 1000 FROM answers WHERE substr(writer, 1, ?) = ? AND state = 'answered'"
    found = ledger.rows.execute(sql, (len(writer), writer)).fetchone()[0]
    return None if found is None else float(found)


def wanted(ledger: Ledger, writer_key: WriterKey, limit: int) -> list[bytes]:
    """Return the keys of what was made, the most used first."""
    return _keys(ledger, writer_key, "state != 'owed'", (), "used", limit)


def _keys(
    ledger: Ledger, writer_key: WriterKey, also: str, values: tuple[object, ...], then: str, limit: int
) -> list[bytes]:
    condition, about = writer_key.condition
    sql = f"SELECT key FROM answers WHERE {condition} AND {also} ORDER BY uses DESC, {then} DESC LIMIT ?"
    return [key for (key,) in ledger.rows.execute(sql, (*about, *values, limit))]


class RejectedAnswers:
    """The last wrong answer of each question."""

    def __init__(self, ledger: Ledger) -> None:
        self._rows = ledger.rows

    def add(self, key: bytes, answer: str, at: float) -> None:
        """Note a wrong answer, in place of a former one."""
        self._rows.execute("INSERT OR REPLACE INTO wrong VALUES (?, ?, ?)", (key, answer, at))

    def find(self, key: bytes) -> tuple[str, float] | None:
        """Return the wrong answer of a question, and when that was said in seconds since the epoch."""
        row = self._rows.execute("SELECT answer, at FROM wrong WHERE key = ?", (key,)).fetchone()
        return (row[0], row[1]) if row else None

    def count(self) -> int:
        """Count the questions."""
        return int(self._rows.execute("SELECT count(*) FROM wrong").fetchone()[0])
