"""The mapped index: the part of the tables that retrieval reads, as shards on disk that every process maps.

The ledger lists the shards of one generation and the documents in them that were replaced or removed, which are left
out of searches until a good part of a shard is theirs; shards are written first. It notes which documents changed, or
got vectors, in which generation: a later one is reached by reading those alone from LanceDB, which has the rows and
searches nothing.
"""

import secrets
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC
from itertools import chain
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
from msgspec import Struct, json
from msgspec.structs import replace
from numpy.typing import NDArray

from store import shards
from store.catalog import Catalog
from store.checksums import Checksum, TableFiles, checksum, is_intact
from store.database import CHANGED_SINCE, DOUBTFUL, HIDDEN, NO_VECTORS, Ledger
from store.errors import DamagedTable, Locked
from store.home import Home, Identity, identity
from store.locks import Lease
from store.shards import Arrays, Query, Shard
from store.types import Hit, Kind, Row, Scope, Totals, Vectors, among, quoted

if TYPE_CHECKING:
    from store.tables import Tables

_TRIES = 100  # to read what other processes write meanwhile
_PATIENCE_S = 30.0  # for another process that writes the files
_LIST = "index"  # the small value of the ledger that lists the shards; where an earlier pkb wrote another, none
_REMEMBERED = 1_000  # generations for which a reader's home can learn what changed
_NEVER = 1 << 40  # a day after all others
_LOOSE = 64  # shards in memory alone, above which what they hold is read again as one
_NEAR = 4_096  # vectors: of 57,000 of mail and minutes, these hold 99.8 % of the nearest 50
_KEPT = 4_096  # chunks, 12 MB of them, and words that are kept for other questions


class IndexLimits(Struct, frozen=True):
    """Numbers of chunks, and of shards.

    Shards are made with up to `shard`; an update joins those with fewer than `small`, and full ones to up to `large`,
    since each costs a question .1 ms, or to a `share` of all up to `largest`, which take .6 GB to join. Once so many as
    a shard has are not in the files, an ingest brings these up to date. A shard is written again once a `worn` part of
    it is dead.
    """

    shard: int = 5_000
    large: int = 20_000
    share: float = 0.05
    largest: int = 50_000
    small: int = 2_048
    worn: float = 0.2

    def part(self, chunks: int, least: int) -> int:
        """Return the share of so many chunks, between so many and the largest."""
        return max(least, min(self.largest, int(self.share * chunks)))


_USUAL = IndexLimits()
_Opened = list[tuple["StoredShard | None", Shard]]  # None for one in memory alone


class IndexState(Struct, frozen=True):
    """What the ledger says: its generation, and the table of vectors."""

    generation: int
    vectors: str


class StoredShard(Struct, frozen=True):
    """A file of the index as it was written: its name, its checksum, and its dead documents."""

    name: str
    file: Checksum
    dead: tuple[int, ...]


class ShardList(Struct, frozen=True):
    """The shards of one generation."""

    state: IndexState
    files: tuple[StoredShard, ...]
    format: int = shards.FORMAT

    def fits(self, vectors: str) -> bool:
        """Return whether the shards have vectors of no other table than this one."""
        return self.state.vectors in (NO_VECTORS, vectors)


