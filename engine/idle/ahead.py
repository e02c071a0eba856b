"""Segments of prompts read before anybody asks, one a unit; and which of them, for the job `refill`.

which segments -> a unit each -> read behind its prefix -> keep. What is kept for questions never goes for what is only
expected to be asked. Knows a model and what is kept of it; leaves no trace in the history of questions.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial

from engine.idle import refill
from engine.idle.asking import Asking
from engine.idle.segment import Path, Segment, costs, is_kept, key_of, subject_of
from engine.idle.units import Outcome, Unit, in_order
from engine.llm.blocks import in_blocks
from engine.llm.prefill import Kept, Reading, keep, prefill
from engine.llm.prompt import Order, Segments, fit
from engine.types import Trace
from store.answers import Kept as Entry


@dataclass(frozen=True, slots=True)
class Ahead:
    """What is read ahead, by which model, and where it is kept.

    `reader` holds off whoever would rewrite the tables, `late` tells that planning has taken long enough.
    """

    reading: Reading
    asking: Asking
    order: Order
    most: int  # tokens of an answer
    k: int
    new: int  # chunks a run that no question retrieved, and that were retrieved most
    reader: Callable[[], AbstractContextManager[None]]
    late: Callable[[], bool]

    @property
    def kept(self) -> Kept:
        """Give where it is kept."""
        assert self.reading.kept, "nothing is kept"
        return self.reading.kept


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


def _wanted(ahead: Ahead, entries: Iterable[tuple[Entry, float]]) -> Iterator[tuple[str, float, list[Path]]]:
    """Give what these questions would read if they were asked now."""
    for entry, times in entries:
        if ahead.late():
            return
        if paths := _paths(ahead, entry):
            yield entry.question, times, paths


def _paths(ahead: Ahead, entry: Entry) -> list[Path]:
    """Give the paths of all segments of a prompt but its last."""
    reading = ahead.reading
    evidence = ahead.asking.evidence(entry)
    if not evidence.reads:
        return []
    segments: Segments = fit(reading.model, entry.question, ahead.asking.now, evidence, ahead.most, ahead.order)
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
    """Prefill a segment behind its prefix and keep it in place of what it replaces, unless there is no room."""
    kept, path = ahead.kept, segment.path
    if is_kept(kept, path):
        return Outcome("there")
    if segment.bytes > kept.store.free(sum(one.bytes for one in segment.instead)):
        return Outcome("room")
    with ahead.reader(), ExitStack() as held:
        if ahead.asking.ledger.generation != generation:
            return Outcome("changed")  # what the bank no longer holds must not be read
        read = prefill(ahead.reading, path, Trace(asked=False), held)
        kept.store.let_go([one.key for one in segment.instead])
        whole = len(read.nodes) + keep(kept, path, read, evict=False) == len(path)
        kept.model.release(read.cache)
    return Outcome(node=key_of(kept.root, path)) if whole else Outcome("room")
