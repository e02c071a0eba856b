"""Runs idle work as the only one to do so: plans, does jobs within limits, and reports what became of each."""

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cli.deeds import OnProgress
from cli.session import Session
from store.errors import Locked

if TYPE_CHECKING:
    from collections.abc import Callable

    from cli.night import Nightly
    from engine.idle.machine import Machine
    from engine.idle.night import Done
    from engine.idle.units import Kind
    from store.jobs import Paid, Spent

_PLANNED = 4  # one part in so many of the time, at most, goes into planning each kind that is read ahead
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


def work(opened: Session, asked: Asked, on_progress: OnProgress = lambda *_: None) -> Report:
    """Work as the only one to; whatever keeps it from working is a reason, and no error."""
    ledger, locks, report = opened.ledger, opened.locks, Report()  # NoStore before a lock file is made
    with locks.idle() as alone:
        if not alone and not asked.dry_run:
            report.reason = "another pkb idle is running"
            return report
        from store.jobs import Account, rests

        if rests(ledger, *_about(opened, asked)):
            report.reason = "nothing has changed since the last complete run"
        else:
            try:
                _plan_and_work(opened, asked, report, on_progress)
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
    if asked.force or opened.settings.idle.when == "always":
        return lambda: None
    from engine.clock import now
    from engine.idle.device import Limits, why_not

    experiment = opened.settings.experiment
    limits = Limits(experiment.load, experiment.away_s)

    def reason() -> str | None:
        last = opened.ledger.rows.execute("SELECT max(at) FROM asked").fetchone()[0]
        return why_not(machine.facts(None if last is None else now(opened.environ).timestamp() - last), limits)

    return reason


def _plan_and_work(opened: Session, asked: Asked, report: Report, on_progress: OnProgress) -> None:
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
    _work(opened, asked, nightly, may_go_on, report, on_progress)
    if all(map(_ends_it, report.done)) and not planning.cut and not over():
        from store.jobs import rest

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
    on_progress: OnProgress,
) -> None:
    """Do units, and note what became of each: of one that was planned again, the last."""
    from cli.ending import ending
    from engine.idle.night import Limits, Night, World
    from engine.idle.units import NoTime
    from store.jobs import Account, Jobs

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
        with ending(opened.models, nightly.over):
            for one in night.work(nightly.plans()):
                name = (one.unit.kind, one.unit.subject)
                known = found.get(name)
                if known is None or known.state != "done":
                    found[name] = one
                report.reason = one.reason if one.state == "stopped" else report.reason
                on_progress(one.unit.kind, sum(other.unit.kind == one.unit.kind for other in found.values()), None)
    except NoTime:
        pass  # while a plan waited for the model
    finally:
        report.done = list(found.values())
    if report.reason is None and nightly.over():
        report.reason = "the time is up"
    elif report.reason is None and not report.done:
        report.reason = "nothing to do"
