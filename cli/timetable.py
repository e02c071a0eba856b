"""The texts by which launchd, systemd and cron are told to run a command every hour. Pure: writes nothing.

Each carries whole paths and where the home is, for those that run it know nothing of a shell's settings.
"""

import plistlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from store.errors import PkbError

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
    """Give the property list of an agent; a run that was slept through is made up for."""
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


def service(command: Command) -> str:
    """Give the systemd unit that runs once; a signal is no failure."""
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


def timer() -> str:
    """Give the systemd timer; a run that was slept through is made up for."""
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
    """Give the line for a table of cron, which takes a percent sign for the end of a command."""
    names = (f"{name}={shlex.quote(value)}" for name, value in command.environ.items())
    return f"{MINUTE} * * * * {' '.join([*names, shlex.join(command.words)])} {MARK}".replace("%", "\\%")


def with_line(table: str, line: str | None) -> str:
    """Give a table of cron in which `line` stands in place of ours, or none does; all else stays as it is."""
    rest = [one for one in table.split("\n") if not one.endswith(f" {MARK}")]
    if line is None:
        return "\n".join(rest)
    body = "\n".join(rest)
    return f"{body}{'' if not body or body.endswith(chr(10)) else chr(10)}{line}\n"


def ours(table: str) -> str | None:
    """Give our line of a table of cron."""
    return next((one for one in table.split("\n") if one.endswith(f" {MARK}")), None)


def _quoted(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'
