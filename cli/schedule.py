"""`pkb idle --install`: has launchd, systemd or cron run it every hour, and shows what that writes and where."""

import os
import plistlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cli import output
from engine.text.terminal import plain
from store.errors import PkbError
from store.home import Home, locate

LABEL = "pkb.idle"
UNIT = "pkb-idle"
MARK = "# pkb idle"
MINUTE = 17  # of every hour, when not everybody else's jobs start
_NICE = 10


@dataclass(frozen=True, slots=True)
class Command:
    """Words to run, the first a whole path, with environment variables."""

    words: Sequence[str]
    environ: Mapping[str, str]

    def __post_init__(self) -> None:
        for text in (*self.words, *self.environ.values()):
            if any(ord(letter) < 32 or ord(letter) == 127 or 0xD800 <= ord(letter) < 0xE000 for letter in text):
                raise PkbError("a path of pkb holds a control character or invalid text, so it cannot be scheduled")


def launchd(command: Command) -> str:
    """Return the property list of an agent; a run that was slept through is made up for."""
    agent = {
        "Label": LABEL,
        "ProgramArguments": list(command.words),
        "EnvironmentVariables": dict(command.environ),
        "StartCalendarInterval": {"Minute": MINUTE},
        "ProcessType": "Background",
        "LowPriorityIO": True,
        "Nice": _NICE,
    }
    return plistlib.dumps(agent, sort_keys=False).decode("utf-8")


def systemd_service(command: Command) -> str:
    """Return the systemd unit that runs once; a signal is no failure."""
    lines = [
        "[Unit]",
        "Description=pkb background jobs",
        "",
        "[Service]",
        "Type=oneshot",
        *(f"Environment={_quoted(f'{name}={value}')}" for name, value in command.environ.items()),
        f"ExecStart={' '.join(_quoted(word).replace('$', '$$') for word in command.words)}",
        "SuccessExitStatus=143",
        f"Nice={_NICE}",
        "IOSchedulingClass=idle",
    ]
    return "\n".join([*lines, ""])


def systemd_timer() -> str:
    """Return the systemd timer; a run that was slept through is made up for."""
    lines = [
        "[Unit]",
        "Description=pkb idle, every hour",
        "",
        "[Timer]",
        f"OnCalendar=*-*-* *:{MINUTE}:00",
        "Persistent=true",
        "",
        "[Install]",
        "WantedBy=timers.target",
    ]
    return "\n".join([*lines, ""])


def cron(command: Command) -> str:
    """Return the line for a table of cron, which takes a percent sign for the end of a command."""
    names = (f"{name}={shlex.quote(value)}" for name, value in command.environ.items())
    return f"{MINUTE} * * * * {' '.join([*names, shlex.join(command.words)])} {MARK}".replace("%", "\\%")


def with_line(table: str, line: str | None) -> str:
    """Return a table of cron in which `line` stands in place of ours, or none does; all else stays as it is."""
    rest = [one for one in table.split("\n") if not one.endswith(f" {MARK}")]
    if line is None:
        return "\n".join(rest)
    body = "\n".join(rest)
    return f"{body}{'' if not body or body.endswith(chr(10)) else chr(10)}{line}\n"


def ours(table: str) -> str | None:
    """Return our line of a table of cron."""
    return next((one for one in table.split("\n") if one.endswith(f" {MARK}")), None)


