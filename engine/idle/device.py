"""Whether the machine may work unasked: its power, how busy others keep it, how long nobody was there. Pure.

What the system says is understood here and read elsewhere; what it does not say stands in nobody's way.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_SETTLING_S = 60.0  # of the system's first load average
_PLUGGED = {"Charging", "Full", "Not charging"}
_HID_IDLE = re.compile(r'"HIDIdleTime"\s*=\s*(\d{1,20})\b', re.ASCII)
_NUMBER = re.compile(r"\d{1,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Power:
    """Whether the machine runs on mains, as every one without a battery does."""

    mains: bool = True


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known, None where nothing tells: `load` of others, for each core, `away_s` since somebody was there."""

    power: Power
    load: float
    away_s: float | None = None
    asked_s: float | None = None  # since the last question


@dataclass(frozen=True, slots=True)
class Limits:
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


def why_not(facts: Facts, limits: Limits) -> str | None:
    """Give the reason why the machine is to be left alone, None where there is none."""
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
    """Give the load of others for each core."""
    return max(0.0, load - own) / max(1, cores)


def supply(uevent: str) -> dict[str, str]:
    """Understand a file /sys/class/power_supply/*/uevent: property by name, without its prefix."""
    pairs = (line.partition("=") for line in uevent.splitlines())
    return {name.removeprefix("POWER_SUPPLY_"): value.strip() for name, found, value in pairs if found}


def power(supplies: Sequence[Mapping[str, str]]) -> Power:
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
    """Give the seconds since keys or mouse were touched, by `ioreg -c IOHIDSystem` of macOS."""
    return min((int(found) / 1e9 for found in _HID_IDLE.findall(said)), default=None)


def sessions(said: str, now: float) -> float | None:
    """Give the seconds since somebody was in any session, by `loginctl show-session`; `now` is since the epoch.

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
