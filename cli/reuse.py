"""What was reused, in words: kept tensors, what they saved, and what went.

Gives pairs of a label and a line; a line under an empty label belongs to the one above it. Prints nothing.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from cli.plain import count, size

_WENT = {"room": "for lack of space", "forgotten": "deleted"}  # by any other reason a file was gone or damaged
_REFUSED = {
    "room": "for lack of space",
    "day": "over the daily write limit",
    "disk": "after a write error",
    "parent": "without their parent",
}  # by any other reason another process was quicker
Line = tuple[str, str]


def tensors(row: dict[str, Any]) -> Iterator[Line]:
    """Say what is kept of what a model has read, what that saved, what went, and what more room would have saved."""
    kept, prompts = row["tensors"], row["prompts"]
    if kept["nodes"] or kept["written_by_day"]:
        today = f"{size(kept['written_today'])} of {size(kept['daily_budget'])} written today"
        yield "KV cache", f"{count(kept['nodes'], 'segment')}, {size(kept['bytes'])}; {today}"
    if prompts["questions"]:
        share = _share(prompts["reused"] / prompts["tokens"])
        among = f"in {prompts['with_reuse']:,} of {count(prompts['questions'], 'prompt')}"
        tokens = f"{prompts['reused']:,} of {prompts['tokens']:,} tokens ({share})"
        yield "reused", f"{tokens}, {among}; {kept['saved_s']:.1f} s saved"
    if kept["removed"]:
        yield "evicted", _reasons(kept["removed"], _WENT, "with a missing or damaged file")
    if "room" in kept["removed"] and kept["others"] < kept["budget"]:
        yield "", f"more room would have saved {kept['more_would_save_s']:.1f} s"
    if kept["refused"]:
        yield "not stored", _reasons(kept["refused"], _REFUSED, "already stored by another process")


def _reasons(counts: Mapping[str, int], words: Mapping[str, str], others: str) -> str:
    """Say how many for which reason, most frequent first."""
    merged: dict[str, int] = {}
    for reason, number in counts.items():
        said = words.get(reason, others)
        merged[said] = merged.get(said, 0) + number
    return ", ".join(f"{number:,} {said}" for said, number in sorted(merged.items(), key=lambda one: -one[1]))


def _share(share: float) -> str:
    return f"{share * 100:.0f} %"
