"""An idle run goes kind by kind, within its limits; a killed job is tried again, and all of it is counted."""

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from store.database import Ledger, open_ledger
from store.errors import Locked, PkbError
from store.jobs import MAX_ATTEMPTS, Job, JobAccount, Jobs, Kind, Outcome, OutOfTime, Planned, Plans
from store.kv_index import KvIndex
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
            return Outcome()

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


def make(
    name: str,
    run: Callable[[], Outcome] = lambda: Outcome(),
    *,
    kind: Kind = "populate",
    seconds: float = 1.0,
) -> Planned:
    return Job(kind, name, name, "", 1.0, seconds), run


def run(ledger: Ledger, *jobs: Planned, limits: tuple[float, int] = PLENTY, clock: Clock | None = None) -> list[str]:
    plans: Plans = {"populate": lambda: list(jobs)}
    return states(list(runner(ledger, limits=limits, clock=clock or Clock()).run(plans)))


def test_kinds_are_planned_when_their_turn_comes(ledger: Ledger) -> None:
    found: list[str] = []

    def first() -> Outcome:
        found.append("refreshed")
        return Outcome()

    plans: Plans = {
        "refresh": lambda: [make("a", first, kind="refresh")],
        "verify": lambda: [make(name, kind="verify") for name in found],
    }
    done = runner(ledger).run(plans)
    assert [(one.job.kind, one.job.what) for one in done] == [("refresh", "a"), ("verify", "refreshed")]


def test_beyond_the_limit_jobs_are_left_for_another_run(ledger: Ledger) -> None:
    jobs = [make("a"), make("b"), make("c")]
    assert run(ledger, *jobs, limits=(math.inf, 2)) == ["done", "done", "limit"]
    assert [job.subject for job in Jobs(ledger).pending("populate")] == ["c"]


def test_a_job_that_there_is_no_time_for_is_not_begun_and_a_shorter_one_is(ledger: Ledger) -> None:
    jobs = (make("a", seconds=5), make("b", seconds=500), make("c", seconds=5))
    assert run(ledger, *jobs, limits=(100, 9)) == ["done", "no time", "done"]


def test_before_each_job_it_is_checked_whether_the_run_must_stop(ledger: Ledger) -> None:
    reasons = iter((None, "on battery", "on battery"))
    plans: Plans = {
        "populate": lambda: [make("a"), make("b")],
        "maintenance": lambda: [make("c", kind="maintenance")],
    }
    done = list(runner(ledger, why_stop=lambda: next(reasons)).run(plans))
    assert [(one.job.what, one.state, one.reason) for one in done] == [
        ("a", "done", ""),
        ("b", "stopped", "on battery"),
    ]


def test_when_mail_comes_in_all_is_planned_again(ledger: Ledger) -> None:
    before, planned = ledger.generation, []

    def ingest() -> Outcome:
        ledger.raise_generation()
        return Outcome()

    def plan() -> list[Planned]:
        planned.append(ledger.generation)
        return [make("a", ingest), make("b")] if ledger.generation == before else [make("b")]

    done = runner(ledger).run({"populate": plan})
    assert states(list(done)) == ["done", "new mail", "done"]
    assert planned == [before, ledger.generation]


def test_a_killed_job_is_tried_again_and_given_up_in_the_end(ledger: Ledger) -> None:
    for _ in range(MAX_ATTEMPTS):
        with pytest.raises(Killed):
            run(ledger, make("a", die))
    assert run(ledger, make("a", die), make("b")) == ["gave up", "done"]


def test_after_a_week_a_job_that_was_given_up_is_tried_again(ledger: Ledger) -> None:
    for _ in range(MAX_ATTEMPTS):
        with pytest.raises(Killed):
            run(ledger, make("a", die))
    later = runner(ledger, now=NOW + timedelta(days=8))
    assert states(list(later.run({"populate": lambda: [make("a")]}))) == ["done"]


def test_a_job_that_a_signal_stops_has_not_been_tried(ledger: Ledger) -> None:
    for _ in range(MAX_ATTEMPTS + 1):
        with pytest.raises(SystemExit):
            run(ledger, make("a", stop))
    (job,) = Jobs(ledger).pending("populate")
    assert job.attempts == 0


def test_a_job_that_fails_has_a_reason_and_the_rest_goes_on(ledger: Ledger) -> None:
    done = list(runner(ledger).run({"populate": lambda: [make("a", fail), make("b")]}))
    assert [(one.state, one.reason) for one in done] == [("failed", "the model holds too little"), ("done", "")]
    assert [job.attempts for job in Jobs(ledger).pending("populate")] == [1]


def test_a_job_that_runs_out_of_time_has_been_tried(ledger: Ledger) -> None:
    for _ in range(MAX_ATTEMPTS):
        assert run(ledger, make("a", too_long), make("b")) == ["no time", "done"]
    assert run(ledger, make("a", too_long), make("b")) == ["gave up", "done"]


def test_once_the_time_is_up_nothing_more_is_planned(ledger: Ledger) -> None:
    clock, planned = Clock(), list[str]()

    def second() -> list[Planned]:
        planned.append("second")
        return []

    plans: Plans = {
        "refresh": lambda: [make("a", clock.works(11), kind="refresh")],
        "verify": second,
    }
    done = list(runner(ledger, limits=(10, 9), clock=clock).run(plans))
    assert (states(done), planned) == (["done"], [])


def test_planning_that_runs_out_of_time_is_counted(ledger: Ledger) -> None:
    clock = Clock()

    def plan() -> list[Planned]:
        clock.at += 3.0
        raise OutOfTime

    with pytest.raises(OutOfTime):
        list(runner(ledger, clock=clock).run({"prefetch": plan}))
    assert JobAccount(ledger).by_kind()["prefetch"]["seconds"] == 3.0


def test_a_lock_held_by_another_process_ends_the_run_and_is_no_attempt(ledger: Ledger) -> None:
    def locked() -> Outcome:
        raise Locked("another pkb is writing")

    with pytest.raises(Locked):
        run(ledger, make("a", locked))
    assert [job.attempts for job in Jobs(ledger).pending("populate")] == [0]


def test_the_seconds_of_all_kinds_add_up_to_the_time_passed(ledger: Ledger) -> None:
    clock = Clock()

    def slow_plan() -> list[Planned]:
        clock.at += 3
        return [make("a", clock.works(10)), make("b", clock.works(7))]

    plans: Plans = {
        "populate": slow_plan,
        "maintenance": lambda: [make("c", clock.works(5), kind="maintenance")],
    }
    here = runner(ledger, clock=clock)
    list(here.run(plans))
    counted = {kind: (paid["units"], paid["seconds"]) for kind, paid in JobAccount(ledger).by_kind().items()}
    assert counted == {"populate": (2, 20.0), "maintenance": (1, 5.0)}
    assert (sum(seconds for _, seconds in counted.values()), here.done) == (clock.at, 3)


def test_the_bytes_that_were_stored_are_counted_for_the_job_that_stored_them(ledger: Ledger) -> None:
    def read() -> Outcome:
        KvIndex(ledger).write(4096, 0.0)
        return Outcome()

    KvIndex(ledger).write(1, 0.0)
    done = list(runner(ledger).run({"populate": lambda: [make("a", read), make("b")]}))
    assert [(one.seconds, one.bytes) for one in done] == [(0.0, 4096), (0.0, 0)]
