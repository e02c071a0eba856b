"""The answer cache: answers by key within a byte budget, pending verifications and refreshes, and names used in keys.

The engine makes a key from everything that an answer depends on except the data; for the data, each answer carries the
generation it was made in and its evidence. Removing an entry removes its vector, verification and refresh candidate.
Knows nothing of what questions mean and imports no LanceDB.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, fields, replace
from math import exp, inf, lgamma, log, log1p
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import astuple

from store.database import Ledger, LedgerRows, intact
from store.types import table_of

State = Literal["answered", "pending", "prefilled"]
Origin = Literal["user", "predicted"]
_REPLACED = ("reply", "evidence", "generation", "tier", "created", "made_ms", "state", "origin", "bytes")
_OVER = ", ".join(f"{name} = excluded.{name}" for name in ("question", *_REPLACED))


@dataclass(frozen=True, slots=True)
class CachedAnswer:
    """An entry: `reply` is the answer's JSON, empty unless the state is answered; `evidence` its chunk ids in order."""

    question: str
    scope: str
    writer: str
    day: str | None  # the local date, for time-sensitive questions
    reply: str
    evidence: tuple[str, ...]
    generation: int
    tier: str
    created: float  # seconds since the epoch
    made_ms: float  # what computing it took
    state: State = "answered"
    origin: Origin = "user"
    source: str = ""  # the predictor, if any
    tau: float | None = None  # the similarity threshold learnt for this entry; None: the general one
    uses: int = field(default=0, compare=False)
    last_used: float = field(default=0.0, compare=False)  # seconds since the epoch

    def __post_init__(self) -> None:
        assert bool(self.reply) == (self.state == "answered"), f"{self.state} with {len(self.reply)} characters"


ANSWER_COLUMNS: Final = ", ".join(one.name for one in fields(CachedAnswer))


