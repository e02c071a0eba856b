"""Idle jobs: their values, the queue with expected cost and benefit, and the cost and cache hits so far.

A job, the request and the report of a run are plain data that travels between processes as it is. A job that was
started and never finished is retried, a few times at most.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Literal

from msgspec import Struct

from store.database import Ledger, LedgerRows


def link_predictions(ledger: Ledger, chunks: Mapping[str, Sequence[str]]) -> None:
    """Record the chunks that predicted questions were made from, until neither job nor answer is left of them."""
    rows = [(question, chunk) for question, several in chunks.items() for chunk in several]
    done = """DELETE FROM predictions WHERE question NOT IN (SELECT subject FROM jobs)
              AND question NOT IN (SELECT question FROM answers WHERE origin = 'predicted')"""
    with ledger.transaction():
        ledger.rows.execute(done)
        ledger.rows.executemany("INSERT OR IGNORE INTO predictions (question, chunk) VALUES (?, ?)", rows)


MAX_ATTEMPTS = 5  # then a job is abandoned: it may be what kills the process
_RETRY_S = 7 * 86_400.0  # after which an abandoned job is retried
_COLUMNS = "kind, subject, cost_s, benefit_s, created, source, attempts"


class JobRow(Struct, frozen=True):
    """A stored idle job, unique by kind and subject; `source` is the predictor that asked for it, if any."""

    kind: str
    subject: str
    cost_s: float
    benefit_s: float
    created: float  # seconds since the epoch
    source: str = ""
    attempts: int = 0  # begun and not finished


class Jobs(LedgerRows):
    """The job queue of one home."""

    def offer(self, jobs: Sequence[JobRow]) -> None:
        """Add jobs, or update cost and benefit of known ones; those keep their number of attempts."""
        with self.ledger.transaction():
            self._offer(jobs)

    def replace(self, kind: str, jobs: Sequence[JobRow]) -> None:
        """Offer jobs of a kind, and remove the others of that kind."""
        others = "DELETE FROM jobs WHERE kind = ? AND subject NOT IN (SELECT value FROM json_each(?))"
        with self.ledger.transaction():
            self._rows.execute(others, (kind, json.dumps([job.subject for job in jobs])))
            self._offer(jobs)

    def all(self, kind: str) -> list[JobRow]:
        """Return the jobs of a kind, abandoned or not, the highest benefit per second first."""
        sql = f"""SELECT {_COLUMNS} FROM jobs WHERE kind = ?
                  ORDER BY benefit_s / max(cost_s, 1e-9) DESC, created, subject"""
        return [JobRow(*row) for row in self._rows.execute(sql, (kind,))]

    def pending(self, kind: str) -> list[JobRow]:
        """Return the jobs of a kind that were not abandoned, in the same order."""
        return [job for job in self.all(kind) if job.attempts < MAX_ATTEMPTS]

    def abandoned(self, kind: str) -> set[str]:
        """Return the subjects of those jobs of a kind that were started too often."""
        return {job.subject for job in self.all(kind) if job.attempts >= MAX_ATTEMPTS}

    def start(self, kind: str, subject: str) -> None:
        """Count an attempt at a job, before a kill could prevent that; it stays where the job fails."""
        self._rows.execute("UPDATE jobs SET attempts = attempts + 1 WHERE kind = ? AND subject = ?", (kind, subject))

    def release(self, kind: str, subject: str) -> None:
        """Take an attempt at a job back, which was interrupted."""
        self._rows.execute("UPDATE jobs SET attempts = attempts - 1 WHERE kind = ? AND subject = ?", (kind, subject))

    def remove(self, kind: str, subject: str) -> None:
        """Remove a job that is done, or no longer needed."""
        self._rows.execute("DELETE FROM jobs WHERE kind = ? AND subject = ?", (kind, subject))

    def counts(self) -> dict[str, int]:
        """Count the pending jobs by kind."""
        sql = "SELECT kind, count(*) FROM jobs WHERE attempts < ? GROUP BY kind ORDER BY kind"
        return dict(self._rows.execute(sql, (MAX_ATTEMPTS,)).fetchall())

    def _offer(self, jobs: Sequence[JobRow]) -> None:
        stale = "attempts >= ? AND created < excluded.created - ?"
        sql = f"""INSERT INTO jobs ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, 0) ON CONFLICT DO UPDATE SET
                  cost_s = excluded.cost_s, benefit_s = excluded.benefit_s, source = excluded.source,
                  attempts = CASE WHEN {stale} THEN 0 ELSE attempts END,
                  created = CASE WHEN {stale} THEN excluded.created ELSE created END"""
        rows = ((job.kind, job.subject, job.cost_s, job.benefit_s, job.created, job.source) for job in jobs)
        self._rows.executemany(sql, ((*row, MAX_ATTEMPTS, _RETRY_S, MAX_ATTEMPTS, _RETRY_S) for row in rows))


_FINGERPRINT = "idle.fingerprint"  # the small value of the ledger that holds it


def is_finished(ledger: Ledger, *about: str) -> bool:
    """Return whether nothing changed since an idle run had nothing left to do; `about` counts beside the ledger."""
    return ledger.get(_FINGERPRINT) == _fingerprint(ledger, about)


def mark_finished(ledger: Ledger, *about: str) -> None:
    """Store the fingerprint of a state in which nothing is left to do."""
    ledger.set(_FINGERPRINT, _fingerprint(ledger, about))


def _fingerprint(ledger: Ledger, about: tuple[str, ...]) -> str:
    counted = (
        "max(id) FROM history",
        "count(*), sum(state = 'prefilled'), max(created) FROM answers",
        "count(*) FROM verifications",
        "count(*), max(at) FROM refresh_candidates",
        "count(*), max(id) FROM jobs",
        "count(*) FROM kv_nodes",
    )
    state = [ledger.generation, *(ledger.rows.execute(f"SELECT {one}").fetchone() for one in counted), *about]
    return blake2b(json.dumps(state).encode(), digest_size=16).hexdigest()


_INSERT = "INSERT INTO job_outputs (key, kind, uses) SELECT key, ?, uses"
_REPLACE = "ON CONFLICT DO UPDATE SET kind = excluded.kind, uses = excluded.uses"


class JobAccount(LedgerRows):
    """Cost and benefit of the idle jobs of one home."""

    def add(self, kind: str, units: int = 0, seconds: float = 0.0) -> None:
        """Add jobs of a kind that are done, and what they took."""
        sql = """INSERT INTO job_stats VALUES (?, ?, ?, 0, 0) ON CONFLICT DO UPDATE SET
                 units = units + excluded.units, seconds = seconds + excluded.seconds"""
        self._rows.execute(sql, (kind, units, seconds))

    def newest_node(self) -> int:
        """Return the number of the latest KV node, for `add_outputs`."""
        return int(self._rows.execute("SELECT coalesce(max(rowid), 0) FROM kv_nodes").fetchone()[0])

    def add_outputs(self, kind: str, keys: Sequence[bytes], after: int | None = None) -> None:
        """Record that a kind of job made the answers and KV nodes of these keys, and the nodes after one's number."""
        for table in ("answers", "kv_nodes"):
            sql = f"{_INSERT} FROM {table} WHERE key = ? {_REPLACE}"
            self._rows.executemany(sql, [(kind, key) for key in keys])
        self._rows.execute(f"{_INSERT} FROM kv_nodes WHERE rowid > ? {_REPLACE}", (kind, after))

    def update(self) -> None:
        """Count the hits since the last update; outputs that were removed meanwhile are left out."""
        with self.ledger.transaction():
            for table, seconds in (("answers", "made_ms / 1000"), ("kv_nodes", "seconds")):
                sql = f"""UPDATE job_stats SET hits = hits + more, saved_s = saved_s + more_s FROM (
                          SELECT job_outputs.kind AS one, sum({table}.uses - job_outputs.uses) AS more,
                                 sum(({table}.uses - job_outputs.uses) * {table}.{seconds}) AS more_s
                          FROM job_outputs JOIN {table} USING (key) WHERE {table}.uses > job_outputs.uses GROUP BY 1)
                          WHERE kind = one"""
                self._rows.execute(sql)
                sql = f"UPDATE job_outputs SET uses = {table}.uses FROM {table} WHERE {table}.key = job_outputs.key"
                self._rows.execute(sql)
            sql = """DELETE FROM job_outputs WHERE key NOT IN (SELECT key FROM answers)
                     AND key NOT IN (SELECT key FROM kv_nodes)"""
            self._rows.execute(sql)

    def by_kind(self) -> dict[str, dict[str, float]]:
        """Return what each kind of job took and brought so far: units, seconds, cache hits on its outputs, and saved_s.

        Each hit saves the seconds that computing the output had taken; the time of loading it is not subtracted.
        """
        names = ("units", "seconds", "hits", "saved_s")
        sql = "SELECT kind, units, round(seconds, 4), hits, round(saved_s, 3) FROM job_stats ORDER BY rowid"
        return {kind: dict(zip(names, about, strict=True)) for kind, *about in self._rows.execute(sql)}


