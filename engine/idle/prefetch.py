"""The jobs `first` and `blocks`: prefetch the N chunks retrieved most often and the N newest that are not cached yet.

A chunk is prefilled right behind the system segment: as the first of a prompt, or as the block that fits any place.
Where the cache is full, prefetched chunks that no question used are evicted, the oldest first; nothing else is.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, takewhile
from math import inf

from engine.idle.refresh import Reasker
from engine.idle.types import (
    Costs,
    IdleJob,
    Ids,
    Kind,
    Outcome,
    Path,
    PrefillJob,
    costs,
    in_order,
    is_kept,
    key_of,
    subject_of,
)
from engine.llm.blocks import block_of, in_blocks
from engine.llm.prefill import KvBinding, PromptReader, keep, prefill
from engine.llm.prompt import Order, Segments, chunk_ids, fit, system_ids
from engine.types import Trace
from store.answers import CachedAnswer as Entry
from store.kv_index import KvQueries, UnusedNode, path_keys
from store.kv_tree import TreeRoot
from store.types import Chunk


def plan_restores(
    asked: Iterable[tuple[str, float, Sequence[Path]]], root: TreeRoot, queries: KvQueries, new: Costs | None = None
) -> list[PrefillJob]:
    """Return each segment that went, given questions, how often they were asked, and the paths they want.

    What never was kept is not read, nor what stands behind it, unless `new` says what a token of that costs: some of it
    was read, and there was no room to keep it.
    """
    found = dict[Path, PrefillJob]()
    for question, times, paths in asked:
        for one in _gone(question, times, paths, root, queries, new):
            known = found.get(one.path)
            found[one.path] = replace(known, expected=known.expected + times) if known else one
    return list(found.values())


def prefixes(segments: Sequence[Ids]) -> list[Path]:
    """Return all beginnings of a prompt."""
    return [tuple(segments[:end]) for end in range(1, len(segments) + 1)]


def _gone(
    question: str, times: float, paths: Sequence[Path], root: TreeRoot, queries: KvQueries, new: Costs | None
) -> Iterator[PrefillJob]:
    out = set[Path]()  # paths with nothing to stand behind
    for path in paths:
        key = path_keys(root, path)[-1]
        if queries.uses(key) is not None:
            continue
        ghost, tokens = queries.ghost(key), len(path[-1])
        if ghost is not None and path[:-1] not in out:
            yield PrefillJob("refill", question, "evicted for lack of space", path, times, ghost.seconds, ghost.bytes)
        elif new is not None:
            why, size = "not stored for lack of space", int(tokens * new.bytes)
            yield PrefillJob("refill", question, why, path, times, tokens * new.seconds, size)
        else:
            out.add(path)


@dataclass(frozen=True, slots=True)
class PrefetchContext:
    """What is read ahead, by which model, and where it is kept.

    `reader` holds off whoever would rewrite the tables, `late` tells that planning has taken long enough.
    """

    reading: PromptReader
    reasker: Reasker
    order: Order
    most: int  # tokens of an answer
    k: int
    new: int  # chunks a run that no question retrieved, and that were retrieved most
    reader: Callable[[], AbstractContextManager[None]]
    late: Callable[[], bool]

    @property
    def kept(self) -> KvBinding:
        """Return where it is kept."""
        assert self.reading.kept, "nothing is kept"
        return self.reading.kept


def plan_restores_of(
    ahead: PrefetchContext, entries: Iterable[tuple[Entry, float]], *, refused: bool = False
) -> list[IdleJob]:
    """Plan what of these questions' prompts went for lack of room; with how often each question is wanted.

    Where some was `refused` for lack of room, what never was kept is planned too.
    """
    kept = ahead.kept
    there = kept.store.queries.kept()
    usual = there.bytes / there.count if there.count else 0  # of a segment: for less room nobody need retrieve
    wanted = _wanted(ahead, entries) if kept.store.free() > usual else ()
    new = costs(there) if refused else None
    return as_units(ahead, plan_restores(wanted, kept.root, kept.store.queries, new))


def _wanted(ahead: PrefetchContext, entries: Iterable[tuple[Entry, float]]) -> Iterator[tuple[str, float, list[Path]]]:
    """Yield what these questions would read if they were asked now."""
    for entry, times in entries:
        if ahead.late():
            return
        if paths := _paths(ahead, entry):
            yield entry.question, times, paths


def _paths(ahead: PrefetchContext, entry: Entry) -> list[Path]:
    """Return the paths of all segments of a prompt but its last."""
    reading = ahead.reading
    evidence = ahead.reasker.evidence(entry)
    if not evidence.passages:
        return []
    segments: Segments = fit(reading.model, entry.question, ahead.reasker.now, evidence, ahead.most, ahead.order)
    if not reading.ropes:
        return prefixes(segments.ids[:-1])
    system, *blocks = in_blocks(reading.model, segments).ids[:-1]
    return [(system,), *((system, block) for block in dict.fromkeys(blocks))]


def as_units(ahead: PrefetchContext, segments: Iterable[PrefillJob]) -> list[IdleJob]:
    """Make units of segments, best first."""
    root, generation = ahead.kept.root, ahead.reasker.ledger.generation
    return in_order(
        IdleJob(
            kind=one.kind,
            subject=subject_of(root, one.path),
            what=one.what,
            why=one.why,
            expected=one.expected,
            saves=one.seconds,
            seconds=one.seconds,
            do=partial(_read, ahead, one, generation),
            bytes=one.bytes,
            tokens=len(one.path[-1]),
            behind=subject_of(root, one.path[:-1]) if len(one.path) > 1 else None,
        )
        for one in segments
    )


def _read(ahead: PrefetchContext, segment: PrefillJob, generation: int) -> Outcome:
    """Prefill a segment behind its prefix and keep it in place of what it replaces, unless there is no room."""
    kept, path = ahead.kept, segment.path
    if is_kept(kept, path):
        return Outcome("there")
    if segment.bytes > kept.store.free(sum(one.bytes for one in segment.instead)):
        return Outcome("room")
    with ahead.reader(), ExitStack() as held:
        if ahead.reasker.ledger.generation != generation:
            return Outcome("changed")  # what the bank no longer holds must not be read
        read = prefill(ahead.reading, path, Trace(asked=False), held)
        kept.store.let_go([one.key for one in segment.instead])
        whole = len(read.nodes) + keep(kept, path, read, evict=False) == len(path)
        kept.model.release(read.cache)
    return Outcome(node=key_of(kept.root, path)) if whole else Outcome("room")


@dataclass(frozen=True, slots=True)
class RetrievalCounts:
    """The chunks that each question retrieved, oldest question first; a look-up by id; and the newest other chunks."""

    lists: Sequence[Sequence[str]]
    chunks: Callable[[Sequence[str]], dict[str, Chunk]]
    new: Sequence[Chunk]  # newest first


@dataclass(frozen=True, slots=True)
class EvictionCandidate:
    """A prefetched node that may be evicted, and the age of its chunk: its place among the newest ones."""

    age: float
    node: UnusedNode


def plan(ahead: PrefetchContext, retrieved: RetrievalCounts) -> list[IdleJob]:
    """Return a unit for each chunk to prefetch; each run goes further back in the new ones, as far as there is room."""
    times = most_retrieved(retrieved.lists, ahead.new)
    with ahead.reader():
        there = retrieved.chunks(list(times))
    hot = {_path(ahead, there[name]): name for name in times if name in there}
    one_token, system = costs(ahead.kept.store.queries.kept()), (system_ids(ahead.reading.model),)
    kind: Kind = "blocks" if ahead.reading.ropes else "first"

    def segment(path: Path, what: str, why: str, expected: float) -> PrefillJob:
        tokens = len(path[-1])
        return PrefillJob(kind, what, why, path, expected, tokens * one_token.seconds, int(tokens * one_token.bytes))

    wanted = list[tuple[int, PrefillJob]]()
    for path, name in hot.items():
        if not is_kept(ahead.kept, path):
            helped = times[name] if ahead.reading.ropes else times[name] / ahead.k  # one of k is a prompt's first
            wanted.append((-1, segment(path, there[name].header, _why(times[name]), helped)))
    for age, path in islice(_uncached(ahead, retrieved.new), ahead.new):
        wanted.append((age, segment(path, retrieved.new[age].header, "new, not retrieved yet", 0.0)))

    def evictable() -> list[EvictionCandidate]:
        spared = {key_of(ahead.kept.root, path) for path in hot}
        ages = {key_of(ahead.kept.root, _path(ahead, chunk)): age for age, chunk in enumerate(retrieved.new)}
        unused = [one for one in ahead.kept.store.queries.unused("first", "blocks") if one.key not in spared]
        return sorted((EvictionCandidate(ages.get(one.key, inf), one) for one in unused), key=lambda one: one.age)

    found = list(make_room(wanted, ahead.kept.store.free(), evictable))
    if found and not is_kept(ahead.kept, system):
        found.insert(0, segment(system, "system prompt", "shared by every question", 0.0))
    return as_units(ahead, found)


def most_retrieved(lists: Sequence[Sequence[str]], most: int) -> dict[str, int]:
    """Return how many questions retrieved each of the `most` most retrieved chunks; of equals the latest come first."""
    times = Counter(name for chunks in lists for name in dict.fromkeys(chunks))
    last = {name: number for number, chunks in enumerate(lists) for name in chunks}
    return dict(sorted(times.items(), key=lambda one: (-one[1], -last[one[0]], one[0]))[:most])


def make_room(
    wanted: Sequence[tuple[float, PrefillJob]], free: int, evictable: Callable[[], list[EvictionCandidate]]
) -> Iterator[PrefillJob]:
    """Yield segments, given with their ages, those that `free` bytes lack room for with older nodes to evict.

    `evictable` returns the newest first; it is not called where all have room. Where too little is older, nothing goes.
    """
    left: list[EvictionCandidate] | None = None
    for age, segment in wanted:
        going = list[EvictionCandidate]()
        if segment.bytes > free and left is None:
            left = evictable()
        while left and segment.bytes > free and left[-1].age > age:
            going.append(left.pop())
            free += going[-1].node.bytes
        if segment.bytes > free and left is not None:
            free -= sum(one.node.bytes for one in going)
            left += reversed(going)
            yield segment
            continue
        free -= segment.bytes
        why = f"{segment.why}; replaces older, never used entries" if going else segment.why
        yield replace(segment, why=why, instead=tuple(one.node for one in going))


def _uncached(ahead: PrefetchContext, new: Sequence[Chunk]) -> Iterator[tuple[int, Path]]:
    """Yield the places and paths of those chunks that are not cached, until planning has taken long enough."""
    for age, chunk in takewhile(lambda _: not ahead.late(), enumerate(new)):
        path = _path(ahead, chunk)
        if not is_kept(ahead.kept, path):
            yield age, path


def _path(ahead: PrefetchContext, chunk: Chunk) -> Path:
    model = ahead.reading.model
    ids = tuple(model.tokens(block_of(chunk))) if ahead.reading.ropes else chunk_ids(model, 1, chunk)
    return (system_ids(model), ids)


def _why(times: int) -> str:
    return "retrieved once" if times == 1 else f"retrieved for {times} questions"