class AnswerBank(LedgerRows):
    """Entries by key; each method is one short transaction of its own."""

    def find(self, key: bytes) -> CachedAnswer | None:
        """Return the entry under a key, whatever its state; None if its row is damaged."""
        row = self._rows.execute(f"SELECT {ANSWER_COLUMNS} FROM intact_answers WHERE key = ?", (key,)).fetchone()
        return answer_from_row(row) if row else None

    def answered(self) -> Iterator[tuple[bytes, CachedAnswer]]:
        """Yield the keys and entries that have an answer, the most used first."""
        sql = "SELECT key FROM answers WHERE state = 'answered' ORDER BY uses DESC, last_used DESC, key"
        for (key,) in self._rows.execute(sql).fetchall():
            if found := self.find(key):
                yield key, found

    def put(
        self,
        key: bytes,
        answer: CachedAnswer,
        budget: int,
        vector: bytes | None = None,
        floor: float | None = None,
        embedder: str = "",
    ) -> None:
        """Store an entry in place of the one under its key, and evict others to stay within `budget` bytes.

        `vector` is the question's, float32 and of length 1, made by the embedder of that fingerprint, or by the one in
        use; above `floor`, a cosine, a new chunk is among the nearest to it. The new entry inherits uses and tau of the
        former one, and its predictor and vector where none is given.
        """
        with self.ledger.transaction():
            former = self._bytes("length(vector) FROM question_vectors", key)
            about = (answer.question, answer.scope, answer.writer, answer.source, json.dumps(answer.evidence))
            size = len(key) + sum(len(text.encode()) for text in (*about, answer.reply))
            size += former if vector is None else len(vector)
            if size > budget:
                self.drop(key)
                return
            self._make_room(budget - size, key)
            self._write(key, answer, size)
            if vector is not None:
                table = table_of(embedder) if embedder else self.ledger.get("vectors") or ""
                sql = """INSERT OR REPLACE INTO question_vectors (key, embedder, vector) SELECT ?1, ?2, ?3
                         WHERE (?2, ?3) NOT IN (SELECT embedder, vector FROM question_vectors WHERE key = ?1)"""
                self._rows.execute(sql, (key, table, vector))  # the same one keeps its number
            if vector is not None or floor is not None:
                self._rows.execute("UPDATE question_vectors SET floor = ? WHERE key = ?", (floor, key))

    def record_use(self, key: bytes, generation: int, now: float, evidence: Sequence[str] | None = None) -> None:
        """Count one use of an answer, which was found valid in this generation.

        `evidence` is what it was validated against: another process may have replaced the answer meanwhile.
        """
        sql = """UPDATE answers SET uses = uses + 1, last_used = ?1,
                 generation = iif(?3 IS NULL OR evidence = ?3, max(generation, ?2), generation) WHERE key = ?4"""
        self._rows.execute(sql, (now, generation, None if evidence is None else json.dumps(evidence), key))

    def raise_tau(self, key: bytes, tau: float) -> None:
        """Raise an entry's similarity threshold to at least this; it is never lowered."""
        self._rows.execute("UPDATE answers SET tau = max(coalesce(tau, ?1), ?1) WHERE key = ?2", (tau, key))

    def drop(self, key: bytes) -> None:
        """Remove an entry with its vector, verification and refresh candidate."""
        self._rows.execute("DELETE FROM answers WHERE key = ?", (key,))

    def size(self) -> tuple[int, int]:
        """Return the number of entries and their bytes."""
        count, size = self._rows.execute("SELECT answers, bytes FROM answers_size").fetchone()
        return int(count), int(size)

    def counts(self) -> dict[str, int]:
        """Count the entries by state, and those that were predicted and not asked yet."""
        what = ("state = 'answered'", "state = 'pending'", "state = 'prefilled'", "origin = 'predicted'")
        sql = f"SELECT {', '.join(f'count(*) FILTER (WHERE {each})' for each in what)} FROM answers"
        names = ("answered", "pending", "prefilled", "predicted")
        return dict(zip(names, self._rows.execute(sql).fetchone(), strict=True))

    def _bytes(self, what: str, key: bytes) -> int:
        row = self._rows.execute(f"SELECT {what} WHERE key = ?", (key,)).fetchone()
        return int(row[0]) if row else 0

    def _make_room(self, budget: int, key: bytes) -> None:
        """Evict the least frequently used of the others, the least recently used first (LFU, PerCache 4.1.1)."""
        sql = """DELETE FROM answers WHERE key IN (SELECT key FROM (
                 SELECT key, sum(bytes) OVER (ORDER BY uses DESC, last_used DESC, key DESC) AS kept FROM answers
                 WHERE key != ?) WHERE kept > ?)"""
        if self.size()[1] - self._bytes("bytes FROM answers", key) > budget:
            self._rows.execute(sql, (key, budget))

    def _write(self, key: bytes, answer: CachedAnswer, size: int) -> None:
        """Write the row, updating a former one in place: rows that refer to it stay, unless it is damaged."""
        self._rows.execute(f"DELETE FROM answers WHERE key = ? AND {intact('answers')} IS NOT TRUE", (key,))
        new = replace(answer, uses=0, last_used=answer.created)
        row = [getattr(new, name) for name in ANSWER_COLUMNS.split(", ")]
        row[5] = json.dumps(answer.evidence)
        sql = f"""INSERT INTO answers (key, {ANSWER_COLUMNS}, bytes) VALUES ({", ".join("?" * 18)})
                  ON CONFLICT (key) DO UPDATE SET {_OVER}, tau = coalesce(tau, excluded.tau),
                  source = iif(excluded.source = '', source, excluded.source)"""
        self._rows.execute(sql, (key, *row, size))


def answer_from_row(row: Sequence[Any]) -> CachedAnswer:
    """Return the entry of a row of ANSWER_COLUMNS."""
    question, scope, writer, day, reply, evidence, *rest = row
    return CachedAnswer(question, scope, writer, day, reply, tuple(json.loads(evidence)), *rest)


REMOVED_S = 86_400.0  # for which a removed chunk is remembered: no job or answer that was begun before takes as long
OF_REMOVED = "EXISTS (SELECT 1 FROM json_each({}) JOIN removed_chunks ON chunk = value)"
_ASKED = f"""SELECT key FROM history JOIN retrievals ON retrievals.question = history.id
             WHERE key IS NOT NULL AND {OF_REMOVED.format("retrievals.chunks")}"""
