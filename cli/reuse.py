"""What was reused, in words: kept tensors, what they saved and lost, and what the questions have in common.

Gives pairs of a label and a line; a line under an empty label belongs to the one above it. Prints nothing.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from cli.plain import count, size

_BARS = "▁▂▃▄▅▆▇█"
_WENT = {"room": "for lack of space", "forgotten": "deleted"}  # by any other reason a file was gone or damaged
_REFUSED = {
    "room": "for lack of space",
    "day": "over the daily write limit",
    "disk": "after a write error",
    "parent": "without their parent",
}  # by any other reason another process was quicker
_OVERLAPS = {
    "beginning": "at the beginning of one",
    "one_question": "anywhere in one",
    "all_questions": "in all together",
}
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
    if kept["hits"]:
        yield "", f"hits by depth: {_depths(kept)}"
    if kept["removed"]:
        yield "evicted", _reasons(kept["removed"], _WENT, "with a missing or damaged file")
    if "room" in kept["removed"] and kept["others"] < kept["budget"]:
        yield "", _more(kept["more_would_save_s"])
    if kept["refused"]:
        yield "not stored", _reasons(kept["refused"], _REFUSED, "already stored by another process")


def common(row: dict[str, Any], *, bars: bool) -> Iterator[Line]:
    """Say what the questions have in common: how often chunks were retrieved, and how questions overlap."""
    found = row["retrieved"]
    if not found["questions"]:
        return
    chunks, hottest = count(found["chunks"], "chunk"), _share(found["on_hottest"]["10%"])
    asked = f"{found['times']:,} times for {count(found['questions'], 'question')}"
    yield "retrieved", f"{chunks}, {asked}; the top 10 % of them got {hottest}"
    yield "", ", ".join(f"{_share(share)} {_times(name)}" for name, share in found["by_times"].items() if share)
    if found["questions"] > 1:
        yield "overlap", "share of a question's chunks that earlier questions had too"
        for name, words in _OVERLAPS.items():
            one = row["overlap"][name]
            yield "", f"{words:<24}{_share(one['mean']):>5}  {_over_time(one['over_time'], bars=bars)}"


def _depths(kept: dict[str, Any]) -> str:
    """Say how many chunks were loaded how often: the first segment of a prompt is its instructions."""
    if kept["reuse"] == "blocks":  # a chunk is two of them, and either may be there alone
        return ", ".join(f"{count(int(at), 'segment')} {hits:,}" for at, hits in kept["hits_by_depth"].items())
    found = {int(depth) - 1: hits for depth, hits in kept["hits_by_depth"].items()}
    as_far = {at: count(at, "chunk") if at > 0 else "the instructions" for at in sorted(found)}
    named = [f"{words} {found[at]:,}" for at, words in as_far.items()]
    return ", ".join(named) + (f"; {kept['partial']:,} with part of the next" if kept["partial"] else "")


def _reasons(counts: Mapping[str, int], words: Mapping[str, str], others: str) -> str:
    """Say how many for which reason, most frequent first."""
    merged: dict[str, int] = {}
    for reason, number in counts.items():
        said = words.get(reason, others)
        merged[said] = merged.get(said, 0) + number
    return ", ".join(f"{number:,} {said}" for said, number in sorted(merged.items(), key=lambda one: -one[1]))


def _more(would: Mapping[str, float]) -> str:
    """Say what more room would have saved, up to where still more adds nothing."""
    least: dict[str, str] = {}  # room by what it would have saved
    for times, seconds in would.items():
        least.setdefault(f"{seconds:.1f} s", times)
    named = [f"{seconds} at {times}" for seconds, times in least.items() if seconds != "0.0 s"]
    return "a larger budget would have saved " + (", ".join(named) or "nothing so far")


def _over_time(shares: list[float], *, bars: bool) -> str:
    """Show how a share grew: a bar for each part of the time, or its ends."""
    if bars:
        return "".join(_BARS[round(share * (len(_BARS) - 1))] for share in shares)
    return f"first {_share(shares[0])}, last {_share(shares[-1])}"


def _times(name: str) -> str:
    return {"1": "once", "2": "twice", "10+": "10 times or more"}.get(name, f"{name} times")


def _share(share: float) -> str:
    return f"{share * 100:.0f} %"
