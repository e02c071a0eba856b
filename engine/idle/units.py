"""A unit of idle work, one segment to be read ahead, and the order of units: benefit for each second of work. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from store.kv_counts import Tally

Ids = tuple[int, ...]
Path = tuple[Ids, ...]  # a segment behind those that it stands behind
Job = Literal["first", "refill", "blocks"]

_GUESSED_S = 1e-3  # a token, until one was read


@dataclass(frozen=True, slots=True)
class Costs:
    """What a token takes to read, in seconds, and to keep, in bytes; as measured on all that is kept."""

    seconds: float
    bytes: float


@dataclass(frozen=True, slots=True)
class Unit:
    """One segment to be read and kept, behind others that must be read first where they are not kept.

    `what` names it and `why` says what it is good for, both for a person. `expected` is how many of as many questions
    as were asked so far will want it.
    """

    job: Job
    what: str
    why: str
    path: Path
    expected: float
    seconds: float  # that reading it is thought to take
    bytes: int  # that keeping it is thought to take

    @property
    def gain(self) -> float:
        """Give the seconds that questions will save."""
        return self.expected * self.seconds

    @property
    def rate(self) -> float:
        """Give the benefit of each second of work."""
        return self.gain / self.seconds if self.seconds else 0.0


def costs(kept: Tally) -> Costs:
    """Give what a token costs, from all that is kept."""
    return Costs(kept.seconds / kept.tokens, kept.bytes / kept.tokens) if kept.tokens else Costs(_GUESSED_S, 0.0)


def in_order(units: Iterable[Unit]) -> list[Unit]:
    """Put units in order of benefit per second, each behind what it stands behind; of two for one segment, the better.

    A segment is as good as the best one that waits for it.
    """
    best = dict[Path, Unit]()
    for unit in units:
        if unit.path not in best or unit.rate > best[unit.path].rate:
            best[unit.path] = unit
    rates = dict.fromkeys(best, 0.0)
    for unit in best.values():
        for end in range(1, len(unit.path) + 1):
            if (above := unit.path[:end]) in rates:
                rates[above] = max(rates[above], unit.rate)
    return sorted(best.values(), key=lambda unit: (-rates[unit.path], len(unit.path)))