_MADE = "SELECT question FROM predictions JOIN removed_chunks USING (chunk)"
# In this order: which question an answer belonged to is known by its log of retrievals.
_DROP_DERIVED = (
    # With the entries go their vectors, verifications, notices and refresh candidates, by their foreign keys.
    f"DELETE FROM rejected_answers WHERE key IN (SELECT key FROM answers WHERE {OF_REMOVED.format('evidence')})",
    f"DELETE FROM answers WHERE {OF_REMOVED.format('evidence')}",
    # What was derived from an earlier answer to the same question, which cited other chunks.
    f"DELETE FROM rejected_answers WHERE key IN ({_ASKED})",
    f"DELETE FROM notices WHERE key IN ({_ASKED})",
    f"DELETE FROM verifications WHERE key IN ({_ASKED}) OR matched IN ({_ASKED})",
    "DELETE FROM refresh_candidates WHERE chunk IN (SELECT chunk FROM removed_chunks)",
    # Predicted questions, unless the user has asked the same meanwhile.
    f"""DELETE FROM answers WHERE origin = 'predicted' AND question IN ({_MADE})
        AND key NOT IN (SELECT key FROM history WHERE key IS NOT NULL)""",
    f"DELETE FROM jobs WHERE subject IN ({_MADE})",
    f"DELETE FROM predictions WHERE question IN ({_MADE})",
    *(
        f"""UPDATE retrievals SET {column} = (
                SELECT json_group_array(value) FROM json_each({column})
                WHERE value NOT IN (SELECT chunk FROM removed_chunks))
            WHERE {OF_REMOVED.format(f"retrievals.{column}")}"""
        for column in ("best", "chunks")
    ),
)


def mark_removed(ledger: Ledger, chunks: Iterable[str], now: float) -> None:
    """Remember removed chunks, inside the caller's transaction."""
    ledger.rows.executemany("INSERT OR REPLACE INTO removed_chunks VALUES (?, ?)", [(chunk, now) for chunk in chunks])


def unmark_removed(ledger: Ledger, chunks: Iterable[str]) -> None:
    """Forget that chunks were removed, since they are stored again; inside the caller's transaction."""
    ledger.rows.executemany("DELETE FROM removed_chunks WHERE chunk = ?", [(chunk,) for chunk in chunks])


def drop_derived(ledger: Ledger, now: float) -> None:
    """Remove what was made from removed chunks, inside the caller's transaction.

    These are answers in any state, rejected answers, notices and predicted questions. Questions that the user asked
    stay in the history; the chunks go from the log of what they retrieved.
    """
    if ledger.rows.execute("SELECT 1 FROM removed_chunks LIMIT 1").fetchone() is None:
        return
    for sql in _DROP_DERIVED:
        ledger.rows.execute(sql)
    ledger.rows.execute("DELETE FROM removed_chunks WHERE at < ?", (now - REMOVED_S,))


class RefreshCandidates(LedgerRows):
    """Questions that a new chunk is near to, each with the latest such chunk: their answers may be stale."""

    def add(self, keys: Iterable[bytes], chunk: str, at: float) -> None:
        """Record that a new chunk is near to those of these questions that are still cached."""
        sql = "INSERT OR REPLACE INTO refresh_candidates SELECT key, ?, ? FROM answers WHERE key = ?"
        with nullcontext() if self._rows.in_transaction else self.ledger.transaction():
            self._rows.executemany(sql, [(chunk, at, key) for key in keys])

    def all(self) -> list[tuple[bytes, str, float]]:
        """Return keys with chunk and time, the most used question first."""
        sql = """SELECT key, chunk, at FROM refresh_candidates JOIN answers USING (key)
                 ORDER BY uses DESC, last_used DESC, key"""
        return [(key, chunk, at) for key, chunk, at in self._rows.execute(sql)]

    def remove(self, key: bytes) -> None:
        """Remove a question, after its answer was refreshed."""
        self._rows.execute("DELETE FROM refresh_candidates WHERE key = ?", (key,))


class Notice(Struct, frozen=True):
    """A correction to show: an answer `before` and `after` (None: there is no answer any more)."""

    key: bytes
    kind: Literal["wrong", "changed"]
    before: str
    after: str | None
    cause: str  # the JSON of the source that changed it, empty where none did
    at: float  # seconds since the epoch


_NOTICE = "key, kind, before, after, cause, at"


