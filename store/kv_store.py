"""The KV cache on disk: a prefix tree of prompt segments, looked up by token ids. One object per thread.

A match compares token ids, not only keys, and verifies each file. Knows no models: tensors come in as buffers, and go
out as paths.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from store.database import Ledger
from store.kv_budget import KvBudget, KvLimits, Score
from store.kv_files import BadNode, Header, Tensor, identity, size_of, verify, write
from store.kv_folder import KvFolder
from store.kv_index import CountTotal, KvQueries, Match, best_partial, cached_prefix, path_keys
from store.kv_tree import DocumentSegment, Key, Node, TreeRoot, child_key

_PINNED_S = 600.0  # after which a match that was not released no longer pins its nodes


@dataclass(frozen=True, slots=True)
class Stats:
    """Size and hits of the cache: `removed` and `refused` by reason, `missed` what a larger budget would have hit."""

    nodes: int
    bytes: int
    hits: CountTotal
    partial: CountTotal
    removed: dict[str, CountTotal]
    refused: dict[str, CountTotal]
    written_today: int
    ghosts: int
    missed: CountTotal


class KvStore:
    """The KV cache of one folder, shared with other processes; call `collect` after opening it."""

    def __init__(
        self,
        ledger: Ledger,
        folder: Path,
        *,
        limits: KvLimits,
        score: Score,
        sub_step: int,
        now: Callable[[], float],
        others: Callable[[], int] = lambda: 0,
    ) -> None:
        """`others` returns the bytes of the rest of the cache folder, which count towards the budget."""
        self._ledger, self._sub_step, self._now = ledger, sub_step, now
        self._folder = KvFolder(ledger, folder)
        self._budget = KvBudget(self._folder, limits, score, now, others)
        self._index, self._counts = self._folder.index, self._folder.counts
        self.queries = KvQueries(ledger, self._index, self._counts)

    def match(self, root: TreeRoot, segments: Sequence[Sequence[int]], *, asked: bool = True) -> Match:
        """Find and pin the cached prefix of a prompt; damaged nodes on the way are removed.

        Misses of evicted nodes are counted for questions (`asked`), not for prefetching.
        """
        keys = path_keys(root, segments)
        while True:
            with self._ledger.transaction():
                match = self._follow(keys, segments)
            if self._is_intact(match, segments):
                if asked:
                    self._counts.count_ghost_hits(keys[len(match.nodes) + 1 :])
                return match
            match.release()

    def record_use(self, match: Match, seconds_saved: float) -> None:
        """Count a match that was loaded, and the seconds it saved after subtracting the load time."""
        size = sum(node.bytes for node in match.found)
        with self._ledger.transaction():
            self._index.record_use([node.key for node in match.found], self._now())
            if match.partial:
                self._counts.add("partial", "all", tokens=match.partial.tokens, size=match.partial.node.bytes)
            if match.tokens:
                self._counts.add("hit", "all", tokens=match.tokens, size=size, seconds=seconds_saved)

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
        known, size, now = self._index.find(header.key), size_of(header, tensors), self._now()
        if known and known.state == "complete":
            return known.node
        depth = parent.depth + 1 if parent else 1
        document = ids.document if isinstance(ids, DocumentSegment) else ""
        node = Node(header.key, above.key, header.path, depth, header.ids, size, seconds, now, now, 0, document)
        try:
            refused = self._budget.reserve(node, root, self._sub_step, evict) or self._write(node, header, tensors)
            if refused:
                self._counts.add("refused", refused, tokens=len(ids), size=size, seconds=seconds)
        finally:
            self._folder.writing = None
            self.shrink(self._budget.budget)
        return None if refused else node

    def path_of(self, node: Node) -> Path:
        """Return the file that holds a node's tensors, in the safetensors format."""
        return self._folder.path_of(node.key)

    def check(self, node: Node, *, read_data: bool = False) -> bool:
        """Return whether a node's file is intact, removing the node if not; `read_data` reads it even if unchanged."""
        return self._folder.check(node, read_data=read_data)

    def remove_damaged(self, node: Node, reason: str) -> None:
        """Remove a node that could not be loaded, and its descendants."""
        self._folder.remove_damaged(node, reason)

    def forget(self, keys: Collection[Key]) -> int:
        """Remove nodes and their descendants, and clear the ghost list; returns the number of nodes."""
        removed = self._folder.remove(keys, "deleted")
        self._counts.forget_ghosts()
        return removed

    def shrink(self, budget: int) -> int:
        """Set the budget and evict down to it; returns the bytes stored, more only if nothing else may be evicted."""
        return self._budget.shrink(budget)

    @property
    def budget(self) -> int:
        """Return the byte budget."""
        return self._budget.budget

    def free(self, evicting: int = 0) -> int:
        """Return the bytes that may be stored today without evicting others, or evicting only so many bytes."""
        return self._budget.free(evicting)

    def evict_unused(self, keys: Collection[Key]) -> None:
        """Evict those of these nodes that were never used, are not pinned and have no children."""
        self._budget.evict_unused(keys)

    def collect(self) -> int:
        """Clean up after processes that died, and evict down to the budget; returns the bytes stored."""
        self._folder.collect()
        return self.shrink(self._budget.budget)

    def close(self) -> None:
        """Release the owner name of this process."""
        self._folder.owner.close()

    def stats(self) -> Stats:
        """Return size and hits of the cache."""
        sizes = [size for _, size, state in self._index.sizes() if state == "complete"]
        return Stats(
            nodes=len(sizes),
            bytes=sum(sizes),
            hits=self._counts.total("hit"),
            partial=self._counts.total("partial"),
            removed=self._counts.of("removed"),
            refused=self._counts.of("refused"),
            written_today=self._counts.written(self._now()),
            ghosts=self._counts.ghosts(),
            missed=self._counts.total("ghost"),
        )

    def _follow(self, keys: Sequence[Key], segments: Sequence[Sequence[int]]) -> Match:
        """Find and pin the cached prefix, inside a transaction."""
        nodes = cached_prefix(self._index, keys[1:])
        rest = segments[len(nodes) :]
        partial = best_partial(self._index, keys[len(nodes)], rest[0], self._sub_step) if rest else None
        found = [node.key for node in (*nodes, *([partial.node] if partial else []))]
        pins = self._index.pin(found, self._folder.owner.name, self._now() + _PINNED_S) if found else ()
        return Match(nodes, partial, lambda: self._index.unpin(pins))

    def _is_intact(self, match: Match, segments: Sequence[Sequence[int]]) -> bool:
        """Compare token ids and verify files, up to the first node that differs, which is removed."""
        wrong = [node for node, ids in zip(match.nodes, segments, strict=False) if node.ids != tuple(ids)]
        original = match.partial.node if match.partial else None
        if original and child_key(original.parent, original.ids) != original.key:
            wrong.append(original)
        for node in wrong:
            self.remove_damaged(node, "ids")
        return not wrong and all(self.check(node) for node in match.found)

    def _write(self, node: Node, header: Header, tensors: Sequence[Tensor]) -> str:
        """Write a reserved node's file and read it back; returns the reason where it is not stored."""
        path = self.path_of(node)
        try:
            write(path, header, tensors)
            found = identity(path)
            verify(path)
        except (OSError, BadNode):
            return "write_error"  # full or failing disk: the segment is computed again
        with self._ledger.transaction():
            if found is None or not self._index.complete(node.key, self._folder.owner.name):
                return "deleted"
            self._index.set_verified(node.key, found)
        return ""