def _quoted(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


Action = Literal["install", "uninstall", "status"]
Way = Literal["launchd", "systemd", "cron"]

BUDGET = "50m"  # less than an hour: the next run would find this one at work
_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class ScheduleFile:
    """What stands where, and whether it was written or removed just now; no text where nothing stands there."""

    where: str
    text: str | None
    changed: bool = False


def arrange(action: Action, *, as_json: bool, system: str = sys.platform) -> None:
    """Install, remove or show the hourly run of `pkb idle` for this user, and say what that is."""
    way = choose(os.environ, system)
    found = _WAYS[way](action, Command(words(), carried(locate(os.environ))))
    installed = all(one.text is not None for one in found) and (action == "install" or _knows(way))
    if as_json:
        files = [{"where": one.where, "text": one.text, "changed": one.changed} for one in found]
        output.data({"schema": output.SCHEMA, "by": way, "installed": installed, "files": files})
        return
    for one in found:
        print(plain(f"{one.where}: {_state(action, one)}"))
        if one.text is not None and (action == "status" or one.changed):
            print(plain("".join(f"  {line}\n" for line in one.text.splitlines())), end="")
    print(f"pkb idle {'runs every hour by' if installed else 'is not scheduled with'} {way}")


def words() -> list[str]:
    """Return the command with whole paths: the program beside this Python, or else Python itself."""
    program = Path(sys.executable).parent / "pkb"
    code = "from cli.app import main; main()"
    start = [str(program)] if os.access(program, os.X_OK) else [sys.executable, "-P", "-c", code]
    return [*start, "idle", "--budget", BUDGET]


def carried(home: Home) -> dict[str, str]:
    """Return the variables that say where everything lies, as it does now."""
    return {"PKB_HOME": str(home.data), "PKB_CACHE": str(home.cache), "PKB_CONFIG": str(home.config)}


def choose(environ: Mapping[str, str], system: str) -> Way:
    """Find who can run things here at their time; PkbError if nobody can."""
    path = environ.get("PATH")
    if system == "darwin":
        return "launchd"
    if shutil.which("systemctl", path=path) and _run("systemctl", "--user", "show-environment").returncode == 0:
        return "systemd"
    if shutil.which("crontab", path=path):
        return "cron"
    raise PkbError("neither systemd user timers nor cron is available here", "pkb idle --budget 50m")


def _launchd(action: Action, command: Command) -> list[ScheduleFile]:
    agent = Path.home() / "Library" / "LaunchAgents" / f"{LABEL}.plist"
    domain = f"gui/{os.getuid()}"
    if action == "status":
        return [_seen(agent)]
    if action == "uninstall":
        _run("launchctl", "bootout", f"{domain}/{LABEL}")  # it may not be loaded
        return [_removed(agent)]
    written = [_put(agent, launchd(command))]
    _run("launchctl", "bootout", f"{domain}/{LABEL}")
    with _or_undone(written):
        _must("launchctl", "bootstrap", domain, str(agent))
    return written


def _systemd(action: Action, command: Command) -> list[ScheduleFile]:
    folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd" / "user"
    units = {f"{UNIT}.service": systemd_service(command), f"{UNIT}.timer": systemd_timer()}
    timer = f"{UNIT}.timer"
    if action == "status":
        return [_seen(folder / name) for name in units]
    if action == "uninstall":
        if (folder / timer).exists():
            _must("systemctl", "--user", "disable", "--now", timer)
        removed = [_removed(folder / name) for name in units]
        _must("systemctl", "--user", "daemon-reload")
        return removed
    written = [_put(folder / name, text) for name, text in units.items()]
    with _or_undone(written):
        _must("systemctl", "--user", "daemon-reload")
        _must("systemctl", "--user", "enable", "--now", timer)
    return written


def _cron(action: Action, command: Command) -> list[ScheduleFile]:
    listed = _run("crontab", "-l")
    if listed.returncode and "no crontab" not in listed.stderr:  # an unread table must not be written over
        raise PkbError(f"crontab -l: {plain(listed.stderr).strip() or listed.returncode}")
    table = listed.stdout if not listed.returncode else ""
    if action == "status":
        return [ScheduleFile("crontab", ours(table))]
    line = cron(command) if action == "install" else None
    changed = with_line(table, line)
    if changed != table:
        _must("crontab", "-", given=changed)
    return [ScheduleFile("crontab", line, changed != table)]


_WAYS: dict[Way, Callable[[Action, Command], list[ScheduleFile]]] = {
    "launchd": _launchd,
    "systemd": _systemd,
    "cron": _cron,
}


def _knows(way: Way) -> bool:
    """Ask who is to run it whether it will: a file that it was not told of is nothing to it."""
    if way == "launchd":
        return _run("launchctl", "print", f"gui/{os.getuid()}/{LABEL}").returncode == 0
    if way == "systemd":
        return _run("systemctl", "--user", "is-enabled", f"{UNIT}.timer").returncode == 0
    return True  # its table is all that cron has


@contextmanager
def _or_undone(written: Sequence[ScheduleFile]) -> Iterator[None]:
    """Remove what was written just now, where whom it was written for does not take it."""
    try:
        yield
    except PkbError:
        for one in written:
            if one.changed:
                Path(one.where).unlink(missing_ok=True)
        raise


def _state(action: Action, one: ScheduleFile) -> str:
    if one.changed:
        return "written" if action == "install" else "removed"
    return "not installed" if one.text is None else "installed" if action == "status" else "already installed"


def _put(path: Path, text: str) -> ScheduleFile:
    if _seen(path).text == text:
        return ScheduleFile(str(path), text)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    except OSError as error:
        raise PkbError(f"cannot write {path}: {error.strerror}") from None
    return ScheduleFile(str(path), text, changed=True)


def _seen(path: Path) -> ScheduleFile:
    try:
        return ScheduleFile(str(path), path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return ScheduleFile(str(path), None)


def _removed(path: Path) -> ScheduleFile:
    there = path.exists()
    path.unlink(missing_ok=True)
    return ScheduleFile(str(path), None, there)


def _must(*command: str, given: str = "") -> None:
    """Run a program of the system; PkbError with its last words where it fails."""
    done = _run(*command, given=given)
    if done.returncode:
        last = plain(done.stderr).strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise PkbError(f"{' '.join(command[:3])}: {last[0]}")


def _run(*command: str, given: str = "") -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(
            command,
            input=given,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            check=False,
            timeout=_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PkbError(f"{command[0]} does not run: {type(error).__name__}") from None
