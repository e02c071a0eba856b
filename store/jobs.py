"""Work for the nights to come, a row a job: what it is about, what it should cost and bring, how often it was begun.

A job that was begun and never ended is taken up again, a few times at most. Knows no kind of work.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from store.database import Ledger

_USED = {
    "answers": "answers.uses > 0 OR answers.origin = 'user'",
    "kv_nodes": "kv_nodes.uses > idle_made.uses",
}


@dataclass(frozen=True, slots=True)
class PredictorCounts:
    """What one source predicted and what of that paid, maybe in parts; times in seconds since the epoch."""

    source: str
    predicted: int
    paid: float
    first: float
    last: float
    last_paid: float | None


class PredictionLog:
    """The counts of one home."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._rows = ledger, ledger.rows

    def predicted(self, counts: Mapping[str, int], at: float) -> None:
        """Count predictions by source."""
        sql = """INSERT INTO foreseen VALUES (?1, ?2, 0, ?3, ?3, NULL) ON CONFLICT DO UPDATE SET
                 predicted = predicted + excluded.predicted, last = excluded.last"""
        with self._ledger.transaction():
            self._rows.executemany(sql, [(source, count, at) for source, count in counts.items()])

    def gather(self, at: float) -> None:
        """Pay for what was used for the first time since it was made; for a transaction of the caller's."""
        for table, used in _USED.items():
            sql = f"""SELECT idle_made.source, sum(pays) FROM idle_made JOIN {table} USING (key)
                      WHERE pays > 0 AND ({used}) GROUP BY 1"""
            for source, paid in self._rows.execute(sql).fetchall():
                update = "UPDATE foreseen SET paid = paid + ?, last_paid = ? WHERE source = ?"
                self._rows.execute(update, (paid, at, source))
            sql = f"UPDATE idle_made SET pays = 0 FROM {table} WHERE {table}.key = idle_made.key AND ({used})"
            self._rows.execute(sql)

    def all(self) -> list[PredictorCounts]:
        """Return the counts by source."""
        sql = "SELECT source, predicted, paid, first, last, last_paid FROM foreseen ORDER BY source"
        return [PredictorCounts(*row) for row in self._rows.execute(sql)]


MOST_ATTEMPTS = 5  # then a job is given up, for it may be what kills the process
_AGAIN_S = 7 * 86_400.0  # after which it may have become another one's fault
_COLUMNS = "kind, subject, cost_s, benefit_s, created, source, attempts, state"


@dataclass(frozen=True, slots=True)
class JobRow:
    """A stored job; `source` is the predictor that asked for it, if any. There is one row of a kind and subject."""

    kind: str
    subject: str
    cost_s: float
    benefit_s: float
    created: float  # seconds since the epoch
    source: str = ""
    attempts: int = 0
    state: str = "waiting"  # or begun