class Notices(LedgerRows):
    """Corrections that were not shown yet, at most one a question."""

    def add(self, notice: Notice) -> None:
        """Add a notice of a kept entry, merged with an unshown one; a change that was undone leaves none."""
        sql = f"""INSERT INTO notices ({_NOTICE}) SELECT ?1, ?2, ?3, ?4, ?5, ?6 FROM answers WHERE key = ?1
                 ON CONFLICT (key) DO UPDATE SET after = excluded.after, cause = excluded.cause, at = excluded.at"""
        with nullcontext() if self._rows.in_transaction else self.ledger.transaction():
            self._rows.execute(f"DELETE FROM notices WHERE key = ? AND {intact('notices')} IS NOT TRUE", (notice.key,))
            self._rows.execute(sql, astuple(notice))
            self._rows.execute("DELETE FROM notices WHERE key = ? AND before IS after", (notice.key,))

    def pop(self, key: bytes) -> Notice | None:
        """Remove and return the notice of a question."""
        sql = f"DELETE FROM notices WHERE key = ? AND {intact('notices')} RETURNING {_NOTICE}"
        row = self._rows.execute(sql, (key,)).fetchone()
        return Notice(*row) if row else None

    def changed(self, since: float) -> list[tuple[str, Notice]]:
        """Return the notices of changes since a time, in seconds since the epoch, each with its question."""
        sql = f"""SELECT question, {", ".join(f"notices.{name}" for name in _NOTICE.split(", "))} FROM notices
                  JOIN answers USING (key) WHERE notices.at >= ? AND notices.cause != '' AND {intact("notices")}
                  ORDER BY notices.at"""
        return [(question, Notice(*row)) for question, *row in self._rows.execute(sql, (since,))]

    def count(self) -> int:
        """Count the notices."""
        return int(self._rows.execute("SELECT count(*) FROM notices").fetchone()[0])


MAX_RESULTS = 20_000  # verification results; older ones are deleted


class PendingVerification(Struct, frozen=True):
    """A question (`key`) that was served the answer of another (`matched`), to be verified against its own."""

    key: bytes
    matched: bytes
    similarity: float  # the cosine of the two questions
    served: str  # the answer it was served
    at: float  # seconds since the epoch


_VERIFICATION = "key, matched, similarity, served, at"


class Verifications(LedgerRows):
    """Semantic hits that wait for verification, and the results of past ones."""

    def add(self, pending: PendingVerification) -> bool:
        """Replace the question's hit; False if one of the two entries was removed."""
        sql = f"""INSERT OR REPLACE INTO verifications ({_VERIFICATION}) SELECT ?1, ?2, ?3, ?4, ?5
                 WHERE (SELECT count(*) FROM answers WHERE key IN (?1, ?2)) = 2"""
        return self._rows.execute(sql, astuple(pending)).rowcount > 0

    def find(self, key: bytes) -> PendingVerification | None:
        """Return the pending verification of a question."""
        row = self._rows.execute(f"SELECT {_VERIFICATION} FROM intact_verifications WHERE key = ?", (key,)).fetchone()
        return PendingVerification(*row) if row else None

    def all(self) -> list[PendingVerification]:
        """Return the pending verifications, oldest first."""
        sql = f"SELECT {_VERIFICATION} FROM intact_verifications ORDER BY at, key"
        return [PendingVerification(*row) for row in self._rows.execute(sql)]

    def resolve(self, key: bytes, correct: bool, at: float) -> None:
        """Replace a question's pending verification, if it has one, with its result."""
        with nullcontext() if self._rows.in_transaction else self.ledger.transaction():
            insert = """INSERT INTO verification_results (matched, similarity, correct, at)
                        SELECT matched, similarity, ?, ? FROM verifications WHERE key = ?"""
            if self._rows.execute(insert, (correct, at, key)).rowcount:
                self.drop(key)
                prune = "DELETE FROM verification_results WHERE id <= (SELECT max(id) FROM verification_results) - ?"
                self._rows.execute(prune, (MAX_RESULTS,))

    def drop(self, key: bytes) -> None:
        """Remove a question's pending verification without a result."""
        self._rows.execute("DELETE FROM verifications WHERE key = ?", (key,))

    def result_counts(self) -> tuple[int, int]:
        """Return how many semantic hits were verified, and how many of them were wrong."""
        sql = "SELECT count(*), count(*) FILTER (WHERE NOT correct) FROM verification_results"
        verified, wrong = self._rows.execute(sql).fetchone()
        return int(verified), int(wrong)

    def labels(self, matched: bytes | None) -> list[tuple[float, bool]]:
        """Return similarity and correctness of each result on an entry, or on all (None); oldest first."""
        sql = "SELECT similarity, correct FROM verification_results WHERE ?1 IS NULL OR matched = ?1 ORDER BY id"
        return [(similarity, bool(correct)) for similarity, correct in self._rows.execute(sql, (matched,))]


