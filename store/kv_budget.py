"""The byte budget of the cache folder, never exceeded: space is reserved before a write and freed by eviction.

One function counts the bytes as `du -sb` would once every reserved file is written, and every reservation is made in
the transaction that called it. Knows no tensors and no prompts.
"""

import heapq
import os
from collections import Counter
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from store.kv_files import PARTIAL
from store.kv_folder import KvFolder, is_alive
from store.kv_tree import Key, Node, TreeRoot

Score = Callable[[Node, float], float]  # of a node, now (seconds since the epoch)


@dataclass(frozen=True, slots=True)
class EvictionWeights:
    """The weights of the scores: shares of recency and frequency, and the half-life of recency in seconds."""

    recency: float
    frequency: float
    half_life_s: float


def lfu(node: Node, now: float) -> float:
    """Score by use alone (PerCache 4.1.1); of nodes used as often, the least recently used is evicted first."""
    return float(node.uses)


def recency(weights: EvictionWeights, node: Node, now: float) -> float:
    """Score by recency and frequency of use, each between 0 and 1 (the prefix-caching article).

    Recency decays with age here; as the article prints it, it would grow.
    """
    return weights.recency * _decay(weights, node, now) + weights.frequency * node.uses / (1 + node.uses)


def value(weights: EvictionWeights, node: Node, now: float) -> float:
    """Score by the seconds that a node is expected to save per byte.

    The deeper a node, the less likely its whole prefix repeats: our own, from replays of questions.
    """
    return node.seconds * (1 + node.uses) * _decay(weights, node, now) / (node.bytes * node.depth)


def scores(weights: EvictionWeights) -> dict[str, Score]:
    """Return the scores by name."""
    return {"value": partial(value, weights), "lfu": lfu, "recency": partial(recency, weights)}


def victims(nodes: Iterable[Node], need: int, score: Score, now: float, keep: Container[Key] = ()) -> list[Node]:
    """Choose nodes to evict, of `need` bytes in all or as many as there are: leaves first, and none of `keep`."""
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


def _decay(weights: EvictionWeights, node: Node, now: float) -> float:
    return float(2.0 ** (-max(now - node.last_used, 0.0) / weights.half_life_s))


_SLACK = 16 << 10  # for each file to be written, and once more: the growth of the folder itself
_ROUNDS = 20  # of a reservation, when other processes take the space that it freed


@dataclass(frozen=True, slots=True)
class KvLimits:
    """The bytes that may be stored, and written on one day (UTC)."""

    budget: int
    daily: int


