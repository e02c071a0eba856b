"""The jobs `first` and `blocks`: prefetch the N chunks retrieved most often and the N newest that are not cached yet.

A chunk is prefilled right behind the system segment: as the first of a prompt, or as the block that fits any place.
Where the cache is full, prefetched chunks that no question used are evicted, the oldest first; nothing else is.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from math import inf

from engine.idle.ahead import Ahead, as_units
from engine.idle.segment import Path, Segment, costs, is_kept, key_of
from engine.idle.units import Kind, Unit
from engine.llm.blocks import block_of
from engine.llm.prompt import chunk_ids, system_ids
from store.kv_index import Unused
from store.types import Chunk


@dataclass(frozen=True, slots=True)
class Retrieved:
    """The chunks that each question retrieved, oldest question first; a look-up by id; and the newest other chunks."""

    lists: Sequence[Sequence[str]]
    chunks: Callable[[Sequence[str]], dict[str, Chunk]]
    new: Sequence[Chunk]  # newest first


@dataclass(frozen=True, slots=True)
class Aged:
    """A prefetched node that may be evicted, and the age of its chunk: its place among the newest ones."""

    age: float
    node: Unused


def plan(ahead: Ahead, retrieved: Retrieved) -> list[Unit]:
    """Return a unit for each chunk to prefetch; each run goes further back in the new ones, as far as there is room."""
    times = most_retrieved(retrieved.lists, ahead.new)
    with ahead.reader():
        there = retrieved.chunks(list(times))
    hot = {_path(ahead, there[name]): name for name in times if name in there}
    one_token, system = costs(ahead.kept.store.peek.kept()), (system_ids(ahead.reading.model),)
    kind: Kind = "blocks" if ahead.reading.ropes else "first"

    def segment(path: Path, what: str, why: str, expected: float) -> Segment:
        tokens = len(path[-1])
        return Segment(kind, what, why, path, expected, tokens * one_token.seconds, int(tokens * one_token.bytes))

    wanted = list[tuple[int, Segment]]()
    for path, name in hot.items():
        if not is_kept(ahead.kept, path):
            helped = times[name] if ahead.reading.ropes else times[name] / ahead.k  # one of k is a prompt's first
            wanted.append((-1, segment(path, there[name].header, _why(times[name]), helped)))
    for age, path in islice(_uncached(ahead, retrieved.new), ahead.new):
        wanted.append((age, segment(path, retrieved.new[age].header, "new, not retrieved yet", 0.0)))

    def evictable() -> list[Aged]:
        spared = {key_of(ahead.kept.root, path) for path in hot}
        ages = {key_of(ahead.kept.root, _path(ahead, chunk)): age for age, chunk in enumerate(retrieved.new)}
        unused = [one for one in ahead.kept.store.peek.unused("first", "blocks") if one.key not in spared]
        return sorted((Aged(ages.get(one.key, inf), one) for one in unused), key=lambda one: one.age)

    found = list(make_room(wanted, ahead.kept.store.free(), evictable))
    if found and not is_kept(ahead.kept, system):
        found.insert(0, segment(system, "what every prompt begins with", "shared by every question", 0.0))
    return as_units(ahead, found)


def most_retrieved(lists: Sequence[Sequence[str]], most: int) -> dict[str, int]:
    """Return how many questions retrieved each of the `most` most retrieved chunks; of equals the latest come first."""
    times = Counter(name for chunks in lists for name in dict.fromkeys(chunks))
    last = {name: number for number, chunks in enumerate(lists) for name in chunks}
    return dict(sorted(times.items(), key=lambda one: (-one[1], -last[one[0]], one[0]))[:most])


def make_room(
    wanted: Sequence[tuple[float, Segment]], free: int, evictable: Callable[[], list[Aged]]
) -> Iterator[Segment]:
    """Yield segments, given with their ages, those that `free` bytes lack room for with older nodes to evict.

    `evictable` returns the newest first; it is not called where all have room. Where too little is older, nothing goes.
    """
    left: list[Aged] | None = None
    for age, segment in wanted:
        going = list[Aged]()
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


def _uncached(ahead: Ahead, new: Sequence[Chunk]) -> Iterator[tuple[int, Path]]:
    """Yield the places and paths of those chunks that are not cached, until planning has taken long enough."""
    for age, chunk in takewhile(lambda _: not ahead.late(), enumerate(new)):
        path = _path(ahead, chunk)
        if not is_kept(ahead.kept, path):
            yield age, path


def _path(ahead: Ahead, chunk: Chunk) -> Path:
    model = ahead.reading.model
    ids = tuple(model.tokens(block_of(chunk))) if ahead.reading.ropes else chunk_ids(model, 1, chunk)
    return (system_ids(model), ids)


def _why(times: int) -> str:
    return "retrieved once" if times == 1 else f"retrieved for {times} questions"
