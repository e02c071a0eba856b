"""`pkb idle`: the night's work, done within limits while nobody asks, and what came of it."""

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli import output
from cli.options import duration
from cli.output import bars, session
from engine.session import Session
from engine.stats import so_far
from engine.text.terminal import one_line, size
from store.errors import NoModel, NoStore

if TYPE_CHECKING:
    from engine.idle.plan import IdleReport, IdleRequest
    from engine.idle.scheduler import JobResult


_LEFT = {
    "there": "cached",
    "time": "no time",
    "units": "--max",
    "room": "no space",
    "changed": "new mail",
    "failed": "failed",
    "given up": "gave up",
    "stopped": "stopped",
    "planned": "planned",
}
_WANTED = ("time", "units", "room", "changed", "stopped")
# What a kind of work is called when it was done once, and more often.
_NAMES = {
    "refresh": ("answer refreshed", "answers refreshed"),
    "owed": ("answer verified", "answers verified"),
    "abstract": ("summary written", "summaries written"),
    "predict": ("prediction run", "prediction runs"),
    "populate": ("predicted question precomputed", "predicted questions precomputed"),
    "convert": ("prefilled question answered", "prefilled questions answered"),
    "first": ("segment prefetched", "segments prefetched"),
    "blocks": ("block prefetched", "blocks prefetched"),
    "refill": ("segment restored", "segments restored"),
}


def row(report: "IdleReport", seconds: float, *, dry_run: bool) -> dict[str, Any]:
    """Return what was done as plain values."""
    done = report.done
    return {
        "schema": output.SCHEMA,
        "dry_run": dry_run,
        "reason": report.reason,
        "units": [_unit(one) for one in done],
        "done": sum(one.state == "done" for one in done),
        "bytes": sum(one.spent.bytes for one in done),
        "seconds": round(seconds, 3),
        "flops": round(sum(spent.flops for spent in report.spent.values())),
        "kinds": [
            {"job": kind, "units": spent.units, "seconds": round(spent.seconds, 4)}
            for kind, spent in report.spent.items()
        ],
        "so_far": so_far(report.so_far),
    }


def show(done: "Sequence[JobResult]") -> None:
    """Print a line for each unit."""
    for one in done:
        unit = one.unit
        took = f"{one.spent.seconds:.2f} s" if one.state == "done" else _LEFT[one.state]
        about = [f"{unit.tokens} tokens"] if unit.tokens else []
        about += [f"saves {unit.gain:.2f} s"] if unit.gain else []
        about += [one.reason] if one.reason else []
        print(f"{unit.kind:<8}  {took:>8}  {' · '.join([one_line(unit.what, 70), unit.why, *about])}")


def sum_up(done: "Sequence[JobResult]", seconds: float) -> None:
    """Say in a line what was done, and nothing where nothing was."""
    kinds = [one.unit.kind for one in done if one.state == "done" and one.unit.kind != "upkeep"]
    left = sorted({_LEFT[one.state] for one in done if one.state in _WANTED})
    if not kinds:
        return
    counts = ", ".join(f"{kinds.count(kind):,} {_NAMES[kind][kinds.count(kind) != 1]}" for kind in dict.fromkeys(kinds))
    kept = f", {size(stored)}" if (stored := sum(one.spent.bytes for one in done)) else ""
    more = sum(one.state in _WANTED for one in done)
    print(f"{counts} in {seconds:.1f} s{kept}" + (f"; {more:,} left: {', '.join(left)}" if left else ""))


def _unit(one: "JobResult") -> dict[str, Any]:
    unit = one.unit
    return {
        "job": unit.kind,
        "what": unit.what,
        "why": unit.why,
        "tokens": unit.tokens,
        "expected": round(unit.expected, 3),
        "gain_s": round(unit.gain, 4),
        "cost_s": round(unit.seconds, 4),
        "state": one.state,
        "seconds": round(one.spent.seconds, 4),
        "bytes": one.spent.bytes,
    }


_MANY = 1_000_000


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
        from cli.schedule import arrange

        arrange("install" if install else "uninstall" if uninstall else "status", as_json=as_json)
        return
    from engine.idle.plan import IdleReport, IdleRequest

    asked = IdleRequest(_began(), duration("--budget", budget), most, predictions, dry_run, force)
    with session() as opened:
        from engine.serve import client

        try:
            report = client.work(opened, asked, lambda: _work(opened, asked, quiet=as_json))
        except (NoStore, NoModel) as error:
            if dry_run or sys.stderr.isatty():
                raise
            report = IdleReport(reason=error.message)  # cron would send a message of it every hour
        seconds = time.monotonic() - asked.began  # but for the closing of files
    if as_json:
        output.data(row(report, seconds, dry_run=dry_run))
        return
    if verbose or dry_run:
        show(report.done)
    if report.reason and (verbose or (dry_run and not report.done)):
        output.say(f"pkb: {'stopped early' if report.done else 'nothing done'}: {report.reason}")
    sum_up(report.done, seconds)


def _began() -> float:
    """Return when this command began, on the monotonic clock: where it is the process's own, with the process."""
    if sys.argv[1:2] != ["idle"]:
        return time.monotonic()
    from engine.idle.conditions import running_s

    return time.monotonic() - running_s()


def _work(opened: Session, asked: "IdleRequest", *, quiet: bool) -> "IdleReport":
    from engine.idle.plan import work

    with bars(quiet=quiet) as tick:
        return work(opened, asked, tick)
