"""`pkb idle`: the night's work, done within limits while nobody asks, and what came of it."""

import sys
import time
from typing import Annotated

import typer

from cli import ahead, out
from cli.given import duration
from cli.idle_run import Asked, Report, work
from cli.out import session
from cli.progress import bars
from cli.session import Session
from store.errors import NoModel, NoStore

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
        from cli.install import arrange

        arrange("install" if install else "uninstall" if uninstall else "status", as_json=as_json)
        return
    asked = Asked(_began(), duration("--budget", budget), most, predictions, dry_run, force)
    with session() as opened:
        from cli.daemon import shift

        try:
            report = shift.work(opened, asked, lambda: _work(opened, asked, quiet=as_json))
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


def _work(opened: Session, asked: Asked, *, quiet: bool) -> Report:
    with bars(quiet=quiet) as tick:
        return work(opened, asked, tick)
