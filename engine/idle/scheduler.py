"""Run the jobs of an idle run: kind by kind in order, each job only while the run may continue; count all of it.

plan a kind -> store its jobs -> may this one run? -> begin -> run -> end -> count. Knows no kind of job: each is
planned when its turn comes, by a function. Whether the machine may be used, the kernel, the login manager and the
tools of macOS tell: power, load and presence; one that is missing or fails is left out.
"""

import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from engine.llm.resident import ResidentModel
from engine.operations import OnProgress, finish_forgetting
from engine.session import Session, now
from engine.settings import keys
from store import jobs
from store.database import Ledger
from store.errors import Locked, NoModel, PkbError
from store.history import History
from store.jobs import IdleReport, IdleRequest, Job, JobAccount, JobResult, Jobs, Kind, Outcome, OutOfTime, Plans
from store.kv_index import KvIndex

_BUSY = 0.5  # load of other processes, for each core, above which the machine is busy
_AWAY_S = 300.0  # without a person at the machine, before it counts as idle
_AVERAGE_S = 60.0  # time constant of the system's first load average
_HID_IDLE = re.compile(r'"HIDIdleTime"\s*=\s*(\d{1,20})\b', re.ASCII)
_NUMBER = re.compile(r"\d{1,18}", re.ASCII)


def why_not(load: float, away_s: float | None = None, asked_s: float | None = None, *, mains: bool) -> str | None:
    """Return why the machine must not be used for idle work; None if it may.

    `load` is that of other processes per core, `away_s` since it was in use, `asked_s` since the last question.
    """
    if not mains:
        return "on battery"
    if away_s is not None and away_s < _AWAY_S:
        return "the machine is in use"
    if asked_s is not None and abs(asked_s) < _AWAY_S:  # far below 0: the clock was set back
        return "a question was just asked"
    return f"the machine is busy: load {load:.1f} per core" if load > _BUSY else None


def averaged(load: float, used_s: float, passed_s: float) -> float:
    """Return the load of a process after some more seconds with so much processor time, averaged like the system's."""
    decay = math.exp(-passed_s / _AVERAGE_S)
    return load * decay + used_s / passed_s * (1 - decay) if passed_s > 0 else load


def others(load: float, own: float, cores: int) -> float:
    """Return the load of other processes per core."""
    return max(0.0, load - own) / max(1, cores)


def supply(uevent: str) -> dict[str, str]:
    """Parse a file /sys/class/power_supply/*/uevent: properties by name, without its prefix."""
    pairs = (line.partition("=") for line in uevent.splitlines())
    return {name.removeprefix("POWER_SUPPLY_"): value.strip() for name, found, value in pairs if found}


def has_mains(supplies: Sequence[Mapping[str, str]]) -> bool:
    """Return whether a machine with these power supplies of Linux runs on mains; a mouse's battery does not count."""
    mine = [one for one in supplies if one.get("SCOPE") != "Device"]
    batteries = [one for one in mine if one.get("TYPE") in ("Battery", "UPS") and one.get("PRESENT") != "0"]
    if not batteries:
        return True
    cables = [one for one in mine if one.get("TYPE") not in ("Battery", "UPS") and "ONLINE" in one]
    if cables:
        return any(one["ONLINE"] not in ("0", "") for one in cables)
    return all(one.get("STATUS", "Full") in ("Charging", "Full", "Not charging") for one in batteries)


def parse_pmset(output: str) -> bool:
    """Return whether a Mac runs on mains, by the output of `pmset -g batt`."""
    first = output.partition("\n")[0]
    return "'Battery Power'" not in first and "'UPS Power'" not in first


def hid_idle(output: str) -> float | None:
    """Return the seconds since keyboard or mouse were used, by the output of `ioreg -c IOHIDSystem` on macOS."""
    return min((int(found) / 1e9 for found in _HID_IDLE.findall(output)), default=None)


