"""The bytes of the cache folder, which never exceed a budget: reserved before they are written, freed by eviction.

One function says how many there are, as `du -sb` would see them once every reserved file is written, and every
reservation is made in the transaction that asked it. Knows no tensors and no prompts.
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
    """What the scores weigh with: shares of recency and frequency, and the seconds in which recency halves."""

    recency: float
    frequency: float
    half_life_s: float


def lfu(node: Node, now: float) -> float:
    """Score by use alone (PerCache 4.1.1); of nodes used as often, the longest unused goes first."""
    return float(node.uses)


def recency(weights: EvictionWeights, node: Node, now: float) -> float:
    """Score by how lately and how often a node was used, each between 0 and 1 (the prefix-caching article).

    Recency is a decay: as the article prints it, it grows with age.
    """
    return weights.recency * _decay(weights, node, now) + weights.frequency * node.uses / (1 + node.uses)


def value(weights: EvictionWeights, node: Node, now: float) -> float:
    """Score by the seconds that a node is expected to save, for each of its bytes.

    The deeper, the less likely it is that all before it is the same again: our own, from replays of questions.
    """
    return node.seconds * (1 + node.uses) * _decay(weights, node, now) / (node.bytes * node.depth)


def scores(weights: EvictionWeights) -> dict[str, Score]:
    """Return the scores by name."""
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


def _decay(weights: EvictionWeights, node: Node, now: float) -> float:
    return float(2.0 ** (-max(now - node.last_used, 0.0) / weights.half_life_s))


_SLACK = 16 << 10  # for each file that is coming, and once more: what folders grow by, a block or two of names
_ROUNDS = 20  # a reservation tries, when others take the room that it has made


@dataclass(frozen=True, slots=True)
class KvLimits:
    """What may be kept, and written on one day (UTC): both in bytes."""

    budget: int
    daily: int


class KvBudget:
    """What there is room for."""

    def __init__(
        self, kv_folder: KvFolder, limits: KvLimits, score: Score, now: Callable[[], float], others: Callable[[], int]
    ) -> None:
        self._folder, self._limits, self._score, self._now, self._others = kv_folder, limits, score, now, others
        self._index, self._counts = kv_folder.index, kv_folder.counts
        self.budget = limits.budget

    def reserve(self, node: Node, root: TreeRoot, sub_step: int, evict: bool = True) -> str:
        """Take the bytes of a node before its file is written, evicting others; returns why not, if that cannot be."""
        self._folder.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for _ in range(_ROUNDS):
            with self._folder.ledger.transaction():
                self._folder.finish()
                excess = self._excess(node.bytes + _SLACK)
                chosen = self._choose(excess, {node.parent}) if evict and excess > 0 else []
                refused = self._refusal(node, root) or ("room" if sum(one.bytes for one in chosen) < excess else "")
                if refused:
                    return refused
                if excess <= 0:
                    self._take(node, root, sub_step)
                    return ""
                self._mark_deleting(chosen)
            self._folder.discard(one.key for one in chosen)
        return "room"

    def free(self, going: int = 0) -> int:
        """Return the bytes that a node may have on this day for which nothing goes, or only so many bytes."""
        self._folder.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._folder.ledger.transaction():
            daily = self._limits.daily - self._counts.written(self._now())
            return max(0, min(self.budget - self._held() + going - _SLACK, daily))

    def let_go(self, keys: Iterable[Key]) -> None:
        """Evict those of these nodes that nothing used, that nobody is loading and behind which nothing stands."""
        with self._folder.ledger.transaction():
            self._folder.finish()
            held = self._pinned()
            found = [entry for key in keys if key not in held and (entry := self._index.find(key))]
            idle = [entry.node for entry in found if entry.state == "whole" and not entry.node.uses]
            chosen = [node for node in idle if self._index.below([node.key]) == {node.key}]
            self._mark_deleting(chosen)
        self._folder.discard(node.key for node in chosen)
        with self._folder.ledger.transaction():
            self._folder.finish()

    def shrink(self, budget: int) -> int:
        """Keep within a budget from now on; returns the bytes there are, more only if nothing else may go."""
        self.budget = budget
        self._folder.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            with self._folder.ledger.transaction():
                self._folder.finish()
                excess = self._excess(0)
                chosen = self._choose(excess, ()) if excess > 0 else []
                self._mark_deleting(chosen)
            if not chosen:
                return budget + excess
            self._folder.discard(one.key for one in chosen)

    def _refusal(self, node: Node, root: TreeRoot) -> str:
        """Return why a node may not be written even if there is room."""
        parent = self._index.find(node.parent)
        if node.parent != root.key and (parent is None or parent.state != "whole"):
            return "parent"
        if self._index.find(node.key):
            return "coming"  # another process is writing it
        return "day" if self._counts.written(self._now()) + node.bytes > self._limits.daily else ""

    def _take(self, node: Node, root: TreeRoot, sub_step: int) -> None:
        self._folder.writing = node.key
        self._index.reserve(node, root, sub_step, self._folder.owner.name)
        self._counts.write(node.bytes, self._now())
        self._counts.forget_eviction(node.key)

    def _excess(self, need: int) -> int:
        """Return the bytes that must go before `need` more may come."""
        return self._held() + need - self.budget

    def _held(self) -> int:
        """Return the bytes of all that is or will be in the cache folder."""
        files, unfinished = _sizes(self._folder.folder), 0
        total = self._folder.folder.lstat().st_size + self._others()
        for key, size, state in self._index.sizes():
            path = self._folder.path_of(key)
            total += max(size, files.pop(path.name, 0), files.pop(path.with_suffix(PARTIAL).name, 0))
            unfinished += state != "whole"
        return total + sum(files.values()) + _SLACK * (1 + unfinished)

    def _choose(self, excess: int, keep: Container[Key]) -> list[Node]:
        """Choose what goes: never what is pinned, being written, or in `keep`."""
        held, entries = self._pinned(), self._index.entries()
        held |= {entry.node.key for entry in entries if entry.state != "whole" or entry.node.key in keep}
        return victims((entry.node for entry in entries), excess, self._score, self._now(), held)

    def _pinned(self) -> set[Key]:
        """Return what somebody alive is loading."""
        now, folder = self._now(), self._folder.folder
        return {key for key, owner, until in self._index.pins() if until > now and is_alive(folder, owner)}

    def _mark_deleting(self, nodes: list[Node]) -> None:
        if nodes:
            self._index.doom([node.key for node in nodes], self._folder.owner.name)
            self._counts.removed(nodes, "room")
            self._counts.record_eviction(nodes, self._now())


def size_on_disk(path: Path) -> int:
    """Return the bytes of a folder and of all in it, as `du -sb` counts them; 0 where there is none."""
    try:
        return path.lstat().st_size + sum(_sizes(path).values())
    except FileNotFoundError:
        return 0


def _sizes(folder: Path) -> dict[str, int]:
    """Return the bytes of what is in a folder, by name."""
    with os.scandir(folder) as entries:
        return {entry.name: _size(entry) for entry in entries}


def _size(entry: "os.DirEntry[str]") -> int:
    try:
        if entry.is_dir(follow_symlinks=False):
            return size_on_disk(Path(entry.path))
        return entry.stat(follow_symlinks=False).st_size
    except FileNotFoundError:
        return 0  # gone meanwhile