@dataclass(frozen=True, slots=True)
class IndexView:
    """The shards as they stand in one generation."""

    shards: Sequence[Shard]
    _hits: dict[tuple[int, int], Hit] = field(default_factory=dict, repr=False, compare=False)  # some, by their places
    _counted: dict[str, int] = field(default_factory=dict, repr=False, compare=False)  # chunks with some words
    _people: dict[str, bytes] = field(default_factory=dict, repr=False, compare=False)  # a line each, by their role

    def view(self) -> "IndexView":
        """Return itself: whatever is committed later, it stays."""
        return self

    def by_words(self, query: Query, scope: Scope, limit: int) -> list[Hit]:
        """Return the chunks within the scope with the best BM25 scores above 0, best first."""
        if not query.weights or not self.shards:
            return []
        found, top = list[shards.Found](), np.zeros(limit)
        for one in self.shards:
            found.append(one.score_words(query, one.within(scope), float(top[0])))
            top = np.partition(np.concatenate([top, found[-1][1]]), -limit)[-limit:]  # below its first, none is wanted
        return [self.hit(shard, chunk) for shard, chunk in shards.best(self.shards, found, limit)]

    def by_vector(self, vector: Vectors, scope: Scope, limit: int) -> list[Hit]:
        """Return the embedded chunks within the scope with the best cosines, best first.

        Of more than `_NEAR`, the cosines of those alone are computed that differ from the vector in the fewest signs.
        """
        places = [place for place, one in enumerate(self.shards) if one.arrays["vectors"].shape[1] == len(vector)]
        used = [self.shards[place] for place in places]
        if not used:
            return []
        inside = [one.within(scope) & one.arrays["embedded"] for one in used]
        found = shards.nearest(used, vector, inside, _NEAR)
        return [self.hit(places[at], chunk) for at, chunk in shards.best(used, found, limit)]

    def hit(self, shard: int, chunk: int) -> Hit:
        """Return a chunk as it was read for an earlier question, or read it."""
        found = self._hits.get((shard, chunk))
        if found is None:
            if len(self._hits) >= _KEPT:
                self._hits.clear()
            found = self._hits[shard, chunk] = self.shards[shard].hit(chunk)
        return found

    def chunks(self, ids: Collection[str]) -> list[Hit]:
        """Return those of the chunks that are stored, in no order and without vectors."""
        return [hit for one in self.shards for hit in _all(one, one.live & one.holding("id", ids))]

    def chunks_of(self, documents: Collection[str], scope: Scope) -> list[Hit]:
        """Return all chunks of these documents within the scope, in no order and without vectors."""
        held = ((one, one.holding("document", documents)) for one in self.shards)
        return [hit for one, own in held if own.any() for hit in _all(one, own & one.within(scope))]

    def documents(self, scope: Scope, words: Sequence[str], kind: Kind | None, meetings: tuple[str, ...]) -> "Matches":
        """Return the documents within a scope, of a kind, with all these words, but for those without any chunk."""
        return Matches(self, [one.documents(scope, words, kind, meetings) for one in self.shards])

    def having(self, words: Sequence[str], scope: Scope, limit: int) -> list[Hit]:
        """Return the newest chunks within a scope that have all these words, newest first."""
        return Matches(self, [one.having(words, scope) for one in self.shards]).by_date(limit)

    def is_in_names(self, part: str) -> bool:
        """Return whether any name or address contains a folded text."""
        sought = part.encode("utf-8", "replace")
        return any(sought in self._everybody(name) for name in ("sender", "recipients"))

    def known(self, wanted: str, scope: Scope, *roles: Literal["sender", "recipients"]) -> set[str]:
        """Return the people, folded, within a scope whom one with these words would fit, in some roles or in any."""
        names = roles or ("sender", "recipients")
        if scope == Scope():
            return {one for name in names for _, one in shards.people_named(self._everybody(name), wanted)}
        return set[str]().union(*(one.known(name, wanted, scope) for one in self.shards for name in names))

    def _everybody(self, name: str) -> bytes:
        """Return the people in a role, each once, a line each: most shards name the same ones."""
        if name not in self._people:
            every = set[bytes]().union(*(one.people(name) for one in self.shards))
            self._people[name] = b"".join([b"%b\n" % one for one in every])
        return self._people[name]

    def frequencies(self, words: Sequence[str]) -> Mapping[str, int]:
        """Count the chunks that have each word; unknown words are left out."""
        found = Counter({word: known for word in words if (known := self._counted.get(word)) is not None})
        if fresh := [word for word in words if word not in found]:
            found.update(dict.fromkeys(fresh, 0))
            for one in self.shards:
                found.update(one.frequencies(fresh))
            if len(self._counted) >= _KEPT:
                self._counted.clear()
            self._counted.update(found)
        return +found  # without zeros

    @property
    def totals(self) -> Totals:
        """Count all that there is."""
        count, words = self.count, sum(one.words for one in self.shards)
        return Totals(count, words / count if count else 0.0, sum(one.embedded for one in self.shards))

    @property
    def count(self) -> int:
        """Count the chunks."""
        return sum(one.count for one in self.shards)