def session_idle(output: str, now: float) -> float | None:
    """Return the seconds since any session was in use, by the output of `loginctl show-session`.

    A terminal is idle since its last key. A desktop reports since when it is idle, or never reports anything.
    `now` is in seconds since the epoch.
    """
    found = list[float]()
    for one in map(supply, re.split(r"\n\s*\n", output)):
        since = one.get("IdleSinceHint", "")
        if one.get("Class", "user").startswith("user") and _NUMBER.fullmatch(since) and int(since):
            is_used = one.get("Type") != "tty" and one.get("IdleHint") != "yes"
            found.append(0.0 if is_used else max(0.0, now - int(since) / 1e6))
    return min(found, default=None)


@dataclass(frozen=True, slots=True)
class Sources:
    """The folder of power supplies on Linux, the PATH of programs, and the system."""

    supplies: Path = Path("/sys/class/power_supply")
    tools: str = "/usr/bin:/bin:/usr/sbin:/sbin"  # the PATH of cron is too short
    system: str = sys.platform


class Machine:
    """Reports the state of this machine; tracks its own load, and caches for seconds what programs report."""

    def __init__(self, sources: Sources | None = None) -> None:
        self._sources = sources or Sources()
        self._at, self._used_s, self._load = time.monotonic(), time.process_time(), 0.0  # its own
        self._known: tuple[float, bool, float | None] | None = None

    def facts(self) -> tuple[bool, float, float | None]:
        """Return whether it is on mains, the load of others per core, and the seconds since it was in use, if known."""
        now, used_s = time.monotonic(), time.process_time()
        self._load = averaged(self._load, used_s - self._used_s, now - self._at)
        self._at, self._used_s = now, used_s
        if self._known is None or now - self._known[0] >= 5.0:
            self._known = now, on_mains(self._sources), away_s(self._sources, time.time())
        at, mains, idle = self._known
        load = others(os.getloadavg()[0], self._load, os.cpu_count() or 1)
        return mains, load, None if idle is None else idle + now - at


def on_mains(sources: Sources) -> bool:
    """Return whether the machine runs on mains; one without a battery always does."""
    if sources.system == "darwin":
        return parse_pmset(_output_of(sources, "pmset", "-g", "batt"))
    found = list[dict[str, str]]()
    for path in sources.supplies.glob("*/uevent"):
        with suppress(OSError):
            found.append(supply(path.read_text("utf-8", "replace")))
    return has_mains(found)


def away_s(sources: Sources, now: float) -> float | None:
    """Return the seconds since the machine was in use, None if unknown; `now` is in seconds since the epoch."""
    if sources.system == "darwin":
        return hid_idle(_output_of(sources, "ioreg", "-c", "IOHIDSystem", "-d", "4"))
    listed = _output_of(sources, "loginctl", "list-sessions", "--no-legend").splitlines()
    names = [line.split()[0] for line in listed if line.split()]
    if not names:
        return None
    properties = (word for name in ("Class", "Type", "IdleHint", "IdleSinceHint") for word in ("-p", name))
    return session_idle(_output_of(sources, "loginctl", "show-session", *properties, *names), now)


def _output_of(sources: Sources, *words: str) -> str:
    """Return the output of a system program; empty if it is missing, fails or is too slow."""
    env = {"PATH": sources.tools, "LC_ALL": "C"}
    try:
        done = subprocess.run(words, env=env, capture_output=True, check=True, timeout=2.0)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace")


@contextmanager
def stopping(models: ResidentModel, is_over: Callable[[], bool]) -> Iterator[None]:
    """Raise OutOfTime, in this context, at the model's next step once the idle run `is_over`; Locked for a question."""
    usual = models.yield_point

    def yield_point() -> None:
        models.yield_point = usual  # a question that is answered now is not part of the run, and goes on to its end
        try:
            usual()
        finally:
            models.yield_point = yield_point
        models.yield_to_questions()
        if is_over():
            raise OutOfTime

    models.yield_point = yield_point
    try:
        yield
    finally:
        models.yield_point = usual


