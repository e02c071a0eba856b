"""The values of idle work, and the order of jobs.

A job, the request and the report of a run are plain data that travels between processes as it is; what runs a job is
planned with it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from store.jobs import JobCost


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


DONE = Outcome()


class Job(Struct, frozen=True):
    """One piece of work, short enough that losing it to an interruption does not matter.

    `subject` identifies it within its kind, from one idle run to the next; `what` and `reason` are for a person.
    `expected` is how many questions will use it, out of as many as were asked so far; each is spared what it costs.
    """

    kind: Kind
    subject: str
    what: str
    reason: str
    expected: float
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
    """The state of a job after an idle run, its cost, and the reason for which it stopped or failed."""

    job: Job
    state: State
    spent: JobCost = JobCost()
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
