"""The ingest path: folder -> documents -> chunks -> knowledge bank, only what is new or changed.

    look      which files are new, changed, gone
    read      parse the new and changed ones, a block at a time
    keep      commit documents and chunks; from here on they are found by their words
    clear     let go of what stands in no file any more, and read again what had quoted it

Vectors come after (embed.py). Knows no format, no table and no terminal.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from engine.ingest import scan
from engine.ingest.blocks import Block, blocks
from engine.ingest.detect import ignorable
from engine.ingest.limits import Limits
from store.catalog import Catalogue, Problem, Root
from store.database import Ledger
from store.documents import Knowledge
from store.types import FileState

_COMPACT_EVERY = 20_000  # documents; what is not in the full-text index yet is found by a slow scan
_REMOVED_AT_ONCE = 500
Settled = Callable[[bytes, FileState], bool]


@dataclass(frozen=True, slots=True)
class Guard:
    """How many documents may vanish at once before it looks like an unmounted disk: over a share and over a count."""

    share: float
    count: int
    prune: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a step is; `total` is None where it is not known."""

    step: str
    done: int
    total: int | None = None


@dataclass(slots=True)
class Summary:
    """What a run did: files looked at, new, changed and gone; documents read, kept, met again and removed.

    `refused` counts documents that would have gone, had it not looked like an unmounted disk, `waiting` the files left
    for later. `problems` are of what
    was read in this run, `known_problems` of files that have not changed since they were named.
    """

    files: int = 0
    new: int = 0
    changed: int = 0
    gone: int = 0
    read: int = 0
    kept: int = 0
    duplicates: int = 0
    removed: int = 0
    refused: int = 0
    waiting: int = 0
    problems: list[Problem] = field(default_factory=list)
    known_problems: list[Problem] = field(default_factory=list)


class Ingest:
    """Brings one bank up to date, root by root, and sums up what it did; the caller holds the writer lock.

    Files that are not `settled`, where that is asked, are left for later.
    """

    def __init__(
        self, ledger: Ledger, knowledge: Knowledge, limits: Limits, guard: Guard, settled: Settled | None = None
    ) -> None:
        self._ledger, self._knowledge, self._limits, self._guard = ledger, knowledge, limits, guard
        self._settled = settled
        self._catalogue = Catalogue(ledger)
        self.summary = Summary()

    def run(self, root: Root) -> Iterator[Progress]:
        """Follow the path for one root."""
        self._knowledge.recover()
        found = self._look(root)
        yield from self._read(found.new | found.changed)
        self._clear(root, found.gone)
        yield from self._read(self._to_read_again())
        if self._knowledge.untidy:
            yield Progress("index", 0)
            self._knowledge.compact()
        fresh = set(self.summary.problems)
        known = (problem for problem in self._catalogue.problems(root.path) if problem not in fresh)
        self.summary.known_problems += known

    def let_go(self, root: Root) -> None:
        """Drop a root that is not there any more, with what stood only in it, unless that looks like a missing disk."""
        self._knowledge.recover()
        self._clear(root, self._catalogue.files(root.path))
        if not self._catalogue.files(root.path):
            with self._ledger.transaction():
                self._catalogue.drop_root(root.path)

    def _look(self, root: Root) -> scan.Look:
        if not self._is_covered(root):
            with self._ledger.transaction():
                self._catalogue.put_root(root)
            self._knowledge.settle()
        found = scan.look(os.fsencode(root.path), self._catalogue.files(root.path), ignorable)
        self._leave(found)
        self.summary.files += found.seen
        self.summary.new += len(found.new)
        self.summary.changed += len(found.changed)
        self.summary.problems += [Problem(os.fsdecode(f), 0, why) for f, why in found.closed.items()]
        return found

    def _leave(self, found: scan.Look) -> None:
        """Leave for later what is still being written, and what has gone, for that may be the same under new names."""
        if self._settled is None:
            return
        moving = [path for path, state in (found.new | found.changed).items() if not self._settled(path, state)]
        for path in moving:
            found.new.pop(path, None)
            found.changed.pop(path, None)
        if moving:
            found.gone.clear()
        self.summary.waiting += len(moving)

    def _is_covered(self, root: Root) -> bool:
        """Tell whether a root further out says the same of what is in this one, so that it need not be one itself."""
        roots = {os.fsencode(known.path): known for known in self._catalogue.roots()}
        nearest = next((roots[above] for above in scan.upwards(os.fsencode(root.path)) if above in roots), None)
        return nearest is not None and (nearest.collection, nearest.kind) == (root.collection, root.kind)

    def _read(self, files: Mapping[bytes, FileState]) -> Iterator[Progress]:
        if not files:
            return
        from engine.ingest.files import read  # the parsers, for which an unchanged folder must not wait

        for root, its in self._by_root(files).items():
            reader = partial(read, raw_kind=root.kind, limits=self._limits)
            for step in blocks(its, root.collection, reader, self._knowledge.is_settled):
                if isinstance(step, int):
                    yield Progress("read", step, len(its))
                else:
                    yield from self._keep(step)

    def _by_root(self, files: Mapping[bytes, FileState]) -> dict[Root, dict[bytes, FileState]]:
        """Part files by the nearest root above them, whose collection and kind are theirs."""
        roots = {os.fsencode(root.path).rstrip(b"/") or b"/": root for root in self._catalogue.roots()}
        parted: dict[Root, dict[bytes, FileState]] = {}
        for path, state in files.items():
            root = next(roots[above] for above in scan.upwards(path) if above in roots)
            parted.setdefault(root, {})[path] = state
        return parted

    def _keep(self, block: Block) -> Iterator[Progress]:
        from engine.ingest.keep import keep

        self.summary.read += block.read
        self.summary.duplicates += block.read - len(block.documents)
        done = 0
        for count in keep(self._ledger, self._knowledge, block):
            done += count
            yield Progress("keep", done, len(block.documents))
        self.summary.kept += done
        self.summary.problems += [problem for file in block.files if file.whole for problem in file.problems]
        self._knowledge.settle()
        if self._knowledge.untidy >= _COMPACT_EVERY:
            self._knowledge.compact()

    def _clear(self, root: Root, gone: Iterable[bytes]) -> None:
        """Let go of what stands in no file any more, unless that looks like an unmounted disk."""
        vanished = list(gone)
        lost, every = self._catalogue.leaving(root.path, vanished)
        if lost > self._guard.count and lost > every * self._guard.share and not self._guard.prune:
            self.summary.refused += lost
        else:
            self.summary.gone += len(vanished)
            with self._ledger.transaction():
                self._catalogue.drop(root.path, vanished)
            self._knowledge.settle()
        orphans = self._knowledge.orphans()
        for start in range(0, len(orphans), _REMOVED_AT_ONCE):
            self._remove(orphans[start : start + _REMOVED_AT_ONCE])

    def _remove(self, documents: list[str]) -> None:
        self._knowledge.commit((), lambda: None, removes=documents)
        self.summary.removed += len(documents)

    def _to_read_again(self) -> dict[bytes, FileState]:
        states = {path: scan.state_of(path) for path in self._catalogue.changed()}
        return {path: state for path, state in states.items() if state}
