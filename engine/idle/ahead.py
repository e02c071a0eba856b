"""The jobs `first`, `blocks` and `refill`: chunks and the beginnings of prompts, read before anybody asks.

which segments -> a unit each -> read behind its prefix -> keep. What is kept for questions never goes for what is only
expected to be asked. Knows a model and what is kept of it; leaves no trace in the history of questions.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile

from engine.ask.order import along_what_is_kept, order_of
from engine.ask.prefill import Kept, Reading, keep, prefill
from engine.ask.segments import Segments, chunk_ids, fit, system_ids
from engine.ask.trace import Trace
from engine.idle import hot, refill
from engine.idle.asking import Asking
from engine.idle.segment import Path, Segment, costs, is_kept, subject_of
from engine.idle.units import DONE, Outcome, Unit, in_order
from engine.kv.pieces import block_of, in_blocks
from store.bank import Kept as Entry
from store.records import Chunk

_LOOKED_AT = 1000  # of the chunks that were ever retrieved, the hottest


@dataclass(frozen=True, slots=True)
class Ahead:
    """What is read ahead, by which model, and where it is kept.

    `reader` holds off whoever would rewrite the tables, `late` tells that planning has taken long enough.
    """

    reading: Reading
    asking: Asking
    order: str
    most: int  # tokens of an answer
    k: int
    new: int  # chunks a night that no question retrieved
    reader: Callable[[], AbstractContextManager[None]]
    late: Callable[[], bool]

    @property
    def kept(self) -> Kept:
        """Give where it is kept."""
        assert self.reading.kept, "nothing is kept"
        return self.reading.kept


@dataclass(frozen=True, slots=True)
class Retrieved:
    """What questions retrieved: the chunks of each, oldest first, in order of date; and where to look those up."""

    lists: Sequence[Sequence[str]]
    chunks: Callable[[Sequence[str]], dict[str, Chunk]]
    collections: Callable[[str], Sequence[str]]  # of a document
    new: Sequence[Chunk]  # that none of them retrieved
    total: int  # chunks


def hottest(ahead: Ahead, retrieved: Retrieved) -> list[Unit]:
    """Plan the chunks that were retrieved most often, then new ones, each right behind the system segment.

    Of the new ones those are planned that are not kept yet, so that each time goes further back. The newest may take
    what is kept to half of the budget, those behind them to a quarter: the rest is for what is likelier to be wanted.
    """
    heats = hot.heats(retrieved.lists)
    fresh, known = {chunk.id: chunk for chunk in retrieved.new}, heats[:_LOOKED_AT]
    with ahead.reader():
        there = retrieved.chunks([heat.chunk for heat in known])
    found = hot.hottest(
        [heat for heat in known if heat.chunk in there],
        lambda name: retrieved.collections(there[name].document),
    )
    kept = ahead.kept
    parts = (_manner(ahead), partial(is_kept, kept), costs(kept.store.peek.kept()))
    new, budget = hot.unseen(heats, list(fresh), retrieved.total), kept.store.budget
    newest = [replace(one, within=budget // 2) for one in hot.plan(new[: ahead.new], fresh, *parts)]
    older = hot.plan(new[ahead.new :], fresh, *parts, max(0, ahead.new - len(newest)))
    older = (replace(one, within=budget // 4) for one in takewhile(lambda _: not ahead.late(), older))
    return as_units(ahead, [*hot.plan(found, there, *parts), *newest, *older])


def gone(ahead: Ahead, entries: Iterable[tuple[Entry, float]], *, refused: bool = False) -> list[Unit]:
    """Plan what of these questions' prompts went for lack of room; with how often each question is wanted.

    Where some was `refused` for lack of room, what never was kept is planned too.
    """
    kept = ahead.kept
    there = kept.store.peek.kept()
    usual = there.bytes / there.count if there.count else 0  # of a segment: for less room nobody need retrieve
    wanted = _wanted(ahead, entries) if kept.store.free() > usual else ()
    new = costs(there) if refused else None
    return as_units(ahead, refill.plan(wanted, kept.root, kept.store.peek, new))


def _manner(ahead: Ahead) -> hot.Manner:
    """Say how chunks are read ahead, which depends on how prompts are read."""
    model = ahead.reading.model
    system = system_ids(model)
    if ahead.reading.ropes:
        return hot.Manner("blocks", system, lambda chunk: tuple(model.tokens(block_of(chunk))), lambda heat: 1.0)
    shares = {"document": hot.as_first(ahead.k), "relevance": lambda heat: 1 / ahead.k, "reuse": lambda heat: 1.0}
    return hot.Manner("first", system, lambda chunk: chunk_ids(model, 1, chunk), shares[ahead.order])


def _wanted(ahead: Ahead, entries: Iterable[tuple[Entry, float]]) -> Iterator[tuple[str, float, list[Path]]]:
    """Give what these questions would read if they were asked now."""
    for entry, times in entries:
        if ahead.late():
            return
        if paths := _paths(ahead, entry):
            yield entry.question, times, paths


def _paths(ahead: Ahead, entry: Entry) -> list[Path]:
    """Give the paths of all segments of a prompt but its last."""
    reading, kept = ahead.reading, ahead.kept
    evidence = ahead.asking.evidence(entry)
    if not evidence.reads:
        return []
    order = order_of(ahead.order, reading)
    if ahead.order == "reuse" and not reading.ropes:  # as if nothing had gone
        order = partial(along_what_is_kept, reading.model, kept.root, refill.kept_or_gone(kept.store.peek))
    segments: Segments = fit(reading.model, entry.question, ahead.asking.now, evidence, ahead.most, order)
    if not reading.ropes:
        return refill.prefixes(segments.ids[:-1])
    system, *blocks = in_blocks(reading.model, segments).ids[:-1]
    return [(system,), *((system, block) for block in dict.fromkeys(blocks))]


def as_units(ahead: Ahead, segments: Iterable[Segment]) -> list[Unit]:
    """Make units of segments, best first."""
    root, generation = ahead.kept.root, ahead.asking.ledger.generation
    return in_order(
        Unit(
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


def _read(ahead: Ahead, segment: Segment, generation: int) -> Outcome:
    """Read a segment behind its prefix and keep it, unless there is no room for it after all."""
    kept, path = ahead.kept, segment.path
    if is_kept(kept, path):
        return Outcome("there")
    if segment.bytes > kept.store.free() or not _is_within(kept, segment):
        return Outcome("room")
    with ahead.reader(), ExitStack() as held:
        if ahead.asking.ledger.generation != generation:
            return Outcome("changed")  # what the bank no longer holds must not be read
        read = prefill(ahead.reading, path, Trace(asked=False), held)
        whole = len(read.nodes) + keep(kept, path, read, evict=False) == len(path)
        kept.model.release(read.cache)
    return DONE if whole else Outcome("room")


def _is_within(kept: Kept, segment: Segment) -> bool:
    return segment.within is None or kept.store.peek.kept().bytes + segment.bytes <= segment.within
