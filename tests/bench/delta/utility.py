"""Eviction by utility (equation 4), and its algorithm 1 as printed and mended, held against each other in tests.

A node's utility is made of the state of the clients that used it, of recency and of length. Knows nodes: no store, and
no simulation.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from store.kv_files import Key, Node
from store.kv_store import Score

State = Literal["asking", "connected", "gone"]  # foreground, background and ended, of a client
WORTH: Mapping[State, float] = {"asking": 1.0, "connected": 0.5, "gone": 0.0}
LONGEST = 256  # tokens of a node whose length counts in full
StateOf = Callable[[Node], State]


@dataclass(frozen=True, slots=True)
class UtilityWeights:
    """The weights of state and of recency; that of length is what is left to 1."""

    state: float = 0.5  # lambda
    recency: float = 0.4  # phi
    half_life_s: float = 3 * 86_400.0


def recency(half_life_s: float, node: Node, now: float) -> float:
    """Return what is left of 1 since a node was used last: half after each half-life."""
    return float(2.0 ** (-max(now - node.last_used, 0.0) / half_life_s))


def recent_and_frequent(weights: tuple[float, float], half_life_s: float, node: Node, now: float) -> float:
    """Score by recency and frequency of use, each between 0 and 1.

    Recency decays with age here; as the prefix-caching article prints it, it would grow.
    """
    return weights[0] * recency(half_life_s, node, now) + weights[1] * node.uses / (1 + node.uses)


def utility(weights: UtilityWeights, state_of: StateOf) -> Score:
    """Return the score of equation 4; each of its three parts is between 0 and 1."""

    def score(node: Node, now: float) -> float:
        length = min(1.0, len(node.ids) / LONGEST)
        return (
            weights.state * WORTH[state_of(node)]
            + weights.recency * recency(weights.half_life_s, node, now)
            + (1 - weights.state - weights.recency) * length
        )

    return score


@dataclass(frozen=True, slots=True)
class Cached:
    """A node as algorithm 1 sees it."""

    key: Key
    bytes: int
    utility: float


def printed(nodes: Sequence[Cached], incoming: Cached) -> Iterator[Sequence[Cached]]:
    """Run algorithm 1 as printed; yields what is cached after each round of its loop, and ends if the loop does.

    It frees the size of the new node, whatever is free already; what it removes stays among its candidates; and a new
    node of the least utility is neither added nor given up.
    """
    cached, candidates, freed = list(nodes), [*nodes, incoming], 0
    while freed < incoming.bytes:
        least = min(candidates, key=lambda one: one.utility)
        if least is not incoming:
            if least in cached:
                cached.remove(least)
            freed += least.bytes
        yield tuple(cached)
    yield (*cached, incoming)


def mended(nodes: Sequence[Cached], incoming: Cached, budget: int) -> tuple[Cached, ...]:
    """Return what is cached once a node has come: the overflow is freed, least utility first.

    The new node is given up where others of more utility would have to go for it, and nothing is evicted then.
    """
    overflow, kept = sum(one.bytes for one in nodes) + incoming.bytes - budget, list(nodes)
    for least in sorted(nodes, key=lambda one: one.utility):
        if overflow <= 0:
            break
        if least.utility > incoming.utility:
            return tuple(nodes)
        kept.remove(least)
        overflow -= least.bytes
    return (*kept, incoming) if overflow <= 0 else tuple(nodes)
