"""The ingest pipeline: folder -> documents -> chunks -> store, for new and changed files only.

    scan      which files are new, changed or gone
    parse     the new and changed files, a batch at a time
    commit    documents and chunks, in place of the versions that they replace; keyword search finds them from here on
    remove    documents that are gone, unless the guard refuses; files that quote what was removed are parsed again

Embedding comes afterwards (chunking.py). Knows no format, no table and no terminal.
"""

import os
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from shutil import which
from typing import TypeVar

from msgspec import Struct

from engine.ingest import scan
from engine.ingest.chunking import chunks_of, prepare, read_ahead
from engine.ingest.quotes import split_passages
from engine.ingest.scan import Replacement, ignorable, replacements
from engine.ingest.types import PARSER_VERSION, Bug, Files, ParseLimits, Read, as_seen, isolate
from store import documents as documents_store
from store.catalog import BUG, Catalog, Problem, Provenance, SourceRoot, provenance_of, prune_provenance
from store.database import Ledger
from store.documents import Knowledge
from store.erasure import Tombstones
from store.types import Document, FileState, IndexedDocument, ParsedItem, Place, PreparedDocument, replace

_BATCH_DOCUMENTS, _BATCH_CHARS = 20_000, 64_000_000
_PROGRESS_EVERY = 20  # files
T = TypeVar("T")


class FileRead(Struct):
    """A file and what was parsed from it so far; the first `recorded` places are in the catalog already. Mutable."""

    path: str
    state: FileState
    places: list[Place] = []
    problems: list[Problem] = []
    complete: bool = False
    recorded: int = 0
    former: list[Place] | None = None  # the places that the catalog had before
    anew: bool = False  # the file is the same, and read again by other rules


class ParsedBatch(Struct):
    """Parsed documents, each once, and the files they came from; a file is complete in its last batch. Mutable."""

    documents: dict[str, Document] = {}
    prepared: dict[str, PreparedDocument] = {}  # what was computed of some of them where they were read
    files: list[FileRead] = []
    chars: int = 0


# Committing a batch: documents with their chunks, then the files they came from.

_COMMIT = 2_000  # documents per commit: a killed run repeats at most these
_UNDATED = datetime.min.replace(tzinfo=UTC)


def _commit_batch(ledger: Ledger, knowledge: Knowledge, batch: ParsedBatch) -> Iterator[tuple[int, int]]:
    """Commit a batch, and the files with its last commit; yields how many documents each adds, and replaces."""
    catalogue = Catalog(ledger)
    waiting = [one for file in batch.files for one in _replaced(catalogue, file)]
    placed_now = defaultdict[str, set[str]](set)  # documents with a place that is not in the catalog yet: collections
    for place in (place for file in batch.files for place in file.places[file.recorded :]):
        placed_now[place.document].add(place.collection)
    # Oldest first: a quoted message precedes those that quote it, and replies find their threads.
    ordered = sorted(batch.documents.values(), key=lambda d: (d.date or _UNDATED, d.id))
    for start in range(0, max(len(ordered), 1), _COMMIT):
        documents, last = ordered[start : start + _COMMIT], start + _COMMIT >= len(ordered)
        added = {document.id for document in documents}
        due = [one for one in waiting if last or (one[1] in added and one[0].document not in placed_now)]
        waiting = [one for one in waiting if one not in due]
        former = [place for place, _ in due]
        gone = {(place.path, place.document) for place in former}
        placed = {d: catalogue.places(d) for d in sorted({place.document for place in former} - placed_now.keys())}
        removes = [d for d, found in placed.items() if found and all((place.path, d) in gone for place in found)]
        collections = {d.id: {*catalogue.collections(d.id), *placed_now[d.id]} for d in documents}
        entries, failed = _entries(ledger, documents, batch, collections, removes)
        if failed:
            for file in batch.files:  # which say so; one indexed before stays as it was
                new = [(one, failed.get(one.document)) for one in file.places[file.recorded :]]
                file.problems += [Problem(file.path, one.item, why) for one, why in new if why]
                file.places[file.recorded :] = [one for one, why in new if not why or catalogue.places(one.document)]
            documents = [one for one in documents if one.id not in failed]
        knowledge.commit(entries, partial(_record, catalogue, former, batch, None if last else added), removes)
        yield len(documents), len(removes)


