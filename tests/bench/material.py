"""The input of a report: the result lines, and the files that other measurements write next to them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.reading import Line, Row, beside, read, unfinished

CASES = ("cases.txt", "cases-a.txt", "cases-b.txt", "cases-c.txt")


@dataclass(frozen=True, slots=True)
class Machine:
    """Where lines were made, by which commands."""

    facts: Mapping[str, str]
    commands: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of the evaluation: its command, how many jobs it did in how many lanes, its seconds and joules."""

    command: str
    lanes: int
    seconds: float
    jobs: int
    joules: float | None


@dataclass(frozen=True, slots=True)
class Operation:
    """What an operation takes, or an item weighs."""

    name: str
    median_ms: float | None
    low_ms: float | None
    high_ms: float | None
    bytes: int | None
    note: str


@dataclass(frozen=True, slots=True)
class Motive:
    """One kind of motivation curve: what it shows, over what, and the numbers of each corpus."""

    title: str
    across: str
    axis: str
    corpora: Mapping[str, tuple[float, ...]]
    asked: Mapping[str, int]  # questions of a corpus, where it is known


@dataclass(frozen=True, slots=True)
class Peer:
    """What another program takes for the same."""

    name: str
    what: str
    ours: float
    theirs: float
    unit: str
    note: str


@dataclass(frozen=True, slots=True)
class Material:
    """Everything read; what is not there is empty."""

    lines: tuple[Line, ...]
    unfinished: int = 0
    machines: tuple[Machine, ...] = ()
    operations: tuple[Operation, ...] = ()
    motives: Mapping[str, Motive] | None = None
    peers: tuple[Peer, ...] = ()
    unmade: tuple[str, ...] = ()  # of peers, in words
    showcase: str = ""
    cases: str = ""
    article: str = ""
    shares: str = ""  # of what part of a saving a part of the tokens gets
    scope: str = "whole"
    ran: tuple[Ran, ...] = ()
    lanes_s: float = 0.0  # of all jobs, each in its lane
    left: Mapping[str, str] = field(default_factory=dict)  # why, by job


def gathered(folder: Path) -> Material:
    """Read a folder of measurements, whose units may lie in `lines` below it."""
    units = folder / "lines" if (folder / "lines").is_dir() else folder
    rows = {name: beside(folder, f"{name}.json") for name in ("machine", "operations", "motivation", "peers", "runs")}
    machine, operations, motivation, peers, runs = rows.values()
    return Material(
        tuple(read(units)),
        unfinished(units),
        tuple(map(_machine, machine.rows("machines"))) if machine else (),
        tuple(map(_operation, operations.rows("rows"))) if operations else (),
        _motives(motivation) if motivation else None,
        tuple(map(_peer, peers.rows("rows"))) if peers else (),
        peers.texts("missing") if peers and "missing" in peers.values else (),
        _text(folder / "showcase.txt"),
        "\n".join(filter(None, (_text(folder / name) for name in CASES))),
        _text(folder / "article.txt"),
        _text(folder / "shares.txt"),
        **(_runs(runs) if runs else {}),
    )


def _runs(row: Row) -> dict[str, Any]:
    left, seconds = row.row("left"), row.row("seconds")
    return {
        "scope": row.text("scope"),
        "ran": tuple(map(_ran, row.rows("runs"))),
        "lanes_s": sum(seconds.number(name) for name in seconds.values),
        "left": {name: left.text(name) for name in left.values},
    }


def _ran(row: Row) -> Ran:
    return Ran(
        row.text("command"), row.whole("lanes"), row.number("seconds"), row.whole("jobs"), row.number_or_none("joules")
    )


def _machine(row: Row) -> Machine:
    facts = row.row("facts")
    return Machine({key: facts.text(key) for key in facts.values}, row.texts("commands"))


def _operation(row: Row) -> Operation:
    median, low, high = (row.number_or_none(key) for key in ("median_ms", "low_ms", "high_ms"))
    weight = None if row.number_or_none("bytes") is None else row.whole("bytes")
    return Operation(row.text("operation"), median, low, high, weight, row.text("note"))


def _motives(row: Row) -> dict[str, Motive]:
    """Read the curves; a kind without a title is called by its name, over the number of the question."""
    corpora, titles = row.row("corpora"), row.row("titles") if "titles" in row.values else Row(row.where, {})
    kinds = dict.fromkeys(kind for corpus in corpora.values for kind in corpora.row(corpus).values)
    counts = row.row("questions") if "questions" in row.values else Row(row.where, {})
    asked, found = {name: counts.whole(name) for name in counts.values}, {}
    for kind in kinds:
        named = titles.row(kind) if kind in titles.values else Row(row.where, {"title": kind, "x": "number", "y": kind})
        numbers = {name: corpora.row(name).numbers(kind) for name in corpora.values if kind in corpora.row(name).values}
        found[kind] = Motive(named.text("title"), named.text("x"), named.text("y"), numbers, asked)
    return found


def _peer(row: Row) -> Peer:
    ours, theirs = row.number("pkb"), row.number("peer_value")
    return Peer(row.text("peer"), row.text("what"), ours, theirs, row.text("unit"), row.text("note"))


def _text(file: Path) -> str:
    return file.read_text("utf-8") if file.is_file() else ""
