"""A KV cache of several adapters, simulated: what each system finds, and how long the first token takes.

A node of a path that another adapter's node has too may be stored as a difference, or share the layers below the first
adapted one. Nodes and scores are pkb's own. Knows seconds and bytes a token, which are measured: no models, no
files.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Literal

from store.kv_files import Key, Node, TreeRoot, child_key, root_of
from store.kv_store import Score, victims
from store.types import replace
from tests.bench.delta.utility import State, StateOf
from tests.bench.delta.workload import Asked

Trees = Literal["none", "one", "each", "shared"]  # none, of the last adapter alone, one per adapter, with differences


@dataclass(frozen=True, slots=True)
class Costs:
    """What a token takes: seconds of computing it behind others, of loading and of decoding a difference; bytes.

    `share` is the part of the whole that a node takes beside an anchor.
    """

    compute: Callable[[int, int], float]  # first and last position
    load: float
    decode: float
    bytes: int
    share: float
    question: int = 50  # tokens, always computed


@dataclass(frozen=True, slots=True)
class System:
    """A way to cache; its score is told which clients ask, are connected or gone.

    `width` is the part of full width that a number takes, `share` that of the whole that a node takes beside an anchor
    (by default the measured one), `decodes` whether such a node must be decoded.
    """

    name: str
    trees: Trees
    score: Callable[[StateOf], Score]
    width: float = 1.0
    share: float | None = None
    decodes: bool = True


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a system did: seconds to the first token, tokens reused, and bytes after each request."""

    first_token: tuple[float, ...]
    reused: int
    tokens: int
    bytes: tuple[int, ...]
    written: int

    def row(self, budget: int) -> dict[str, float | int]:
        """Return the figures."""
        return {
            "mean_s": round(fmean(self.first_token), 3), "median_s": round(median(self.first_token), 3),
            "reused": round(self.reused / max(1, self.tokens), 4),
            "most_of_budget": round(max(self.bytes, default=0) / budget, 3),
            "time_over_75": round(fmean(one > 0.75 * budget for one in self.bytes), 3), "n": len(self.first_token),
        }  # fmt: skip