def upper(wrong: int, judged: int, confidence: float = 0.95) -> float:
    """Return the upper end of the exact one-sided interval of a share: wrong of judged (Clopper and Pearson 1934)."""
    low, high, counts = 0.0, 1.0, range(wrong + 1)
    ways = [lgamma(judged + 1) - lgamma(k + 1) - lgamma(judged - k + 1) for k in counts]
    for _ in range(50 if wrong < judged else 0):  # halvings of the range that it is in
        share = (low + high) / 2
        odds = (k * log(share) + (judged - k) * log1p(-share) for k in counts)
        at_most = sum(exp(way + chance) for way, chance in zip(ways, odds, strict=True))  # a probability
        low, high = (share, high) if at_most > 1 - confidence else (low, share)
    return high


def most_used(
    ledger: Ledger, writer: str, day: str, limit: int, *, before: int | None = None, prefilled: bool = False
) -> list[bytes]:
    """Return the keys of entries, the most used first; of those `before` a generation, or only `prefilled`, alone.

    They are of writers with this prefix, and where they are time-sensitive of this day (local, ISO).
    """
    which, then = ("state = 'prefilled'", "created") if prefilled else ("state != 'pending'", "last_used")
    sql = f"""SELECT key FROM answers WHERE substr(writer, 1, ?) = ? AND coalesce(day, ?) = ? AND {which}
              AND generation < coalesce(?, generation + 1) ORDER BY uses DESC, {then} DESC LIMIT ?"""
    return [key for (key,) in ledger.rows.execute(sql, (len(writer), writer, day, day, before, limit))]


def confirm(ledger: Ledger, key: bytes, generation: int, evidence: Sequence[str]) -> None:
    """Mark an entry with this evidence as valid in a generation, without counting a use."""
    sql = "UPDATE answers SET generation = max(generation, ?) WHERE key = ? AND evidence = ?"
    ledger.rows.execute(sql, (generation, key, json.dumps(evidence)))


def mean_seconds(ledger: Ledger, writer: str) -> float | None:
    """Return the mean seconds that an answer of such a writer takes; None if there is none."""
    sql = "SELECT avg(made_ms) / 1000 FROM answers WHERE substr(writer, 1, ?) = ? AND state = 'answered'"
    found = ledger.rows.execute(sql, (len(writer), writer)).fetchone()[0]
    return None if found is None else float(found)


def predicted_use(ledger: Ledger, before: float = inf) -> dict[str, tuple[int, int]]:
    """Return by predictor how many of its cached answers from before a time somebody was given, and how many are."""
    sql = """SELECT source, count(*) FILTER (WHERE uses > 0 OR origin = 'user'), count(*) FROM answers
             WHERE source != '' AND state = 'answered' AND created < ? GROUP BY source"""
    return {source: (used, made) for source, used, made in ledger.rows.execute(sql, (before,))}


def known_questions(ledger: Ledger) -> list[str]:
    """Return all questions of the answer cache and of the history, each once."""
    rows = ledger.rows.execute("SELECT question FROM intact_answers UNION SELECT question FROM history")
    return [question for (question,) in rows]


def names_of(ledger: Ledger, words: Sequence[str]) -> Mapping[str, str]:
    """Return those of some words and pairs of words that name people, each in the form that most documents have."""
    sql = "SELECT word, form FROM names WHERE word IN (SELECT value FROM json_each(?)) ORDER BY documents, form"
    return dict(ledger.rows.execute(sql, (json.dumps(words),)).fetchall())


class RejectedAnswers(LedgerRows):
    """The last answer of each question that the user rejected."""

    def add(self, key: bytes, answer: str, at: float) -> None:
        """Add a rejected answer, in place of a former one."""
        sql = "INSERT OR REPLACE INTO rejected_answers (key, answer, at) VALUES (?, ?, ?)"
        self._rows.execute(sql, (key, answer, at))

    def find(self, key: bytes) -> tuple[str, float] | None:
        """Return the rejected answer of a question, and when it was rejected in seconds since the epoch."""
        row = self._rows.execute("SELECT answer, at FROM intact_rejected_answers WHERE key = ?", (key,)).fetchone()
        return (row[0], row[1]) if row else None

    def count(self) -> int:
        """Count the questions."""
        return int(self._rows.execute("SELECT count(*) FROM rejected_answers").fetchone()[0])