@dataclass(frozen=True, slots=True)
class Matches:
    """Some documents of the index: the first chunks of them, by shard."""

    view: IndexView
    chunks: Sequence[NDArray[np.int64]]

    def __len__(self) -> int:
        return sum(map(len, self.chunks))

    def among(self, ids: Collection[str]) -> "Matches":
        """Return those of the documents with these ids."""
        pairs = zip(self.view.shards, self.chunks, strict=True)
        return Matches(self.view, [chunks[one.holding("document", ids)[chunks]] for one, chunks in pairs])

    def senders(self) -> Counter[str]:
        """Count the documents of each sender, folded."""
        found = Counter[str]()
        for one, chunks in zip(self.view.shards, self.chunks, strict=True):
            found.update(one.senders(chunks))  # a sum would copy all of them for each shard
        return found

    def by_date(self, limit: int, *, oldest: bool = False) -> list[Hit]:
        """Return the first chunks of the newest documents, or of the oldest, in that order; undated ones come last."""
        sign, pairs = 1 if oldest else -1, zip(self.view.shards, self.chunks, strict=True)
        days = [sign * one.arrays["day"][chunks].astype(np.int64) for one, chunks in pairs]
        days = [np.where(sign * each < 0, _NEVER, each) for each in days]
        every = np.concatenate([*days, np.zeros(0, np.int64)])
        # The days are local: two moments may come in the other order, up to two days apart.
        last = np.partition(every, limit - 1)[limit - 1] + 2 if limit < len(every) else _NEVER
        near = [self.view.hit(n, int(c)) for n, own in enumerate(self.chunks) for c in own[days[n] <= last]]
        times = [(one.date is None, sign * one.date.timestamp() if one.date else 0, one.chunk.document) for one in near]
        return [one for _, one in sorted(zip(times, near, strict=True), key=lambda pair: pair[0])][:limit]


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _all(shard: Shard, wanted: NDArray[np.bool_]) -> list[Hit]:
    return [shard.hit(chunk, with_vector=False) for chunk in np.flatnonzero(wanted).tolist()]