@dataclass(slots=True)
class Cache:
    """The nodes of a system under a budget; mutable."""

    system: System
    budget: int
    costs: Costs
    nodes: dict[Key, Node] = field(default_factory=dict)
    paths: dict[Key, list[Key]] = field(default_factory=lambda: defaultdict(list))  # the anchor first
    clients: dict[Key, set[int]] = field(default_factory=lambda: defaultdict(set))
    present: dict[int, State] = field(default_factory=dict)
    written: int = 0

    def state_of(self, node: Node) -> State:
        """Return the state of the client of a node that is nearest to asking."""
        found = {self.present.get(client, "gone") for client in self.clients[node.key]}
        return "asking" if "asking" in found else "connected" if "connected" in found else "gone"

    @property
    def bytes(self) -> int:
        """Return the bytes of all nodes."""
        return sum(node.bytes for node in self.nodes.values())

    def ask(self, asked: Asked) -> tuple[float, int]:
        """Serve a request; returns the seconds to its first token, and the tokens reused."""
        self.present[asked.client] = "asking"
        root = root_of({"model": "", "adapter": str(asked.adapter)})
        if self.system.trees == "one":
            self._drop_all_but(root)
        path = list(_nodes(root, asked, self.costs))
        if self.system.trees == "each":
            path = [replace(node, path=node.key) for node in path]
        seconds, position, reused, is_cached = 0.0, 0, 0, self.system.trees != "none"
        for wanted in path:
            tokens = len(wanted.ids)
            is_cached = is_cached and wanted.key in self.nodes
            if is_cached:
                seconds, reused = seconds + self._restoring(wanted), reused + tokens
                self._use(wanted, asked)
            else:
                seconds += self.costs.compute(position, position + tokens)
            position += tokens
        seconds += self.costs.compute(position, position + self.costs.question)
        if self.system.trees != "none":
            self._keep(path, asked)
        self.present[asked.client] = "gone" if asked.last else "connected"
        return seconds, reused

    def _restoring(self, node: Node) -> float:
        """Return the seconds of loading a node: of its anchor and its difference, where it is one."""
        tokens = len(node.ids)
        if self.paths[node.path][0] == node.key:
            return tokens * self.costs.load
        return tokens * (self.costs.load * (1 + self.costs.share) + self.costs.decode)

    def _use(self, node: Node, asked: Asked) -> None:
        old = self.nodes[node.key]
        self.nodes[node.key] = replace(old, uses=old.uses + 1, last_used=asked.at)
        self.clients[node.key].add(asked.client)

    def _keep(self, path: Sequence[Node], asked: Asked) -> None:
        """Store what was computed, each node below the one before it."""
        keep = {node.key for node in path}
        for node in path:
            if node.key not in self.nodes:
                size = self._size(node, len(self.paths[node.path]) + 1)
                if not self._make_way(size, keep, asked.at):
                    return
                self.nodes[node.key] = node
                self.paths[node.path].append(node.key)
                self.clients[node.key].add(asked.client)
                self._resize(node.path)
                self.written += size

    def _make_way(self, size: int, keep: set[Key], now: float) -> bool:
        """Evict until so many bytes fit; False where nothing more may go."""
        score = self.system.score(self.state_of)
        while self.bytes + size > self.budget:
            # One at a time: what is left of a path may take other bytes then.
            chosen = victims(self.nodes.values(), 1, score, now, keep)
            if not chosen:
                return False
            self._remove(chosen[0])
        return True

    def _remove(self, node: Node) -> None:
        del self.nodes[node.key]
        self.clients.pop(node.key, None)
        self.paths[node.path].remove(node.key)
        self._resize(node.path)

    def _drop_all_but(self, root: TreeRoot) -> None:
        for node in list(self.nodes.values()):
            if node.document != root.key.hex():
                self._remove(node)

    def _size(self, node: Node, holders: int) -> int:
        """Return the bytes that a node adds to a path that so many adapters have: one of them is whole."""
        whole = len(node.ids) * self.costs.bytes
        return whole if holders == 1 else round(whole * self.costs.share)

    def _resize(self, path: Key) -> None:
        """Have the first node of a path be whole and the others differences, as after an anchor was evicted."""
        for number, key in enumerate(self.paths[path], 1):
            node = self.nodes[key]
            self.nodes[key] = replace(node, bytes=self._size(node, number))


def simulate(requests: Sequence[Asked], system: System, budget: int, costs: Costs) -> Outcome:
    """Serve all requests by one system, beginning with an empty cache."""
    costs = dataclasses.replace(
        costs,
        bytes=round(costs.bytes * system.width),
        share=costs.share / system.width if system.share is None else system.share,
        decode=costs.decode if system.decodes else 0.0,
    )
    cache, times, reused, sizes, tokens = Cache(system, budget, costs), list[float](), 0, list[int](), 0
    for asked in requests:
        seconds, found = cache.ask(asked)
        times.append(seconds)
        reused, tokens = reused + found, tokens + sum(map(len, asked.segments))
        sizes.append(cache.bytes)
    return Outcome(tuple(times), reused, tokens, tuple(sizes), cache.written)


def _nodes(root: TreeRoot, asked: Asked, costs: Costs) -> list[Node]:
    """Return the nodes of a prompt under an adapter, as if all were whole; `document` names the adapter."""
    found, above, position = list[Node](), root, 0
    for depth, ids in enumerate(asked.segments, 1):
        below = TreeRoot(child_key(above.key, ids), child_key(above.path, ids))
        seconds = costs.compute(position, position + len(ids))
        size = len(ids) * costs.bytes
        node = Node(below.key, above.key, below.path, depth, ids, size, seconds, asked.at, asked.at, 0, root.key.hex())
        found.append(node)
        above, position = below, position + len(ids)
    return found
