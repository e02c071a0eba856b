"""`pkb idle`: the night's work, done within limits while nobody asks, and what came of it."""

import sys
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from cli import ahead, out
from cli.given import duration
from cli.progress import bars
from cli.session import Session, session
from store.errors import Locked, NoModel, NoStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from cli.night import Nightly
    from engine.idle.machine import Machine
    from engine.idle.night import Done
    from engine.idle.units import Kind
    from store.spent import Paid, Spent

_PLANNED = 4  # one part in so many of the time, at most, goes into planning each kind that is read ahead
_MANY = 1_000_000
_ENDS_IT = ("done", "there", "room", "failed", "given up")  # what comes of a unit that another night would not change
_FURTHER = ("first", "blocks")  # kinds that, where anything was done, may go further back the next time


@dataclass(frozen=True, slots=True)
class Asked:
    """What a command line asks for: when to stop, on the monotonic clock, and whether to do anything at all."""

    began: float
    seconds: float
    units: int
    predictions: int
    dry_run: bool
    force: bool

    @property
    def until(self) -> float:
        """Give when to stop."""
        return self.began + self.seconds


@dataclass(slots=True)
class Report:
    """What was done and what was left; what it took by kind; what the kinds took and brought in all nights so far."""

    done: "list[Done]" = field(default_factory=list)
    reason: str | None = None
    spent: "dict[Kind, Spent]" = field(default_factory=dict)
    so_far: "dict[str, Paid]" = field(default_factory=dict)


def idle(
    budget: Annotated[str, typer.Option(metavar="TIME", help="Stop after this time: 90s, 10m or 2h.")] = "10m",
    most: Annotated[
        int, typer.Option("--max", metavar="N", min=1, show_default="no limit", help="Run at most N jobs.")
    ] = _MANY,
    predictions: Annotated[
        int,
        typer.Option(
            "--max-predictions",
            metavar="N",
            min=0,
            show_default="no limit",
            help="Precompute at most N predicted questions.",
        ),
    ] = _MANY,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the jobs and their reasons without running them.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Run even on battery or while the machine is in use.")] = False,
    install: Annotated[bool, typer.Option("--install", help="Schedule it to run every hour.")] = False,
    uninstall: Annotated[bool, typer.Option("--uninstall", help="Remove the schedule.")] = False,
    status: Annotated[bool, typer.Option("--status", help="Show whether and how it is scheduled.")] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Show every job, and why none is run.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print all jobs as JSON.")] = False,
) -> None:
    """Run background jobs that make the next answers faster.

    Example: pkb idle --budget 10m
    """
    if install or uninstall or status:
        from cli.install import arrange

        arrange("install" if install else "uninstall" if uninstall else "status", as_json=as_json)
        return
    asked = Asked(_began(), duration("--budget", budget), most, predictions, dry_run, force)
    with session() as opened:
        from cli.daemon import shift

        try:
            report = shift.work(opened, asked, partial(work, opened, asked, quiet=as_json))
        except (NoStore, NoModel) as error:
            if dry_run or sys.stderr.isatty():
                raise
            report = Report(reason=error.message)  # cron would send a message of it every hour
        seconds = time.monotonic() - asked.began  # but for the closing of files
    if as_json:
        out.data(ahead.row(report, seconds, dry_run=dry_run))
        return
    if verbose or dry_run:
        ahead.show(report.done)
    if report.reason and (verbose or (dry_run and not report.done)):
        out.say(f"pkb: {'stopped early' if report.done else 'nothing done'}: {report.reason}")
    ahead.sum_up(report.done, seconds)


def _began() -> float:
    """Give when this command began, on the monotonic clock: where it is the process's own, with the process."""
    if sys.argv[1:2] != ["idle"]:
        return time.monotonic()
    from engine.idle.machine import running_s

    return time.monotonic() - running_s()


def work(opened: Session, asked: Asked, *, quiet: bool) -> Report:
    """Work as the only one to; whatever keeps it from working is a reason, and no error."""
    ledger, locks, report = opened.ledger, opened.locks, Report()  # NoStore before a lock file is made
    with locks.idle() as alone:
        if not alone and not asked.dry_run:
            report.reason = "another pkb idle is running"
            return report
        from store.rest import rests
        from store.spent import Account

        if rests(ledger, *_about(opened, asked)):
            report.reason = "nothing has changed since the last complete run"
        else:
            try:
                _plan_and_work(opened, asked, report, quiet=quiet)
            except Locked as busy:  # another day
                report.reason = busy.message
        account = Account(ledger)
        if not asked.dry_run:
            account.gather(opened.now.timestamp())
        report.so_far = account.by_kind()
    return report


