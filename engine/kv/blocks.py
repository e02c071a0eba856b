"""Prefill in blocks: each chunk attends to the system segment alone, then its keys move to their place in the prompt.

A block's tensors depend on its own tokens alone: not on its position, its neighbours or the cache. In the prompt, the
first tokens of each are computed anew behind all before them (EPIC's link tokens), as is the question; the others are
moved. Loaded, fetched from another machine or computed, they are moved from the same form by the same function, so that
all ways are bit-identical. A block is stored as a child of the system segment.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from typing import Any

from engine.kv.costs import Loader, Unit
from engine.kv.restore import LEAST_S, KvBinding, Prefilled, PromptReader, fetch, keep, offered, prefill, said
from engine.models import kv_cache
from engine.models.kv_cache import Arrays, RangeReader, Ropes, UnreadableCache
from engine.models.types import Ids, LanguageModel
from engine.types import Trace
from store.kv_files import Header, Node
from store.kv_index import Match
from store.remote import FetchedNode, RemoteMiss, headers_of


def moved(part: Arrays, by: int, ropes: Ropes, first: int = 0) -> list[tuple[Any, Any]]:
    """Return the keys, moved forward by a number of positions, and values of a part by layer, from one token on."""
    keys, values = ([kv_cache.unpack(part, f"{at}.{kv}")[..., first:, :] for at in range(len(ropes))] for kv in "kv")
    places = [kv_cache.rotated(rope, key, by) if by else key for rope, key in zip(ropes, keys, strict=True)]
    return list(zip(places, values, strict=True))


@dataclass(frozen=True, slots=True)
class BlockPart:
    """A block's tensors as they are stored: of a node here, or fetched, or computed in `seconds`."""

    arrays: Arrays
    node: Node | None = None
    seconds: float = 0.0
    is_loaded: bool = True
    fetched: FetchedNode | None = None


