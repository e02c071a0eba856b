"""A night's work: kind by kind in their order, each unit in turn while it may go on, and all of it counted.

plan a kind -> its jobs are rows -> may this one be done? -> begin -> do -> end -> count. Knows no kind of work: a plan
gives the units of one, best first, as things are when its turn comes. Time, power and presence are arguments.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.idle.predict import SPARED
from engine.idle.types import READING, IdleJob, Kind, Outcome, OutOfTime, State
from store.errors import Locked, PkbError
from store.jobs import Job, JobAccount, JobCost, Jobs

if TYPE_CHECKING:
    from engine.llm.resident import ResidentModel


class PlanningBudget:
    """How long planning may take, each time that it begins; `cut` tells whether it ever took longer."""

    def __init__(self, seconds: float, over: Callable[[], bool], clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._over, self._clock, self.cut = seconds, over, clock, False

    def begin(self) -> Callable[[], bool]:
        """Return what tells, from now on, whether it has taken long enough, or the night is over."""
        until = self._clock() + self._seconds

        def late() -> bool:
            ended = self._clock() > until or self._over()
            self.cut = self.cut or ended
            return ended

        return late


@contextmanager
def stopping(models: "ResidentModel", over: Callable[[], bool]) -> Iterator[None]:
    """Have NoTime raised, while this is open, at the model's next step once the night is `over`.

    A question that is answered between two steps is none of the night's work, and goes on.
    """
    usual, asked = models.yield_point, False

    def yield_point() -> None:
        nonlocal asked
        if asked:
            usual()
            return
        asked = True
        try:
            usual()
        finally:
            asked = False
        if over():
            raise OutOfTime

    models.yield_point = yield_point
    try:
        yield
    finally:
        models.yield_point = usual


Plan = Callable[[], Sequence[IdleJob]]


@dataclass(frozen=True, slots=True)
class RunLimits:
    """When to stop: seconds on the clock, and units."""

    until: float
    units: int


@dataclass(frozen=True, slots=True)
class RunContext:
    """What a night is surrounded by.

    `may_go_on` gives the reason why not, `generation` rises with new mail, `measure` says what the model did so far.
    """

    clock: Callable[[], float]  # seconds
    began: float  # on the clock: what went by until there is a night is counted as its start
    may_go_on: Callable[[], str | None]
    generation: Callable[[], int]
    measure: Callable[[], JobCost]
    now: float  # seconds since the epoch


@dataclass(frozen=True, slots=True)
class JobResult:
    """What became of a unit, what it took, and the reason where it was left for one that a person would ask for."""

    unit: IdleJob
    state: State
    spent: JobCost = field(default_factory=JobCost)
    reason: str = ""


class JobRunner:
    """One night; `spent` is what it took so far, by kind."""

    def __init__(self, jobs: Jobs, account: JobAccount, world: RunContext, limits: RunLimits) -> None:
        self._jobs, self._account, self._world, self._limits = jobs, account, world, limits
        self.spent = dict[Kind, JobCost]()
        self._thought = dict[Kind, float]()  # seconds that what was done was thought to take
        self._taken = dict[Kind, float]()
        self._counted = world.began  # on the clock: until then all seconds are counted

    def work(self, plans: Mapping[Kind, Plan]) -> Iterator[JobResult]:
        """Do what there is to do, yielding each unit with what became of it; all over again where mail came in.

        Nothing more is planned once the time is up.
        """
        left = set[State]()
        self._count("start", JobCost())
        while "changed" not in left:
            generation = self._world.generation()
            for kind, plan in plans.items():
                if self._world.clock() > self._limits.until:
                    return  # planning takes its time too
                for done in self._each(kind, plan, generation):
                    left.add(done.state)
                    yield done
                if left & {"stopped", "changed"}:
                    break
            if "changed" not in left or self._world.clock() > self._limits.until:
                return
            left.clear()

    def _each(self, kind: Kind, plan: Plan, generation: int) -> Iterator[JobResult]:
        """Plan a kind, and do its units."""
        units = self._planned(kind, plan)
        given_up, behind = self._jobs.abandoned(kind), dict[str, State]()
        for unit in units:
            done = self._look(unit, generation, given_up, behind) or self._do(unit)
            if done.state not in ("done", "there"):
                behind[unit.subject] = done.state
            yield done
        self._count(kind, JobCost())

    def _planned(self, kind: Kind, plan: Plan) -> Sequence[IdleJob]:
        """Make rows of a plan; planning takes its time too, whatever comes of it."""
        try:
            units = plan()
            rows = [Job(u.kind, u.subject, u.seconds, u.gain, self._world.now, u.source) for u in units]
            self._jobs.replace(kind, rows)
        finally:
            self._count(kind, JobCost())
        return units

    def _look(
        self, unit: IdleJob, generation: int, given_up: set[str], behind: Mapping[str, State]
    ) -> JobResult | None:
        """Return why a unit is left; None where it is to be done."""
        if (reason := self._world.may_go_on()) is not None:
            return JobResult(unit, "stopped", reason=reason)
        if self._world.generation() != generation:  # what the bank no longer holds must not be read
            return JobResult(unit, "changed")
        if unit.behind is not None and unit.behind in behind:
            return JobResult(unit, behind[unit.behind])
        if unit.subject in given_up:
            return JobResult(unit, "given up")
        if sum(spent.units for spent in self.spent.values()) >= self._limits.units:
            return JobResult(unit, "units")
        thought, taken = self._thought.get(unit.kind, 0.0), self._taken.get(unit.kind, 0.0)
        slower = max(1.0, taken / thought) if thought else 1.0  # than units of its kind were thought to be
        late = self._world.clock() + unit.seconds * slower > self._limits.until
        return JobResult(unit, "time") if late else None

    def _do(self, unit: IdleJob) -> JobResult:
        """Do a unit, so that one who is killed over it takes it up again, and one who is told to stop has not tried.

        One that was begun because it was thought to be shorter has been tried: it may always be too long.
        """
        before, node = self._world.measure(), self._account.newest_node()
        reason, (kind, subject) = "", (unit.kind, unit.subject)
        self._jobs.start(kind, subject)
        try:
            outcome = unit.do()
        except (SystemExit, KeyboardInterrupt, Locked):
            self._jobs.release(kind, subject)
            raise
        except OutOfTime:
            outcome = Outcome("time")
        except PkbError as error:
            outcome, reason = Outcome("failed"), error.message
        self._settle(unit, outcome)
        if outcome.node:
            self._account.add_node(kind, outcome.node)
        elif kind not in READING:  # what a question kept meanwhile is none of theirs
            self._account.add_outputs(kind, outcome.made, node, unit.source, SPARED)
        done = outcome.state == "done"
        spent = self._count(kind, self._world.measure().less(before) + JobCost(int(done)))
        if done:
            self._thought[kind] = self._thought.get(kind, 0.0) + unit.seconds
            self._taken[kind] = self._taken.get(kind, 0.0) + spent.seconds
        return JobResult(unit, outcome.state, spent, reason)

    def _settle(self, unit: IdleJob, outcome: Outcome) -> None:
        if outcome.state in ("done", "there"):
            self._jobs.remove(unit.kind, unit.subject)
        elif outcome.state in ("failed", "time"):
            self._jobs.fail(unit.kind, unit.subject)
        else:
            self._jobs.release(unit.kind, unit.subject)

    def _count(self, kind: Kind, spent: JobCost) -> JobCost:
        """Count what was spent on a kind, and the seconds since anything was counted: none is left out."""
        now = self._world.clock()
        spent, self._counted = spent + JobCost(seconds=now - self._counted), now
        self.spent[kind] = self.spent.get(kind, JobCost()) + spent
        self._account.add(kind, spent)
        return spent
