"""The ingest path: folder -> documents -> chunks -> knowledge bank, only what is new or changed.

    look      which files are new, changed, gone
    read      parse the new and changed ones, a block at a time
    keep      commit documents and chunks; from here on they are found by their words
    clear     let go of what stands in no file any more, and read again what had quoted it

Vectors come after (embed.py). Knows no format, no table and no terminal.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from pathlib import Path

from engine.ingest import scan
from engine.ingest.charsets import ParseLimits
from engine.ingest.chunking import chunk
from engine.ingest.quotes import attribution_lines
from engine.ingest.scan import ignorable
from engine.text.label import searched
from store import documents
from store.catalog import Catalog, Problem, SourceRoot
from store.database import Ledger
from store.documents import Knowledge
from store.types import Document, DocumentPassage, FileState, IndexedDocument, ParsedItem, Place

_DOCUMENTS, _CHARS = 20_000, 64_000_000
_TICK = 200  # files


@dataclass(slots=True)
class FileRead:
    """A file and what it held; grows until it is `whole`. The first `kept` places are in the catalogue already."""

    path: str
    state: FileState
    places: list[Place] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    whole: bool = False
    kept: int = 0


@dataclass(slots=True)
class Block:
    """Documents in no order, each once, and the files they came from; `read` counts documents, copies included."""

    documents: dict[str, Document] = field(default_factory=dict)
    files: list[FileRead] = field(default_factory=list)
    read: int = 0
    chars: int = 0

    @property
    def full(self) -> bool:
        """Return whether to keep what is here before reading on."""
        return len(self.documents) >= _DOCUMENTS or self.chars >= _CHARS


def blocks(
    files: Mapping[bytes, FileState],
    collection: str,
    reader: Callable[[Path], Iterator[ParsedItem]],
    known: Callable[[str], bool],
) -> Iterator[Block | int]:
    """Read files into blocks, giving the number of files read now and then; a `known` document counts as a place only.

    A large file may span several blocks: it is whole in the last of them.
    """
    block = Block()
    for number, key in enumerate(sorted(files), 1):
        file = FileRead(os.fsdecode(key), files[key])
        block.files.append(file)
        for reading in reader(Path(file.path)):
            _take(block, file, reading, collection, known)
            if block.full:
                yield block
                block = Block(files=[file])
        file.whole = True
        if number % _TICK == 0:
            yield number
    yield block


def _take(block: Block, file: FileRead, reading: ParsedItem, collection: str, known: Callable[[str], bool]) -> None:
    if reading.problem:
        file.problems.append(Problem(file.path, reading.item, reading.problem))
    if (document := reading.document) is None:
        return
    block.read += 1
    place = (file.path, reading.item, document.id, document.message_id, reading.offset, collection)
    file.places.append(Place(*place))
    if document.id not in block.documents and not known(document.id):
        block.documents[document.id] = document
        block.chars += len(document.text)


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
        self, ledger: Ledger, knowledge: Knowledge, limits: ParseLimits, guard: Guard, settled: Settled | None = None
    ) -> None:
        self._ledger, self._knowledge, self._limits, self._guard = ledger, knowledge, limits, guard
        self._settled = settled
        self._catalogue = Catalog(ledger)
        self.summary = Summary()

    def run(self, root: SourceRoot) -> Iterator[Progress]:
        """Follow the path for one root."""
        self._knowledge.recover()
        found = self._look(root)
        yield from self._read(found.new | found.changed)
        self._clear(root, found.gone)
        yield from self._read(self._to_read_again())
        if self._knowledge.uncompacted:
            yield Progress("index", 0)
            self._knowledge.compact()
        fresh = set(self.summary.problems)
        known = (problem for problem in self._catalogue.problems(root.path) if problem not in fresh)
        self.summary.known_problems += known

    def let_go(self, root: SourceRoot) -> None:
        """Drop a root that is not there any more, with what stood only in it, unless that looks like a missing disk."""
        self._knowledge.recover()
        self._clear(root, self._catalogue.files(root.path))
        if not self._catalogue.files(root.path):
            with self._ledger.transaction():
                self._catalogue.drop_root(root.path)

    def _look(self, root: SourceRoot) -> scan.Look:
        if not self._is_covered(root):
            with self._ledger.transaction():
                self._catalogue.put_root(root)
            self._knowledge.update_collections()
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

    def _is_covered(self, root: SourceRoot) -> bool:
        """Return whether a root further out says the same of what is in this one, so that it need not be one itself."""
        roots = {os.fsencode(known.path): known for known in self._catalogue.roots()}
        nearest = next((roots[above] for above in scan.upwards(os.fsencode(root.path)) if above in roots), None)
        return nearest is not None and (nearest.collection, nearest.kind) == (root.collection, root.kind)

    def _read(self, files: Mapping[bytes, FileState]) -> Iterator[Progress]:
        if not files:
            return
        from engine.ingest.files import read  # the parsers, for which an unchanged folder must not wait

        for root, its in self._by_root(files).items():
            reader = partial(read, raw_kind=root.kind, limits=self._limits)
            for step in blocks(its, root.collection, reader, self._knowledge.is_indexed):
                if isinstance(step, int):
                    yield Progress("read", step, len(its))
                else:
                    yield from self._keep(step)

    def _by_root(self, files: Mapping[bytes, FileState]) -> dict[SourceRoot, dict[bytes, FileState]]:
        """Part files by the nearest root above them, whose collection and kind are theirs."""
        roots = {os.fsencode(root.path).rstrip(b"/") or b"/": root for root in self._catalogue.roots()}
        parted: dict[SourceRoot, dict[bytes, FileState]] = {}
        for path, state in files.items():
            root = next(roots[above] for above in scan.upwards(path) if above in roots)
            parted.setdefault(root, {})[path] = state
        return parted

    def _keep(self, block: Block) -> Iterator[Progress]:
        self.summary.read += block.read
        self.summary.duplicates += block.read - len(block.documents)
        done = 0
        for count in keep(self._ledger, self._knowledge, block):
            done += count
            yield Progress("keep", done, len(block.documents))
        self.summary.kept += done
        self.summary.problems += [problem for file in block.files if file.whole for problem in file.problems]
        self._knowledge.update_collections()
        if self._knowledge.uncompacted >= _COMPACT_EVERY:
            self._knowledge.compact()

    def _clear(self, root: SourceRoot, gone: Iterable[bytes]) -> None:
        """Let go of what stands in no file any more, unless that looks like an unmounted disk."""
        vanished = list(gone)
        lost, every = self._catalogue.count_removed(root.path, vanished)
        if lost > self._guard.count and lost > every * self._guard.share and not self._guard.prune:
            self.summary.refused += lost
        else:
            self.summary.gone += len(vanished)
            with self._ledger.transaction():
                self._catalogue.drop(root.path, vanished)
            self._knowledge.update_collections()
        orphans = self._knowledge.orphans()
        for start in range(0, len(orphans), _REMOVED_AT_ONCE):
            self._remove(orphans[start : start + _REMOVED_AT_ONCE])

    def _remove(self, documents: list[str]) -> None:
        self._knowledge.commit((), lambda: None, removes=documents)
        self.summary.removed += len(documents)

    def _to_read_again(self) -> dict[bytes, FileState]:
        states = {path: scan.state_of(path) for path in self._catalogue.changed()}
        return {path: state for path, state in states.items() if state}


_MARKS = re.compile(r"^[> ]+", re.MULTILINE)
_ATTRIBUTION = 5  # lines
_REPEATED = ("quote", "forward", "signature")


@dataclass(frozen=True, slots=True)
class PassageSplit:
    """The passages of a document to search, the digests that it has from now on, and those it shares with others."""

    passages: tuple[DocumentPassage, ...]
    owned: tuple[bytes, ...]
    quoted: tuple[bytes, ...]


def passage_digests(document: Document) -> list[bytes]:
    """Return a digest for each passage; quote marks, who is quoted, white space and case do not count."""
    return [_digest(passage) for passage in document.passages]


def bodies(document: Document, digests: Sequence[bytes]) -> list[bytes]:
    """Return the digests of what a mail says itself."""
    pairs = zip(document.passages, digests, strict=True)
    return [digest for passage, digest in pairs if passage.role not in _REPEATED]


def split_passages(document: Document, digests: Sequence[bytes], owners: Mapping[bytes, str]) -> PassageSplit:
    """Keep what the document says itself, and of the rest what no other document has."""
    kept, owned, quoted = [], [], []
    for passage, digest in zip(document.passages, digests, strict=True):
        if passage.role in _REPEATED and owners.get(digest, document.id) != document.id:
            quoted.append(digest)
        else:
            kept.append(passage)
            owned.append(digest)
    return PassageSplit(tuple(kept), tuple(owned), tuple(quoted))


def _digest(passage: DocumentPassage) -> bytes:
    text = passage.text if passage.role == "body" else _unattributed(passage.text)
    bare = " ".join(_MARKS.sub("", text).casefold().split())
    return blake2b(bare.encode("utf-8", "replace"), digest_size=8).digest()


def _unattributed(text: str) -> str:
    """Return what is quoted without the "On Friday Ann wrote:" right above it."""
    lines = text.split("\n", _ATTRIBUTION + 1)
    marked = next((at for at, line in enumerate(lines) if line.lstrip(" ").startswith(">")), 0)
    if marked and attribution_lines(lines, marked - 1) == marked:
        return "\n".join(lines[marked:])
    return text


_COMMIT = 500  # documents: a kill repeats at most these
_UNDATED = datetime.min.replace(tzinfo=UTC)


def keep(ledger: Ledger, knowledge: Knowledge, block: Block) -> Iterator[int]:
    """Commit a block, yielding the number of documents after each commit; its files are done with the last one."""
    catalogue, standing = Catalog(ledger), _standing(block)
    # Oldest first: the message that was quoted comes before the one that quotes it, and replies find their threads.
    ordered = sorted(block.documents.values(), key=lambda d: (d.date or _UNDATED, d.id))
    for start in range(0, max(len(ordered), 1), _COMMIT):
        batch = ordered[start : start + _COMMIT]
        collections = {d.id: _collections(catalogue, d.id, standing[d.id]) for d in batch}
        entries = _entries(ledger, batch, collections)
        last = start + _COMMIT >= len(ordered)
        record = partial(_finish, catalogue, block) if last else partial(_record, catalogue, batch, standing)
        knowledge.commit(entries, record)
        yield len(batch)


def _standing(block: Block) -> dict[str, list[Place]]:
    """Return the places of each document that are not in the catalogue yet."""
    found: dict[str, list[Place]] = {}
    for file in block.files:
        for place in file.places[file.kept :]:
            found.setdefault(place.document, []).append(place)
    return found


def _collections(catalogue: Catalog, document: str, places: Sequence[Place]) -> tuple[str, ...]:
    return tuple(sorted({*catalogue.collections(document), *(place.collection for place in places)}))


def _entries(
    ledger: Ledger, batch: Sequence[Document], collections: dict[str, tuple[str, ...]]
) -> list[IndexedDocument]:
    digests = {document.id: passage_digests(document) for document in batch}
    owners = dict(documents.owners(ledger, (digest for several in digests.values() for digest in several)))
    for document in batch:
        for digest in bodies(document, digests[document.id]):
            owners.setdefault(digest, document.id)
    return [_entry(document, digests[document.id], owners, collections[document.id]) for document in batch]


def _entry(
    document: Document, digests: Sequence[bytes], owners: MutableMapping[bytes, str], collections: tuple[str, ...]
) -> IndexedDocument:
    """Make the entry of a document; `owners` learns what is searched in it."""
    split = split_passages(document, digests, owners)
    for digest in split.owned:
        owners.setdefault(digest, document.id)
    chunks = tuple(chunk(document, split.passages))
    tokens = tuple(" ".join(searched(piece, document.sender, document.recipients, document.date)) for piece in chunks)
    return IndexedDocument(document, chunks, tokens, collections, split.owned, split.quoted)


def _record(catalogue: Catalog, batch: Sequence[Document], standing: dict[str, list[Place]]) -> None:
    by_file: dict[str, list[Place]] = {}
    for document in batch:
        for place in standing[document.id]:
            by_file.setdefault(place.path, []).append(place)
    for path, places in by_file.items():
        catalogue.put_places(path, places)


def _finish(catalogue: Catalog, block: Block) -> None:
    for file in block.files:
        if file.whole:
            catalogue.put_file(file.path, file.state, file.places, file.problems)
        else:
            catalogue.put_places(file.path, file.places[file.kept :])
            file.kept = len(file.places)