@dataclass(slots=True)
class JobRunner:
    """One idle run, of which so many jobs are `done`; `why_stop` returns the reason to stop, if any."""

    ledger: Ledger
    clock: Callable[[], float]  # seconds
    why_stop: Callable[[], str | None]
    now: float  # seconds since the epoch
    until: float  # on the clock
    most: int  # jobs
    done: int = field(default=0, init=False)
    _counted: float = field(init=False)  # on the clock: all seconds of the run before it are
    _jobs: Jobs = field(init=False)
    _account: JobAccount = field(init=False)
    _written: Callable[[], int] = field(init=False)  # returns the bytes of KV cache stored so far

    def __post_init__(self) -> None:
        self._written = KvIndex(self.ledger).written
        self._counted, self._jobs, self._account = self.clock(), Jobs(self.ledger), JobAccount(self.ledger)

    def run(self, plans: Plans) -> Iterator[JobResult]:
        """Run the jobs of all kinds until the time is up, yielding their results; start over when mail comes in."""
        while True:
            generation, seen = self.ledger.generation, set[jobs.State]()
            for kind, plan in plans.items():
                if self.is_over():
                    return  # planning takes its time too
                for result in self._run_kind(kind, plan, generation):
                    seen.add(result.state)
                    yield result
                if seen & {"stopped", "new mail"}:
                    break
            if "new mail" not in seen or self.is_over():
                return

    def is_over(self) -> bool:
        """Return whether the time is up."""
        return self.clock() > self.until

    def _run_kind(self, kind: Kind, plan: Callable[[], Sequence[jobs.Planned]], generation: int) -> Iterator[JobResult]:
        """Plan a kind, and run its jobs; the time of planning counts even where it fails."""
        try:
            planned, now = plan(), self.now
            rows = (jobs.JobRow(one.kind, one.subject, one.cost_s, one.gain_s, now, one.source) for one, _ in planned)
            self._jobs.replace(kind, list(rows))
        finally:
            self._count(kind)
        gave_up = self._jobs.abandoned(kind)
        for job, run in planned:
            yield self._skip(job, generation, gave_up) or self._run_job(job, run)

    def _skip(self, job: Job, generation: int, gave_up: set[str]) -> JobResult | None:
        """Return the reason to skip a job; None to run it."""
        if (reason := self.why_stop()) is not None:
            return JobResult(job, "stopped", reason=reason)
        if self.ledger.generation != generation:  # a chunk that was removed must not be prefilled
            return JobResult(job, "new mail")
        if job.subject in gave_up:
            return JobResult(job, "gave up")
        if self.done >= self.most:
            return JobResult(job, "limit")
        return JobResult(job, "no time") if self.clock() + job.cost_s > self.until else None

    def _run_job(self, job: Job, run: Callable[[], Outcome]) -> JobResult:
        """Run a job. One that is killed has been tried, and so has one that ran out of time: it may always be too long.

        One that a signal stops has not, nor one whose model is not there, such as while its server is down.
        """
        before, node = self._written(), self._account.newest_node()
        reason, (kind, subject) = "", (job.kind, job.subject)
        self._jobs.start(kind, subject)
        try:
            outcome = run()
        except (SystemExit, KeyboardInterrupt, Locked, NoModel):
            self._jobs.release(kind, subject)
            raise
        except OutOfTime:
            outcome = Outcome("no time")
        except PkbError as error:
            outcome, reason = Outcome("failed"), error.message
        if outcome.state in ("done", "cached"):
            self._jobs.remove(kind, subject)
        elif outcome.state not in ("failed", "no time"):
            self._jobs.release(kind, subject)
        # Nodes that a question stored while segments were prefilled are not theirs.
        self._account.add_outputs(kind, outcome.made, None if kind in ("prefetch", "restore") else node)
        seconds = self._count(kind, int(outcome.state == "done"))
        return JobResult(job, outcome.state, seconds, self._written() - before, reason)

    def _count(self, kind: Kind, done: int = 0) -> float:
        """Count a job for a kind, if one is done, and all seconds since the last count; returns these."""
        now = self.clock()
        seconds, self._counted, self.done = now - self._counted, now, self.done + done
        self._account.add(kind, done, seconds)
        return seconds


