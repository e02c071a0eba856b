"""`pkb idle`: run background jobs within limits, and print what was done."""

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli import output
from cli.output import bars, duration, session
from engine.session import Session
from engine.stats import so_far
from engine.text.terminal import one_line, size
from store.errors import NoModel, NoStore

if TYPE_CHECKING:
    from engine.idle.types import IdleReport, IdleRequest, JobResult

_LEFT = ("no time", "limit", "no space", "new mail", "stopped")  # states of jobs that a next run will run
_LABELS = {"limit": "--max"}  # of states, where they differ from their names
# The result of a kind of job, singular and plural.
_NAMES = {
    "refresh": ("answer refreshed", "answers refreshed"),
    "verify": ("answer verified", "answers verified"),
    "summarize": ("summary written", "summaries written"),
    "predict": ("prediction run", "prediction runs"),
    "populate": ("predicted question precomputed", "predicted questions precomputed"),
    "convert": ("prefilled question answered", "prefilled questions answered"),
    "prefetch": ("segment prefetched", "segments prefetched"),
    "blocks": ("block prefetched", "blocks prefetched"),
    "restore": ("segment restored", "segments restored"),
}


def row(report: "IdleReport", seconds: float, *, dry_run: bool) -> dict[str, Any]:
    """Return a report as plain values."""
    results = report.results
    return {
        "schema": output.SCHEMA,
        "dry_run": dry_run,
        "reason": report.reason,
        "units": [_result(one) for one in results],
        "done": sum(one.state == "done" for one in results),
        "bytes": sum(one.spent.bytes for one in results),
        "seconds": round(seconds, 3),
        "flops": round(sum(spent.flops for spent in report.spent.values())),
        "kinds": [
            {"job": kind, "units": spent.units, "seconds": round(spent.seconds, 4)}
            for kind, spent in report.spent.items()
        ],
        "so_far": so_far(report.so_far),
    }


def show(results: "Sequence[JobResult]") -> None:
    """Print a line for each job."""
    for one in results:
        job = one.job
        took = f"{one.spent.seconds:.2f} s" if one.state == "done" else _label(one.state)
        about = [f"{job.tokens} tokens"] if job.tokens else []
        about += [f"saves {job.gain_s:.2f} s"] if job.gain_s else []
        about += [one.reason] if one.reason else []
        print(f"{job.kind:<11}  {took:>8}  {' · '.join([one_line(job.what, 70), job.reason, *about])}")


def sum_up(results: "Sequence[JobResult]", seconds: float) -> None:
    """Print a line that says what was done, if anything was."""
    kinds = [one.job.kind for one in results if one.state == "done" and one.job.kind != "maintenance"]
    left = sorted({_label(one.state) for one in results if one.state in _LEFT})
    if not kinds:
        return
    counts = ", ".join(f"{kinds.count(kind):,} {_NAMES[kind][kinds.count(kind) != 1]}" for kind in dict.fromkeys(kinds))
    stored = f", {size(written)}" if (written := sum(one.spent.bytes for one in results)) else ""
    more = sum(one.state in _LEFT for one in results)
    print(f"{counts} in {seconds:.1f} s{stored}" + (f"; {more:,} left: {', '.join(left)}" if left else ""))


def _label(state: str) -> str:
    return _LABELS.get(state, state)


def _result(one: "JobResult") -> dict[str, Any]:
    job = one.job
    return {
        "job": job.kind,
        "what": job.what,
        "why": job.reason,
        "tokens": job.tokens,
        "expected": round(job.expected, 3),
        "gain_s": round(job.gain_s, 4),
        "cost_s": round(job.cost_s, 4),
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
    from engine.idle.types import IdleReport, IdleRequest

    request = IdleRequest(_began(), duration("--budget", budget), most, predictions, dry_run, force)
    with session() as opened:
        from engine.serve import client

        try:
            report = client.work(opened, request, lambda: _run(opened, request, quiet=as_json))
        except (NoStore, NoModel) as error:
            if dry_run or sys.stderr.isatty():
                raise
            report = IdleReport(reason=error.message)  # cron would mail it every hour
        seconds = time.monotonic() - request.began
    if as_json:
        output.data(row(report, seconds, dry_run=dry_run))
        return
    if verbose or dry_run:
        show(report.results)
    if report.reason and (verbose or (dry_run and not report.results)):
        output.say(f"pkb: {'stopped early' if report.results else 'nothing done'}: {report.reason}")
    sum_up(report.results, seconds)


def _began() -> float:
    """Return when this command began, on the monotonic clock: with the process, if that was started for it."""
    if sys.argv[1:2] != ["idle"]:
        return time.monotonic()
    from engine.idle.conditions import running_s

    return time.monotonic() - running_s()


def _run(opened: Session, request: "IdleRequest", *, quiet: bool) -> "IdleReport":
    from engine.idle.scheduler import run_idle

    _ = opened.ledger  # NoStore before a progress bar is drawn
    with bars(quiet=quiet) as tick:
        tick("idle", 0, None)  # until the first job is done
        return run_idle(opened, request, tick)
