"""The KV cache on disk: a prefix tree of prompt segments, looked up by token ids. One object per thread.

A match compares token ids, not only keys, and verifies each file. Knows no models: tensors come in as buffers, and go
out as paths.
"""

import heapq
import json
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import takewhile
from pathlib import Path

from store import kv_files
from store.database import Ledger
from store.home import identity, size_on_disk
from store.kv_files import BadNode, Header, Key, Node, Tensor, TreeRoot, child_key
from store.kv_index import LACKING, KvFolder, Match, path_keys, unlink
from store.types import replace

Score = Callable[[Node, float], float]  # of a node, now (seconds since the epoch)


def value(half_life_s: float, node: Node, now: float) -> float:
    """Score by the seconds that a node is expected to save per byte; those of one that is not used any more decay."""
    decay = float(2.0 ** (-max(now - node.last_used, 0.0) / half_life_s))
    # The deeper a node, the less likely its whole prefix repeats: our own, from replays of questions.
    return node.seconds * (1 + node.uses) * decay / (node.bytes * node.depth)


def scores(half_life_s: float) -> dict[str, Score]:
    """Return the scores by name; "lfu" is by use alone (PerCache 4.1.1), the least recently used first."""
    return {"value": partial(value, half_life_s), "lfu": lambda node, _: float(node.uses)}


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


_PATIENT_S = 0.5  # for another process that writes a node
_SLACK = 16 << 10  # for a file to be written, and once more: the growth of the folder itself
_ADAPTERS = "kv.adapters"  # a small value of the ledger: the digest of the adapter of each root that has one


def _adapters(ledger: Ledger) -> dict[str, str]:
    found: dict[str, str] = json.loads(ledger.get(_ADAPTERS) or "{}")
    return found


