"""The machine, asked: what the kernel, the login manager and macOS's own tools say of power, load and presence.

Thin: what they say is understood in device.py. Whatever is missing or does not answer says nothing.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.idle import device
from engine.idle.device import Facts, Own, Power

_TOOLS = "/usr/bin:/bin:/usr/sbin:/sbin"  # cron has no PATH worth the name
_PATIENCE_S = 2.0
_FRESH_S = 5.0
_STARTED = 19  # of what /proc/self/stat says behind the name: ticks from the system's start to that of the process
_SESSION = ("Class", "Type", "IdleHint", "IdleSinceHint")


@dataclass(frozen=True, slots=True)
class Sources:
    """Where Linux tells: folders of power supplies and of terminals, and where programs are."""

    supplies: Path = Path("/sys/class/power_supply")
    terminals: Path = Path("/dev")
    tools: str = _TOOLS
    system: str = sys.platform


class Machine:
    """Asked before each piece of work; remembers its own part in the load, and for a moment what programs said."""

    def __init__(self, sources: Sources | None = None, fresh_s: float = _FRESH_S) -> None:
        self._sources, self._fresh_s = sources or Sources(), fresh_s
        self._own = Own(time.monotonic(), time.process_time())
        self._known: tuple[float, Power, float | None] | None = None

    def facts(self, asked_s: float | None) -> Facts:
        """Give what is known now; `asked_s` is the time since the last question, which somebody must have asked."""
        now = time.monotonic()
        self._own = self._own.then(now, time.process_time())
        if self._known is None or now - self._known[0] >= self._fresh_s:
            self._known = now, power(self._sources), away(self._sources, time.time())
        at, supplied, idle = self._known
        load = device.others(os.getloadavg()[0], self._own.load, os.cpu_count() or 1)
        return Facts(supplied, load, None if idle is None else idle + now - at, asked_s)


def running_s() -> float:
    """Give the seconds since this process was started; where the system does not tell, those that it worked."""
    told = _text(Path("/proc/self/stat")).rpartition(")")[2].split()
    if len(told) <= _STARTED:
        return time.process_time()
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - int(told[_STARTED]) / os.sysconf("SC_CLK_TCK"))


def power(sources: Sources) -> Power:
    """Ask where the power comes from."""
    if sources.system == "darwin":
        return device.pmset(_said(sources, "pmset", "-g", "batt"))
    return device.power([device.supply(_text(path)) for path in sorted(sources.supplies.glob("*/uevent"))])


def away(sources: Sources, now: float) -> float | None:
    """Ask for how many seconds nobody was there; None where nothing tells. `now` is since the epoch."""
    if sources.system == "darwin":
        return device.hid_idle(_said(sources, "ioreg", "-c", "IOHIDSystem", "-d", "4"))
    known = [one for one in (_sessions(sources, now), _terminals(sources, now)) if one is not None]
    return min(known, default=None)


def _sessions(sources: Sources, now: float) -> float | None:
    listed = _said(sources, "loginctl", "list-sessions", "--no-legend").splitlines()
    names = [line.split()[0] for line in listed if line.split()]
    if not names:
        return None
    asked = (word for name in _SESSION for word in ("-p", name))
    return device.sessions(_said(sources, "loginctl", "show-session", *asked, *names), now)


def _terminals(sources: Sources, now: float) -> float | None:
    """Give the seconds since a key was pressed in a terminal: it is read then."""
    read = [status.st_atime for path in _opened(sources.terminals) if (status := _status(path))]
    return max(0.0, now - max(read)) if read else None


def _opened(folder: Path) -> Iterator[Path]:
    """Give the terminals that somebody is logged in at: those are theirs, and windows have one each."""
    yield from folder.glob("pts/[0-9]*")
    yield from (path for path in folder.glob("tty[0-9]*") if (status := _status(path)) and status.st_uid)


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def _said(sources: Sources, *words: str) -> str:
    """Run one of the system's programs and give what it said; nothing where it is missing, fails or dawdles."""
    env = {"PATH": sources.tools, "LC_ALL": "C"}
    try:
        done = subprocess.run(words, env=env, capture_output=True, check=True, timeout=_PATIENCE_S)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace")