class KvBudget:
    """Reservations and evictions within the budget."""

    def __init__(
        self, kv_folder: KvFolder, limits: KvLimits, score: Score, now: Callable[[], float], others: Callable[[], int]
    ) -> None:
        self._folder, self._limits, self._score, self._now, self._others = kv_folder, limits, score, now, others
        self._index, self._counts = kv_folder.index, kv_folder.counts
        self.budget = limits.budget

    def reserve(self, node: Node, root: TreeRoot, sub_step: int, evict: bool = True) -> str:
        """Reserve the bytes of a node before its file is written, evicting others; returns the reason where refused."""
        self._folder.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for _ in range(_ROUNDS):
            with self._folder.ledger.transaction():
                self._folder.finish_removals()
                excess = self._excess(node.bytes + _SLACK)
                chosen = self._choose(excess, {node.parent}) if evict and excess > 0 else []
                refused = self._refusal(node, root) or ("no_space" if sum(one.bytes for one in chosen) < excess else "")
                if refused:
                    return refused
                if excess <= 0:
                    self._reserve(node, sub_step)
                    return ""
                self._mark_deleting(chosen)
            self._folder.remove_files(one.key for one in chosen)
        return "no_space"

    def free(self, evicting: int = 0) -> int:
        """Return the bytes that a node may have today without evicting others, or evicting only so many bytes."""
        self._folder.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._folder.ledger.transaction():
            daily = self._limits.daily - self._counts.written(self._now())
            return max(0, min(self.budget - self._held_bytes() + evicting - _SLACK, daily))

    def evict_unused(self, keys: Iterable[Key]) -> None:
        """Evict those of these nodes that were never used, are not pinned and have no children."""
        with self._folder.ledger.transaction():
            self._folder.finish_removals()
            pinned = self._pinned()
            found = [entry for key in keys if key not in pinned and (entry := self._index.find(key))]
            unused = [entry.node for entry in found if entry.state == "complete" and not entry.node.uses]
            chosen = [node for node in unused if self._index.below([node.key]) == {node.key}]
            self._mark_deleting(chosen)
        self._folder.remove_files(node.key for node in chosen)
        with self._folder.ledger.transaction():
            self._folder.finish_removals()

    def shrink(self, budget: int) -> int:
        """Set the budget and evict down to it; returns the bytes stored, more only if nothing else may be evicted."""
        self.budget = budget
        self._folder.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            with self._folder.ledger.transaction():
                self._folder.finish_removals()
                excess = self._excess(0)
                chosen = self._choose(excess, ()) if excess > 0 else []
                self._mark_deleting(chosen)
            if not chosen:
                return budget + excess
            self._folder.remove_files(one.key for one in chosen)

    def _refusal(self, node: Node, root: TreeRoot) -> str:
        """Return why a node may not be written even if there is space."""
        parent = self._index.find(node.parent)
        if node.parent != root.key and (parent is None or parent.state != "complete"):
            return "no_parent"
        if self._index.find(node.key):
            return "in_progress"  # another process is writing it
        return "daily_limit" if self._counts.written(self._now()) + node.bytes > self._limits.daily else ""

    def _reserve(self, node: Node, sub_step: int) -> None:
        self._folder.writing = node.key
        self._index.reserve(node, sub_step, self._folder.owner.name)
        self._counts.write(node.bytes, self._now())
        self._counts.forget_eviction(node.key)

    def _excess(self, need: int) -> int:
        """Return the bytes to evict before `need` more fit."""
        return self._held_bytes() + need - self.budget

    def _held_bytes(self) -> int:
        """Return the bytes of everything that is or will be in the cache folder."""
        files, unfinished = _sizes(self._folder.folder), 0
        total = self._folder.folder.lstat().st_size + self._others()
        for key, size, state in self._index.sizes():
            path = self._folder.path_of(key)
            total += max(size, files.pop(path.name, 0), files.pop(path.with_suffix(PARTIAL).name, 0))
            unfinished += state != "complete"
        return total + sum(files.values()) + _SLACK * (1 + unfinished)

    def _choose(self, excess: int, keep: Container[Key]) -> list[Node]:
        """Choose nodes to evict: none that is pinned, being written, or in `keep`."""
        held, entries = self._pinned(), self._index.entries()
        held |= {entry.node.key for entry in entries if entry.state != "complete" or entry.node.key in keep}
        return victims((entry.node for entry in entries), excess, self._score, self._now(), held)

    def _pinned(self) -> set[Key]:
        """Return the nodes that a live process is loading."""
        now, folder = self._now(), self._folder.folder
        return {key for key, owner, until in self._index.pins() if until > now and is_alive(folder, owner)}

    def _mark_deleting(self, nodes: list[Node]) -> None:
        if nodes:
            self._index.mark_deleting([node.key for node in nodes], self._folder.owner.name)
            self._counts.removed(nodes, "evicted")
            self._counts.record_eviction(nodes, self._now())


def size_on_disk(path: Path) -> int:
    """Return the bytes of a folder and of all in it, as `du -sb` counts them; 0 where there is none."""
    try:
        return path.lstat().st_size + sum(_sizes(path).values())
    except FileNotFoundError:
        return 0


def _sizes(folder: Path) -> dict[str, int]:
    """Return the bytes of the entries of a folder, by name."""
    with os.scandir(folder) as entries:
        return {entry.name: _size(entry) for entry in entries}


def _size(entry: "os.DirEntry[str]") -> int:
    try:
        if entry.is_dir(follow_symlinks=False):
            return size_on_disk(Path(entry.path))
        return entry.stat(follow_symlinks=False).st_size
    except FileNotFoundError:
        return 0  # removed meanwhile
