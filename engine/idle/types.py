"""A unit of idle work: what it is, what speaks for it, what it should cost and bring, and how to do it. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from store.kv_index import CountTotal, UnusedNode, path_keys
from store.kv_tree import Key, TreeRoot

if TYPE_CHECKING:
    from engine.llm.prefill import KvBinding


class OutOfTime(Exception):
    """The night was over before a piece of work was."""


Kind = Literal[
    "start", "refresh", "owed", "abstract", "predict", "populate", "convert", "first", "blocks", "refill", "upkeep"
]  # fmt: skip
KINDS: tuple[Kind, ...] = get_args(Kind)  # in the order in which they are done
READING: frozenset[Kind] = frozenset(("first", "blocks", "refill"))  # each unit reads one segment of prompts

# `failed` and `given up`: it raised an error, now or too often; the others say why a unit was left.
State = Literal[
    "done", "there", "time", "units", "room", "changed", "failed", "given up", "stopped", "planned"
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a unit, the keys of the answers that it made, and that of the segment that it read and kept."""

    state: State = "done"
    made: tuple[bytes, ...] = ()
    node: bytes | None = None


DONE = Outcome()


@dataclass(frozen=True, slots=True)
class IdleJob:
    """One piece of work, short enough not to be missed when it is broken off.

    `subject` names it within its kind, from one night to the next; `what` and `why` are for a person. `expected` is how
    many of as many questions as were asked so far will want it, `saves` the seconds that each of them saves.
    Where the unit `behind` which it stands is left, so is it.
    """

    kind: Kind
    subject: str
    what: str
    why: str
    expected: float
    saves: float
    seconds: float  # that it is thought to take
    do: Callable[[], Outcome] = field(compare=False, repr=False)
    bytes: int = 0  # that keeping what it makes is thought to take
    tokens: int = 0  # that it is to read, where that is known
    behind: str | None = None
    source: str = ""  # who wanted it

    @property
    def gain(self) -> float:
        """Return the seconds that questions will save."""
        return self.expected * self.saves

    @property
    def rate(self) -> float:
        """Return the benefit of each second of work."""
        return self.gain / self.seconds if self.seconds else 0.0


def by_rate(units: Iterable[IdleJob]) -> list[IdleJob]:
    """Put units in order of benefit per second."""
    return sorted(units, key=lambda unit: -unit.rate)


def in_order(units: Iterable[IdleJob]) -> list[IdleJob]:
    """Put units in order of benefit per second, each behind what it stands behind; of two of one name, the better.

    A unit is as good as the best one that waits for it.
    """
    best = dict[str, IdleJob]()
    for unit in units:
        if unit.subject not in best or unit.rate > best[unit.subject].rate:
            best[unit.subject] = unit
    rates, depths = dict.fromkeys(best, 0.0), dict.fromkeys(best, 0)
    for unit in best.values():
        above: IdleJob | None = unit
        while above is not None:
            rates[above.subject] = max(rates[above.subject], unit.rate)
            above = best.get(above.behind) if above.behind else None
            depths[unit.subject] += above is not None
    return sorted(best.values(), key=lambda unit: (-rates[unit.subject], depths[unit.subject]))


Ids = tuple[int, ...]
Path = tuple[Ids, ...]  # a segment behind those that it stands behind

_GUESSED_S = 1e-3  # a token, until one was read


@dataclass(frozen=True, slots=True)
class Costs:
    """What a token takes to read, in seconds, and to keep, in bytes; as measured on all that is kept."""

    seconds: float
    bytes: float


@dataclass(frozen=True, slots=True)
class PrefillJob:
    """One segment that questions are expected to want; fields as a unit's. Nodes `instead` are evicted for it."""

    kind: Kind
    what: str
    why: str
    path: Path
    expected: float
    seconds: float
    bytes: int
    instead: tuple[UnusedNode, ...] = ()


def costs(kept: CountTotal) -> Costs:
    """Return what a token costs, from all that is kept."""
    return Costs(kept.seconds / kept.tokens, kept.bytes / kept.tokens) if kept.tokens else Costs(_GUESSED_S, 0.0)


def key_of(root: TreeRoot, path: Path) -> Key:
    """Return the key of the last segment of a path."""
    return path_keys(root, path)[-1]


def subject_of(root: TreeRoot, path: Path) -> str:
    """Name a segment behind its prefix."""
    return key_of(root, path).hex()


def is_kept(kept: "KvBinding", path: Path) -> bool:
    """Return whether the last segment of a path is kept."""
    return kept.store.queries.uses(key_of(kept.root, path)) is not None