def _about(opened: Session, asked: Asked) -> tuple[str, ...]:
    """Give what there is to do depends on, beside the ledger: once a day it is looked at anyway."""
    from cli.foresight import quiet
    from engine.settings import keys

    about = (opened.now.date().isoformat(), asked.force, quiet(opened))
    return (repr(keys(opened.settings)), opened.writer.fingerprint, repr(about))


def _may_go_on(opened: Session, asked: Asked, machine: "Machine") -> "Callable[[], str | None]":
    """Give what tells, at any moment, why the machine is to be left alone; None where it may be used."""
    settings = opened.settings.idle
    if asked.force or settings.when == "always":
        return lambda: None
    from engine.clock import now
    from engine.idle.device import Limits, why_not

    limits = Limits(settings.load, settings.away_s)

    def reason() -> str | None:
        last = opened.ledger.rows.execute("SELECT max(at) FROM asked").fetchone()[0]
        return why_not(machine.facts(None if last is None else now(opened.environ).timestamp() - last), limits)

    return reason


def _plan_and_work(opened: Session, asked: Asked, report: Report, *, quiet: bool) -> None:
    """Do what there is to do; where all of it is done, the next night need not look before something changes."""
    from cli.ending import Planning
    from cli.night import Nightly
    from engine.idle.machine import Machine

    def over() -> bool:
        return time.monotonic() > asked.until

    planning, machine = Planning(asked.seconds / _PLANNED, over), Machine()
    may_go_on = _may_go_on(opened, asked, machine)
    nightly = Nightly(
        opened,
        machine=machine,
        force=asked.force,
        predictions=asked.predictions,
        late=planning.begin,
        over=over,
    )
    if asked.dry_run:
        report.done = _only_planned(nightly)
        if not report.done:
            report.reason = "the time is up" if over() else "nothing to do"
        return
    report.reason = may_go_on()
    if report.reason is not None:
        return
    _work(opened, asked, nightly, may_go_on, report, quiet=quiet)
    if all(map(_ends_it, report.done)) and not planning.cut and not over():
        from store.rest import rest

        rest(opened.ledger, *_about(opened, asked))


def _ends_it(done: "Done") -> bool:
    """Tell whether a next run would find nothing more to do of this; chunks are read further back each time."""
    return done.state in _ENDS_IT and not (done.state == "done" and done.unit.kind in _FURTHER)


def _only_planned(nightly: "Nightly") -> "list[Done]":
    from engine.idle.night import Done

    return [Done(unit, "planned") for plan in nightly.plans().values() for unit in plan()]


def _work(
    opened: Session,
    asked: Asked,
    nightly: "Nightly",
    may_go_on: "Callable[[], str | None]",
    report: Report,
    *,
    quiet: bool,
) -> None:
    """Do units, and note what became of each: of one that was planned again, the last."""
    from cli.ending import ending
    from engine.idle.night import Limits, Night, World
    from engine.idle.units import NoTime
    from store.jobs import Jobs
    from store.spent import Account

    ledger = opened.ledger
    world = World(
        clock=time.monotonic,
        began=asked.began,
        may_go_on=may_go_on,
        generation=lambda: ledger.generation,
        measure=nightly.measure,
        now=opened.now.timestamp(),
    )
    night = Night(Jobs(ledger), Account(ledger), world, Limits(asked.until, asked.units))
    report.spent, found = night.spent, dict[tuple[str, str], "Done"]()
    try:
        with bars(quiet=quiet) as tick, ending(opened.models, nightly.over):
            for one in night.work(nightly.plans()):
                name = (one.unit.kind, one.unit.subject)
                known = found.get(name)
                if known is None or known.state != "done":
                    found[name] = one
                report.reason = one.reason if one.state == "stopped" else report.reason
                tick(one.unit.kind, sum(other.unit.kind == one.unit.kind for other in found.values()), None)
    except NoTime:
        pass  # while a plan waited for the model
    finally:
        report.done = list(found.values())
    if report.reason is None and nightly.over():
        report.reason = "the time is up"
    elif report.reason is None and not report.done:
        report.reason = "nothing to do"
