"""Whether this machine may be used for idle work: power, load and presence, as the system reports them.

Sources are the kernel, the login manager and the tools of macOS. A source that is missing or fails is left out.
"""

import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_BUSY = 0.5  # load of other processes, for each core, above which the machine is busy
_AWAY_S = 300.0  # without a person at the machine, before it counts as idle
_AVERAGE_S = 60.0  # time constant of the system's first load average
_PLUGGED = {"Charging", "Full", "Not charging"}
_HID_IDLE = re.compile(r'"HIDIdleTime"\s*=\s*(\d{1,20})\b', re.ASCII)
_NUMBER = re.compile(r"\d{1,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """The state of the machine: `load` of other processes per core, `away_s` since it was in use; None if unknown."""

    mains: bool
    load: float
    away_s: float | None = None
    asked_s: float | None = None  # since the last question


@dataclass(frozen=True, slots=True)
class OwnLoad:
    """The part of the system's load average that is due to this process."""

    at: float  # seconds on the clock
    cpu_s: float  # processor time until then
    load: float = 0.0

    def then(self, at: float, cpu_s: float) -> "OwnLoad":
        """Return the load at a later time, as an exponential average like the system's."""
        passed = at - self.at
        if passed <= 0:
            return self
        decay = math.exp(-passed / _AVERAGE_S)
        return OwnLoad(at, cpu_s, self.load * decay + (cpu_s - self.cpu_s) / passed * (1 - decay))


def why_not(facts: MachineFacts) -> str | None:
    """Return why the machine must not be used for idle work; None if it may."""
    if not facts.mains:
        return "on battery"
    if facts.away_s is not None and facts.away_s < _AWAY_S:
        return "the machine is in use"
    if facts.asked_s is not None and abs(facts.asked_s) < _AWAY_S:  # far below 0: the clock was set back
        return "a question was just asked"
    if facts.load > _BUSY:
        return f"the machine is busy: load {facts.load:.1f} per core"
    return None


def others(load: float, own: float, cores: int) -> float:
    """Return the load of other processes per core."""
    return max(0.0, load - own) / max(1, cores)


def supply(uevent: str) -> dict[str, str]:
    """Parse a file /sys/class/power_supply/*/uevent: properties by name, without its prefix."""
    pairs = (line.partition("=") for line in uevent.splitlines())
    return {name.removeprefix("POWER_SUPPLY_"): value.strip() for name, found, value in pairs if found}


def has_mains(supplies: Sequence[Mapping[str, str]]) -> bool:
    """Return whether a machine with these power supplies of Linux runs on mains; a mouse's battery does not count."""
    mine = [one for one in supplies if one.get("SCOPE") != "Device"]
    batteries = [one for one in mine if one.get("TYPE") in ("Battery", "UPS") and one.get("PRESENT") != "0"]
    if not batteries:
        return True
    cables = [one for one in mine if one.get("TYPE") not in ("Battery", "UPS") and "ONLINE" in one]
    plugged = any(one["ONLINE"] not in ("0", "") for one in cables)
    if not cables:
        plugged = all(one.get("STATUS", "Full") in _PLUGGED for one in batteries)
    return plugged


def parse_pmset(output: str) -> bool:
    """Return whether a Mac runs on mains, by the output of `pmset -g batt`."""
    first = output.partition("\n")[0]
    return "'Battery Power'" not in first and "'UPS Power'" not in first


def hid_idle(output: str) -> float | None:
    """Return the seconds since keyboard or mouse were used, by the output of `ioreg -c IOHIDSystem` on macOS."""
    return min((int(found) / 1e9 for found in _HID_IDLE.findall(output)), default=None)


def session_idle(output: str, now: float) -> float | None:
    """Return the seconds since any session was in use, by the output of `loginctl show-session`.

    A terminal is idle since its last key. A desktop reports since when it is idle, or never reports anything.
    `now` is in seconds since the epoch.
    """
    found = (_session_idle(supply(block), now) for block in re.split(r"\n\s*\n", output))
    return min((seconds for seconds in found if seconds is not None), default=None)


def _session_idle(session: Mapping[str, str], now: float) -> float | None:
    since = session.get("IdleSinceHint", "")
    if not session.get("Class", "user").startswith("user") or not _NUMBER.fullmatch(since) or not int(since):
        return None
    if session.get("Type") != "tty" and session.get("IdleHint") != "yes":
        return 0.0
    return max(0.0, now - int(since) / 1e6)


_TOOLS = "/usr/bin:/bin:/usr/sbin:/sbin"  # the PATH of cron is too short
_TIMEOUT_S = 2.0
_FRESH_S = 5.0
_STARTED = 19  # field of /proc/self/stat after the name: ticks from the system's start to the process's
_SESSION = ("Class", "Type", "IdleHint", "IdleSinceHint")


@dataclass(frozen=True, slots=True)
class Sources:
    """The paths to read on Linux: folders of power supplies and of terminals, and the PATH of programs."""

    supplies: Path = Path("/sys/class/power_supply")
    terminals: Path = Path("/dev")
    tools: str = _TOOLS
    system: str = sys.platform


class Machine:
    """Reports the state of this machine; tracks its own load, and caches for seconds what programs report."""

    def __init__(self, sources: Sources | None = None, fresh_s: float = _FRESH_S) -> None:
        self._sources, self._fresh_s = sources or Sources(), fresh_s
        self._own = OwnLoad(time.monotonic(), time.process_time())
        self._known: tuple[float, bool, float | None] | None = None

    def facts(self, asked_s: float | None) -> MachineFacts:
        """Return the state of the machine now; `asked_s` is the time since the last question, a sign of presence."""
        now = time.monotonic()
        self._own = self._own.then(now, time.process_time())
        if self._known is None or now - self._known[0] >= self._fresh_s:
            self._known = now, on_mains(self._sources), away_s(self._sources, time.time())
        at, mains, idle = self._known
        load = others(os.getloadavg()[0], self._own.load, os.cpu_count() or 1)
        return MachineFacts(mains, load, None if idle is None else idle + now - at, asked_s)


def running_s() -> float:
    """Return the seconds since this process was started; its processor time where the system does not tell."""
    fields = _text(Path("/proc/self/stat")).rpartition(")")[2].split()
    if len(fields) <= _STARTED:
        return time.process_time()
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[_STARTED]) / os.sysconf("SC_CLK_TCK"))


