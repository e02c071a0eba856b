"""The tree of kept KV tensors: what of a prompt is there, and keeping what was computed. One object a thread.

It compares token ids, not only keys, and gives out nothing whose file is not whole. Knows no models: tensors come in
as buffers, and go out as paths.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from store.database import Ledger
from store.kv_budget import KvBudget, KvLimits, Score
from store.kv_files import BadNode, Header, Tensor, identity, size_of, verify, write
from store.kv_folder import KvFolder
from store.kv_index import CountTotal, KvQueries, Match, best_partial, path_keys, whole
from store.kv_tree import Key, Node, TreeRoot, child_key

_PINNED_S = 600.0  # how long a match that nobody lets go of holds on to its nodes


@dataclass(frozen=True, slots=True)
class Stats:
    """What is kept and what it did: `removed` and `refused` by reason, `missed` with more room would not have been."""

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
    """The nodes of one cache folder, shared with other processes; call `collect` when it is opened."""

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
        """`others` gives the bytes of the rest of the cache folder, which count towards the budget."""
        self._ledger, self._sub_step, self._now = ledger, sub_step, now
        self._folder = KvFolder(ledger, folder)
        self._room = KvBudget(self._folder, limits, score, now, others)
        self._index, self._counts = self._folder.index, self._folder.counts
        self.queries = KvQueries(ledger, self._index, self._counts)

    def match(self, root: TreeRoot, segments: Sequence[Sequence[int]], *, asked: bool = True) -> Match:
        """Find what is kept of a prompt, and hold on to it; what turns out to be damaged on the way is removed.

        What is missing is counted where a question asked for it, and not where it is read ahead.
        """
        keys = path_keys(root, segments)
        while True:
            with self._ledger.transaction():
                match = self._follow(keys, segments)
            if self._is_sound(match, segments):
                if asked:
                    self._counts.missed(keys[len(match.nodes) + 1 :])
                return match
            match.release()

    def used(self, match: Match, seconds_saved: float) -> None:
        """Count a match that was put to use, and what it saved beyond what loading it took."""
        size = sum(node.bytes for node in match.found)
        with self._ledger.transaction():
            self._index.used([node.key for node in match.found], self._now())
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
        """Keep a segment's tensors below `parent` (None: the root); None where there is no room or no parent left.

        Without `evict` nothing else goes for it.
        """
        above = TreeRoot(parent.key, parent.path) if parent else root
        header = Header(root.key, child_key(above.key, ids), above.key, child_key(above.path, ids), tuple(ids))
        known, size, now = self._index.find(header.key), size_of(header, tensors), self._now()
        if known and known.state == "whole":
            return known.node
        depth = parent.depth + 1 if parent else 1
        node = Node(header.key, above.key, header.path, depth, header.ids, size, seconds, now, now, 0)
        try:
            refused = self._room.reserve(node, root, self._sub_step, evict) or self._write(node, header, tensors)
            if refused:
                self._counts.add("refused", refused, tokens=len(ids), size=size, seconds=seconds)
        finally:
            self._folder.writing = None
            self.shrink(self._room.budget)
        return None if refused else node

    def path_of(self, node: Node) -> Path:
        """Return the file that holds a node's tensors, in the safetensors format."""
        return self._folder.path_of(node.key)

    def check(self, node: Node, *, read_data: bool = False) -> bool:
        """Return whether a node's file is whole, removing the node if not; `read_data` reads it even if untouched."""
        return self._folder.check(node, read_data=read_data)

    def lost(self, node: Node, reason: str) -> None:
        """Say that a node could not be loaded: it is removed with all below it."""
        self._folder.lost(node, reason)

    def forget(self, keys: Collection[Key]) -> int:
        """Remove nodes, all below them, and what is remembered of any that went before; returns their number."""
        gone = self._folder.remove(keys, "forgotten")
        self._counts.forget_ghosts()
        return gone

    def shrink(self, budget: int) -> int:
        """Keep within a budget from now on; returns the bytes there are, more only if nothing else may go."""
        return self._room.shrink(budget)

    @property
    def budget(self) -> int:
        """Return the bytes that may be kept."""
        return self._room.budget

    def free(self, going: int = 0) -> int:
        """Return the bytes that may be kept now, on this day, without anything going, or only so many bytes."""
        return self._room.free(going)

    def let_go(self, keys: Collection[Key]) -> None:
        """Evict those of these nodes that nothing used, that nobody is loading and behind which nothing stands."""
        self._room.let_go(keys)

    def collect(self) -> int:
        """Tidy up after processes that died, and keep within the budget; returns the bytes there are."""
        self._folder.collect()
        return self.shrink(self._room.budget)

    def close(self) -> None:
        """Let go of what is held."""
        self._folder.owner.close()

    def stats(self) -> Stats:
        """Return what is kept and what it did."""
        sizes = [size for _, size, state in self._index.sizes() if state == "whole"]
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
        """Find and pin what there is, inside a transaction."""
        nodes = whole(self._index, keys[1:])
        rest = segments[len(nodes) :]
        partial = best_partial(self._index, keys[len(nodes)], rest[0], self._sub_step) if rest else None
        found = [node.key for node in (*nodes, *([partial.node] if partial else []))]
        pins = self._index.pin(found, self._folder.owner.name, self._now() + _PINNED_S) if found else ()
        return Match(nodes, partial, lambda: self._index.unpin(pins))

    def _is_sound(self, match: Match, segments: Sequence[Sequence[int]]) -> bool:
        """Compare ids and look at files, up to the first that is not what was asked for: it is removed."""
        wrong = [node for node, ids in zip(match.nodes, segments, strict=False) if node.ids != tuple(ids)]
        original = match.partial.node if match.partial else None
        if original and child_key(original.parent, original.ids) != original.key:
            wrong.append(original)
        for node in wrong:
            self.lost(node, "ids")
        return not wrong and all(self.check(node) for node in match.found)

    def _write(self, node: Node, header: Header, tensors: Sequence[Tensor]) -> str:
        """Write a reserved node's file and read it back; returns why it is not kept, if it is not."""
        path = self.path_of(node)
        try:
            write(path, header, tensors)
            found = identity(path)
            verify(path)
        except (OSError, BadNode):
            return "disk"  # full or failing: what is not kept is computed again
        with self._ledger.transaction():
            if found is None or not self._index.settle(node.key, self._folder.owner.name):
                return "forgotten"
            self._index.verified(node.key, found)
        return ""
