"""What `pkb bench` found, as a person reads it: on one screen, but for answers that blocks change."""

from collections.abc import Iterator, Mapping
from typing import Any

from cli.plain import count, line, one_line, size

_SHOWN, _WIDTH = 3, 60  # answers that differ, and characters of each
_LABEL, _CELL = 10, 23
_LONG_MS, _FEW = 1000, 10  # from which on seconds are shown, under which a tenth counts
_NAMES = {"semantic": "similar", "prefix": "reused", "blocks": "reused", "full": "anew"}
_SAYS = {
    "exact": "asked before",
    "semantic": "in other words",
    "prefix": "all but the question read before",
    "blocks": "all but the question read before",
    "full": "nothing read before",
}
_KEPT = {"answer": "for an answer", "vector": "for its vector", "tensors": "of tensors, at most"}
Row = Mapping[str, Any]


def show(row: Row) -> None:
    """Print the figures."""
    asked = count(row["questions"], "question")
    whose = f"your latest {asked}" if row["own"] else f"{asked} of a small example: you have asked none yet"
    print(f"{line(row['model']) if row['model'] else 'quotes, without a language model,'} on {whose}")
    if row["questions"]:
        machine = row["machine"]
        on = f"{machine['system']} {machine['processor']}, {count(machine['cores'], 'core')}, {size(machine['memory'])}"
        print(f"{on}, computing on {machine['device']}; medians (lowest to highest), everything open\n")
        for shown in _tiers(row):
            print(shown)
        print()
    for label, shown in [*_about(row), *_promised(row)]:
        print(f"{label:<{_LABEL}}{shown}")
    if row["blocks"] and row["blocks"]["questions"]:
        _blocks(row["blocks"])


def _tiers(row: Row) -> Iterator[str]:
    """Give a line for each tier."""
    words = bool(row["tokens"])
    heads = ["first token", "whole answer"] if words else ["answer"]
    yield f"{'tier':<{_LABEL}}{'asked':>6}  " + "".join(f"{head:<{_CELL}}" for head in heads).rstrip()
    for tier, took in row["tiers"].items():
        cells = [took["first_token_ms"], took["total_ms"]] if words else [took["total_ms"]]
        shown = "".join(f"{_spread(cell):<{_CELL}}" for cell in cells)
        yield f"{_NAMES.get(tier, tier):<{_LABEL}}{row['asked'][tier]:>6}  {shown}{_says(tier, row)}"


def _says(tier: str, row: Row) -> str:
    """Say what a tier is, and of the similar one how often it was found, or what the time is of."""
    similar = row["similar"]
    if tier == "full" and not row["tokens"]:
        return "found and quoted"
    if tier != "semantic":
        return _SAYS[tier]
    if similar is None:
        return "not looked for"
    found = f"{_SAYS[tier]}, found for {similar['found']} of {similar['tried']}"
    return found if similar["found"] else f"{found}: so long is the look"


def _about(row: Row) -> Iterator[tuple[str, str]]:
    """Say what goes into the tiers: steps, tokens, start, bytes; and whether reuse changed an answer."""
    steps = [(name, one["median"]) for name, one in row["steps_ms"].items() if one]
    if steps:
        named = {"similar": "compare", "check": "ask the model yes or no"}
        yield "of it", ", ".join(f"{named.get(name, name)} {_ms(ms)}" for name, ms in steps)
    if tokens := row["tokens"]:
        read, written = tokens["read_per_s"], tokens["written_per_s"]
        yield "tokens", ", ".join(
            [f"{tokens['prompt']['median']:.0f} a prompt, read at {_rate(read)}",
             f"{tokens['generated']['median']:.0f} an answer, written at {_rate(written)}"]
        )  # fmt: skip
    yield from _cold(row["cold"])
    kept = [f"{size(one['median'])} {_KEPT[name]}" for name, one in row["bytes"].items() if one]
    if kept:
        yield "kept", ", ".join(kept)
    if (answers := row["answers"])["compared"]:
        yield "reuse", f"{answers['same']} of {answers['compared']} answers are the same with it and without"
    if answers["declined"]:
        yield (
            "declined",
            f"{answers['declined']} of {count(row['questions'], 'question')}: nothing found bears an answer",
        )


