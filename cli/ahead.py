"""What a night did and what it left, as a person reads it and as JSON."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cli import out
from cli.plain import one_line, size

if TYPE_CHECKING:
    from cli.idle_run import Report
    from engine.idle.night import Done
    from store.jobs import Paid

_LEFT = {
    "there": "cached",
    "time": "no time",
    "units": "--max",
    "room": "no space",
    "changed": "new mail",
    "failed": "failed",
    "given up": "gave up",
    "stopped": "stopped",
    "planned": "planned",
}
_WANTED = ("time", "units", "room", "changed", "stopped")
# What a kind of work is called when it was done once, and more often.
_NAMES = {
    "refresh": ("answer refreshed", "answers refreshed"),
    "owed": ("answer verified", "answers verified"),
    "abstract": ("summary written", "summaries written"),
    "predict": ("prediction run", "prediction runs"),
    "populate": ("predicted question precomputed", "predicted questions precomputed"),
    "convert": ("prefilled question answered", "prefilled questions answered"),
    "first": ("segment prefetched", "segments prefetched"),
    "blocks": ("block prefetched", "blocks prefetched"),
    "refill": ("segment restored", "segments restored"),
}


def row(report: "Report", seconds: float, *, dry_run: bool) -> dict[str, Any]:
    """Give what was done as plain values."""
    done = report.done
    return {
        "schema": out.SCHEMA,
        "dry_run": dry_run,
        "reason": report.reason,
        "units": [_unit(one) for one in done],
        "done": sum(one.state == "done" for one in done),
        "bytes": sum(one.spent.bytes for one in done),
        "seconds": round(seconds, 3),
        "flops": round(sum(spent.flops for spent in report.spent.values())),
        "kinds": [
            {"job": kind, "units": spent.units, "seconds": round(spent.seconds, 4)}
            for kind, spent in report.spent.items()
        ],
        "so_far": so_far(report.so_far),
    }


def so_far(paid: "Mapping[str, Paid]") -> list[dict[str, Any]]:
    """Give what each kind of work took in all nights, and what it brought, as plain values."""
    return [
        {
            "job": kind,
            "units": one.units,
            "seconds": round(one.seconds, 4),
            "hits": one.hits,
            "saved_s": round(one.saved_s, 3),
        }
        for kind, one in paid.items()
    ]


def show(done: "Sequence[Done]") -> None:
    """Print a line for each unit."""
    for one in done:
        unit = one.unit
        took = f"{one.spent.seconds:.2f} s" if one.state == "done" else _LEFT[one.state]
        about = [f"{unit.tokens} tokens"] if unit.tokens else []
        about += [f"saves {unit.gain:.2f} s"] if unit.gain else []
        about += [one.reason] if one.reason else []
        print(f"{unit.kind:<8}  {took:>8}  {' · '.join([one_line(unit.what, 70), unit.why, *about])}")


def sum_up(done: "Sequence[Done]", seconds: float) -> None:
    """Say in a line what was done, and nothing where nothing was."""
    kinds = [one.unit.kind for one in done if one.state == "done" and one.unit.kind != "upkeep"]
    left = sorted({_LEFT[one.state] for one in done if one.state in _WANTED})
    if not kinds:
        return
    counts = ", ".join(f"{kinds.count(kind):,} {_NAMES[kind][kinds.count(kind) != 1]}" for kind in dict.fromkeys(kinds))
    kept = f", {size(stored)}" if (stored := sum(one.spent.bytes for one in done)) else ""
    more = sum(one.state in _WANTED for one in done)
    print(f"{counts} in {seconds:.1f} s{kept}" + (f"; {more:,} left: {', '.join(left)}" if left else ""))


def _unit(one: "Done") -> dict[str, Any]:
    unit = one.unit
    return {
        "job": unit.kind,
        "what": unit.what,
        "why": unit.why,
        "tokens": unit.tokens,
        "expected": round(unit.expected, 3),
        "gain_s": round(unit.gain, 4),
        "cost_s": round(unit.seconds, 4),
        "state": one.state,
        "seconds": round(one.spent.seconds, 4),
        "bytes": one.spent.bytes,
    }
