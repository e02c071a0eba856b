"""The machine, asked: what the kernel, the login manager and macOS's own tools say of power, load and presence.

Thin: what they say is understood in device.py. Whatever is missing or does not answer says nothing.
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

_SETTLING_S = 60.0  # of the system's first load average
_PLUGGED = {"Charging", "Full", "Not charging"}
_HID_IDLE = re.compile(r'"HIDIdleTime"\s*=\s*(\d{1,20})\b', re.ASCII)
_NUMBER = re.compile(r"\d{1,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Power:
    """Whether the machine runs on mains, as every one without a battery does."""

    mains: bool = True


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """What is known, None where nothing tells: `load` of others, for each core, `away_s` since somebody was there."""

    power: Power
    load: float
    away_s: float | None = None
    asked_s: float | None = None  # since the last question


@dataclass(frozen=True, slots=True)
class IdleConditions:
    """From when on the machine is too busy, and for how long nobody must have been there."""

    load: float = 0.5
    away_s: float = 300.0


@dataclass(frozen=True, slots=True)
class Own:
    """What of the load this process makes itself, to be taken off: the system counts whoever works."""

    at: float  # seconds on the clock
    cpu_s: float  # of processor time, until then
    load: float = 0.0

    def then(self, at: float, cpu_s: float) -> "Own":
        """Go on to a later moment: an average that settles as the system's does."""
        passed = at - self.at
        if passed <= 0:
            return self
        kept = math.exp(-passed / _SETTLING_S)
        return Own(at, cpu_s, self.load * kept + (cpu_s - self.cpu_s) / passed * (1 - kept))


def why_not(facts: MachineFacts, limits: IdleConditions) -> str | None:
    """Return the reason why the machine is to be left alone, None where there is none."""
    if not facts.power.mains:
        return "on battery"
    if facts.away_s is not None and facts.away_s < limits.away_s:
        return "the machine is in use"
    if facts.asked_s is not None and abs(facts.asked_s) < limits.away_s:  # far below 0: the clock was put back
        return "a question was just asked"
    if facts.load > limits.load:
        return f"the machine is busy: load {facts.load:.1f} per core"
    return None


def others(load: float, own: float, cores: int) -> float:
    """Return the load of others for each core."""
    return max(0.0, load - own) / max(1, cores)


def supply(uevent: str) -> dict[str, str]:
    """Understand a file /sys/class/power_supply/*/uevent: property by name, without its prefix."""
    pairs = (line.partition("=") for line in uevent.splitlines())
    return {name.removeprefix("POWER_SUPPLY_"): value.strip() for name, found, value in pairs if found}


def power_of(supplies: Sequence[Mapping[str, str]]) -> Power:
    """Tell from Linux's supplies; the battery of a mouse is not the machine's."""
    mine = [one for one in supplies if one.get("SCOPE") != "Device"]
    batteries = [one for one in mine if one.get("TYPE") in ("Battery", "UPS") and one.get("PRESENT") != "0"]
    if not batteries:
        return Power()
    cables = [one for one in mine if one.get("TYPE") not in ("Battery", "UPS") and "ONLINE" in one]
    plugged = any(one["ONLINE"] not in ("0", "") for one in cables)
    if not cables:
        plugged = all(one.get("STATUS", "Full") in _PLUGGED for one in batteries)
    return Power(plugged)


def pmset(said: str) -> Power:
    """Understand what `pmset -g batt` of macOS says."""
    first = said.partition("\n")[0]
    return Power("'Battery Power'" not in first and "'UPS Power'" not in first)


def hid_idle(said: str) -> float | None:
    """Return the seconds since keys or mouse were touched, by `ioreg -c IOHIDSystem` of macOS."""
    return min((int(found) / 1e9 for found in _HID_IDLE.findall(said)), default=None)


def sessions(said: str, now: float) -> float | None:
    """Return the seconds since somebody was in any session, by `loginctl show-session`; `now` is since the epoch.

    A terminal's idle time is that of its last key. A desktop says when it found nobody there, or nothing at all, ever.
    """
    found = (_away(supply(block), now) for block in re.split(r"\n\s*\n", said))
    return min((away for away in found if away is not None), default=None)


def _away(session: Mapping[str, str], now: float) -> float | None:
    since = session.get("IdleSinceHint", "")
    if not session.get("Class", "user").startswith("user") or not _NUMBER.fullmatch(since) or not int(since):
        return None
    if session.get("Type") != "tty" and session.get("IdleHint") != "yes":
        return 0.0
    return max(0.0, now - int(since) / 1e6)


_TOOLS = "/usr/bin:/bin:/usr/sbin:/sbin"  # cron has no PATH worth the name
_TIMEOUT_S = 2.0
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

    def facts(self, asked_s: float | None) -> MachineFacts:
        """Return what is known now; `asked_s` is the time since the last question, which somebody must have asked."""
        now = time.monotonic()
        self._own = self._own.then(now, time.process_time())
        if self._known is None or now - self._known[0] >= self._fresh_s:
            self._known = now, power(self._sources), away(self._sources, time.time())
        at, supplied, idle = self._known
        load = others(os.getloadavg()[0], self._own.load, os.cpu_count() or 1)
        return MachineFacts(supplied, load, None if idle is None else idle + now - at, asked_s)


def running_s() -> float:
    """Return the seconds since this process was started; where the system does not tell, those that it worked."""
    told = _text(Path("/proc/self/stat")).rpartition(")")[2].split()
    if len(told) <= _STARTED:
        return time.process_time()
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - int(told[_STARTED]) / os.sysconf("SC_CLK_TCK"))


def power(sources: Sources) -> Power:
    """Ask where the power comes from."""
    if sources.system == "darwin":
        return pmset(_said(sources, "pmset", "-g", "batt"))
    return power_of([supply(_text(path)) for path in sorted(sources.supplies.glob("*/uevent"))])


def away(sources: Sources, now: float) -> float | None:
    """Ask for how many seconds nobody was there; None where nothing tells. `now` is since the epoch."""
    if sources.system == "darwin":
        return hid_idle(_said(sources, "ioreg", "-c", "IOHIDSystem", "-d", "4"))
    known = [one for one in (_sessions(sources, now), _terminals(sources, now)) if one is not None]
    return min(known, default=None)


def _sessions(sources: Sources, now: float) -> float | None:
    listed = _said(sources, "loginctl", "list-sessions", "--no-legend").splitlines()
    names = [line.split()[0] for line in listed if line.split()]
    if not names:
        return None
    asked = (word for name in _SESSION for word in ("-p", name))
    return sessions(_said(sources, "loginctl", "show-session", *asked, *names), now)


def _terminals(sources: Sources, now: float) -> float | None:
    """Return the seconds since a key was pressed in a terminal: it is read then."""
    read = [status.st_atime for path in _opened(sources.terminals) if (status := _status(path))]
    return max(0.0, now - max(read)) if read else None


def _opened(folder: Path) -> Iterator[Path]:
    """Yield the terminals that somebody is logged in at: those are theirs, and windows have one each."""
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
        done = subprocess.run(words, env=env, capture_output=True, check=True, timeout=_TIMEOUT_S)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace")