def _cold(cold: Row) -> Iterator[tuple[str, str]]:
    said = []
    if cold["command_ms"]:
        said.append(f"an exact hit by a process of its own {_ms(cold['command_ms']['median'])}")
    if cold["open_ms"]:
        said.append(f"opening what is searched {_ms(cold['open_ms'])}")
    if cold["model_s"]:
        said.append(f"loading the model {_ms(1000 * cold['model_s'])}")
    if said:
        yield "cold", ", ".join(said)


def _promised(row: Row) -> Iterator[tuple[str, str]]:
    """Say what idle would have saved, and what it would do."""
    if not (past := row["history"]):
        return
    if past["questions"]:
        bank = f"{past['from_bank']} of these from the bank: {past['saved_s']:.1f} s saved"
        asked = f"{count(past['questions'], 'question')} in {past['days']} days"
        yield "history", f"{asked}, {past['repeated']} asked before; {bank}"
    if missed := past["repeated"] - past["from_bank"]:
        yield "", f"{missed} made anew: {past['missed_s']:.1f} s would have been saved, had pkb idle had them ready"
    night = row["idle"]
    works = [f"{kind['job']} {kind['units']:,}" for kind in night["kinds"]]
    if works:
        gain = f"{_ms(1000 * night['gain_s'])} on as many questions as so far" if night["gain_s"] else "no time yet"
        yield "pkb idle", f"would now work for {_ms(1000 * night['cost_s'])} ({', '.join(works)}) and save {gain}"
    else:
        yield "pkb idle", line(night["reason"] or "has nothing to do now")


def _blocks(found: Row) -> None:
    """Say what reading in blocks would save and change."""
    ms, reused, asked = found["first_token_ms"], found["reused"], found["questions"]
    print("\nread in blocks instead of one behind the other")
    letters = f"{found['equal_answers']} the same to the letter"
    print(f"answers      {found['same_words']} of {asked} are in the same words, {letters}")
    print(f"tokens       {found['top_1']:.1%} of {found['tokens']:,} are the same, where those before them are")
    print(f"next token   {found['kl_first']:.4f} nats away in the mean, and {found['kl']:.4f} along the whole answer")
    print(f"reused       {reused['usual']:.0%} of all tokens as usual, {reused['blocks']:.0%} in blocks, were all kept")
    print(f"first token  {ms['usual_computed']:.0f} ms computed as usual, {ms['usual_loaded']:.0f} ms loaded")
    print(f"             {ms['blocks_computed']:.0f} ms computed in blocks, {ms['blocks_loaded']:.0f} ms loaded")
    for one in found["different"][:_SHOWN]:
        print(f"\n{one_line(one['question'], _WIDTH)}")
        for way in ("usual", "blocks"):
            print(f"{way:>12} {one_line(one[way], _WIDTH) or '(nothing)'}")
    print("\nTo read in blocks from now on: pkb config set kv.reuse blocks")


def _spread(found: Row | None) -> str:
    """Give a median with its ends in the same unit."""
    if not found:
        return "-"
    unit, by = ("s", 1000) if found["median"] >= _LONG_MS else ("ms", 1)
    middle, low, high = (found[name] / by for name in ("median", "low", "high"))
    digits = 1 if middle < _FEW else 0
    return f"{middle:,.{digits}f} {unit} ({low:,.{digits}f} to {high:,.{digits}f})"


def _ms(ms: float) -> str:
    """Give a time in the unit that reads best."""
    return _spread({"median": ms, "low": ms, "high": ms}).partition(" (")[0]


def _rate(found: Row | None) -> str:
    return f"{found['median']:,.0f} a second" if found else "no speed to speak of"
