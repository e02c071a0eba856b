"""The jobs `first` and `blocks`: the chunks that questions retrieved most often are read before the next one asks.

Behind those come the newest ones, which none has retrieved yet. A chunk is read right behind the system segment: as
the first of a prompt, or as the block that fits any place. Knows chunks, tokens and the keys of what is kept; reads
nothing itself.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.idle.segment import Costs, Ids, Path, Segment
from engine.idle.units import Kind
from store.records import Chunk

MOST = 200  # chunks that are looked at


@dataclass(frozen=True, slots=True)
class Heat:
    """How often a chunk was retrieved, or may be; how often it came first in order of date; in which question last."""

    chunk: str
    times: float
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Manner:
    """How a chunk is read ahead: as which segment, by which kind of work, and what share of its retrievals it helps."""

    kind: Kind
    system: Ids
    segment: Callable[[Chunk], Ids]
    share: Callable[[Heat], float]


def heats(retrieved: Sequence[Sequence[str]]) -> list[Heat]:
    """Give the chunks that questions retrieved, the most frequent first, of equals the latest one."""
    times = Counter(name for chunks in retrieved for name in dict.fromkeys(chunks))
    first = Counter(chunks[0] for chunks in retrieved if chunks)
    last = {name: number for number, chunks in enumerate(retrieved) for name in chunks}
    found = [Heat(name, count, first[name], last[name]) for name, count in times.items()]
    return sorted(found, key=lambda heat: (-heat.times, -heat.last, heat.chunk))


def hottest(found: Sequence[Heat], collections: Callable[[str], Sequence[str]]) -> list[Heat]:
    """Give the hottest chunks, and the head of each collection: its hottest."""
    heads = dict[str, Heat]()
    for heat in found:
        for name in collections(heat.chunk):
            heads.setdefault(name, heat)
    return list(dict.fromkeys([*found[:MOST], *heads.values()]))


def unseen(found: Sequence[Heat], names: Sequence[str], total: int) -> list[Heat]:
    """Give chunks that no question retrieved, each with how often as many questions again may be expected to.

    Of their retrievals as many will be of such chunks as now are of chunks retrieved once (Good 1953, The population
    frequencies of species); one more is assumed, for a home of which nothing was asked. `total` counts all chunks.
    """
    once = sum(heat.times == 1 for heat in found)
    times = min(1.0, (once + 1) / max(total - len(found), len(names), 1))
    return [Heat(name, times, 0, -1) for name in names]


def plan(
    hot: Sequence[Heat],
    chunks: Mapping[str, Chunk],
    manner: Manner,
    kept: Callable[[Path], bool],
    costs: Costs,
    most: int | None = None,
) -> Iterator[Segment]:
    """Give the segments of the first `most` of these chunks that there are and that are not kept; and the system's."""
    planned = 0
    for heat in hot:
        if planned == most:
            return
        if heat.chunk not in chunks:
            continue
        chunk, system = chunks[heat.chunk], (manner.system,)
        path = (manner.system, manner.segment(chunk))
        if kept(path):
            continue
        expected, why = heat.times * manner.share(heat), _why(heat)
        if not kept(system):
            yield _segment(manner.kind, "system prompt", "shared by every question", system, expected, costs)
        yield _segment(manner.kind, chunk.header, why, path, expected, costs)
        planned += 1


def as_first(k: int) -> Callable[[Heat], float]:
    """Give the share of the times that a chunk will come first in order of date: as it did, or one in k if unknown."""
    return lambda heat: (heat.first + 1) / (heat.times + k)


def _segment(kind: Kind, what: str, why: str, path: Path, expected: float, costs: Costs) -> Segment:
    tokens = len(path[-1])
    return Segment(kind, what, why, path, expected, tokens * costs.seconds, int(tokens * costs.bytes))


def _why(heat: Heat) -> str:
    if heat.last < 0:
        return "new, not retrieved yet"
    return "retrieved once" if heat.times == 1 else f"retrieved for {heat.times:.0f} questions"
