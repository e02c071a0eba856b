"""A KV tree without tensors: how much of each prompt would be found, under a budget and a score, from sizes alone.

What it decides, it decides with the store's own pure parts: keys, what one segment lends another, who goes first. It
knows no files, no models and no clock; what a file and the computing of a segment come to, it is told.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from store.eviction import Score, victims
from store.kv_match import path_keys
from store.kv_tree import Key, Node, Root, child_key, first_key, shared

Ids = tuple[int, ...]
SET_ASIDE = 36 << 10  # bytes of a budget that the store keeps free for folders and for a file that is coming


@dataclass(frozen=True, slots=True)
class Terms:
    """What decides: bytes there are for all files, the score of a node, and what a segment costs."""

    budget: int
    score: Score
    sub_step: int
    size: Callable[[Ids], int]  # bytes of a segment's file
    seconds: Callable[[int, int], float]  # of computing so many tokens behind so many
    set_aside: int = SET_ASIDE


class Replay:
    """The tree after the prompts so far."""

    def __init__(self, root: Root, terms: Terms) -> None:
        self._root, self._terms, self._bytes = root, terms, 0
        self.nodes: dict[Key, Node] = {}
        self._alike: defaultdict[tuple[Key, Key | None], set[Key]] = defaultdict(set)  # by parent and first sub-step

    def uses(self, key: Key) -> int | None:
        """Tell how often the node of a key was used; None where it is not kept."""
        node = self.nodes.get(key)
        return node.uses if node else None

    def ask(self, segments: Sequence[Ids], now: float) -> int:
        """Read a prompt and keep what was computed of all but its last segment; gives the tokens that were found."""
        *before, _ = segments
        keys = path_keys(self._root, before)
        nodes = [self.nodes[key] for key in takewhile(self.nodes.__contains__, keys[1:])]
        rest = before[len(nodes) :]
        lender, lent = self._partial(keys[len(nodes)], rest[0]) if rest else (None, 0)
        held = {node.key for node in (*nodes, *([lender] if lender else []))}
        for key in held:
            found = self.nodes[key]
            self.nodes[key] = replace(found, uses=found.uses + 1, last_used=max(found.last_used, now))
        reused = sum(len(node.ids) for node in nodes)
        at = reused
        for depth, ids in enumerate(rest, len(nodes) + 1):
            if not self._keep(keys[depth - 1], ids, depth, at, now, held):
                break
            at += len(ids)
        return reused + lent

    def _partial(self, parent: Key, ids: Ids) -> tuple[Node | None, int]:
        """Give the child that shares most with a segment, and how much, if any shares a sub-step."""
        alike = self._alike.get((parent, first_key(ids, self._terms.sub_step)), set())
        lent = [(shared(self.nodes[key].ids, ids, self._terms.sub_step), self.nodes[key]) for key in alike]
        best = max(lent, key=lambda one: (one[0], one[1].last_used, one[1].key), default=None)
        return (best[1], best[0]) if best else (None, 0)

    def _keep(self, parent: Key, ids: Ids, depth: int, at: int, now: float, held: set[Key]) -> bool:
        """Keep a segment, others going for it; False where there is no room."""
        key, size = child_key(parent, ids), self._terms.size(ids)
        excess = self._bytes + size + self._terms.set_aside - self._terms.budget
        if excess > 0:
            gone = victims(self.nodes.values(), excess, self._terms.score, now, held | {parent})
            if sum(node.bytes for node in gone) < excess:
                return False
            for node in gone:
                self._remove(node)
        seconds = self._terms.seconds(len(ids), at)
        self.nodes[key] = Node(key, parent, key, depth, ids, size, seconds, now, now, 0)
        self._place(self.nodes[key]).add(key)
        self._bytes += size
        return True

    def _remove(self, node: Node) -> None:
        del self.nodes[node.key]
        self._place(node).discard(node.key)
        self._bytes -= node.bytes

    def _place(self, node: Node) -> set[Key]:
        first = first_key(node.ids, self._terms.sub_step)
        return self._alike[node.parent, first] if first else set()
