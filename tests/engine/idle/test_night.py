"""A night goes kind by kind, within its limits; a killed unit is taken up again, and all of it is counted."""

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from engine.idle.scheduler import Plan, RunLimits
from engine.idle.types import DONE, IdleJob, Kind, Outcome, OutOfTime
from store.database import Ledger, open_ledger
from store.errors import Locked, PkbError
from store.jobs import MAX_ATTEMPTS, JobAccount, JobCost, Jobs
from tests.engine.idle.small_home import NOW, PLENTY, runner, states


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """Yield an empty ledger."""
    found = open_ledger(tmp_path / "ledger.db", create=True)
    yield found
    found.close()


@dataclass
class Clock:
    """Seconds, which go by when somebody works."""

    at: float = 0.0

    def __call__(self) -> float:
        return self.at

    def works(self, seconds: float) -> Callable[[], Outcome]:
        """Return work that takes so long."""

        def work() -> Outcome:
            self.at += seconds
            return DONE

        return work


class Killed(BaseException):
    """What ends a process without a word."""


def die() -> Outcome:
    raise Killed


def stop() -> Outcome:
    sys.exit(143)


def too_long() -> Outcome:
    raise OutOfTime


def fail() -> Outcome:
    raise PkbError("the model holds too little")


def unit(
    name: str,
    do: Callable[[], Outcome] = lambda: DONE,
    *,
    kind: Kind = "populate",
    seconds: float = 1.0,
    behind: str | None = None,
) -> IdleJob:
    return IdleJob(kind, name, name, "", 1.0, 1.0, seconds, do, behind=behind)


def run(ledger: Ledger, *units: IdleJob, limits: RunLimits = PLENTY, clock: Clock | None = None) -> list[str]:
    return states(list(runner(ledger, limits=limits, clock=clock or Clock()).work({"populate": lambda: units})))


def test_kinds_are_planned_when_their_turn_comes(ledger: Ledger) -> None:
    found: list[str] = []

    def first() -> Outcome:
        found.append("refreshed")
        return DONE

    done = runner(ledger).work(
        {
            "refresh": lambda: [unit("a", first, kind="refresh")],
            "owed": lambda: [unit(name, kind="owed") for name in found],
        }
    )
    assert [(one.unit.kind, one.unit.what) for one in done] == [("refresh", "a"), ("owed", "refreshed")]


def test_so_many_units_are_done_and_the_rest_is_left_for_another_night(ledger: Ledger) -> None:
    units = [unit("a"), unit("b"), unit("c")]
    assert run(ledger, *units, limits=RunLimits(math.inf, 2)) == ["done", "done", "units"]
    assert [job.subject for job in Jobs(ledger).pending("populate")] == ["c"]


def test_a_unit_that_there_is_no_time_for_is_not_begun_and_a_shorter_one_is(ledger: Ledger) -> None:
    units = (unit("a", seconds=5), unit("b", seconds=500), unit("c", seconds=5))
    assert run(ledger, *units, limits=RunLimits(100, 9)) == ["done", "time", "done"]


def test_units_are_thought_to_take_longer_once_they_did(ledger: Ledger) -> None:
    clock = Clock()
    units = (unit("a", clock.works(10), seconds=1), unit("b", clock.works(2), seconds=2))
    assert run(ledger, *units, limits=RunLimits(20, 9), clock=clock) == ["done", "time"]
    assert run(ledger, *units[1:], limits=RunLimits(20, 9), clock=clock) == ["done"]


def test_what_stands_behind_a_unit_that_is_left_is_left_too(ledger: Ledger) -> None:
    units = (unit("a", lambda: Outcome("room")), unit("b", behind="a"), unit("c", behind="b"), unit("d"))
    assert run(ledger, *units) == ["room", "room", "room", "done"]


def test_before_each_unit_it_is_asked_whether_work_may_go_on(ledger: Ledger) -> None:
    reasons = iter((None, "on battery", "on battery"))
    plans: dict[Kind, Callable[[], list[IdleJob]]] = {
        "populate": lambda: [unit("a"), unit("b")],
        "upkeep": lambda: [unit("c", kind="upkeep")],
    }
    done = list(runner(ledger, may_go_on=lambda: next(reasons)).work(plans))
    assert [(one.unit.what, one.state, one.reason) for one in done] == [
        ("a", "done", ""),
        ("b", "stopped", "on battery"),
    ]


def test_where_mail_comes_in_all_is_planned_again(ledger: Ledger) -> None:
    generations, planned = [1], []

    def ingest() -> Outcome:
        generations.append(2)
        return DONE

    def plan() -> list[IdleJob]:
        planned.append(generations[-1])
        return [unit("a", ingest), unit("b")] if generations[-1] == 1 else [unit("b")]

    done = runner(ledger, generation=lambda: generations[-1]).work({"populate": plan})
    assert states(list(done)) == ["done", "changed", "done"]
    assert planned == [1, 2]


