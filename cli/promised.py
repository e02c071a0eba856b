"""What the history says of tiers, what idle would have saved by it, and what it would do now. Prints nothing."""

import sys
import time
from typing import TYPE_CHECKING, Any

from cli.session import Session

if TYPE_CHECKING:
    from engine.idle.units import Unit

TIERS = ("exact", "semantic", "prefix", "blocks", "full")
_DAYS, _DAY_S = 30, 86_400
_NIGHT_S = 600.0  # as long as `pkb idle` works unless told otherwise; of that planning takes a part


def gather(own: Session | None) -> dict[str, Any]:
    """Give the figures of a copy of a home, null where there is none; nothing has been asked of the copy yet."""
    if own is None:
        return {"asked": dict.fromkeys(TIERS, 0), "history": None, "idle": None}
    from store.history import History

    counts = History(own.ledger).by_tier()
    asked = {tier: sum(one.questions for one in counts if one.tier == tier) for tier in TIERS}
    return {"asked": asked, "history": _history(own), "idle": _idle(own)}


def _history(own: Session) -> dict[str, Any]:
    from engine.idle.repeats import repeats

    found = repeats(own.ledger, own.now.timestamp() - _DAYS * _DAY_S)
    return {
        "days": _DAYS,
        "questions": found.questions,
        "repeated": found.repeated,
        "from_bank": found.from_bank,
        "saved_s": round(found.saved_s, 3),
        "missed_s": round(found.missed_s, 3),
    }


def _idle(own: Session) -> dict[str, Any]:
    """Plan as `pkb idle --dry-run` does."""
    from cli.idle_run import Asked, work

    asked = Asked(time.monotonic(), _NIGHT_S, units=sys.maxsize, predictions=sys.maxsize, dry_run=True, force=False)
    report = work(own, asked)
    units = [done.unit for done in report.done]
    return {
        "reason": report.reason,
        **_sum(units),
        "kinds": [
            {"job": kind, **_sum([unit for unit in units if unit.kind == kind])}
            for kind in dict.fromkeys(unit.kind for unit in units)
        ],
    }


def _sum(units: "list[Unit]") -> dict[str, Any]:
    return {
        "units": len(units),
        "cost_s": round(sum(unit.seconds for unit in units), 3),
        "gain_s": round(sum(unit.gain for unit in units), 3),
    }
