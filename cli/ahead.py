"""What was read ahead, and what was left, as a person reads it and as JSON."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cli import out
from cli.plain import count, one_line, size

if TYPE_CHECKING:
    from engine.idle.work import Done

_LEFT = {
    "there": "there",
    "time": "no time",
    "units": "--max",
    "room": "no room",
    "changed": "new mail",
    "planned": "planned",
}

_WANTED = ("time", "units", "room", "changed")


def row(done: "Sequence[Done]", reason: str | None, seconds: float, *, dry_run: bool) -> dict[str, Any]:
    """Give what was done as plain values."""
    return {
        "schema": out.SCHEMA,
        "dry_run": dry_run,
        "reason": reason,
        "units": [
            {"job": one.unit.job, "what": one.unit.what, "why": one.unit.why, "tokens": len(one.unit.path[-1]),
             "expected": round(one.unit.expected, 3), "gain_s": round(one.unit.gain, 4),
             "cost_s": round(one.unit.seconds, 4), "state": one.state, "seconds": round(one.seconds, 4),
             "bytes": one.bytes}
            for one in done
        ],
        "done": sum(one.state == "done" for one in done),
        "bytes": sum(one.bytes for one in done),
        "seconds": round(seconds, 3),
    }  # fmt: skip


def show(done: "Sequence[Done]") -> None:
    """Print a line for each unit."""
    for one in done:
        unit = one.unit
        took = f"{one.seconds:.2f} s" if one.state == "done" else _LEFT[one.state]
        about = f"{len(unit.path[-1])} tokens, saves {unit.gain:.2f} s"
        print(f"{unit.job:<6}  {took:>8}  {one_line(unit.what, 70)} · {unit.why} · {about}")


def sum_up(done: "Sequence[Done]", seconds: float) -> None:
    """Say in a line what was read ahead, and nothing where nothing was."""
    read = [one for one in done if one.state == "done"]
    left = sorted({_LEFT[one.state] for one in done if one.state in _WANTED})
    if read:
        kept = f"{count(len(read), 'segment')} read ahead in {seconds:.1f} s, {size(sum(one.bytes for one in read))}"
        more = sum(one.state in _WANTED for one in done)
        print(kept + (f"; {more:,} left: {', '.join(left)}" if left else ""))
