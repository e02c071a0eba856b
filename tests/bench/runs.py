"""Records of each run of the evaluation: duration, lanes, seconds per job, reasons for missing jobs, and energy.

Energy comes from Linux's powercap counters, by package, where the system shows them.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

COUNTERS = Path("/sys/class/powercap")


def joules(folder: Path = COUNTERS) -> dict[str, float] | None:
    """Return the counter of each package, in joules; None where there is none or it may not be read."""
    found = {}
    for package in sorted(folder.glob("*-rapl:?")):
        try:
            found[package.name] = int((package / "energy_uj").read_text("ascii")) / 1e6
        except (OSError, ValueError):
            return None
    return found or None


def taken(before: dict[str, float] | None, after: dict[str, float] | None) -> float | None:
    """Return the joules between two readings; None where a counter is missing or began anew meanwhile."""
    if before is None or after is None or before.keys() != after.keys():
        return None
    each = [after[name] - before[name] for name in before]
    return sum(each) if min(each) >= 0 else None


FILE = "runs.json"


@dataclass(frozen=True, slots=True)
class Run:
    """One command: its lanes, its seconds from beginning to end, how many jobs it did, and joules if known."""

    command: str
    lanes: int
    seconds: float
    jobs: int
    joules: float | None = None


def note(folder: Path, scope: str, run: Run, seconds: Mapping[str, float], left: Mapping[str, str]) -> None:
    """Add a run to those of a folder of lines: the seconds of its jobs by name, and why others are not done."""
    file = folder / FILE
    found: dict[str, Any] = json.loads(file.read_text("utf-8")) if file.is_file() else {"runs": [], "seconds": {}}
    found |= {"scope": scope, "left": {**left}}
    found["runs"].append(asdict(run))
    found["seconds"] |= {name: round(one, 1) for name, one in seconds.items()}
    fresh = file.with_suffix(".fresh")
    fresh.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    fresh.replace(file)
