"""Typed result lines: one per question of a unit, which is a corpus, user, policy and writer.

A unit is a file, `<corpus>.<user>.<policy>.<writer>.jsonl`; an unfinished one ends in `.part` and is not read. A line
that does not have the agreed keys and types is an error that names the file, line and key, and not the value.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, get_args

from engine.types import Tier

MOST = 1e300


class Unreadable(Exception):
    """A file of measurements is not as agreed."""


@dataclass(frozen=True, slots=True)
class Row:
    """One JSON object, and where it stands."""

    where: str
    values: Mapping[str, Any]

    def text(self, key: str) -> str:
        """Return a text."""
        return str(self._of(key, str))

    def text_or_none(self, key: str) -> str | None:
        """Return a text, or None for null."""
        return None if self._null(key) else self.text(key)

    def truth(self, key: str) -> bool:
        """Return true or false."""
        return bool(self._of(key, bool))

    def truth_or_none(self, key: str) -> bool | None:
        """Return true or false, or None for null."""
        return None if self._null(key) else self.truth(key)

    def number(self, key: str, least: float = 0.0) -> float:
        """Return a finite number, not below the least."""
        value = self._of(key, int, float)
        if isinstance(value, bool) or not least <= value <= MOST:
            self.refuse(key)
        return float(value)

    def number_or_none(self, key: str, least: float = 0.0) -> float | None:
        """Return a finite number, or None for null."""
        return None if self._null(key) else self.number(key, least)

    def whole(self, key: str) -> int:
        """Return a whole number from 0."""
        if isinstance(self._of(key, int), bool):
            self.refuse(key)
        return int(self.number(key))

    def row(self, key: str) -> "Row":
        """Return the object below a key."""
        return Row(f"{self.where}, {key}", self._of(key, dict))

    def row_or_none(self, key: str) -> "Row | None":
        """Return the object below a key, or None for null."""
        return None if self._null(key) else self.row(key)

    def rows(self, key: str) -> list["Row"]:
        """Return the objects of a list."""
        found = [Row(f"{self.where}, {key} {number}", each) for number, each in enumerate(self._of(key, list), 1)]
        if not all(isinstance(row.values, dict) for row in found):
            self.refuse(key)
        return found

    def numbers(self, key: str) -> tuple[float, ...]:
        """Return a list of finite numbers."""
        least = -MOST
        return tuple(Row(self.where, {key: value}).number(key, least) for value in self._of(key, list))

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts."""
        return tuple(Row(self.where, {key: value}).text(key) for value in self._of(key, list))

    def refuse(self, key: str) -> NoReturn:
        """Return that a key is missing or is something else."""
        raise Unreadable(f"{self.where}: {key} is missing or is not what it should be")

    def _null(self, key: str) -> bool:
        if key not in self.values:
            self.refuse(key)
        return self.values[key] is None

    def _of(self, key: str, *kinds: type) -> Any:
        value = self.values.get(key)
        if not isinstance(value, kinds):
            self.refuse(key)
        return value


def parsed(where: str, text: bytes) -> Row:
    """Read one JSON object."""
    try:
        found = json.loads(text.decode(), parse_constant=_no_number)
    except (ValueError, RecursionError):  # of which bad UTF-8 is one
        raise Unreadable(f"{where}: no JSON") from None
    if not isinstance(found, dict):
        raise Unreadable(f"{where}: no JSON object")
    return Row(where, found)


def beside(folder: Path, name: str) -> Row | None:
    """Read a file of one object; None where it is not there."""
    file = folder / name
    return parsed(name, file.read_bytes()) if file.is_file() else None


def _no_number(constant: str) -> NoReturn:
    raise ValueError(constant)


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
    predicted_counts: int


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
    predicted_counts: bool
    tokens: Tokens | None
    chunks: int | None  # in the prompt
    found: int | None  # of these, with tensors kept
    ms: Mapping[str, float]  # by stage; `total` is always there
    flops: float
    bank_bytes: int
    kv_bytes: int
    written: int  # bytes
    runner: Night | None
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
        predicted_counts=row.truth("foreseen"),
        tokens=_tokens(row.row_or_none("tokens")),
        chunks=slots.whole("chunks") if slots else None,
        found=slots.whole("found") if slots else None,
        ms=_times(row.row("ms")),
        flops=row.number("flops"),
        bank_bytes=kept.whole("bank_bytes"),
        kv_bytes=kept.whole("kv_bytes"),
        written=row.whole("written"),
        runner=_idle_run(row.row_or_none("night")),
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


def _idle_run(row: Row | None) -> Night | None:
    if row is None:
        return None
    counts = (row.whole(key) for key in ("read", "written", "units", "foreseen"))
    return Night(row.number("seconds"), row.number("flops"), *counts)


def _printed(row: Row | None) -> Printed | None:
    return None if row is None else Printed(row.number("ms"), row.number("flops"), row.whole("kv_bytes"))
