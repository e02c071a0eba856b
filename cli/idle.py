"""`pkb idle`: what makes the next questions faster, done within limits while nobody asks, and what came of it."""

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from cli import ahead, deeds, out
from cli.given import duration
from cli.progress import Tick, bars
from cli.session import Session, session
from store.errors import Locked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.idle.plan import Night
    from engine.idle.work import Done

_PLANNED = 4  # one part in so many of the time, at most, goes into planning
_MANY = 1_000_000


@dataclass(frozen=True, slots=True)
class _Limits:
    """When to stop, on the monotonic clock; and whether to do anything at all."""

    began: float
    seconds: float
    units: int
    dry_run: bool


def idle(
    budget: Annotated[str, typer.Option(metavar="TIME", help="Stop after this time: 90s, 10m or 2h (10m).")] = "10m",
    most: Annotated[int, typer.Option("--max", metavar="N", min=1, help="Do at most so many units.")] = _MANY,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done, and why.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Do also what a single question speaks for.")] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Show every unit, and why nothing is done.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print all units as JSON.")] = False,
) -> None:
    """Read ahead what questions are likely to need next, and stop.

    Example: pkb idle --budget 10m
    """
    limits = _Limits(time.monotonic(), duration("--budget", budget), most, dry_run)
    with session() as opened:
        done, reason = _idle(opened, limits, 1 if force else 2, quiet=as_json)
    seconds = time.monotonic() - limits.began
    if as_json:
        out.data(ahead.row(done, reason, seconds, dry_run=dry_run))
        return
    if verbose or dry_run:
        ahead.show(done)
    if verbose and reason:
        out.say(f"pkb: nothing is read ahead: {reason}")
    ahead.sum_up(done, seconds)


def _idle(opened: Session, limits: _Limits, least: int, *, quiet: bool) -> "tuple[list[Done], str | None]":
    """Plan and work, as the only one to; gives what was done, or the reason why nothing can be."""
    _, locks = opened.ledger, opened.locks  # NoStore before a lock file is made
    with locks.idle() as alone:
        if not alone and not limits.dry_run:
            return [], "another pkb idle is at work"
        if opened.writer.load and not deeds.ever_asked(opened):
            return [], "no question was asked yet"
        night = deeds.night(opened, least=least)
        if night is None:
            return [], "a quote needs nothing; for answers in words: pkb model pull"
        if night.reading.kept is None:
            return [], "what this model reads is not kept; see: pkb config get kv.reuse"
        try:
            return _work(opened, night, limits, quiet=quiet), None
        except Locked as busy:  # another day
            return [], busy.message


def _work(opened: Session, night: "Night", limits: _Limits, *, quiet: bool) -> "list[Done]":
    """Plan and do units, and again where the bank has changed meanwhile."""
    from engine.idle.plan import plan
    from engine.idle.work import Done, Limits, work

    planned, done = limits.began + limits.seconds / _PLANNED, list[Done]()
    with bars(quiet=quiet) as tick:
        while True:
            with opened.locks.reader():
                generation = opened.ledger.generation
                units = plan(night, lambda: time.monotonic() > planned)
            if limits.dry_run:
                return [Done(unit, "planned") for unit in units]
            left = Limits(limits.began + limits.seconds, limits.units - len(done))
            steps = work(night.reading, units, left, time.monotonic, partial(_changed, opened, generation))
            found = list(_each(opened, steps, len(done), len(units), tick))
            done += [one for one in found if one.state == "done"]
            if "changed" not in {one.state for one in found} or time.monotonic() > left.until:
                return [*done, *(one for one in found if one.state != "done")]


def _each(opened: Session, steps: "Iterator[Done]", before: int, total: int, tick: Tick) -> "Iterator[Done]":
    """Do each unit while nobody rewrites the tables, and between two let those go first who wait to."""
    number = before
    while True:
        try:
            with opened.locks.reader():
                one = next(steps, None)
        except Locked:
            return
        if one is None:
            return
        number += 1
        tick("read", number, before + total)
        yield one


def _changed(opened: Session, generation: int) -> bool:
    return opened.ledger.generation != generation
