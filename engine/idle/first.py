"""The jobs `first` and `blocks`: which chunks are read right behind the system segment, before anybody asks.

what was retrieved most -> the newest that nothing retrieved -> those behind them, further back each night. Knows which
chunks there are, and of a model only how it reads them.
"""

from collections.abc import Callable, Sequence
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
    """Plan the chunks that were retrieved most often, then new ones, each right behind the system segment."""
    heats, manner = hot.heats(retrieved.lists), _manner(ahead)
    known = heats[:_LOOKED_AT]
    with ahead.reader():
        there = retrieved.chunks([heat.chunk for heat in known])
    found = hot.hottest(
        [heat for heat in known if heat.chunk in there],
        lambda name: retrieved.collections(there[name].document),
    )
    wanted = [there[heat.chunk] for heat in found if heat.chunk in there]
    planned = hot.plan(found, there, manner, partial(is_kept, ahead.kept), costs(ahead.kept.store.peek.kept()))
    new = hot.unseen(heats, [chunk.id for chunk in retrieved.new], retrieved.total)
    return as_units(ahead, [*planned, *_new(ahead, manner, new, retrieved.new, wanted)])


def _new(
    ahead: Ahead, manner: hot.Manner, new: Sequence[hot.Heat], chunks: Sequence[Chunk], wanted: Sequence[Chunk]
) -> list[Segment]:
    """Plan new chunks that are not kept yet, so that each time goes further back.

    The newest may take what is kept to half of the budget, those behind them to a quarter: the rest is for what is
    likelier to be wanted. Where half is full, what was read ahead before goes for newer ones, if nothing used it.
    """
    kept, fresh = ahead.kept, {chunk.id: chunk for chunk in chunks}
    there, budget = kept.store.peek.kept(), kept.store.budget
    parts = (fresh, manner, partial(is_kept, kept), costs(there))
    newest = [replace(one, within=budget // 2) for one in hot.plan(new[: ahead.new], *parts)]
    older = hot.plan(new[ahead.new :], *parts, max(0, ahead.new - len(newest)))
    older = (replace(one, within=budget // 4) for one in takewhile(lambda _: not ahead.late(), older))

    @cache
    def ages() -> dict[Key, int]:
        return {_key(ahead, manner, chunk): age for age, chunk in enumerate(chunks)}

    def unused() -> list[Aged]:
        spared = {_key(ahead, manner, chunk) for chunk in wanted}
        found = [one for one in kept.store.peek.unused(manner.kind) if one.key not in spared]
        return sorted((Aged(ages().get(one.key, inf), one) for one in found), key=lambda one: -one.age)

    way = make_way(newest, there.bytes, unused, lambda one: ages().get(key_of(kept.root, one.path), -1))
    return [*way, *older]


def _key(ahead: Ahead, manner: hot.Manner, chunk: Chunk) -> Key:
    return key_of(ahead.kept.root, (manner.system, manner.segment(chunk)))


def _manner(ahead: Ahead) -> hot.Manner:
    """Say how chunks are read ahead, which depends on how prompts are read."""
    model = ahead.reading.model
    system = system_ids(model)
    if ahead.reading.ropes:
        return hot.Manner("blocks", system, lambda chunk: tuple(model.tokens(block_of(chunk))), lambda heat: 1.0)
    shares = {"document": hot.as_first(ahead.k), "relevance": lambda heat: 1 / ahead.k, "reuse": lambda heat: 1.0}
    return hot.Manner("first", system, lambda chunk: chunk_ids(model, 1, chunk), shares[ahead.order])