class MappedIndex:
    """The mapped index of one home, as one process sees it."""

    def __init__(
        self, home: Home, ledger: Ledger, open_tables: "Callable[[], Tables]", limits: IndexLimits = _USUAL
    ) -> None:
        self._limits = limits
        self._folder, self._lock = home.index, Lease(home.locks / "index")
        self._table_files, self._is_part = TableFiles(ledger, home.tables), home.source is not None
        self._ledger, self._open_tables = ledger, open_tables
        self._state: IndexState | None = None
        self._mapped = dict[tuple[str, Identity | None], Shard]()  # of the files
        self._published = 0  # chunks since the last update
        self._view, self._base = IndexView(()), cast("ShardList | None", None)
        self._files = tuple[StoredShard | None, ...]()  # of each shard of the view; None for one in memory alone

    def view(self) -> IndexView:
        """Return the index with all that was committed before; DamagedTable where that cannot be read."""
        for _ in range(_TRIES):
            state = self._read_state()
            if state == self._state and self._is_there():
                return self._view
            is_whole, is_last = self._renew(state), self._read_state() == state
            if is_whole and is_last:
                self._save()
            if is_whole or is_last:  # what was committed after this call has time until the next one
                return self._view
        raise Locked("another pkb is writing the index all the time", "try again when it is done")

    def update(self, *, erase: bool = False) -> None:
        """Bring the files up to date; with `erase`, nothing of removed documents stays in them. Needs the writer lock.

        Damaged tables are left to whoever reads them next.
        """
        worn = 0.0 if erase else self._limits.worn
        with self._locked(_PATIENCE_S):
            state = self._read_state()
            try:
                if not self._renew(state, stores=True):
                    self._ledger.set(DOUBTFUL, "1")
                    raise DamagedTable("chunks")
                is_saved = self._base == ShardList(state, cast("tuple[StoredShard, ...]", self._files))
                joins = any(len(some) > 1 for some in _groups(self._view.shards, self._limits))
                if not is_saved or joins or any(one.worn > worn for one in self._view.shards):
                    self._write(worn)
                else:
                    self._remove_others()
                self._published = 0
            except DamagedTable:
                self.clear()
            except OSError:  # the disk is full: a question reads what the files lack
                self.clear() if erase or not any(self._files) else self._remove_others()

    def clear(self) -> None:
        """Remove the files, and their list unless the disk is full."""
        self._state, self._view, self._files = None, IndexView(()), ()
        for path in self._folder.glob("*"):
            _remove(path)
        with suppress(sqlite3.Error):
            self._ledger.set(_LIST, "")

    def damaged(self, *, reads: bool = False) -> list[str]:
        """Return the files that are missing or not as they were written; none where there is no list."""
        known = self._read_list()
        files = known.files if known else ()
        return [one.name for one in files if not is_intact(self._folder / one.name, one.file, reads=reads)]

    def frequencies(self, words: Sequence[str]) -> Mapping[str, int]:
        """Count the chunks that have each word; none where the tables cannot be read as the ledger lists them."""
        with suppress(DamagedTable):
            return self.view().frequencies(words)
        return {}

    def is_behind(self) -> bool:
        """Return whether so much has changed, or was published, that a question takes longer for it."""
        changed = sum(self._plan(self._read_state(), self._read_list())[1].values())
        return changed >= self._limits.shard or self._published >= self._limits.large

    @contextmanager
    def publishing(self, rows: Sequence[Row]) -> Iterator[Callable[[], None] | None]:
        """Write the chunks of documents that are new; the block calls what it is given at the end of its commit.

        That lists them, so that no question reads them from the tables. It is None where another process writes the
        files, or the disk is full: then whoever reads next reads them.
        """
        with ExitStack() as held:
            publish: Callable[[], None] | None = None
            with suppress(Locked, OSError):
                held.enter_context(self._locked(0.0))
                publish = self._publication(rows)
            try:
                yield publish
            except Exception:
                if self._lock.held:
                    self._remove_others()  # what was not listed, as on a full disk
                raise

    def _publication(self, rows: Sequence[Row]) -> Callable[[], None] | None:
        base = self._read_list() or (None if self._ledger.count("chunks") else ShardList(self._read_state(), ()))
        if not rows or base is None or not base.fits(self._ledger.vectors):
            return None
        changed, own = self._changed(base), dict[str, list[Row]]()
        for row in (one for one in rows if one["document"] not in changed):
            own.setdefault(row["document"], []).append(row | {"date": row["date"] and row["date"].astimezone(UTC)})
        parts, every = shards.slices([*map(len, own.values())], self._limits.shard), [*own.values()]
        arrays = (shards.arrays_of([*chain(*every[part.start : part.stop])], {}) for part in parts)
        files = (*base.files, *(self._put(Shard(one))[1] for one in arrays))
        self._published += sum(map(len, every))
        hides = base.state == self._read_state()  # else what is hidden may have changed otherwise, too

        def publish() -> None:
            """List what was written; what else changed is to be read, but for vectors that are hidden."""
            catalog, state = Catalog(self._ledger), self._read_state()
            known = {name for name, some in own.items() if catalog.collections(name) == some[0]["collections"]}
            changed = {name: mark for name, mark in self._changed(base).items() if name not in known}
            later = [name for name, mark in changed.items() if mark < HIDDEN or not hides]
            marks = [(state.generation, one) for one in later]
            self._ledger.rows.executemany("UPDATE changed_documents SET generation = ? WHERE document = ?", marks)
            self._ledger.set(_LIST, json.encode(ShardList(state, files)).decode())
            if later:
                self._ledger.raise_generation()  # what is listed is not all there is at that one

        return publish

    def _changed(self, since: ShardList) -> dict[str, int]:
        """Return the documents that changed since a list was written, and in which generation."""
        sql = "SELECT document, generation FROM changed_documents WHERE generation >= ?"
        return dict(self._ledger.rows.execute(sql, (since.state.generation,)).fetchall())

    def _read_state(self) -> IndexState:
        return IndexState(self._ledger.generation, self._ledger.vectors)

    def _is_there(self) -> bool:
        """Return whether the mapped files are unchanged: reading beyond a truncated file would kill the process."""
        folder = str(self._folder)  # joining paths takes ten times as long as looking at a file
        return all(one is None or identity(f"{folder}/{one.name}") == one.file.file for one in self._files)

    def _renew(self, state: IndexState, *, stores: bool = False) -> bool:
        """Open the shards as the ledger stands; returns whether the tables have what it counts. DamagedTable.

        With `stores`, full shards are written as they are made, so that one at a time is in memory.
        """
        base, loose = self._read_list(), self._files.count(None)
        if self._state and not stores and base and base == self._base and loose < _LOOSE and self._is_there():
            known, reads = self._plan(state, ShardList(self._state, ()))  # what has changed since the last question
            opened: _Opened | None = [*zip(self._files, self._view.shards, strict=True)] if known else []
        else:
            known, reads = (base, {}) if base and base.state == state and not stores else self._plan(state, base)
            opened = self._open(known)
        if self._read_list() != base:
            return self._renew(self._read_state(), stores=stores)  # another process has just written
        if opened is None:
            (known, reads), opened = self._plan(state, None), []
        there = self._table_files.latest("chunks") is not None
        if self._table_files.damaged("chunks") if there else self._ledger.count("chunks"):
            raise DamagedTable("chunks")
        dead = [shards.digest(name) for name in (reads if opened else ())]
        built = self._built(reads, state, every=known is None)
        fresh = [self._kept(Shard(arrays), stores=stores) for arrays in built]
        is_whole = sum(one.size for one, _ in fresh) == sum(reads.values())  # else damaged, or being written
        every = [*((one.without(dead), file) for file, one in opened), *fresh]
        every = [(one, file) for one, file in every if file or one.count]
        self._state = None  # until all is of one moment, whatever interrupts
        self._base, self._view = base, IndexView([one for one, _ in every])
        self._files = tuple(file and replace(file, dead=one.dead) for one, file in every)
        self._state = state if is_whole else None  # to be read again
        return is_whole

    def _kept(self, shard: Shard, *, stores: bool) -> "tuple[Shard, StoredShard | None]":
        """Return a shard as it is in a file, unless it is small, the disk is full, or it `stores` none."""
        if stores and shard.size >= self._limits.small:
            with suppress(OSError):
                return self._put(shard)
        return shard, None

    def _plan(self, state: IndexState, known: ShardList | None) -> tuple[ShardList | None, dict[str, int]]:
        """Return the list to start from, and how many chunks to read of each document that has changed since.

        Where all has changed there is no list, and all are read, in order of their ids.
        """
        if known and known.fits(state.vectors):
            sql = """SELECT document, chunks FROM changed_documents LEFT JOIN documents ON id = document
                     WHERE changed_documents.generation >= ? ORDER BY +document"""  # +: else all of the table is read
            rows = self._ledger.rows.execute(sql, (known.state.generation,)).fetchall()
            reads = {name: chunks or 0 for name, chunks in rows}
            if sum(reads.values()) < self._ledger.count("chunks"):
                return known, reads
        return None, dict(self._ledger.rows.execute("SELECT id, chunks FROM documents ORDER BY id").fetchall())

    def _open(self, known: ShardList | None) -> "_Opened | None":
        """Map the files of a list; None where one of them is damaged."""
        before, self._mapped = self._mapped, {}
        opened: _Opened = []
        for one in known.files if known else ():
            found = identity(self._folder / one.name)
            shard = before.get((one.name, found))
            if shard is None and is_intact(self._folder / one.name, one.file):
                arrays = shards.load(self._folder / one.name)
                shard = Shard(arrays, one.dead) if arrays else None
            if shard is None or found is None:
                return None
            shard = shard if shard.dead == one.dead else Shard(shard.arrays, one.dead)
            self._mapped[one.name, found] = shard
            opened.append((replace(one, file=replace(one.file, file=found)), shard))  # of a copy
        return opened

    def _built(self, reads: Mapping[str, int], state: IndexState, *, every: bool) -> Iterator[Arrays]:
        """Yield the arrays of some documents or all, small shards that `update` joins; DamagedTable."""
        names = [name for name, chunks in reads.items() if chunks]
        # Few of many chunks: for each slice, LanceDB looks through the ids of all.
        is_large = (total := sum(reads.values())) >= self._limits.large
        most = self._limits.part(total, self._limits.large) if is_large else self._limits.shard
        for part in shards.slices([reads[name] for name in names], most):
            some = names[part.start : part.stop]
            between = f"document BETWEEN {quoted(some[0])} AND {quoted(some[-1])}"
            within = between if every and not self._is_part else among("document", some)  # no rows of another's
            collections = {one: Catalog(self._ledger).collections(one) for one in some}
            rows = self._open_tables().select("chunks", within, shards.ROW)
            rows = [row | {"collections": collections.get(row["document"], ())} for row in rows]
            yield shards.arrays_of(rows, self._open_tables().vectors(state.vectors, within))

    def _save(self) -> None:
        """Write what a question read anew, unless another process has the lock, or the disk does not allow it."""
        is_saved = self._base is not None and self._base.files == self._files
        if self._ledger.temporary or self._ledger.rows.in_transaction or is_saved:
            return
        with suppress(OSError, sqlite3.Error, Locked), self._locked(0.0):
            if self._read_list() == self._base:
                self._write()

    @contextmanager
    def _locked(self, seconds: float) -> Iterator[None]:
        """Hold the lock of the files; Locked where another process has it for longer."""
        if not self._lock.acquire(seconds):
            raise Locked("another pkb is writing the mapped index", "try again when it is done")
        try:
            if not self._folder.is_dir():
                _remove(self._folder)
            self._folder.mkdir(mode=0o700, exist_ok=True)
            yield
        finally:
            self._lock.release()

    def _write(self, worn: float | None = None) -> None:
        """Write the shards that are in memory alone, without those `worn`, and list them; then remove all others."""
        assert self._state, "nothing to write"
        opened = list(zip(self._view.shards, self._files, strict=True))
        files, kept = list[StoredShard](), list[Shard]()
        for shard, file in opened if worn is None else _merged(opened, self._limits, worn):
            one, written = (shard, replace(file, dead=shard.dead)) if file else self._put(shard)
            kept.append(one)
            files.append(written)
        listed = ShardList(self._state, tuple(files))
        self._base = listed = self._write_list(listed, raises=worn is not None)
        self._state, self._files, self._view = listed.state, tuple(files), IndexView(kept)
        self._remove_others()

    def _remove_others(self) -> None:
        """Remove the files that are not listed, as a process that was killed leaves them."""
        known = self._read_list()
        listed = {one.name for one in (known.files if known else ())}
        for path in (one for one in self._folder.glob("*") if one.name not in listed):
            _remove(path)

    def _put(self, shard: Shard) -> tuple[Shard, StoredShard]:
        """Write a shard and map it, so that less of it is in memory; OSError."""
        name = f"{secrets.token_hex(8)}.shard"
        shards.write(self._folder / name, shard.arrays)
        found, arrays = checksum(self._folder / name), shards.load(self._folder / name)
        if found is None or arrays is None:
            raise FileNotFoundError(name)
        return Shard(arrays, shard.dead), StoredShard(name, found, shard.dead)

    def _write_list(self, listed: ShardList, *, raises: bool = False) -> ShardList:
        """Write a list and return it: in a generation more, if it `raises` that for vectors that questions now find."""
        with self._ledger.transaction():
            if raises and listed.state == self._read_state():
                self._ledger.show_vectors()
                listed = replace(listed, state=self._read_state())
            self._ledger.set(_LIST, json.encode(listed).decode())
            generation, known = listed.state.generation, self._ledger.get(CHANGED_SINCE)
            since = max(int(known or generation), generation - _REMEMBERED)
            self._ledger.set(CHANGED_SINCE, str(since))
            self._ledger.rows.execute("DELETE FROM changed_documents WHERE generation < ?", (since,))
        return listed

    def _read_list(self) -> ShardList | None:
        with suppress(ValueError):
            found = json.decode(self._ledger.get(_LIST) or "", type=ShardList)
            return found if found.format == shards.FORMAT else None
        return None