def run_idle(session: Session, request: IdleRequest, on_progress: OnProgress = lambda *_: None) -> IdleReport:
    """Run the jobs there are, unless another process does; return the reason if it cannot. DiskFull on a full disk."""
    ledger, report = session.lasting_ledger, IdleReport()  # NoStore before a lock file is made
    with session.home.naming_disk("pkb idle"), session.locks.sole("idle") as alone:
        if not alone and not request.dry_run:
            report.reason = "another pkb idle is running"
            return report
        if not request.dry_run:
            finish_forgetting(session, on_progress)
            ledger.renew()
        if jobs.is_finished(ledger, *_inputs(session, request)):
            report.reason = "nothing has changed since the last complete run"
        else:
            try:
                _plan_and_run(session, request, report, on_progress)
            except Locked as busy:
                report.reason = busy.message
        if not request.dry_run:
            JobAccount(ledger).update()
    return report


def _inputs(session: Session, request: IdleRequest) -> tuple[str, ...]:
    """Return the inputs of the plans besides the ledger; the date is one, so plans are made again every day."""
    about = (session.now.date().isoformat(), request.force, is_quiet(session))
    return (repr(keys(session.settings)), session.backend.fingerprint, repr(about))


def is_quiet(session: Session) -> bool:
    """Return whether no question was asked for a while; one in the future was asked before the clock was set back."""
    last = History(session.ledger).last()
    return last is None or abs(session.now.timestamp() - last.at) >= session.settings.experiment.quiet_s


def _plan_and_run(session: Session, request: IdleRequest, report: IdleReport, on_progress: OnProgress) -> None:
    """Run all jobs, or only plan them, and say why not everything was run; note if none is left, for the next run."""
    from engine.idle.plan import IdlePlanner  # most runs from cron have nothing to do

    why_stop: Callable[[], str | None] = (lambda: None) if request.force else partial(why_wait, session, Machine())
    until = request.began + request.seconds
    runner = JobRunner(session.ledger, time.monotonic, why_stop, session.now.timestamp(), until, request.jobs)
    plans = IdlePlanner(session, request.force or is_quiet(session), runner.is_over).plans()
    if request.dry_run:
        report.results = [JobResult(job, "planned") for plan in plans.values() for job, _ in plan()]
    elif (reason := why_stop()) is not None:
        report.reason = reason
    elif _run(session, runner, plans, report, on_progress):
        jobs.mark_finished(session.ledger, *_inputs(session, request))
    if report.reason is None:
        report.reason = "the time is up" if runner.is_over() else None if report.results else "nothing to do"


def why_wait(session: Session, machine: "Machine") -> str | None:
    """Return why idle jobs must wait, by the settings, the machine and the last question; None if they may run."""
    if session.settings.idle.when == "always":
        return None
    last, (mains, load, away) = History(session.ledger).last(), machine.facts()
    return why_not(load, away, now(session.environ).timestamp() - last.at if last else None, mains=mains)


def _run(session: Session, runner: JobRunner, plans: Plans, report: IdleReport, on_progress: OnProgress) -> bool:
    """Run jobs and report the result of each: of one that was planned again, the last. Return whether none is left."""
    with suppress(Locked), session.locks.writer():
        session.knowledge.remove_leftovers(session.home.kv)  # a writer that is running removes them itself
    results = dict[tuple[str, str], JobResult]()
    try:
        with stopping(session.models, runner.is_over):
            for result in runner.run(plans):
                kind, name = result.job.kind, (result.job.kind, result.job.subject)
                known = results.get(name)
                if known is None or known.state != "done":
                    results[name] = result
                report.reason = result.reason if result.state == "stopped" else report.reason
                on_progress(kind, sum(one.job.kind == kind for one in results.values()), None)
    except OutOfTime:
        pass  # while a plan waited for the model
    finally:
        report.results = list(results.values())
    repeats = any(one.state == "done" and one.job.kind == "prefetch" for one in report.results)
    final = ("done", "cached", "no space", "failed", "gave up")  # that another run would not change
    return all(one.state in final for one in report.results) and not (repeats or runner.is_over())