def _replaced(catalogue: Catalog, file: FileRead) -> list[Replacement]:
    if file.former is None:
        before, file.former = catalogue.state(file.path), catalogue.former_places(file.path)
        now = file.state  # as before, and read again only because it was marked, by an mtime below 0
        file.anew = bool(before and before.mtime_ns < 0 and (before.size, before.inode) == (now.size, now.inode))
    if file.anew and file.complete:
        # In an unchanged file, what an earlier version read and this one fails on stays.
        bugs = {problem.item for problem in file.problems if problem.reason.startswith(BUG)}
        read = {place.item for place in file.places} | {problem.item for problem in file.problems} - bugs
        file.places += [place for place in file.former if bugs and place.item >= 0 and place.item not in read]
    return replacements(file.former, file.places, complete=file.complete, anew=file.anew)


def _record(catalogue: Catalog, former: Sequence[Place], batch: ParsedBatch, added: Collection[str] | None) -> None:
    """Record the places of documents that a commit `added`; after the last one of its batch (None), all its files."""
    catalogue.replace(former)
    for file in batch.files:
        new = [place for place in file.places[file.recorded :] if added is None or place.document in added]
        if added is None and file.complete:
            catalogue.put_file(file.path, file.state, file.places, file.problems)
        elif new:
            catalogue.put_places(file.path, new)
        file.recorded = len(file.places) if added is None else file.recorded


def _entries(
    ledger: Ledger, documents: list[Document], batch: ParsedBatch, collections: dict[str, set[str]], removes: list[str]
) -> tuple[list[IndexedDocument], dict[str, str]]:
    """Return the index entries of documents, none of which counts on one that failed, and the bugs of those."""
    failed = dict[str, str]()
    ready = _each(documents, lambda one: batch.prepared.pop(one.id, None) or prepare(one), failed)
    first, now = provenance_of(ledger, list(ready)), datetime.now(UTC)
    known = documents_store.owners(ledger, (digest for one in ready.values() for digest in one.digests))
    while True:
        left = [document for document in documents if document.id not in failed]
        owners = {digest: document for digest, document in known.items() if document not in removes}
        for document in left:  # what it wrote itself, be it quoted before
            for passage, digest in zip(document.passages, ready[document.id].digests, strict=True):
                if not passage.is_repeated:
                    owners.setdefault(digest, document.id)

        def entry(read: Document, owners: dict[bytes, str] = owners) -> IndexedDocument:  # adds its digests to `owners`
            one, seen = as_seen(read, first[read.id].seen if read.id in first else None, now)
            made = ready[one.id] if one == read else prepare(one)
            passages, owned, quoted = split_passages(one, made.digests, owners)
            for digest in owned:
                owners.setdefault(digest, one.id)
            is_own = not any(passage.is_repeated for passage in passages)
            chunks, tokens = made.own if made.own and is_own else chunks_of(one, passages)
            known = Provenance(seen.astimezone(UTC), one.warnings, made.people)
            places = tuple(sorted(collections[one.id]))
            return IndexedDocument(one, chunks, tokens, places, tuple(owned), tuple(quoted), made.names, known)

        entries = _each(left, entry, failed)
        if len(entries) == len(left):
            return list(entries.values()), failed


def _each(documents: Sequence[Document], work: Callable[[Document], T], failed: dict[str, str]) -> dict[str, T]:
    """Return the results of work on documents, by id; a bug fails its document alone."""
    done = dict[str, T]()
    for document in documents:
        try:
            done[document.id] = isolate(partial(work, document))
        except Bug as bug:
            failed[document.id] = str(bug)
    return done


# The run over one root: scan, parse, commit, remove.

_REMOVED_AT_ONCE = 500
Progress = tuple[str, int, int | None]  # a step's name, how far it is, and how far it goes, if known
ReadAll = Callable[[Files, ParseLimits], Generator[Read, None, None]]
Settled = Callable[[bytes, FileState], bool]  # whether a file is no longer being written


class Guard(Struct, frozen=True):
    """Limits on removal: a run in which more than both the share and the count are gone suggests an unmounted disk.

    A document of which a file now holds a new version is not gone.
    """

    share: float
    count: int
    prune: bool = False


