"""The lines of the evaluation, typed: one for each question of a unit, which is a corpus, user, policy and writer.

A unit is a file, `<corpus>.<user>.<policy>.<writer>.jsonl`; one that is not whole ends in `.part` and is not read.
Knows nothing of what lines are good for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from engine.ask.reply import Tier
from tests.bench.typed import Row, Unreadable, parsed

TIERS: tuple[Tier, ...] = get_args(Tier)
COSINE = -1.001  # the least, rounding errors included


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a language model read and wrote for a question."""

    prompt: int
    reused: int
    computed: int
    generated: int
    guessed: int


@dataclass(frozen=True, slots=True)
class Night:
    """Idle work done before a question, since the one before; read and written are tokens."""

    seconds: float
    flops: float
    read: int
    written: int
    units: int
    foreseen: int


@dataclass(frozen=True, slots=True)
class Printed:
    """What the paper's own engine would have taken, by formula."""

    ms: float
    flops: float
    kv_bytes: int


@dataclass(frozen=True, slots=True)
class Line:
    """One question of a unit and how it was answered; `right` is None where nobody can know, or nothing was lent."""

    corpus: str
    user: str
    policy: str
    writer: str
    number: int
    question: str
    gold: str
    answer: str | None
    tier: Tier
    right: bool | None
    matched: str | None
    similarity: float | None
    foreseen: bool
    tokens: Tokens | None
    chunks: int | None  # in the prompt
    found: int | None  # of these, with tensors kept
    ms: Mapping[str, float]  # by stage; `total` is always there
    flops: float
    bank_bytes: int
    kv_bytes: int
    written: int  # bytes
    night: Night | None
    printed: Printed | None


def read(folder: Path) -> list[Line]:
    """Read all units that are whole, in the order of their names."""
    return [line for file in sorted(folder.glob("*.jsonl")) for line in read_unit(file)]


def unfinished(folder: Path) -> int:
    """Count the units that are not whole."""
    return len(list(folder.glob("*.part")))


def read_unit(file: Path) -> list[Line]:
    """Read one unit; an error names the file and the line, by number."""
    *rows, rest = file.read_bytes().split(b"\n")
    if rest:
        raise Unreadable(f"{file.name}, line {len(rows) + 1}: torn")
    if not rows:
        raise Unreadable(f"{file.name}, line 1: missing")
    named = tuple(file.name.removesuffix(".jsonl").split(".", 3))
    found = list[Line]()
    for count, text in enumerate(rows, 1):
        row = parsed(f"{file.name}, line {count}", text)
        line = _line(row)
        if (line.corpus, line.user, line.policy, line.writer) != named:
            raise Unreadable(f"{row.where}: of another unit than the file's name says")
        if found and line.number != found[-1].number + 1:
            raise Unreadable(f"{row.where}: its number does not follow the one before")
        found.append(line)
    return found


def _line(row: Row) -> Line:
    tier = next((tier for tier in TIERS if tier == row.text("tier")), None) or row.refuse("tier")
    slots, kept = row.row_or_none("slots"), row.row("kept")
    return Line(
        corpus=row.text("corpus"),
        user=row.text("user"),
        policy=row.text("policy"),
        writer=row.text("writer"),
        number=row.whole("number"),
        question=row.text("question"),
        gold=row.text("gold"),
        answer=row.text_or_none("answer"),
        tier=tier,
        right=row.truth_or_none("right"),
        matched=row.text_or_none("matched"),
        similarity=row.number_or_none("similarity", COSINE),
        foreseen=row.truth("foreseen"),
        tokens=_tokens(row.row_or_none("tokens")),
        chunks=slots.whole("chunks") if slots else None,
        found=slots.whole("found") if slots else None,
        ms=_times(row.row("ms")),
        flops=row.number("flops"),
        bank_bytes=kept.whole("bank_bytes"),
        kv_bytes=kept.whole("kv_bytes"),
        written=row.whole("written"),
        night=_night(row.row_or_none("night")),
        printed=_printed(row.row_or_none("printed")),
    )


def _times(row: Row) -> dict[str, float]:
    row.number("total")
    return {stage: row.number(stage) for stage, value in row.values.items() if value is not None}


def _tokens(row: Row | None) -> Tokens | None:
    if row is None:
        return None
    return Tokens(
        row.whole("prompt"), row.whole("reused"), row.whole("computed"), row.whole("generated"), row.whole("guessed")
    )


def _night(row: Row | None) -> Night | None:
    if row is None:
        return None
    counts = (row.whole(key) for key in ("read", "written", "units", "foreseen"))
    return Night(row.number("seconds"), row.number("flops"), *counts)


def _printed(row: Row | None) -> Printed | None:
    return None if row is None else Printed(row.number("ms"), row.number("flops"), row.whole("kv_bytes"))
