"""Work for the nights to come, a row a job: what it is about, what it should cost and bring, how often it was begun.

A job that was begun and never ended is taken up again, a few times at most. Knows no kind of work.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from store.ledger import Ledger

MOST_ATTEMPTS = 5  # then a job is given up, for it may be what kills the process
_AGAIN_S = 7 * 86_400.0  # after which it may have become another one's fault
_COLUMNS = "kind, subject, cost_s, benefit_s, created, source, attempts, state"


@dataclass(frozen=True, slots=True)
class Job:
    """One piece of work; `source` says who wanted it, where that matters. Of one kind and subject there is one."""

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

    def offer(self, jobs: Sequence[Job]) -> None:
        """Add jobs, or say anew what known ones should cost and bring; how often those were begun stays known."""
        with self._ledger.transaction():
            for job in jobs:
                self._offer(job)

    def replace(self, kind: str, jobs: Sequence[Job]) -> None:
        """Offer jobs of a kind, and let those go that are not among them."""
        wanted = {job.subject for job in jobs}
        with self._ledger.transaction():
            for (subject,) in self._rows.execute("SELECT subject FROM jobs WHERE kind = ?", (kind,)).fetchall():
                if subject not in wanted:
                    self.end(kind, subject)
            for job in jobs:
                self._offer(job)

    def every(self, kind: str) -> list[Job]:
        """Give the jobs of a kind, given up or not, those first that bring most for each second."""
        sql = f"""SELECT {_COLUMNS} FROM jobs WHERE kind = ?
                  ORDER BY benefit_s / max(cost_s, 1e-9) DESC, created, subject"""
        return [Job(*row) for row in self._rows.execute(sql, (kind,))]

    def waiting(self, kind: str) -> list[Job]:
        """Give the jobs of a kind that were not given up, in the same order."""
        return [job for job in self.every(kind) if job.attempts < MOST_ATTEMPTS]

    def given_up(self, kind: str) -> set[str]:
        """Give the subjects of those jobs of a kind that were begun too often."""
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
        """Give how many jobs of each kind wait."""
        sql = "SELECT kind, count(*) FROM jobs WHERE attempts < ? GROUP BY kind ORDER BY kind"
        return dict(self._rows.execute(sql, (MOST_ATTEMPTS,)).fetchall())

    def _offer(self, job: Job) -> None:
        stale = "attempts >= ? AND created < excluded.created - ?"
        sql = f"""INSERT INTO jobs ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, 0, 'waiting') ON CONFLICT DO UPDATE SET
                  cost_s = excluded.cost_s, benefit_s = excluded.benefit_s, source = excluded.source,
                  attempts = CASE WHEN {stale} THEN 0 ELSE attempts END,
                  created = CASE WHEN {stale} THEN excluded.created ELSE created END"""
        row = (job.kind, job.subject, job.cost_s, job.benefit_s, job.created, job.source)
        self._rows.execute(sql, (*row, MOST_ATTEMPTS, _AGAIN_S, MOST_ATTEMPTS, _AGAIN_S))