def test_a_killed_unit_is_taken_up_again_and_given_up_in_the_end(ledger: Ledger) -> None:
    for _ in range(MAX_ATTEMPTS):
        with pytest.raises(Killed):
            run(ledger, unit("a", die))
    assert run(ledger, unit("a", die), unit("b")) == ["given up", "done"]


def test_after_a_week_what_was_given_up_is_tried_again(ledger: Ledger) -> None:
    for _ in range(MAX_ATTEMPTS):
        with pytest.raises(Killed):
            run(ledger, unit("a", die))
    later = runner(ledger, now=NOW + timedelta(days=8))
    assert states(list(later.work({"populate": lambda: [unit("a")]}))) == ["done"]


def test_a_unit_that_is_told_to_stop_has_not_been_tried(ledger: Ledger) -> None:
    for _ in range(MAX_ATTEMPTS + 1):
        with pytest.raises(SystemExit):
            run(ledger, unit("a", stop))
    (job,) = Jobs(ledger).pending("populate")
    assert (job.attempts, job.state) == (0, "pending")


def test_a_unit_that_fails_says_why_and_the_rest_goes_on(ledger: Ledger) -> None:
    done = list(runner(ledger).work({"populate": lambda: [unit("a", fail), unit("b")]}))
    assert [(one.state, one.reason) for one in done] == [("failed", "the model holds too little"), ("done", "")]
    assert [job.attempts for job in Jobs(ledger).pending("populate")] == [1]


def test_a_unit_that_the_end_of_the_night_breaks_off_has_been_tried(ledger: Ledger) -> None:
    for _ in range(MAX_ATTEMPTS):
        assert run(ledger, unit("a", too_long), unit("b")) == ["time", "done"]
    assert run(ledger, unit("a", too_long), unit("b")) == ["given up", "done"]


def test_once_the_time_is_up_nothing_more_is_planned(ledger: Ledger) -> None:
    clock, planned = Clock(), list[str]()

    def second() -> list[IdleJob]:
        planned.append("second")
        return []

    plans: dict[Kind, Plan] = {"refresh": lambda: [unit("a", clock.works(11), kind="refresh")], "owed": second}
    done = list(runner(ledger, limits=RunLimits(10, 9), clock=clock).work(plans))
    assert (states(done), planned) == (["done"], [])


def test_a_plan_that_finds_no_time_is_counted(ledger: Ledger) -> None:
    clock = Clock()

    def plan() -> list[IdleJob]:
        clock.at += 3.0
        raise OutOfTime

    with pytest.raises(OutOfTime):
        list(runner(ledger, clock=clock).work({"first": plan}))
    assert JobAccount(ledger).by_kind()["first"].seconds == 3.0


def test_what_another_process_holds_ends_the_night_and_is_no_attempt(ledger: Ledger) -> None:
    def locked() -> Outcome:
        raise Locked("another pkb is writing")

    with pytest.raises(Locked):
        run(ledger, unit("a", locked))
    assert [job.attempts for job in Jobs(ledger).pending("populate")] == [0]


def test_the_seconds_of_all_kinds_are_those_that_went_by(ledger: Ledger) -> None:
    clock = Clock()

    def slow_plan() -> list[IdleJob]:
        clock.at += 3
        return [unit("a", clock.works(10)), unit("b", clock.works(7))]

    plans: dict[Kind, Callable[[], list[IdleJob]]] = {
        "populate": slow_plan,
        "upkeep": lambda: [unit("c", clock.works(5), kind="upkeep")],
    }
    here = runner(ledger, clock=clock)
    list(here.work(plans))
    assert {kind: (spent.units, spent.seconds) for kind, spent in here.spent.items()} == {
        "start": (0, 0.0),
        "populate": (2, 20.0),
        "upkeep": (1, 5.0),
    }
    assert sum(spent.seconds for spent in here.spent.values()) == clock.at
    assert {
        kind: JobCost(paid.units, paid.seconds) for kind, paid in JobAccount(ledger).by_kind().items()
    } == here.spent


def test_what_the_model_did_is_counted_for_the_unit_it_did_it_for(ledger: Ledger) -> None:
    did = JobCost()

    def read() -> Outcome:
        nonlocal did
        did += JobCost(read=100, written=20, flops=1e6, bytes=4096)
        return DONE

    here = runner(ledger, measure=lambda: did)
    done = list(here.work({"populate": lambda: [unit("a", read), unit("b")]}))
    assert [(one.spent.read, one.spent.bytes) for one in done] == [(100, 4096), (0, 0)]
    assert here.spent["populate"] == JobCost(2, 0.0, 100, 20, 1e6, 4096)
