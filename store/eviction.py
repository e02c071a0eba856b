"""Which nodes go first when there is no room: the score of a node, and the choice among the leaves of a tree.

Pure functions. The least score goes first; a parent may go only once its children have, since nothing can use them
without it.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from functools import partial

from store.kv_tree import Key, Node

Score = Callable[[Node, float], float]  # of a node, now (seconds since the epoch)


@dataclass(frozen=True, slots=True)
class Weights:
    """What the scores weigh with: shares of recency and frequency, and the seconds in which recency halves."""

    recency: float
    frequency: float
    half_life_s: float


def lfu(node: Node, now: float) -> float:
    """Score by use alone (PerCache 4.1.1); of nodes used as often, the longest unused goes first."""
    return float(node.uses)


def recency(weights: Weights, node: Node, now: float) -> float:
    """Score by how lately and how often a node was used, each between 0 and 1 (the prefix-caching article).

    Recency is a decay: as the article prints it, it grows with age.
    """
    return weights.recency * _decay(weights, node, now) + weights.frequency * node.uses / (1 + node.uses)


def value(weights: Weights, node: Node, now: float) -> float:
    """Score by the seconds that a node is expected to save, for each of its bytes.

    The deeper, the less likely it is that all before it is the same again: our own, from replays of questions.
    """
    return node.seconds * (1 + node.uses) * _decay(weights, node, now) / (node.bytes * node.depth)


def scores(weights: Weights) -> dict[str, Score]:
    """Give the scores by name."""
    return {"value": partial(value, weights), "lfu": lfu, "recency": partial(recency, weights)}


def victims(nodes: Iterable[Node], need: int, score: Score, now: float, keep: Container[Key] = ()) -> list[Node]:
    """Choose nodes of `need` bytes in all, or of as many as there are: leaves first, and none of `keep`."""
    known = {node.key: node for node in nodes}
    children = Counter(node.parent for node in known.values())
    leaves = [_ranked(node, score, now) for node in known.values() if not children[node.key] and node.key not in keep]
    heapq.heapify(leaves)
    chosen: list[Node] = []
    while need > 0 and leaves:
        node = known[heapq.heappop(leaves)[-1]]
        chosen.append(node)
        need -= node.bytes
        children[node.parent] -= 1
        parent = known.get(node.parent)
        if parent and not children[parent.key] and parent.key not in keep:
            heapq.heappush(leaves, _ranked(parent, score, now))
    return chosen


def _ranked(node: Node, score: Score, now: float) -> tuple[float, float, Key]:
    return score(node, now), node.last_used, node.key


def _decay(weights: Weights, node: Node, now: float) -> float:
    return float(2.0 ** (-max(now - node.last_used, 0.0) / weights.half_life_s))