class OutOfTime(Exception):
    """The idle run ended in the middle of a job."""


Kind = Literal["refresh", "verify", "predict", "populate", "standing", "prefetch", "restore", "maintenance"]

# `failed` and `gave up`: the job raised an error, now or too often. The others say why a job did not run.
State = Literal[
    "done", "cached", "no time", "limit", "no space", "new mail", "failed", "gave up", "stopped", "planned"
]  # fmt: skip


class Outcome(Struct, frozen=True):
    """The state of a job that ran, and the keys of the answers or the segment that it made."""

    state: State = "done"
    made: tuple[bytes, ...] = ()


class Job(Struct, frozen=True):
    """One piece of work, short enough that losing it to an interruption does not matter."""

    kind: Kind
    subject: str  # identifies it within its kind, from one idle run to the next
    what: str  # for a person, as is the reason
    reason: str
    expected: float  # questions that will use it, out of as many as were asked so far; each is spared what it costs
    cost_s: float  # estimated
    tokens: int = 0  # to prefill, where that is known
    source: str = ""  # the predictor that asked for it

    @property
    def gain_s(self) -> float:
        """Return the seconds that questions are expected to save."""
        return self.expected * self.cost_s


Planned = tuple[Job, Callable[[], Outcome]]  # a job, and what runs it
Plans = Mapping[Kind, Callable[[], Sequence[Planned]]]  # in the order in which the kinds run; each plans best first


class JobResult(Struct, frozen=True):
    """The state of a job after an idle run, what it took and stored, and the reason for which it stopped or failed."""

    job: Job
    state: State
    seconds: float = 0.0
    bytes: int = 0  # of KV cache
    reason: str = ""


class IdleRequest(Struct, frozen=True):
    """What a command line asks of an idle run; `began` is on the monotonic clock."""

    began: float
    seconds: float
    jobs: int  # at most
    dry_run: bool
    force: bool


class IdleReport(Struct):
    """The result of each job, and why the run ended."""

    results: list[JobResult] = []
    reason: str | None = None


def check_time(is_over: Callable[[], bool]) -> None:
    """Raise OutOfTime once the run `is_over`."""
    if is_over():
        raise OutOfTime
