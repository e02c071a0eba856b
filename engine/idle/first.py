"""The jobs `first` and `blocks`: which chunks are read right behind the system segment, before anybody asks.

what was retrieved most -> the newest that nothing retrieved -> those behind them, further back each night. Knows which
chunks there are, and of a model only how it reads them.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import takewhile
from math import inf

from engine.ask.segments import chunk_ids, system_ids
from engine.idle import hot
from engine.idle.ahead import Ahead, as_units
from engine.idle.room import Aged, make_way
from engine.idle.segment import Segment, costs, is_kept, key_of
from engine.idle.units import Unit
from engine.kv.pieces import block_of
from store.kv_tree import Key
from store.records import Chunk

_LOOKED_AT = 1000  # of the chunks that were ever retrieved, the hottest


@dataclass(frozen=True, slots=True)
class Retrieved:
    """What questions retrieved: the chunks of each, oldest first, in order of date; and where to look those up."""

    lists: Sequence[Sequence[str]]
    chunks: Callable[[Sequence[str]], dict[str, Chunk]]
    collections: Callable[[str], Sequence[str]]  # of a document
    new: Sequence[Chunk]  # that none of them retrieved, newest first
    total: int  # chunks


def hottest(ahead: Ahead, retrieved: Retrieved) -> list[Unit]:
    """Plan the chunks that were retrieved most often, then new ones, each right behind the system segment.

    Of the new ones those are planned that are not kept yet, so that each time goes further back. The newest may take
    what is kept to half of the budget, those behind them to a quarter: the rest is for what is likelier to be wanted.
    Where half is full, what was read ahead before goes for newer chunks, if nothing used it.
    """
    heats, manner = hot.heats(retrieved.lists), _manner(ahead)
    found, there = _hottest(ahead, retrieved, heats[:_LOOKED_AT])
    kept, fresh = ahead.kept, {chunk.id: chunk for chunk in retrieved.new}
    parts = (manner, partial(is_kept, kept), costs(kept.store.peek.kept()))
    planned = list(hot.plan(found, there, *parts))
    new, budget = hot.unseen(heats, list(fresh), retrieved.total), kept.store.budget
    newest = [replace(one, within=budget // 2) for one in hot.plan(new[: ahead.new], fresh, *parts)]
    older = hot.plan(new[ahead.new :], fresh, *parts, max(0, ahead.new - len(newest)))
    older = (replace(one, within=budget // 4) for one in takewhile(lambda _: not ahead.late(), older))
    total = kept.store.peek.kept().bytes + sum(one.bytes for one in planned)
    way = make_way(newest, total, *_unused(ahead, manner, retrieved.new, there.values()))
    return as_units(ahead, [*planned, *way, *older])


def _hottest(ahead: Ahead, retrieved: Retrieved, heats: Sequence[hot.Heat]) -> tuple[list[hot.Heat], dict[str, Chunk]]:
    """Give the hottest of these chunks, and all of them that there are, by id."""
    with ahead.reader():
        there = retrieved.chunks([heat.chunk for heat in heats])
    known = [heat for heat in heats if heat.chunk in there]
    return hot.hottest(known, lambda name: retrieved.collections(there[name].document)), there


def _unused(
    ahead: Ahead, manner: hot.Manner, new: Sequence[Chunk], retrieved: Iterable[Chunk]
) -> tuple[Callable[[], list[Aged]], Callable[[Segment], float]]:
    """Give what finds all that was read ahead and never used but of chunks that were retrieved; and a segment's age.

    What is older than the newest chunks, or of another model or another way of reading, is older than all of them.
    """
    kept = ahead.kept

    def key(chunk: Chunk) -> Key:
        return key_of(kept.root, (manner.system, manner.segment(chunk)))

    @cache
    def ages() -> dict[Key, int]:
        return {key(chunk): age for age, chunk in enumerate(new)}

    def unused() -> list[Aged]:
        spared = {key(chunk) for chunk in retrieved}
        found = [one for one in kept.store.peek.unused("first", "blocks") if one.key not in spared]
        return sorted((Aged(ages().get(one.key, inf), one) for one in found), key=lambda one: -one.age)

    return unused, lambda one: ages().get(key_of(kept.root, one.path), -1)


def _manner(ahead: Ahead) -> hot.Manner:
    """Say how chunks are read ahead, which depends on how prompts are read."""
    model = ahead.reading.model
    system = system_ids(model)
    if ahead.reading.ropes:
        return hot.Manner("blocks", system, lambda chunk: tuple(model.tokens(block_of(chunk))), lambda heat: 1.0)
    return hot.Manner("first", system, lambda chunk: chunk_ids(model, 1, chunk), hot.as_first(ahead.k))