def _groups(held: Sequence[Shard], limits: IndexLimits) -> list[list[int]]:
    """Return the places of shards that are to be one: small ones joined, and full ones too."""
    counts = [one.count for one in held]
    small = [at for at, count in enumerate(counts) if count < limits.small]
    full = [at for at, count in enumerate(counts) if limits.small <= count <= limits.shard]
    groups = [[at] for at, count in enumerate(counts) if count > limits.shard]
    groups += [small[part.start : part.stop] for part in shards.slices([counts[at] for at in small], limits.shard)]
    large = limits.part(sum(counts), limits.large)
    for part in shards.slices([counts[at] for at in full], large):
        some = full[part.start : part.stop]
        groups += [some] if sum(counts[at] for at in some) > large // 2 else [[at] for at in some]
    return groups


def _merged(
    opened: Sequence[tuple[Shard, StoredShard | None]], limits: IndexLimits, worn: float
) -> Iterator[tuple[Shard, StoredShard | None]]:
    """Yield shards without dead documents where these are more than a part, joined where they are small or full."""
    for some in _groups([one for one, _ in opened], limits):
        each = [opened[at][0] for at in some]
        if len(each) == 1 and each[0].worn <= worn:
            yield opened[some[0]]
        elif any(one.count for one in each):
            yield Shard(shards.joined([(one.arrays, one.live) for one in each])), None
