"""Medians, with the lowest and the highest, of questions that were put in every tier; as plain values. Pure."""

from collections.abc import Iterable, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.ask.reply import Reply
    from engine.ask.tiers import Tried

Spread = dict[str, float | int]


def spread(values: Iterable[float | None]) -> Spread | None:
    """Give the median, the lowest and the highest of those values that there are, and their number."""
    there = [value for value in values if value is not None]
    if not there:
        return None
    ends = {"median": median(there), "low": min(there), "high": max(there)}
    return {**{name: round(float(value), 3) for name, value in ends.items()}, "runs": len(there)}


def row(tried: "Sequence[Tried]", reused: str) -> dict[str, Any]:
    """Give the figures; `reused` names the tier of what was read before."""
    made, again = [one.made for one in tried], [one.again for one in tried if one.again]
    looked = [one.similar for one in tried if one.similar]
    found = [look.ms["total"] for look in looked if look.found]
    lent = spread(found or [look.ms["total"] for look in looked])
    kept = [one.kept for one in tried]
    return {
        "tiers": {
            "exact": _tier([hit for one in tried for hit in one.exact]),
            "semantic": {"first_token_ms": lent, "total_ms": lent},
            **({reused: _tier(again)} if again else {}),
            "full": _tier(made),
        },
        "similar": {"tried": len(looked), "found": len(found)} if looked else None,
        "steps_ms": {
            "embed": spread(reply.ms.get("embed") for reply in (*made, *again)),
            "retrieve": spread(reply.ms.get("retrieve") for reply in (*made, *again)),
            "similar": spread(look.ms.get("similar") for look in looked),
            "check": spread(look.ms.get("check") for look in looked),
        },
        "tokens": _tokens(made, again),
        "bytes": {
            "answer": spread(one.answer for one in kept),
            "vector": spread(one.vector for one in kept),
            "tensors": spread(one.tensors for one in kept),
        },
        "answers": {
            "declined": sum(reply.answer is None for reply in made),
            "compared": len(again),
            "same": sum(one.same is True for one in tried),
        },
    }


def _tier(replies: "Sequence[Reply]") -> dict[str, Spread | None]:
    return {f"{name}_ms": spread(reply.ms.get(name) for reply in replies) for name in ("first_token", "total")}


def _tokens(made: "Sequence[Reply]", again: "Sequence[Reply]") -> dict[str, Spread | None] | None:
    """Give what a model read and wrote, and how fast; None where none did."""
    if not any(reply.tokens for reply in made):
        return None
    return {
        "prompt": spread(_of(reply, "prompt") for reply in made),
        "generated": spread(_of(reply, "generated") for reply in made),
        "reused": spread(_of(reply, "reused") for reply in again),
        "read_per_s": spread(_rate(reply, "computed", "prefill", 0) for reply in made),
        "written_per_s": spread(_rate(reply, "generated", "decode", 1) for reply in (*made, *again)),
    }


def _of(reply: "Reply", name: str) -> float | None:
    return reply.tokens[name] if reply.tokens else None


def _rate(reply: "Reply", name: str, step: str, but: int) -> float | None:
    """Give tokens a second, but for so many that were there before the step began."""
    count, ms = (_of(reply, name) or 0) - but, reply.ms.get(step, 0.0)
    return 1000 * count / ms if count > 0 and ms else None
