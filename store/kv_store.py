"""The KV cache on disk: a prefix tree of prompt segments, looked up by token ids. One object per thread.

A match compares token ids, not only keys, and verifies each file. Knows no models: tensors come in as buffers, and go
out as paths.
"""

import heapq
import json
import os
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path

from store.database import Ledger
from store.home import identity, size_on_disk
from store.kv_files import (
    PARTIAL,
    SUFFIX,
    BadNode,
    Header,
    Key,
    Node,
    Tensor,
    TreeRoot,
    child_key,
    document_of,
    size_of,
    verify,
    write,
)
from store.kv_index import (
    LACKING,
    CountTotal,
    KvFolder,
    Match,
    best_partial,
    is_alive,
    path_keys,
)

Score = Callable[[Node, float], float]  # of a node, now (seconds since the epoch)


def value(half_life_s: float, node: Node, now: float) -> float:
    """Score by the seconds that a node is expected to save per byte; those of one that is not used any more decay.

    The deeper a node, the less likely its whole prefix repeats: our own, from replays of questions.
    """
    decay = float(2.0 ** (-max(now - node.last_used, 0.0) / half_life_s))
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


_SLACK = 16 << 10  # for each file to be written, and once more: the growth of the folder itself
_ROUNDS = 20  # of a reservation, when other processes take the space that it freed


class KvBudget:
    """Reservations and evictions within a budget of `bytes`."""

    def __init__(
        self, kv_folder: KvFolder, budget: int, daily: int, score: Score, now: Callable[[], float],
        others: Callable[[], int],
    ) -> None:  # fmt: skip
        """`daily` are the bytes that may be written on one day (UTC)."""
        self._folder, self.bytes, self._daily = kv_folder, budget, daily
        self._score, self._now, self._others = score, now, others
        self._index = kv_folder.index

    def reserve(self, node: Node, root: TreeRoot, sub_step: int, evict: bool = True) -> bool:
        """Reserve the bytes of a node before its file is written, evicting others; False where it is refused."""
        for _ in range(_ROUNDS):
            with self._folder.ledger.transaction():
                self._folder.finish_removals()
                excess = self._excess(node.bytes + _SLACK)
                chosen = self._choose(excess, {node.parent}) if evict and excess > 0 else []
                above = self._index.find(node.parent)
                has_parent = node.parent == root.key or (above is not None and above.state == "complete")
                is_new = self._folder.ledger.is_current and self._index.find(node.key) is None
                in_time = self._index.written(self._now()) + node.bytes <= self._daily
                if not (has_parent and is_new and in_time) or sum(one.bytes for one in chosen) < excess:
                    return False
                if excess <= 0:
                    self._folder.writing = node.key
                    self._index.reserve(node, sub_step, self._folder.owner.name)
                    self._index.write(node.bytes, self._now())
                    return True
                self._mark_deleting(chosen)
            self._folder.remove_files(one.key for one in chosen)
        return False

    def free(self, evicting: int = 0) -> int:
        """Return the bytes that a node may have now without evicting others, or evicting at most `evicting` bytes."""
        with self._folder.ledger.transaction():
            daily = self._daily - self._index.written(self._now())
            return max(0, min(-self._excess(_SLACK) + evicting, daily))

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
        self.bytes = budget
        while True:
            with self._folder.ledger.transaction():
                self._folder.finish_removals()
                excess = self._excess(0)
                chosen = self._choose(excess, ()) if excess > 0 else []
                self._mark_deleting(chosen)
            if not chosen:
                return budget + excess
            self._folder.remove_files(one.key for one in chosen)

    def _excess(self, need: int) -> int:
        """Return the bytes to evict before `need` more fit beside all that is or will be there; below 0 for none."""
        self._folder.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.scandir(self._folder.folder) as entries:
            files = {entry.name: _size(entry) for entry in entries}
        total, unfinished = self._folder.folder.lstat().st_size + self._others(), 0
        for key, size, state in self._index.sizes():
            name = key.hex()
            total += max(size, files.pop(name + SUFFIX, 0), files.pop(name + PARTIAL, 0))
            unfinished += state != "complete"
        return total + sum(files.values()) + _SLACK * (1 + unfinished) + need - self.bytes

    def _choose(self, excess: int, keep: Container[Key]) -> list[Node]:
        held, rows = self._pinned(), self._index.scored()
        held |= {node.key for node, state in rows if state != "complete" or node.key in keep}
        chosen = victims((node for node, _ in rows), excess, self._score, self._now(), held)
        return [entry.node for node in chosen if (entry := self._index.find(node.key))]

    def _pinned(self) -> set[Key]:
        now, folder = self._now(), self._folder.folder
        return {key for key, owner, until in self._index.pins() if until > now and is_alive(folder, owner)}

    def _mark_deleting(self, nodes: list[Node]) -> None:
        if nodes:
            self._index.mark_deleting([node.key for node in nodes], self._folder.owner.name)
            self._folder.ledger.set(LACKING, "1")


