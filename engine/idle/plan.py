"""What there is to do while nobody asks: the units of every job, in the order in which they are worth doing.

jobs -> units -> by benefit per second. Knows what a home offers by `Night`; opens nothing, reads nothing ahead, and
leaves no trace in the history of questions.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from engine.ask.evidence import Evidence
from engine.ask.exact import scope_of
from engine.ask.order import along_what_is_kept, order_of
from engine.ask.prefill import Kept, Reading
from engine.ask.segments import Segments, chunk_ids, fit, system_ids
from engine.idle import hot, refill
from engine.idle.units import Path, Unit, costs, in_order
from engine.idle.work import is_kept
from engine.kv.pieces import block_of, in_blocks
from store.past import Past
from store.records import Chunk, Scope

_LOOKED_AT = 1000  # of the chunks that were ever retrieved, the hottest


@dataclass(frozen=True, slots=True)
class Night:
    """What idle works on: a model and what is kept of it, what was asked, and the bank to ask again.

    `gather` retrieves for a question within a scope from so many sources, and counts nothing.
    """

    reading: Reading
    retrieved: Sequence[Sequence[str]]  # the chunks of each question, oldest first, in order of date
    past: Sequence[Past]
    gather: Callable[[str, Scope, int], Evidence]
    chunks: Callable[[Sequence[str]], dict[str, Chunk]]
    collections: Callable[[str], Sequence[str]]  # of a document
    now: datetime
    k: int
    most: int  # tokens of an answer
    order: str
    least: int  # times that a chunk must have been retrieved to be read ahead


def plan(night: Night, late: Callable[[], bool]) -> list[Unit]:
    """Give all units, best first; no more past questions are looked at once it is late."""
    return in_order([*_hot(night), *_refill(night, late)]) if night.reading.kept else []


def _hot(night: Night) -> Iterator[Unit]:
    """Plan the hottest chunks, behind the system segment."""
    heats, kept = hot.heats(night.retrieved)[:_LOOKED_AT], _kept(night)
    there = night.chunks([heat.chunk for heat in heats])
    found = hot.hottest(
        [heat for heat in heats if heat.chunk in there],
        lambda name: night.collections(there[name].document),
        night.least,
    )
    yield from hot.plan(found, there, _manner(night), partial(is_kept, kept), costs(kept.store.peek.kept()))


def _manner(night: Night) -> hot.Manner:
    """Say how chunks are read ahead, which depends on how prompts are read."""
    model = night.reading.model
    system = system_ids(model)
    if night.reading.ropes:
        return hot.Manner("blocks", system, lambda chunk: tuple(model.tokens(block_of(chunk))), lambda heat: 1.0)
    shares = {"document": hot.as_first(night.k), "relevance": lambda heat: 1 / night.k, "reuse": lambda heat: 1.0}
    return hot.Manner("first", system, lambda chunk: chunk_ids(model, 1, chunk), shares[night.order])


def _refill(night: Night, late: Callable[[], bool]) -> list[Unit]:
    """Plan what went for lack of room, if anything did."""
    kept = _kept(night)
    return refill.plan(_wanted(night, late), kept.root, kept.store.peek) if kept.store.peek.ghosts() else []


def _wanted(night: Night, late: Callable[[], bool]) -> Iterator[tuple[str, int, list[Path]]]:
    """Give what past questions would read if they were asked now."""
    for past in night.past:
        if late():
            return
        k = int(past.writer.rpartition("/")[2]) if past.writer else night.k
        evidence = night.gather(past.question, scope_of(past.scope) if past.scope else Scope(), k)
        if evidence.reads:
            yield past.question, past.times, _paths(night, past.question, evidence)


def _paths(night: Night, question: str, evidence: Evidence) -> list[Path]:
    """Give the paths of all segments of a prompt but its last."""
    reading, kept = night.reading, _kept(night)
    order = order_of(night.order, reading)
    if night.order == "reuse" and not reading.ropes:  # as if nothing had gone
        order = partial(along_what_is_kept, reading.model, kept.root, refill.kept_or_gone(kept.store.peek))
    segments: Segments = fit(reading.model, question, night.now, evidence, night.most, order)
    if not reading.ropes:
        return refill.prefixes(segments.ids[:-1])
    system, *blocks = in_blocks(reading.model, segments).ids[:-1]
    return [(system,), *((system, block) for block in dict.fromkeys(blocks))]


def _kept(night: Night) -> Kept:
    assert night.reading.kept, "nothing is kept"
    return night.reading.kept
