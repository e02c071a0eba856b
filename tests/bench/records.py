"""Records that measurements write and the report reads: JSON whose keys and types are those of these classes.

A unit is one corpus, user, policy and writer: a file `<corpus>.<user>.<policy>.<writer>.jsonl` with a line per
question. The file of a unit that is not complete ends in `.part` and is not read.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, NoReturn, get_args, get_origin, get_type_hints

from engine.types import Tier

MOST = 1e300


class Unreadable(Exception):
    """A file of measurements has another key, type or value than its record."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens that a language model read and wrote for a question."""

    prompt: int
    reused: int
    computed: int
    generated: int
    guessed: int


@dataclass(frozen=True, slots=True)
class Cached:
    """Chunks in a prompt, and how many of them were in the KV cache as a whole."""

    chunks: int
    found: int


@dataclass(frozen=True, slots=True)
class IdleWork:
    """The idle run before a question; read and written are tokens."""

    seconds: float
    flops: float
    read: int
    written: int
    jobs: int
    predicted: int  # questions


@dataclass(frozen=True, slots=True)
class Line:
    """One question of a unit and its answer; `right` is None where that is unknown, or the cache gave no answer."""

    corpus: str
    user: str
    policy: str
    writer: str
    number: int  # from 1
    question: str
    gold: str
    answer: str | None
    tier: Tier
    right: bool | None
    matched: str | None
    similarity: float | None
    predicted: bool  # the matched question was predicted
    tokens: Tokens | None
    cached: Cached | None
    ms: Mapping[str, float]  # by stage; `total` is always there
    flops: float
    bank_bytes: int
    kv_bytes: int
    written: int  # bytes
    idle: IdleWork | None


@dataclass(frozen=True, slots=True)
class Operation:
    """The milliseconds of an operation (median and quartiles), or the bytes of an item."""

    name: str
    median_ms: float | None = None
    low_ms: float | None = None
    high_ms: float | None = None
    bytes: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One figure of pkb and of another program."""

    program: str
    figure: str
    pkb: float
    other: float
    unit: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the evaluation, and the machine it ran on."""

    command: str
    machine: Mapping[str, str]
    workers: int
    seconds: float
    jobs: int


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of a folder, the seconds of each job, and the reason for each job that is not done."""

    scope: str = "whole"
    runs: tuple[Run, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Material:
    """Everything that a report is made of; what was not measured is empty."""

    lines: tuple[Line, ...]
    runs: Runs = field(default_factory=Runs)
    operations: tuple[Operation, ...] = ()
    comparisons: tuple[Comparison, ...] = ()


COMPARISONS = ("kv_reuse.json", "paraphrases.json")
OPERATIONS, RUNS = "operations.json", "runs.json"


def gathered(folder: Path) -> Material:
    """Read a folder of measurements, whose units are in `lines` below it; raises Unreadable."""
    compared = (read_file(folder / name, tuple[Comparison, ...]) or () for name in COMPARISONS)
    return Material(
        tuple(read(folder / "lines")),
        read_file(folder / RUNS, Runs) or Runs(),
        read_file(folder / OPERATIONS, tuple[Operation, ...]) or (),
        tuple(row for rows in compared for row in rows),
    )


def read(folder: Path) -> list[Line]:
    """Read all complete units in the order of their names."""
    return [line for file in sorted(folder.glob("*.jsonl")) for line in read_unit(file)]


def read_unit(file: Path) -> list[Line]:
    """Read one unit; raises Unreadable with the file and the line number."""
    *rows, rest = file.read_bytes().split(b"\n")
    if rest or not rows:
        raise Unreadable(f"{file.name}, line {len(rows) + 1}: torn or missing")
    return [_line(file.name, number, row) for number, row in enumerate(rows, 1)]


def _line(name: str, number: int, row: bytes) -> Line:
    where = f"{name}, line {number}"
    line: Line = decode(Line, parsed(row, where), where)
    if name != f"{line.corpus}.{line.user}.{line.policy}.{line.writer}.jsonl" or line.number != number:
        raise Unreadable(f"{where}: not this line of this unit")
    if "total" not in line.ms:
        raise Unreadable(f"{where}, ms: no total")
    return line


def read_file(file: Path, kind: Any) -> Any:
    """Read one record or tuple of records; None where there is no file. Raises Unreadable."""
    return decode(kind, parsed(file.read_bytes(), file.name), file.name) if file.is_file() else None


def write_file(file: Path, value: object) -> None:
    """Write one record or several, replacing the file at once."""
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_suffix(".fresh")
    fresh.write_text(json.dumps(to_json(value), indent=1, ensure_ascii=False) + "\n", "utf-8")
    fresh.replace(file)


def to_json(value: Any) -> Any:
    """Return a record, or several, as JSON values."""
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else [to_json(one) for one in value]


def parsed(text: bytes, where: str) -> object:
    """Parse JSON; raises Unreadable."""
    try:
        value: object = json.loads(text.decode(), parse_constant=_refused)
    except (ValueError, RecursionError):  # bad UTF-8 is a ValueError
        raise Unreadable(f"{where}: not JSON") from None
    return value


def decode(kind: Any, value: object, where: str) -> Any:
    """Return a JSON value as the type says; raises Unreadable with the place of the first difference."""
    origin, inner = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return _record(kind, value, where)
    if origin is UnionType:
        return None if value is None else decode(inner[0], value, where)
    if kind is Any:
        return value
    if origin in (tuple, Sequence) and isinstance(value, list):
        return tuple(decode(inner[0], one, f"{where}, {number}") for number, one in enumerate(value, 1))
    if origin is Mapping and isinstance(value, dict):
        return {key: decode(inner[1], one, f"{where}, {key}") for key, one in value.items()}
    if value in inner if origin is Literal else _fits(kind, value):
        return value
    raise Unreadable(f"{where}: unexpected value")


def _record(kind: Any, value: object, where: str) -> Any:
    names = [one.name for one in fields(kind)]
    if not isinstance(value, dict) or set(value) != set(names):
        raise Unreadable(f"{where}: other keys than {', '.join(names)}")
    hints = get_type_hints(kind)
    return kind(**{name: decode(hints[name], value[name], f"{where}, {name}") for name in names})


def _fits(kind: type, value: object) -> bool:
    """Whether a value has a plain type; numbers are finite."""
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MOST
    return type(value) is kind


def _refused(constant: str) -> NoReturn:
    raise ValueError(constant)