class Jobs:
    """The jobs of one home."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._rows = ledger, ledger.rows

    def offer(self, jobs: Sequence[JobRow]) -> None:
        """Add jobs, or say anew what known ones should cost and bring; how often those were begun stays known."""
        with self._ledger.transaction():
            for job in jobs:
                self._offer(job)

    def replace(self, kind: str, jobs: Sequence[JobRow]) -> None:
        """Offer jobs of a kind, and let those go that are not among them."""
        wanted = {job.subject for job in jobs}
        with self._ledger.transaction():
            for (subject,) in self._rows.execute("SELECT subject FROM jobs WHERE kind = ?", (kind,)).fetchall():
                if subject not in wanted:
                    self.end(kind, subject)
            for job in jobs:
                self._offer(job)

    def every(self, kind: str) -> list[JobRow]:
        """Return the jobs of a kind, given up or not, those first that bring most for each second."""
        sql = f"""SELECT {_COLUMNS} FROM jobs WHERE kind = ?
                  ORDER BY benefit_s / max(cost_s, 1e-9) DESC, created, subject"""
        return [JobRow(*row) for row in self._rows.execute(sql, (kind,))]

    def waiting(self, kind: str) -> list[JobRow]:
        """Return the jobs of a kind that were not given up, in the same order."""
        return [job for job in self.every(kind) if job.attempts < MOST_ATTEMPTS]

    def given_up(self, kind: str) -> set[str]:
        """Return the subjects of those jobs of a kind that were begun too often."""
        sql = "SELECT subject FROM jobs WHERE kind = ? AND attempts >= ?"
        return {subject for (subject,) in self._rows.execute(sql, (kind, MOST_ATTEMPTS))}

    def begin(self, kind: str, subject: str) -> None:
        """Say that a job is being done: whoever is killed over it has tried it."""
        sql = "UPDATE jobs SET attempts = attempts + 1, state = 'begun' WHERE kind = ? AND subject = ?"
        self._rows.execute(sql, (kind, subject))

    def put_back(self, kind: str, subject: str) -> None:
        """Say that a job was broken off through no fault of its own."""
        sql = "UPDATE jobs SET attempts = attempts - 1, state = 'waiting' WHERE kind = ? AND subject = ?"
        self._rows.execute(sql, (kind, subject))

    def fail(self, kind: str, subject: str) -> None:
        """Say that a job did not succeed: it may be tried again."""
        self._rows.execute("UPDATE jobs SET state = 'waiting' WHERE kind = ? AND subject = ?", (kind, subject))

    def end(self, kind: str, subject: str) -> None:
        """Let go of a job that is done, or that nobody wants any more."""
        self._rows.execute("DELETE FROM jobs WHERE kind = ? AND subject = ?", (kind, subject))

    def counts(self) -> dict[str, int]:
        """Return how many jobs of each kind wait."""
        sql = "SELECT kind, count(*) FROM jobs WHERE attempts < ? GROUP BY kind ORDER BY kind"
        return dict(self._rows.execute(sql, (MOST_ATTEMPTS,)).fetchall())

    def _offer(self, job: JobRow) -> None:
        stale = "attempts >= ? AND created < excluded.created - ?"
        sql = f"""INSERT INTO jobs ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, 0, 'waiting') ON CONFLICT DO UPDATE SET
                  cost_s = excluded.cost_s, benefit_s = excluded.benefit_s, source = excluded.source,
                  attempts = CASE WHEN {stale} THEN 0 ELSE attempts END,
                  created = CASE WHEN {stale} THEN excluded.created ELSE created END"""
        row = (job.kind, job.subject, job.cost_s, job.benefit_s, job.created, job.source)
        self._rows.execute(sql, (*row, MOST_ATTEMPTS, _AGAIN_S, MOST_ATTEMPTS, _AGAIN_S))


_NAME = "rested"  # the small value of the ledger that holds the digest of what there was


def rests(ledger: Ledger, *about: str) -> bool:
    """Return whether all is as it was when idle had nothing left to do; `about` is what counts beside the ledger."""
    return ledger.get(_NAME) == _digest(ledger, about)


def rest(ledger: Ledger, *about: str) -> None:
    """Remember how all is now that nothing is left to do."""
    ledger.set(_NAME, _digest(ledger, about))


def _digest(ledger: Ledger, about: tuple[str, ...]) -> str:
    counted = [
        f"SELECT {what} FROM {table}"
        for table, what in (
            ("asked", "max(id)"),
            ("answers", "count(*), sum(state = 'undecoded'), max(created)"),
            ("owed", "count(*)"),
            ("hints", "count(*), max(at)"),
            ("jobs", "count(*), max(id)"),
            ("kv_nodes", "count(*)"),
            ("kv_ghosts", "count(*)"),
            ("pending", "count(*)"),
        )
    ]
    state = [ledger.generation, *(ledger.rows.execute(sql).fetchone() for sql in counted), *about]
    return blake2b(json.dumps(state).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class JobCost:
    """What some work took: tokens read into a model and written by it, and bytes of tensors that were kept."""

    units: int = 0
    seconds: float = 0.0
    read: int = 0
    written: int = 0
    flops: float = 0.0
    bytes: int = 0

    def __add__(self, more: "JobCost") -> "JobCost":
        return JobCost(
            self.units + more.units,
            self.seconds + more.seconds,
            self.read + more.read,
            self.written + more.written,
            self.flops + more.flops,
            self.bytes + more.bytes,
        )

    def less(self, before: "JobCost") -> "JobCost":
        """Return what came on top of an earlier count."""
        return JobCost(
            self.units - before.units,
            self.seconds - before.seconds,
            self.read - before.read,
            self.written - before.written,
            self.flops - before.flops,
            self.bytes - before.bytes,
        )


_MADE = "INSERT INTO idle_made (key, kind, uses, source, pays) SELECT key, ?, uses, ?, ?"
_AGAIN = """ON CONFLICT DO UPDATE SET kind = excluded.kind, uses = excluded.uses,
            source = iif(excluded.source = '', source, excluded.source),
            pays = iif(excluded.source = '', pays, excluded.pays)"""


@dataclass(frozen=True, slots=True)
class JobBenefit:
    """What a kind of work took so far, how often what it made was used since, and the seconds that saved.

    The seconds are those that making it had taken, each time: what loading it took is not subtracted.
    """

    units: int
    seconds: float
    flops: float
    hits: int
    saved_s: float


class JobAccount:
    """What the nights of one home took and brought."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._rows = ledger, ledger.rows

    def add(self, kind: str, spent: JobCost) -> None:
        """Count work of a kind."""
        sql = """INSERT INTO idle_runs VALUES (?, ?, ?, ?, 0, 0) ON CONFLICT DO UPDATE SET
                 units = units + excluded.units, seconds = seconds + excluded.seconds, flops = flops + excluded.flops"""
        self._rows.execute(sql, (kind, spent.units, spent.seconds, spent.flops))

    def newest(self) -> int:
        """Return the number of the latest node, for `made`."""
        return int(self._rows.execute("SELECT coalesce(max(rowid), 0) FROM kv_nodes").fetchone()[0])

    def made(self, kind: str, answers: Sequence[bytes], after: int, source: str = "", spared: float = 0.0) -> None:
        """Remember that a kind of work made these answers, and the nodes that came after the one of this number.

        Where a source foresaw the question, the first use of its answer pays that source 1, and the first uses of all
        those nodes but that of every prompt together `spared`.
        """
        sql = f"{_MADE} FROM answers WHERE key = ? {_AGAIN}"
        self._rows.executemany(sql, [(kind, source, float(bool(source)), key) for key in answers])
        sql = "SELECT count(*) FROM kv_nodes WHERE rowid > ? AND depth > 1"
        count = self._rows.execute(sql, (after,)).fetchone()[0]
        part = spared / count if source and count else 0.0
        sql = f"{_MADE} * (depth > 1) FROM kv_nodes WHERE rowid > ? {_AGAIN}"
        self._rows.execute(sql, (kind, source, part, after))

    def kept(self, kind: str, node: bytes) -> None:
        """Remember that a kind of work kept the node of this key."""
        self._rows.execute(f"{_MADE} FROM kv_nodes WHERE key = ? {_AGAIN}", (kind, "", 0.0, node))

    def gather(self, now: float) -> None:
        """Count what was used since the last time; what has gone meanwhile is counted no more."""
        with self._ledger.transaction():
            PredictionLog(self._ledger).gather(now)
            for table, seconds in (("answers", "made_ms / 1000"), ("kv_nodes", "seconds")):
                self._gather(table, seconds)
            sql = """DELETE FROM idle_made WHERE key NOT IN (SELECT key FROM answers)
                     AND key NOT IN (SELECT key FROM kv_nodes)"""
            self._rows.execute(sql)

    def by_kind(self) -> dict[str, JobBenefit]:
        """Return what each kind of work took and brought."""
        sql = "SELECT kind, units, seconds, flops, hits, saved_s FROM idle_runs ORDER BY rowid"
        return {kind: JobBenefit(*row) for kind, *row in self._rows.execute(sql)}

    def _gather(self, table: str, seconds: str) -> None:
        sql = f"""SELECT idle_made.kind, sum({table}.uses - idle_made.uses),
                         sum(({table}.uses - idle_made.uses) * {table}.{seconds})
                  FROM idle_made JOIN {table} USING (key) WHERE {table}.uses > idle_made.uses GROUP BY 1"""
        for kind, hits, saved in self._rows.execute(sql).fetchall():
            update = "UPDATE idle_runs SET hits = hits + ?, saved_s = saved_s + ? WHERE kind = ?"
            self._rows.execute(update, (hits, saved, kind))
        sql = f"""UPDATE idle_made SET uses = {table}.uses FROM {table} WHERE {table}.key = idle_made.key"""
        self._rows.execute(sql)