class KvStore:
    """The KV cache of one folder, shared with other processes; call `collect` after opening it."""

    def __init__(
        self,
        ledger: Ledger,
        folder: Path,
        *,
        budget: int,
        daily: int,
        score: Score,
        sub_step: int,
        now: Callable[[], float],
        others: Callable[[], int] = lambda: 0,
    ) -> None:
        """At most `budget` bytes are kept, with `others` of the cache folder, and `daily` are written a day (UTC)."""
        self._ledger, self.sub_step, self._now = ledger, sub_step, now
        self.folder, self.budget, self._daily = KvFolder(ledger, folder), budget, daily
        self._score, self._others, self.index = score, others, self.folder.index

    def match(self, root: TreeRoot, segments: Sequence[Sequence[int]]) -> Match:
        """Find the cached prefix of a prompt; damaged nodes on the way are removed."""
        keys = path_keys(root, segments)
        while True:
            nodes = tuple(node for node in takewhile(bool, map(self.index.find, keys[1:])) if node)
            match, rest = Match(nodes), segments[len(nodes) :]
            if rest and (other := self.index.best_partial(keys[len(nodes)], rest[0], self.sub_step)):
                match = Match((*nodes, other[0]), other[1])
            if self._is_intact(match, segments):
                return match

    def record_use(self, match: Match, seconds_saved: float, loaded: int | None = None) -> None:
        """Count a match, its `loaded` tokens (all by default) and the seconds saved; below 0 where it was slower."""
        tokens = match.tokens if loaded is None else loaded
        with self._ledger.transaction():
            self.index.record_use([node.key for node in match.found], self._now())
            if tokens:
                self.index.count("hit", tokens=tokens, seconds=max(0.0, seconds_saved))

    def record_fetched(self, tokens: int, size: int, seconds_saved: float) -> None:
        """Count tokens that came from another place, and the seconds that saved; below 0 where it was slower."""
        self.index.count("fetched", tokens=tokens, size=size, seconds=max(0.0, seconds_saved))

    def keep(
        self,
        root: TreeRoot,
        parent: Node | None,
        ids: Sequence[int],
        seconds: float,
        tensors: Sequence[Tensor],
        *,
        evict: bool = True,
    ) -> Node | None:
        """Store a segment below `parent` (None: the root), evicting others for it if `evict`; None if refused."""
        above = TreeRoot(parent.key, parent.path) if parent else root
        header = Header(root.key, child_key(above.key, ids), above.key, child_key(above.path, ids), tuple(ids))
        depth, size = parent.depth + 1 if parent else 1, kv_files.size_of(header, tensors)
        about = (size, seconds, self._now(), self._now(), 0, kv_files.document_of(ids))
        node = Node(header.key, above.key, header.path, depth, header.ids, *about)
        try:
            with self.folder.alone(_PATIENT_S) as is_alone:
                if (known := self.index.find(node.key)) or not is_alone:
                    return known
                stored = self._write(node, header, tensors, evict=evict)
        except OSError:
            stored = None  # full or failing disk: the segment is computed again
        if stored is None:
            self._ledger.set(LACKING, "1")
        self.shrink(self.budget)
        return stored

    def note_adapter(self, root: TreeRoot, digest: str) -> None:
        """Remember that the nodes below a root are of an adapter."""
        if _adapters(self._ledger).get(root.key.hex()) == digest:
            return  # the usual case: a question does not write
        with self._ledger.transaction():
            self._ledger.set(_ADAPTERS, json.dumps({**_adapters(self._ledger), root.key.hex(): digest}))

    def forget_adapters(self, others: Collection[str]) -> int:
        """Remove the nodes of all adapters but these, which are known by their digests; returns the bytes freed."""
        gone = {root for root, digest in _adapters(self._ledger).items() if digest not in others}
        roots = [bytes.fromhex(root) for root in gone]
        freed = sum(node.bytes for node in filter(None, map(self.index.find, self.index.below(roots))))
        self.folder.remove(roots)
        with self._ledger.transaction():
            left = {root: digest for root, digest in _adapters(self._ledger).items() if root not in gone}
            self._ledger.set(_ADAPTERS, json.dumps(left))
        return freed

    def collect(self) -> int:
        """Clean up after processes that died, and evict down to the budget; returns the bytes stored."""
        self.folder.collect()
        return self.shrink(self.budget)

    def free(self, evicting: int = 0) -> int:
        """Return the bytes that a node may have now without evicting others, or evicting at most `evicting` bytes."""
        daily = self._daily - self.index.written(self._now())
        return max(0, min(-self._excess(_SLACK) + evicting, daily))

    def evict_unused(self, keys: Iterable[Key]) -> None:
        """Evict those of these nodes that were never used and have no children."""
        unused = [node.key for node in filter(None, map(self.index.find, keys)) if not node.uses]
        self.folder.remove([key for key in unused if self.index.below([key]) == {key}])

    def shrink(self, budget: int) -> int:
        """Set the budget and evict down to it; returns the bytes stored, more only if nothing else may be evicted."""
        self.budget = budget
        while (excess := self._excess(0)) > 0 and (chosen := self._choose(excess)):
            self._evict(chosen)
        return budget + excess

    def _make_room(self, size: int, parent: Key, evict: bool) -> bool:
        """Evict others, but not its parent, until a node fits, which the only writer is to write; False if refused."""
        excess = self._excess(size + _SLACK)
        chosen = self._choose(excess, {parent}) if evict else []
        in_time = self.index.written(self._now()) + size <= self._daily
        if not in_time or sum(node.bytes for node in chosen) < excess:
            return False
        self._evict(chosen)
        if chosen and self._excess(size + _SLACK) > 0:
            return False  # a file could not be removed
        self.index.write(size, self._now())
        return True

    def _excess(self, need: int) -> int:
        """Return the bytes to evict before `need` more fit beside all that is there; below 0 for none."""
        return size_on_disk(self.folder.folder) + self._others() + _SLACK + need - self.budget

    def _choose(self, excess: int, keep: Container[Key] = ()) -> list[Node]:
        return victims(self.index.nodes(with_ids=False), excess, self._score, self._now(), keep) if excess > 0 else []

    def _evict(self, nodes: list[Node]) -> None:
        if nodes:
            self.folder.remove([node.key for node in nodes])
            self._ledger.set(LACKING, "1")

    def _is_intact(self, match: Match, segments: Sequence[Sequence[int]]) -> bool:
        """Verify token ids and files, and remove nodes that differ."""
        wrong = [node for node, ids in zip(match.nodes, segments, strict=False) if node.ids != tuple(ids)]
        wrong += [node for node in match.found[len(match.nodes) :] if child_key(node.parent, node.ids) != node.key]
        for node in wrong:
            self.folder.remove_damaged(node)
        return not wrong and all(self.folder.check(node) for node in match.found)

    def _write(self, node: Node, header: Header, tensors: Sequence[Tensor], *, evict: bool) -> Node | None:
        """Write a node's file, read it back, and add its row; None, and no file, if the node is refused."""
        if not (self._ledger.is_current and self._make_room(node.bytes, node.parent, evict)):
            return None
        path = self.folder.path_of(node.key)
        with suppress(BadNode, OSError):
            kv_files.write(path, header, tensors)
            node = replace(node, verified=identity(path))
            kv_files.verify(path)
            if self.index.add(node, self.sub_step, header.root):
                return node
        unlink(path)
        return None
