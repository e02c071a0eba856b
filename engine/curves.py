"""How much the questions of one person have in common: PerCache's motivation, drawn for whoever uses pkb.

How often chunks are retrieved, and how much of a prompt stood in an earlier one. Pure: chunks are named by whatever can
be compared and hashed, and a list is what one question retrieved, in the order of its prompt.
"""

from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

_TIMES = {"1": 1, "2": 2, "3-4": 4, "5-9": 9}  # the most times of each class; more is MORE
MORE = "10+"
_HOTTEST = (1, 5, 10, 20)  # percent
_PARTS = 10


@dataclass(frozen=True, slots=True)
class Frequency:
    """How retrievals spread over the chunks that were ever retrieved (PerCache figure 3).

    `by_times` is the share of the chunks by how often each was retrieved, `on_hottest` the share of all retrievals that
    fall on the so many percent of chunks retrieved most, rounded up to whole chunks.
    """

    chunks: int
    retrievals: int
    by_times: dict[str, float]
    on_hottest: dict[int, float]


@dataclass(frozen=True, slots=True)
class Curve:
    """A mean over questions, and the means over each tenth of them, oldest first: over each one where they are few."""

    mean: float
    over_time: tuple[float, ...]


def frequency(counts: Collection[int]) -> Frequency:
    """Describe how often each chunk was retrieved, at least once each."""
    ordered, total = sorted(counts, reverse=True), sum(counts)
    classes = dict.fromkeys([*_TIMES, MORE], 0)
    for count in ordered:
        classes[next((name for name, most in _TIMES.items() if count <= most), MORE)] += 1
    hottest = {percent: sum(ordered[: -(-len(ordered) * percent // 100)]) for percent in _HOTTEST}
    return Frequency(
        chunks=len(ordered),
        retrievals=total,
        by_times={name: chunks / max(1, len(ordered)) for name, chunks in classes.items()},
        on_hottest={percent: found / max(1, total) for percent, found in hottest.items()},
    )


def curve(shares: Sequence[float]) -> Curve:
    """Sum up a share that each question has, oldest first."""
    parts = min(_PARTS, len(shares))
    borders = [len(shares) * part // parts for part in range(parts + 1)] if parts else []
    return Curve(_mean(shares), tuple(_mean(shares[first:last]) for first, last in pairwise(borders)))


def prefix_overlap(lists: Sequence[Sequence[Hashable]]) -> Iterator[float]:
    """Give the share of each list that is its longest common prefix with an earlier one (PerCache figure 5).

    It is what a tree of prefixes could reuse that never lost anything. By a trie: linear.
    """
    root: dict[Hashable, Any] = {}
    for chunks in lists:
        node, common = root, 0
        for chunk in chunks:
            common += chunk in node
            node = node.setdefault(chunk, {})
        yield common / max(1, len(chunks))


def set_overlap(lists: Sequence[Sequence[Hashable]]) -> Iterator[float]:
    """Give the share of each set that the one earlier set has that has most of it, in whatever order.

    A set of questions is the bits of a number, so that all earlier ones are counted at once.
    """
    holders: dict[Hashable, int] = {}
    for number, chunks in enumerate(lists):
        own = set(chunks)
        yield _most_often([holders[chunk] for chunk in own if chunk in holders]) / max(1, len(own))
        for chunk in own:
            holders[chunk] = holders.get(chunk, 0) | 1 << number


def seen_before(lists: Sequence[Sequence[Hashable]]) -> Iterator[float]:
    """Give the share of each set that any earlier sets have: what reuse at any position could do at most."""
    seen: set[Hashable] = set()
    for chunks in lists:
        own = set(chunks)
        yield len(own & seen) / max(1, len(own))
        seen |= own


def _most_often(numbers: Sequence[int]) -> int:
    """Give how many of the numbers have the bit that most of them have.

    Counts all bits side by side: `planes[i]` has bit i of every count, and each number is added with carries.
    """
    planes: list[int] = []
    for number in numbers:
        carry = number
        for place, plane in enumerate(planes):
            planes[place], carry = plane ^ carry, plane & carry
        if carry:
            planes.append(carry)
    most, among = 0, -1
    for place in reversed(range(len(planes))):
        if among & planes[place]:
            among &= planes[place]
            most |= 1 << place
    return most


def _mean(shares: Sequence[float]) -> float:
    return sum(shares) / max(1, len(shares))
