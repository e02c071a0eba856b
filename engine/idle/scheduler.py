"""Run the jobs of an idle run: kind by kind in order, each job only while the run may continue; count all of it.

plan a kind -> store its jobs -> may this one run? -> begin -> run -> end -> count. Knows no kind of job: a handler
plans its kind when its turn comes, and runs it. Time, power and presence are arguments.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.idle.types import PREFILLS, Handler, Handlers, Job, JobResult, Kind, Outcome, OutOfTime, State
from store.errors import Locked, NoModel, PkbError
from store.jobs import JobAccount, JobCost, JobRow, Jobs

if TYPE_CHECKING:
    from engine.llm.resident import ResidentModel


PREFILL_CREDIT = (
    0.25  # credit for a predicted question of which only the prefill was reused; 1 for one whose answer was
)


class PlanningBudget:
    """How long planning may take, each time that it begins; `exceeded` tells whether it ever took longer."""

    def __init__(
        self, seconds: float, is_over: Callable[[], bool], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds, self._is_over, self._clock, self.exceeded = seconds, is_over, clock, False

    def begin(self) -> Callable[[], bool]:
        """Start the clock; return a function that tells whether planning must end, as it must when the run does."""
        until = self._clock() + self._seconds

        def is_spent() -> bool:
            ended = self._clock() > until or self._is_over()
            self.exceeded = self.exceeded or ended
            return ended

        return is_spent


@contextmanager
def stopping(models: "ResidentModel", is_over: Callable[[], bool]) -> Iterator[None]:
    """Raise OutOfTime, in this context, at the model's next step after the idle run `is_over`.

    A question that is answered between two steps is not part of the run, and is answered to its end.
    """
    usual, answering = models.yield_point, False

    def yield_point() -> None:
        nonlocal answering
        if answering:
            usual()
            return
        answering = True
        try:
            usual()
        finally:
            answering = False
        if is_over():
            raise OutOfTime

    models.yield_point = yield_point
    try:
        yield
    finally:
        models.yield_point = usual


@dataclass(frozen=True, slots=True)
class RunLimits:
    """When to stop: seconds on the clock, and jobs."""

    until: float
    jobs: int


@dataclass(frozen=True, slots=True)
class RunContext:
    """The surroundings of an idle run.

    `why_stop` returns the reason to stop, if any; `generation` rises with new mail; `measure` returns what the model
    computed so far.
    """

    clock: Callable[[], float]  # seconds
    began: float  # on the clock: the time until the runner exists is counted as the kind `start`
    why_stop: Callable[[], str | None]
    generation: Callable[[], int]
    measure: Callable[[], JobCost]
    now: float  # seconds since the epoch


class JobRunner:
    """One idle run; `spent` is its cost so far, by kind."""

    def __init__(self, jobs: Jobs, account: JobAccount, context: RunContext, limits: RunLimits) -> None:
        self._jobs, self._account, self._context, self._limits = jobs, account, context, limits
        self.spent = dict[Kind, JobCost]()
        self._estimated_s = dict[Kind, float]()  # of jobs that are done
        self._measured_s = dict[Kind, float]()
        self._counted = context.began  # on the clock: all seconds before it are counted

    def run(self, handlers: Handlers) -> Iterator[JobResult]:
        """Run the jobs of all kinds and yield the result of each; start over when mail comes in.

        Once the time is up nothing more is planned.
        """
        seen = set[State]()
        self._count("start", JobCost())
        while "new mail" not in seen:
            generation = self._context.generation()
            for kind, handler in handlers.items():
                if self._context.clock() > self._limits.until:
                    return  # planning takes its time too
                for result in self._run_kind(kind, handler, generation):
                    seen.add(result.state)
                    yield result
                if seen & {"stopped", "new mail"}:
                    break
            if "new mail" not in seen or self._context.clock() > self._limits.until:
                return
            seen.clear()

    def _run_kind(self, kind: Kind, handler: Handler, generation: int) -> Iterator[JobResult]:
        """Plan a kind, and run its jobs."""
        jobs = self._plan(kind, handler)
        gave_up, skipped = self._jobs.abandoned(kind), dict[str, State]()
        for job in jobs:
            result = self._skip(job, generation, gave_up, skipped) or self._run_job(job, handler)
            if result.state not in ("done", "cached"):
                skipped[job.subject] = result.state
            yield result
        self._count(kind, JobCost())

    def _plan(self, kind: Kind, handler: Handler) -> Sequence[Job]:
        """Plan a kind and store its jobs; count the time, even where planning fails."""
        try:
            jobs = handler.plan()
            self._jobs.replace(kind, [stored(job, self._context.now) for job in jobs])
        finally:
            self._count(kind, JobCost())
        return jobs

    def _skip(self, job: Job, generation: int, gave_up: set[str], skipped: Mapping[str, State]) -> JobResult | None:
        """Return the reason to skip a job; None to run it."""
        if (reason := self._context.why_stop()) is not None:
            return JobResult(job, "stopped", reason=reason)
        if self._context.generation() != generation:  # a chunk that was removed must not be prefilled
            return JobResult(job, "new mail")
        if job.behind is not None and job.behind in skipped:
            return JobResult(job, skipped[job.behind])
        if job.subject in gave_up:
            return JobResult(job, "gave up")
        if sum(spent.units for spent in self.spent.values()) >= self._limits.jobs:
            return JobResult(job, "limit")
        estimated, measured = self._estimated_s.get(job.kind, 0.0), self._measured_s.get(job.kind, 0.0)
        slowdown = max(1.0, measured / estimated) if estimated else 1.0
        too_long = self._context.clock() + job.cost_s * slowdown > self._limits.until
        return JobResult(job, "no time") if too_long else None

    def _run_job(self, job: Job, handler: Handler) -> JobResult:
        """Run a job. One that is killed has been tried, and so has one that ran out of time: it may always be too long.

        One that a signal stops has not, nor one whose model is not there, such as while its server is down.
        """
        before, node = self._context.measure(), self._account.newest_node()
        reason, (kind, subject) = "", (job.kind, job.subject)
        self._jobs.start(kind, subject)
        try:
            outcome = handler.run(job)
        except (SystemExit, KeyboardInterrupt, Locked, NoModel):
            self._jobs.release(kind, subject)
            raise
        except OutOfTime:
            outcome = Outcome("no time")
        except PkbError as error:
            outcome, reason = Outcome("failed"), error.message
        self._store(job, outcome)
        if outcome.node:
            self._account.add_node(kind, outcome.node)
        elif kind not in PREFILLS:  # nodes that a question stored meanwhile are not theirs
            self._account.add_outputs(kind, outcome.made, node, job.source, PREFILL_CREDIT)
        done = outcome.state == "done"
        spent = self._count(kind, self._context.measure().less(before) + JobCost(int(done)))
        if done:
            self._estimated_s[kind] = self._estimated_s.get(kind, 0.0) + job.cost_s
            self._measured_s[kind] = self._measured_s.get(kind, 0.0) + spent.seconds
        return JobResult(job, outcome.state, spent, reason)

    def _store(self, job: Job, outcome: Outcome) -> None:
        """Store the outcome of a job."""
        if outcome.state in ("done", "cached"):
            self._jobs.remove(job.kind, job.subject)
        elif outcome.state in ("failed", "no time"):
            self._jobs.fail(job.kind, job.subject)
        else:
            self._jobs.release(job.kind, job.subject)

    def _count(self, kind: Kind, spent: JobCost) -> JobCost:
        """Count a cost for a kind, with all seconds since the last count."""
        now = self._context.clock()
        spent, self._counted = spent + JobCost(seconds=now - self._counted), now
        self.spent[kind] = self.spent.get(kind, JobCost()) + spent
        self._account.add(kind, spent)
        return spent


def stored(job: Job, now: float) -> JobRow:
    """Return a job as it is stored; `now` is in seconds since the epoch."""
    return JobRow(job.kind, job.subject, job.cost_s, job.gain_s, now, job.source)