@dataclass(frozen=True, slots=True)
class PrefixCache:
    """A cache of all segments but the last; `keep` stores what was computed."""

    cache: Any
    reused: tuple[int, ...]  # tokens by segment
    keep: Callable[[], int]


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a block can be had: in a node here, or under a header elsewhere; and what that and computing it take."""

    ids: Ids
    unit: Unit
    node: Node | None = None
    header: Header | None = None


def read(reading: PromptReader, segments: Sequence[Ids], trace: Trace) -> PrefixCache:
    """Prefill the system segment and its blocks."""
    assert reading.ropes, "this model's keys cannot be moved"
    system, *blocks = segments
    first, kept = prefill(reading, (system,), trace), reading.kept
    run = _Blocks(reading.model, kept, system, kv_cache.take(first.cache, 0, len(system)), trace)
    parts = run.parts([path[-1] for path in reading.paths(segments)[1:]])
    with trace.step("prefill") as step:
        place, links = len(system), Ids()  # the first tokens of each block are computed, the others moved
        for ids in blocks:
            links += tuple(ids[: reading.links])
            if ids in parts:
                if links:
                    reading.model.prefill(first.cache, links)
                layers = moved(parts[ids].arrays, place - len(system), reading.ropes, reading.links)
                kv_cache.extend(first.cache, layers)
                links = ()
            place += len(ids)
        if links:
            reading.model.prefill(first.cache, links)
        loaded = [len(ids) - reading.links if ids in parts and parts[ids].is_loaded else 0 for ids in blocks]
        step.note = " ".join(f"{there}/{len(ids)}" for ids, there in zip(blocks, loaded, strict=True)) + " reused"
    stored = partial(_keep, kept, system, first, parts, evict=trace.evicts)
    return PrefixCache(first.cache, (*first.reused, *loaded), stored)


@dataclass(frozen=True, slots=True)
class _Blocks:
    """The blocks of a prompt behind a system segment of the tensors `base`."""

    model: LanguageModel
    kept: KvBinding | None
    system: Ids
    base: Arrays
    trace: Trace

    def parts(self, wanted: Sequence[Ids]) -> dict[Ids, BlockPart]:
        """Return the parts of all blocks: a thread loads and fetches some while the others are computed."""
        if self.kept is None or not wanted:
            return {ids: self._computed(ids) for ids in wanted}
        begun, sources = time.perf_counter(), self._sources(self.kept, wanted)
        with self.trace.step("load") as step:
            parts = self._divided(self.kept, wanted, sources)
            come = [one for one in sources if parts[one.ids].is_loaded]
            tokens = sum(one.unit.tokens for one in come)
            step.note = f"{tokens} tokens" if come else "nothing"
            step.note += f", {left} computed meanwhile" if come and (left := sum(map(len, wanted)) - tokens) else ""
            sent, rounding = said([part.fetched for part in parts.values() if part.fetched])
            step.note += f", {sent / 1e6:.1f} MB fetched{rounding}" if sent else ""
        if come and self.trace.asked:
            computing = sum(part.seconds for part in parts.values() if not part.is_loaded)
            saved = sum(one.unit.compute_s for one in come) - (time.perf_counter() - begun - computing)
            self.trace.saved_s += max(0.0, saved)
            nodes, away = tuple(one.node for one in come if one.node), [one.unit for one in come if one.header]
            if nodes:
                self.kept.store.record_use(Match(nodes), saved)
            if away:
                self.kept.store.record_fetched(sum(unit.tokens for unit in away), sent, 0.0 if nodes else saved)
        return parts

    def _sources(self, kept: KvBinding, wanted: Sequence[Ids]) -> list[_Source]:
        """Return the blocks that another machine has, then those stored here."""
        with self.trace.step("match") as step:
            matches = [kept.store.match(kept.root, (self.system, ids)) for ids in wanted]
            nodes = {ids: one.nodes[1] for ids, one in zip(wanted, matches, strict=True) if len(one.nodes) > 1}
            step.note = f"{len(nodes)} of {len(wanted)} blocks"
        costs, start = kept.costs, len(self.system)
        away, missing = list[_Source](), [ids for ids in wanted if ids not in nodes]
        if missing and kept.remote is not None:
            with self.trace.step("remote") as step:
                headers = [headers_of(kept.exact or kept.root, (self.system, ids))[-1] for ids in missing]
                units = offered(kept.remote, costs, headers, [start] * len(missing))
                found = zip(missing, units, headers, strict=True)
                away = [_Source(ids, unit, header=header) for ids, unit, header in found if unit]
                step.note = f"{len(away)} of {len(missing)} blocks there"
        return away + [
            _Source(ids, Unit(len(ids), node.bytes, taken, costs.load.seconds(1, node.bytes)), node)
            for ids, node in nodes.items()
            for taken in [costs.prefill_s(start, start + len(ids)) or node.seconds]
        ]

    def _divided(self, kept: KvBinding, wanted: Sequence[Ids], sources: Sequence[_Source]) -> dict[Ids, BlockPart]:
        """Compute what is nowhere, and from the front of `sources`, while a thread gets them from the back."""
        way = kept.planner([one.unit for one in sources])
        with ExitStack() as stack:
            until = time.perf_counter() + max(LEAST_S, sum(one.unit.compute_s for one in sources))
            reader = self._reader(kept, sources, stack) if way != "compute" else None
            if reader is None:
                sources = [one for one in sources if one.header and way != "compute"]
            places = {one.ids: place for place, one in enumerate(one for one in sources if one.node)}
            fetched = dict[Ids, FetchedNode]()

            def get(number: int) -> None:
                one = sources[number]
                if one.header and kept.remote:
                    fetched[one.ids] = fetch(kept.remote, one.header, one.unit)
                elif reader:
                    reader.read(places[one.ids], 0, len(one.ids))

            units, failures = [one.unit for one in sources], (UnreadableCache, RemoteMiss)
            cancel = kept.remote.cancel if kept.remote else lambda: None
            waits = way == "load" and not any(one.header for one in sources)  # never for a slow machine
            with Loader(units, get, failures, cancel, until, waits) as loader:
                there = {one.ids for one in sources}
                parts = {ids: self._computed(ids) for ids in wanted if ids not in there}
                while (number := loader.next()) is not None:
                    parts[sources[number].ids] = self._computed(sources[number].ids)
            if loader.failed is not None and (node := sources[loader.failed].node):
                kept.store.folder.remove_damaged(node)
            return parts | dict(self._come(sources[loader.back :], places, reader, fetched))

    def _reader(self, kept: KvBinding, sources: Sequence[_Source], stack: ExitStack) -> RangeReader | None:
        nodes = [one.node for one in sources if one.node]
        if not nodes:
            return None
        try:
            paths = [kept.store.folder.path_of(node.key) for node in nodes]
            return stack.enter_context(closing(kept.model.ranges(paths, None, kept.read_at)))
        except UnreadableCache:
            for node in nodes:
                kept.store.folder.check(node, read_data=True)
            return None

    def _come(
        self, sources: Sequence[_Source], places: Mapping[Ids, int], reader: RangeReader | None,
        fetched: Mapping[Ids, FetchedNode],
    ) -> Iterator[tuple[Ids, BlockPart]]:  # fmt: skip
        loaded = reader.take() if reader and any(one.node for one in sources) else {}
        for one in sources:
            if one.ids in fetched:
                own = {each.name: kv_cache.array(each) for each in fetched[one.ids].tensors}
            else:
                start = reader.starts[places[one.ids]] if reader else 0
                own = {name: each[..., start : start + len(one.ids), :] for name, each in loaded.items()}
            yield one.ids, BlockPart(own, one.node, one.unit.compute_s, fetched=fetched.get(one.ids))

    def _computed(self, ids: Ids) -> BlockPart:
        layers = [(self.base[f"{at}.k"], self.base[f"{at}.v"]) for at in range(len(self.base) // 2)]
        cache, start, begun = kv_cache.extend(self.model.begin(), layers), len(self.system), time.perf_counter()
        arrays = self.model.prefill(cache, ids) or kv_cache.take(cache, start, start + len(ids))
        seconds = time.perf_counter() - begun
        if self.kept:
            self.kept.costs.record_prefill(start, start + len(ids), seconds)
        return BlockPart(arrays, None, seconds, is_loaded=False)


def _keep(kept: KvBinding | None, system: Ids, first: Prefilled, parts: Mapping[Ids, BlockPart], *, evict: bool) -> int:
    """Store the system segment and the blocks that are not stored yet; returns the number of nodes stored."""
    if kept is None:
        return 0
    count = keep(kept, (system,), first, evict=evict)
    above = kept.store.match(kept.root, (system,)).nodes
    for ids, part in parts.items() if above else ():
        if part.node is None:
            about = (ids, part.seconds, [kv_cache.tensor(name, one) for name, one in part.arrays.items()])
            count += kept.store.keep(kept.root, above[0], *about, evict=evict) is not None
    return count
