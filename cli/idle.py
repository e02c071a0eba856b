"""`pkb idle`: run background jobs within limits, and print what was done; or have them run every hour."""

import os
import plistlib
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cli import output
from cli.output import bars, duration, open_pkb
from engine.text.terminal import one_line, plain, size
from store.errors import NoModel, NoStore, PkbError, UsageError
from store.home import locate

if TYPE_CHECKING:
    from store.jobs import IdleReport, JobResult


LABEL = "pkb.idle"
UNIT = "pkb-idle"
MARK = "# pkb idle"  # ends our line in a table of cron
MINUTE = 17  # of every hour, when not everybody else's jobs start
_NICE = 10
_UNFIT = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


def launchd(words: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return the property list of an agent; a run that was slept through is made up for."""
    agent = {
        "Label": LABEL,
        "ProgramArguments": list(words),
        "EnvironmentVariables": dict(environ),
        "StartCalendarInterval": {"Minute": MINUTE},
        "ProcessType": "Background",
        "LowPriorityIO": True,
        "Nice": _NICE,
    }
    return plistlib.dumps(agent, sort_keys=False).decode("utf-8")


def systemd_service(words: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return the systemd unit that runs once; a signal is not a failure."""
    named = "".join(f"Environment={_quoted(f'{name}={value}')}\n" for name, value in environ.items())
    return f"""\
[Unit]
Description=pkb background jobs

[Service]
Type=oneshot
{named}ExecStart={" ".join(_quoted(word).replace("$", "$$") for word in words)}
SuccessExitStatus=143
Nice={_NICE}
IOSchedulingClass=idle
"""


# A run that was slept through is made up for.
SYSTEMD_TIMER = f"""\
[Unit]
Description=pkb idle, every hour

[Timer]
OnCalendar=*-*-* *:{MINUTE}:00
Persistent=true

[Install]
WantedBy=timers.target
"""


def cron(words: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return the line for a table of cron, which takes a percent sign for the end of a command."""
    names = (f"{name}={shlex.quote(value)}" for name, value in environ.items())
    return f"{MINUTE} * * * * {' '.join([*names, shlex.join(words)])} {MARK}".replace("%", "\\%")


def with_line(table: str, line: str | None) -> str:
    """Return a table of cron with our line replaced by `line`, or removed; the rest is unchanged."""
    body = "\n".join(one for one in table.split("\n") if not one.endswith(f" {MARK}"))
    return body if line is None else f"{body}{'' if not body or body.endswith(chr(10)) else chr(10)}{line}\n"


def _quoted(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


Action = Literal["install", "uninstall", "status"]

BUDGET = "50m"  # less than an hour: the next run would find this one at work


def arrange(action: Action, *, as_json: bool, system: str = sys.platform) -> None:
    """Install, remove or show the hourly run of `pkb idle` for this user, and say what that is."""
    by, found, installed = _scheduled(action, system)
    if as_json:
        output.data({"by": by, "installed": installed, "files": found})
        return
    for one in found:
        text, changed = one["text"], one["changed"]
        state = "not installed" if text is None else "installed" if action == "status" else "already installed"
        state = state if not changed else "written" if action == "install" else "removed"
        print(plain(f"{one['where']}: {state}"))
        if text is not None and (action == "status" or changed):
            print(plain("".join(f"  {line}\n" for line in text.splitlines())), end="")
    print(f"pkb idle {'runs every hour by' if installed else 'is not scheduled with'} {by}")


def _scheduled(action: Action, system: str) -> tuple[str, list[dict[str, Any]], bool]:
    """Have the scheduler of this machine do it; returns its name, its files, and whether it will run pkb.

    Of a file `text` is None if it does not exist, `changed` whether it was just written or removed.
    """
    places, command = locate(os.environ).environ, words()  # where everything lies now
    if _UNFIT.search("".join([*command, *places.values()])):
        raise PkbError("a path of pkb holds a control character or invalid text, so it cannot be scheduled")
    if system == "darwin":
        by, domain = "launchd", f"gui/{os.getuid()}"
        agent = Path.home() / "Library" / "LaunchAgents" / f"{LABEL}.plist"
        files, start = {agent: launchd(command, places)}, [["launchctl", "bootstrap", domain, str(agent)]]
        stop, ask = (["launchctl", verb, f"{domain}/{LABEL}"] for verb in ("bootout", "print"))
    elif shutil.which("systemctl") and not _outcome("systemctl", "--user", "show-environment").returncode:
        by, timer, systemctl = "systemd", f"{UNIT}.timer", ["systemctl", "--user"]
        folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd" / "user"
        files = {folder / f"{UNIT}.service": systemd_service(command, places), folder / timer: SYSTEMD_TIMER}
        start = [[*systemctl, "daemon-reload"], [*systemctl, "enable", "--now", timer]]
        stop, ask = [*systemctl, "disable", "--now", timer], [*systemctl, "is-enabled", timer]
    elif shutil.which("crontab"):
        found = _in_table(action, cron(command, places) if action == "install" else None)
        return "cron", [found], found["text"] is not None
    else:
        step = "pkb ingest --watch, which runs idle jobs while the machine is idle"
        raise PkbError("neither systemd user timers nor cron is available here", step)
    if by == "launchd" and action != "status":
        _outcome(*stop)  # it may not be loaded
    elif action == "uninstall" and [*files][-1].exists():  # the timer
        _must(stop)
    written = _files(action, files, start if action == "install" else start[: by == "systemd"])
    # A scheduler ignores a file that it has not loaded.
    is_whole = all(one["text"] is not None for one in written)
    return by, written, is_whole and (action == "install" or not _outcome(*ask).returncode)


def words() -> list[str]:
    """Return the command with whole paths: the program beside this Python, or else Python itself."""
    program = Path(sys.executable).parent / "pkb"
    code = "from cli.app import main; main()"
    start = [str(program)] if os.access(program, os.X_OK) else [sys.executable, "-P", "-c", code]
    return [*start, "idle", "--budget", BUDGET]


def _files(action: Action, files: Mapping[Path, str], start: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """Write or remove files and run commands; files just written are removed if the scheduler does not accept them."""
    before = {path: path.read_text("utf-8") if path.is_file() else None for path in files}
    after = {"install": files, "uninstall": dict.fromkeys(files), "status": before}[action]
    changed = [path for path in files if before[path] != after[path]]
    for path in changed:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[path], "utf-8") if action == "install" else path.unlink()
    try:
        for command in start:
            _must(command)
    except PkbError:
        for path in changed:
            path.unlink()
        raise
    return [{"where": str(path), "text": text, "changed": path in changed} for path, text in after.items()]


def _must(command: Sequence[str], given: str = "") -> None:
    if (done := _outcome(*command, given=given)).returncode:
        last = plain(done.stderr).strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise PkbError(f"{' '.join(command[:3])}: {last[0]}")


def _in_table(action: Action, line: str | None) -> dict[str, Any]:
    """Have our line of this user's table of cron written, removed or found."""
    listed = _outcome("crontab", "-l")
    if listed.returncode and "no crontab" not in listed.stderr:  # an unread table must not be written over
        raise PkbError(f"crontab -l: {plain(listed.stderr).strip() or listed.returncode}")
    table = "" if listed.returncode else listed.stdout
    if action == "status":
        line = next((one for one in table.split("\n") if one.endswith(f" {MARK}")), None)
    changed = table if action == "status" else with_line(table, line)
    if changed != table:
        _must(["crontab", "-"], changed)
    return {"where": "crontab", "text": line, "changed": changed != table}


def _outcome(*command: str, given: str = "") -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(command, input=given, capture_output=True, encoding="utf-8",
                              errors="surrogateescape", check=False, timeout=30)  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PkbError(f"{command[0]} does not run: {type(error).__name__}") from None


_LIMITS = {"limit": "--max"}  # as a person knows them
_LEFT = ("no time", "limit", "no space", "new mail", "stopped")  # states of jobs that a next run will run
# The result of a kind of job, singular and plural.
_NAMES = {
    "refresh": ("answer refreshed", "answers refreshed"),
    "verify": ("answer verified", "answers verified"),
    "predict": ("prediction run", "prediction runs"),
    "populate": ("predicted question precomputed", "predicted questions precomputed"),
    "standing": ("question about a meeting answered ahead", "questions about meetings answered ahead"),
    "prefetch": ("segment prefetched", "segments prefetched"),
    "restore": ("segment restored", "segments restored"),
}


def row(report: "IdleReport", seconds: float, *, dry_run: bool) -> dict[str, Any]:
    """Return a report as plain values."""
    return {
        "dry_run": dry_run,
        "reason": report.reason,
        "units": [
            {"job": one.job.kind, "why": one.job.reason, "state": one.state}
            | {name: getattr(one.job, name) for name in ("what", "tokens", "expected", "gain_s", "cost_s")}
            | {"seconds": round(one.seconds, 4), "bytes": one.bytes}
            for one in report.results
        ],
        "done": sum(one.state == "done" for one in report.results),
        "bytes": sum(one.bytes for one in report.results),
        "seconds": round(seconds, 3),
    }


def show(results: "Sequence[JobResult]") -> None:
    """Print a line for each job."""
    for one in results:
        job = one.job
        took = f"{one.seconds:.2f} s" if one.state == "done" else _LIMITS.get(one.state, one.state)
        about = [f"{job.tokens} tokens"] if job.tokens else []
        about += [f"saves {job.gain_s:.2f} s"] if job.gain_s else []
        about += [one.reason] if one.reason else []
        print(f"{job.kind:<11}  {took:>8}  {' · '.join([one_line(job.what, 70), job.reason, *about])}")


def sum_up(results: "Sequence[JobResult]", seconds: float) -> None:
    """Print a line that says what was done, if anything was."""
    kinds = [one.job.kind for one in results if one.state == "done" and one.job.kind != "maintenance"]
    left = sorted({_LIMITS.get(one.state, one.state) for one in results if one.state in _LEFT})
    if not kinds:
        return
    counts = ", ".join(f"{kinds.count(kind):,} {_NAMES[kind][kinds.count(kind) != 1]}" for kind in dict.fromkeys(kinds))
    stored = f", {size(written)}" if (written := sum(one.bytes for one in results)) else ""
    more = sum(one.state in _LEFT for one in results)
    print(f"{counts} in {seconds:.1f} s{stored}" + (f"; {more:,} left: {', '.join(left)}" if left else ""))


_MANY, _NOT_WAITING = 1_000_000, ("nothing", "another")  # how reasons begin that --force does not change


def idle(
    budget: Annotated[str, typer.Option(metavar="TIME", help="Stop after this time: 90s, 10m or 2h.")] = "10m",
    most: Annotated[int | None, typer.Option("--max", metavar="N", min=1, help="Run at most N jobs.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the jobs and why, and run none.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Run even on battery or while the machine is in use.")] = False,
    install: Annotated[bool, typer.Option("--install", help="Schedule it to run every hour.")] = False,
    uninstall: Annotated[bool, typer.Option("--uninstall", help="Remove the schedule.")] = False,
    status: Annotated[bool, typer.Option("--status", help="Show whether and how it is scheduled.")] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Show every job, or why no job runs.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print all jobs as JSON.")] = False,
) -> None:
    """Run background jobs that make the next answers faster.

    Example: pkb idle --budget 10m
    """
    if install or uninstall or status:
        action: Action = "install" if install else "uninstall" if uninstall else "status"
        of_a_run = dry_run or force or verbose or (budget, most) != ("10m", None)
        if of_a_run or install + uninstall + status > 1:
            raise UsageError(f"--{action} cannot be combined with other options than --json", "pkb idle --status")
        arrange(action, as_json=as_json)
        return
    from store.jobs import IdleReport, IdleRequest

    began = time.monotonic() - (time.process_time() if sys.argv[1:2] == ["idle"] else 0.0)  # a process for it
    request = IdleRequest(began, duration("--budget", budget), most or _MANY, dry_run, force)
    with open_pkb() as pkb:
        try:
            _ = pkb.session.ledger  # NoStore before a progress bar is drawn
            with bars(quiet=as_json) as tick:
                tick("idle", 0, None)  # until the first job is done
                report = pkb.run_jobs(request, tick)
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
    if report.reason and (verbose or sys.stderr.isatty() or (dry_run and not report.results)):  # cron would mail it
        step = "; try: pkb idle --force" * (not (force or report.results or report.reason.startswith(_NOT_WAITING)))
        output.say(f"pkb: {'stopped early' if report.results else 'nothing done'}: {report.reason}{step}")
    sum_up(report.results, seconds)
