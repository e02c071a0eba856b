"""Energy that the processor says it has taken, where the system shows it: Linux's powercap counters, by package."""

from pathlib import Path

COUNTERS = Path("/sys/class/powercap")


def joules(folder: Path = COUNTERS) -> dict[str, float] | None:
    """Give the counter of each package, in joules; None where there is none or it may not be read."""
    found = {}
    for package in sorted(folder.glob("*-rapl:?")):
        try:
            found[package.name] = int((package / "energy_uj").read_text("ascii")) / 1e6
        except (OSError, ValueError):
            return None
    return found or None


def taken(before: dict[str, float] | None, after: dict[str, float] | None) -> float | None:
    """Give the joules between two readings; None where a counter is missing or began anew meanwhile."""
    if before is None or after is None or before.keys() != after.keys():
        return None
    each = [after[name] - before[name] for name in before]
    return sum(each) if min(each) >= 0 else None