def _size(entry: "os.DirEntry[str]") -> int:
    try:
        is_folder = entry.is_dir(follow_symlinks=False)
        return size_on_disk(Path(entry.path)) if is_folder else entry.stat(follow_symlinks=False).st_size
    except FileNotFoundError:
        return 0  # removed meanwhile


_PINNED_S = 600.0  # after which a match that was not released no longer pins its nodes


@dataclass(frozen=True, slots=True)
class Stats:
    """Size and hits of the cache."""

    nodes: int
    bytes: int
    hits: CountTotal
    fetched: CountTotal
    written_today: int


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
        """`others` returns the bytes of the rest of the cache folder, which count towards the budget."""
        self._ledger, self.sub_step, self._now = ledger, sub_step, now
        self.folder = KvFolder(ledger, folder)
        self.budget = KvBudget(self.folder, budget, daily, score, now, others)
        self.index = self.folder.index

    def match(self, root: TreeRoot, segments: Sequence[Sequence[int]]) -> Match:
        """Find and pin the cached prefix of a prompt; damaged nodes on the way are removed."""
        keys = path_keys(root, segments)
        while True:
            owner = self.folder.owner.name
            with self._ledger.transaction():  # without a look at the disk
                rows = takewhile(lambda row: row and row.state == "complete", map(self.index.find, keys[1:]))
                nodes = tuple(row.node for row in rows if row)
                rest = segments[len(nodes) :]
                last = best_partial(self.index, keys[len(nodes)], rest[0], self.sub_step) if rest else None
                found = [node.key for node in (*nodes, *([last.node] if last else []))]
                pins = self.index.pin(found, owner, self._now() + _PINNED_S) if found else ()
            match = Match(nodes, last, partial(self.index.unpin, pins))
            if self._is_intact(match, segments):
                return match
            match.release()

    def record_use(self, match: Match, seconds_saved: float, loaded: int | None = None) -> None:
        """Count a match, its `loaded` tokens (all by default) and the seconds it saved.

        Those are without the time that loading took; below 0 computing would have been sooner.
        """
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
        """Store a segment's tensors below `parent` (None: the root); None if refused.

        Without `evict` no other node is evicted for it.
        """
        above = TreeRoot(parent.key, parent.path) if parent else root
        header = Header(root.key, child_key(above.key, ids), above.key, child_key(above.path, ids), tuple(ids))
        known, size, now = self.index.find(header.key), self._size(header, tensors), self._now()
        if known and known.state == "complete":
            return known.node
        depth = parent.depth + 1 if parent else 1
        about = (size, seconds, now, now, 0, document_of(ids))
        node = Node(header.key, above.key, header.path, depth, header.ids, *about)
        try:
            stored = self.budget.reserve(node, root, self.sub_step, evict) and self._write(node, header, tensors)
            if not stored:
                self._ledger.set(LACKING, "1")
        finally:
            self.folder.writing = None
            self.budget.shrink(self.budget.bytes)
        return node if stored else None

    def _size(self, header: Header, tensors: Sequence[Tensor]) -> int:
        return size_of(header, tensors)

    def path_of(self, node: Node) -> Path:
        """Return the file that holds a node's tensors, in the safetensors format."""
        return self.folder.path_of(node.key)

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
        freed = sum(entry.node.bytes for entry in filter(None, map(self.index.find, self.index.below(roots))))
        self.folder.remove(roots)
        with self._ledger.transaction():
            left = {root: digest for root, digest in _adapters(self._ledger).items() if root not in gone}
            self._ledger.set(_ADAPTERS, json.dumps(left))
        return freed

    def collect(self) -> int:
        """Clean up after processes that died, and evict down to the budget; returns the bytes stored."""
        self.folder.collect()
        return self.budget.shrink(self.budget.bytes)

    def close(self) -> None:
        """Release the owner name of this process."""
        self.folder.owner.close()

    def stats(self) -> Stats:
        """Return size and hits of the cache."""
        index, held = self.index, self.index.totals()
        counted = (index.counted("hit"), index.counted("fetched"))
        return Stats(held.count, held.bytes, *counted, index.written(self._now()))

    def _is_intact(self, match: Match, segments: Sequence[Sequence[int]]) -> bool:
        """Verify token ids and files, and remove nodes that differ."""
        wrong = [node for node, ids in zip(match.nodes, segments, strict=False) if node.ids != tuple(ids)]
        original = match.partial.node if match.partial else None
        if original and child_key(original.parent, original.ids) != original.key:
            wrong.append(original)
        for node in wrong:
            self.folder.remove_damaged(node)
        return not wrong and all(self.folder.check(node) for node in match.found)

    def _write(self, node: Node, header: Header, tensors: Sequence[Tensor]) -> bool:
        """Write a reserved node's file and read it back; returns whether it is stored."""
        path = self.path_of(node)
        try:
            write(path, header, tensors)
            found = identity(path)
            verify(path)
        except (OSError, BadNode):
            return False  # full or failing disk: the segment is computed again
        with self._ledger.transaction():
            if found is None or not self.index.complete(node.key, self.folder.owner.name):
                return False
            self.index.set_verified(node.key, found)
        return True