def on_mains(sources: Sources) -> bool:
    """Return whether the machine runs on mains; one without a battery always does."""
    if sources.system == "darwin":
        return parse_pmset(_run(sources, "pmset", "-g", "batt"))
    return has_mains([supply(_text(path)) for path in sorted(sources.supplies.glob("*/uevent"))])


def away_s(sources: Sources, now: float) -> float | None:
    """Return the seconds since the machine was in use, None if unknown; `now` is in seconds since the epoch."""
    if sources.system == "darwin":
        return hid_idle(_run(sources, "ioreg", "-c", "IOHIDSystem", "-d", "4"))
    known = [one for one in (_sessions(sources, now), _terminals(sources, now)) if one is not None]
    return min(known, default=None)


def _sessions(sources: Sources, now: float) -> float | None:
    listed = _run(sources, "loginctl", "list-sessions", "--no-legend").splitlines()
    names = [line.split()[0] for line in listed if line.split()]
    if not names:
        return None
    properties = (word for name in _SESSION for word in ("-p", name))
    return session_idle(_run(sources, "loginctl", "show-session", *properties, *names), now)


def _terminals(sources: Sources, now: float) -> float | None:
    """Return the seconds since a key was pressed in a terminal, which sets its access time."""
    read = [status.st_atime for path in _used_terminals(sources.terminals) if (status := _status(path))]
    return max(0.0, now - max(read)) if read else None


def _used_terminals(folder: Path) -> Iterator[Path]:
    """Yield the terminals of windows, and those at which somebody is logged in, who owns them."""
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


def _run(sources: Sources, *words: str) -> str:
    """Return the output of a system program; empty if it is missing, fails or is too slow."""
    env = {"PATH": sources.tools, "LC_ALL": "C"}
    try:
        done = subprocess.run(words, env=env, capture_output=True, check=True, timeout=_TIMEOUT_S)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace")