class Summary(Struct):
    """The result of a run: files seen, new, changed and gone; documents read, added, duplicate and removed."""

    files: int = 0
    new: int = 0
    changed: int = 0
    gone: int = 0
    read: int = 0
    kept: int = 0
    duplicates: int = 0
    removed: int = 0  # with those that new versions replaced
    refused: int = 0  # documents that were not removed because of the guard
    waiting: int = 0  # files that are still being written
    forgotten: int = 0  # documents that `pkb forget` keeps out
    attachments: int = 0  # attached files whose text was read
    problems: list[Problem] = []  # of this run
    known_problems: list[Problem] = []  # of files that have not changed since
    noted: list[Problem] = []  # items of this run that look misread, or were left out for their state


class Ingest:
    """Brings the store up to date, root by root; the caller holds the writer lock."""

    def __init__(
        self,
        ledger: Ledger,
        knowledge: Knowledge,
        limits: ParseLimits,
        guard: Guard,
        settled: Settled | None = None,  # with it, files that are still being written are left for the next run
        *,
        restore: bool = False,  # index forgotten documents again
        aside: Sequence[Path] = (),  # folders of pkb itself, which are left out of those around them
        read_all: ReadAll = read_ahead,  # in processes of this machine
    ) -> None:
        self._ledger, self._knowledge, self._limits, self._guard = ledger, knowledge, limits, guard
        self._settled, self._restore, self._aside, self._read_all = settled, restore, aside, read_all
        self._catalogue, self._tombstones = Catalog(ledger), Tombstones(ledger)
        self._began = 0  # the last scan, in nanoseconds since the epoch
        self._files = 0  # to read, in the roots so far
        self.summary = Summary()

    def run(self, root: SourceRoot) -> Iterator[Progress]:
        """Run all steps for one root."""
        self._knowledge.recover()
        rules = [str(PARSER_VERSION), *sorted(self._limits.leave_out), *["attachments"] * self._limits.attachments]
        rules += [self._limits.ocr, str(which("tesseract"))] if self._limits.ocr else []
        documents_store.read_anew(self._ledger, " ".join(rules), version("pkb"))
        yield "scan", 0, None
        found = self._scan(root)
        yield from self._parse(found.new | found.changed)
        self._remove_gone(root, found.gone)
        again = {path: scan.state_of(path) for path in self._catalogue.changed()}
        yield from self._parse({path: state for path, state in again.items() if state})
        prune_provenance(self._ledger)
        fresh = set(self.summary.problems)
        known = (one for one in self._catalogue.problems(root.path) if one.reason and one not in fresh)
        self.summary.known_problems += known

    def drop_root(self, root: SourceRoot) -> None:
        """Remove a missing root and the documents found only in it, unless the guard refuses."""
        self._knowledge.recover()
        self._remove_gone(root, self._catalogue.files(root.path))
        if not self._catalogue.files(root.path):
            with self._ledger.transaction():
                self._catalogue.drop_root(root.path)

    def _scan(self, root: SourceRoot) -> scan.Changes:
        # One whose enclosing root has the same collection and kind need not be recorded.
        roots = {os.fsencode(known.path): known for known in self._catalogue.roots()}
        nearest = next((roots[above] for above in scan.ancestors(os.fsencode(root.path)) if above in roots), None)
        if nearest is None or (nearest.collection, nearest.kind) != (root.collection, root.kind):
            with self._ledger.transaction():
                self._catalogue.put_root(root)
        if self._restore:
            with self._ledger.transaction():
                self._catalogue.mark_below_changed(root.path)
        self._began = time.time_ns()
        ours = [one for one in self._aside if one != Path(root.path) and one.is_relative_to(root.path)]
        inner = [one for one in map(Path, map(os.fsdecode, roots)) if any(map(one.is_relative_to, ours))]  # of accounts

        def is_ignored(path: Path) -> bool:
            if not any(map(path.is_relative_to, ours)):
                return ignorable(path)
            return ignorable(path) or not any(path.is_relative_to(one) or one.is_relative_to(path) for one in inner)

        found = scan.find_changes(os.fsencode(root.path), self._catalogue.files(root.path), is_ignored)
        if self._settled:  # a new file may be a removed one renamed: while one is written, nothing is removed
            unsettled = [path for path, state in (found.new | found.changed).items() if not self._settled(path, state)]
            for path in unsettled:
                found.new.pop(path, None)
                found.changed.pop(path, None)
            if unsettled:
                found.gone.clear()
            self.summary.waiting += len(unsettled)
        with self._ledger.transaction() if found.same else nullcontext():
            for path, state in found.same.items():
                self._catalogue.put_state(path, scan.as_recorded(path, state, self._began))
        self.summary.files += found.seen
        self.summary.new += len(found.new)
        self.summary.changed += len(found.changed)
        self.summary.problems += [Problem(os.fsdecode(f), 0, why) for f, why in found.unreadable.items()]
        return found

    def _parse(self, files: Mapping[bytes, FileState]) -> Iterator[Progress]:
        if not files:
            return
        # The nearest enclosing root sets the collection and kind of a file.
        roots = {os.fsencode(root.path).rstrip(b"/") or b"/": root for root in self._catalogue.roots()}
        grouped = dict[SourceRoot, dict[bytes, FileState]]()
        for path, state in files.items():
            root = next(roots[above] for above in scan.ancestors(path) if above in roots)
            grouped.setdefault(root, {})[path] = state
        for root, own in grouped.items():
            before, self._files, batch = self._files, self._files + len(own), ParsedBatch()
            wanted = sorted(own.items())
            starts = enumerate(wanted)
            limits = replace(self._limits, kind=root.kind, root=root.path)
            with closing(self._read_all(wanted, limits)) as found:
                for one in found:
                    if isinstance(one, FileState):  # of the next file
                        number, (path, _) = next(starts)
                        if number % _PROGRESS_EVERY == 0:
                            yield "read", before + number, self._files
                        if batch.files:
                            batch.files[-1].complete = True
                        batch.files.append(FileRead(os.fsdecode(path), one))
                        continue
                    self._add(batch, one, root.collection)
                    if len(batch.documents) >= _BATCH_DOCUMENTS or batch.chars >= _BATCH_CHARS:
                        yield from self._commit(batch)
                        batch = ParsedBatch(files=batch.files[-1:])
            assert next(starts, None) is None, "a file was not read"
            batch.files[-1].complete = True
            yield from self._commit(batch)
            yield "read", self._files, self._files

    def _add(self, batch: ParsedBatch, item: ParsedItem, collection: str) -> None:
        """Add an item of the last file of a batch; a document that was forgotten is left out, or restored."""
        file, document, tombstones = batch.files[-1], item.document, self._tombstones
        forgotten = tombstones.found(document, file.path) if document and len(tombstones) else None
        if forgotten and self._restore:
            tombstones.remove(forgotten)
        elif forgotten:
            self.summary.forgotten += 1
            item, document = replace(item, kinds=()), None
        if item.problem or item.kinds:
            file.problems.append(Problem(file.path, item.item, item.problem or "", item.kinds))
        if document is None:
            return
        file.places.append(Place(file.path, item.item, document.id, document.message_id, item.offset, collection))
        self.summary.read += 1
        if document.id in batch.documents or self._knowledge.is_indexed(document.id):  # then it only has a place more
            self.summary.duplicates += 1
        else:
            batch.documents[document.id] = document
            batch.chars += len(document.text)
            if item.prepared:
                batch.prepared[document.id] = item.prepared

    def _commit(self, batch: ParsedBatch) -> Iterator[Progress]:
        for one in batch.documents.values():
            self.summary.attachments += len({passage.file for passage in one.passages} - {""})
        for file in batch.files:
            if file.complete:
                file.state = scan.as_recorded(os.fsencode(file.path), file.state, self._began)
        done = 0
        for added, replaced in _commit_batch(self._ledger, self._knowledge, batch):
            done += added
            self.summary.removed += replaced
            yield "keep", self.summary.kept + done, None
        self.summary.kept += done
        found = [problem for file in batch.files if file.complete for problem in file.problems]
        self.summary.problems += [problem for problem in found if problem.reason]
        self.summary.noted += [problem for problem in found if problem.kinds]

    def _remove_gone(self, root: SourceRoot, gone: Iterable[bytes]) -> None:
        """Remove documents that are in no file any more, unless the guard refuses."""
        vanished = list(gone)
        lost, every = self._catalogue.count_removed(root.path, vanished)
        if lost > self._guard.count and lost > every * self._guard.share and not self._guard.prune:
            self.summary.refused += lost
        else:
            self.summary.gone += len(vanished)
            with self._ledger.transaction():
                self._catalogue.drop(root.path, vanished)
        orphans = self._knowledge.orphans()
        for start in range(0, len(orphans), _REMOVED_AT_ONCE):
            self._knowledge.commit((), lambda: None, removes=orphans[start : start + _REMOVED_AT_ONCE])
        self.summary.removed += len(orphans)
