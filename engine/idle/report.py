"""The request and the report of an idle run, as plain data that travels between processes as it is."""

from dataclasses import dataclass, field

from engine.idle.types import Job, Kind, State
from store.jobs import JobBenefit, JobCost


@dataclass(frozen=True, slots=True)
class JobResult:
    """The state of a job after an idle run, its cost, and the reason for which it stopped or failed."""

    job: Job
    state: State
    spent: JobCost = field(default_factory=JobCost)
    reason: str = ""


@dataclass(frozen=True, slots=True)
class IdleRequest:
    """What a command line asks of an idle run; `began` is on the monotonic clock."""

    began: float
    seconds: float
    jobs: int  # at most
    predictions: int  # predicted questions to precompute, at most
    dry_run: bool
    force: bool

    @property
    def until(self) -> float:
        """Return when to stop."""
        return self.began + self.seconds


@dataclass(slots=True)
class IdleReport:
    """The result of each job, why the run ended, its cost by kind, and the cost and benefit of all runs so far."""

    results: list[JobResult] = field(default_factory=list)
    reason: str | None = None
    spent: dict[Kind, JobCost] = field(default_factory=dict)
    so_far: dict[str, JobBenefit] = field(default_factory=dict)
