"""Prefill in blocks: each chunk attends to the system segment alone, then its keys move to their place in the prompt.

Only the question attends to all blocks. A block's tensors depend on its own tokens alone: not on its position, its
neighbours or the cache. Loaded, fetched from another machine or computed, they are moved from the same form by the same
function, so that all ways are bit-identical. A block is stored as a child of the system segment.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Any

from engine.kv.costs import Costs, Loader, Unit, hangs, within
from engine.kv.costs import load as load_all
from engine.kv.restore import LEAST_S, KvBinding, Prefilled, PromptReader, fetch, keep, look, offered, prefill
from engine.models.kv_cache import Cache, Ropes, array, concatenated, extend, fill, tensor, unpack
from engine.models.kv_read import Arrays, OpenFiles, RangeReader, UnreadableCache, open_files
from engine.models.types import Ids
from engine.types import Trace
from store.kv_files import Header, Node, Tensor, cached_share
from store.kv_index import Match
from store.remote import FetchedNode, RemoteMiss, headers_of

Layers = list[tuple[Any, Any]]  # keys and values of each layer, each (1, heads, tokens, width)


def take(cache: Cache, start: int, stop: int) -> Arrays:
    """Copy the keys and values of some tokens out of a sliceable cache."""
    import mlx.core as mx

    found = {
        f"{number}.{kv}": mx.contiguous(array[..., start:stop, :])
        for number, layer in enumerate(cache)
        for kv, array in zip("kv", layer.keys_and_values(), strict=True)
    }
    mx.eval(list(found.values()))
    return found


def tensors(arrays: Arrays) -> list[Tensor]:
    """Return the tensors of a file."""
    return [tensor(name, array) for name, array in arrays.items()]


def assemble(parts: Sequence[Arrays], moves: Sequence[int], ropes: Ropes) -> Layers:
    """Concatenate parts, with the keys of each moved forward by its number of positions."""
    keys = list[list[Any]]()
    for part, by in zip(parts, moves, strict=True):
        keys.append(ropes.move([unpack(part, f"{number}.k") for number in range(len(ropes.layers))], by))
    return [
        (concatenated(one[number] for one in keys), concatenated(unpack(part, f"{number}.v") for part in parts))
        for number in range(len(ropes.layers))
    ]


@dataclass(frozen=True, slots=True)
class BlockPart:
    """A block's tensors as they are stored: of a node here, or fetched, or computed in `seconds`."""

    arrays: Arrays
    node: Node | None = None
    seconds: float = 0.0
    is_loaded: bool = True


@dataclass(frozen=True, slots=True)
class PrefixCache:
    """A cache of all segments but the last; `reused` tokens by segment.

    `keep` stores what was computed; `release` frees the cache after that.
    """

    cache: Any
    reused: tuple[int, ...]
    keep: Callable[[], int]
    release: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a block can be had: in a node here, or under a header elsewhere; and what that and computing it take."""

    ids: Ids
    unit: Unit
    node: Node | None = None
    header: Header | None = None
    cached: float = 1.0  # share of the node's file that the system has in memory


def read(reading: PromptReader, segments: Sequence[Ids], trace: Trace, held: ExitStack) -> PrefixCache:
    """Prefill the system segment and its blocks; matched nodes stay in the store until `held` is closed."""
    assert reading.ropes, "this model's keys cannot be moved"
    system, *blocks = segments
    first, kept = prefill(reading, (system,), trace, held), reading.kept
    run = _Blocks(reading, system, take(first.cache, 0, len(system)), trace)
    parts = run.parts(list(dict.fromkeys(blocks)), held)
    with trace.step("prefill") as step:
        moves = list[int](accumulate(map(len, blocks), initial=0))[:-1]
        if blocks:
            extend(first.cache, assemble([parts[ids].arrays for ids in blocks], moves, reading.ropes))
        loaded = [len(ids) if parts[ids].is_loaded else 0 for ids in blocks]
        step.note = " ".join(f"{there}/{len(ids)}" for ids, there in zip(blocks, loaded, strict=True)) + " reused"
    keep = partial(_keep, kept, system, first, parts, run.suspects, evict=trace.asked)
    release = partial(kept.model.release, first.cache) if kept else lambda: None
    return PrefixCache(first.cache, (*first.reused, *loaded), keep, release)


class _Blocks:
    """The blocks of one prompt: where each can be had, and how it is computed; mutable, for one thread."""

    def __init__(self, reading: PromptReader, system: Ids, base: Arrays, trace: Trace) -> None:
        self._model, self._kept, self._system, self._base, self._trace = (
            reading.model, reading.kept, system, base, trace
        )  # fmt: skip
        self._planning = reading.kept.planning if reading.kept else None
        self._costs = self._planning.costs.costs if self._planning else Costs()
        self.suspects = list[Node]()  # that could not be read, to be checked after the answer

    def parts(self, wanted: Sequence[Ids], held: ExitStack) -> dict[Ids, BlockPart]:
        """Return the parts of all blocks: a thread loads and fetches some while the others are computed."""
        if self._kept is None or not wanted:
            return {ids: self._computed(ids) for ids in wanted}
        begun, here = time.perf_counter(), self._here(self._kept, wanted, held)
        stored = {one.ids for one in here}
        away = self._away(self._kept, [ids for ids in wanted if ids not in stored])
        with self._trace.step("load") as step:
            found = self._divided(self._kept, wanted, [*away, *here])
            come = [one for one in (*away, *here) if found[one.ids].is_loaded]
            computed = sum(map(len, wanted)) - sum(one.unit.tokens for one in come)
            step.note = f"{sum(one.unit.tokens for one in come)} tokens" if come else "nothing"
            step.note += f", {computed} computed meanwhile" if come and computed else ""
        if come and self._trace.asked:
            spent = time.perf_counter() - begun - sum(part.seconds for part in found.values() if not part.is_loaded)
            self._account(self._kept, come, spent)
        return found

    def _here(self, kept: KvBinding, wanted: Sequence[Ids], held: ExitStack) -> list[_Source]:
        """Return the blocks that are stored here, their nodes protected from eviction until `held` is closed."""
        with self._trace.step("match") as step:
            nodes = dict[Ids, Node]()
            for ids in wanted:
                path = (self._system, ids)
                match = held.enter_context(kept.store.match(kept.root, path, asked=self._trace.asked, look=look))
                if len(match.nodes) == len(path):
                    nodes[ids] = match.nodes[-1]
            step.note = f"{len(nodes)} of {len(wanted)} blocks"
        shares = look(lambda: [cached_share(kept.store.path_of(node)) for node in nodes.values()])
        return [
            _Source(ids, self._unit(node, self._costs.load_s(1, node.bytes, share)), node, cached=share)
            for (ids, node), share in zip(nodes.items(), shares or (), strict=shares is not None)
        ]

    def _unit(self, node: Node, loading: float | None) -> Unit:
        start = len(self._system)
        computing = self._costs.prefill_s(start, start + len(node.ids))
        return Unit(len(node.ids), node.bytes, node.seconds if computing is None else computing, loading)

    def _away(self, kept: KvBinding, missing: Sequence[Ids]) -> list[_Source]:
        """Return the blocks that are not stored here, but on another machine."""
        if not missing or not kept.borrows:
            return []
        headers = [headers_of(kept.root, (self._system, ids))[-1] for ids in missing]
        with self._trace.step("remote") as step:
            units = offered(kept, headers, [len(self._system)] * len(headers))
            found = [
                _Source(ids, unit, header=header)
                for ids, unit, header in zip(missing, units, headers, strict=True)
                if unit
            ]
            step.note = (
                f"{len(found)} of {len(missing)} blocks, {sum(one.unit.size for one in found) / 1e6:.1f} MB there"
            )
        return found

    def _divided(self, kept: KvBinding, wanted: Sequence[Ids], sources: Sequence[_Source]) -> dict[Ids, BlockPart]:
        """Compute what is nowhere, and from the front of `sources`, while a thread loads them from the back."""
        plan = (self._planning.planner if self._planning else load_all)([one.unit for one in sources])
        until = time.perf_counter() + max(LEAST_S, sum(one.unit.compute_s for one in sources))
        with ExitStack() as stack:
            reader = self._reader(kept, sources, until, stack) if plan.way != "compute" else None
            if reader is None:
                sources = [one for one in sources if one.header and plan.way != "compute"]
            coming = _Coming(kept, sources, reader)
            failures, there = (UnreadableCache, RemoteMiss), {one.ids for one in sources}
            fixed = None if plan.way == "overlap" else min(plan.computed, len(sources))
            with Loader([one.unit for one in sources], coming.load, failures, coming.cancel, until, fixed) as loader:
                parts = {ids: self._computed(ids) for ids in wanted if ids not in there}
                while (number := loader.next()) is not None:
                    parts[sources[number].ids] = self._computed(sources[number].ids)
            if loader.failed is not None and (node := sources[loader.failed].node):
                self.suspects.append(node)
            return parts | {ids: self._sound(ids, part) for ids, part in coming.parts(loader.back)}

    def _reader(
        self, kept: KvBinding, sources: Sequence[_Source], until: float, stack: ExitStack
    ) -> RangeReader | None:
        """Open the files of nodes; None where there are none, or the disk does not open them in time."""
        nodes = [one.node for one in sources if one.node]
        paths = [kept.store.path_of(node) for node in nodes]
        if not nodes or hangs():
            return None
        try:
            opened = within(until, lambda: open_files(paths), (UnreadableCache,), OpenFiles.close)
            if opened is None:
                return None
            read_at = self._planning.read_at if self._planning else os.preadv
            return stack.enter_context(closing(kept.model.ranges(opened, None, read_at)))
        except UnreadableCache:
            self.suspects += nodes
            return None

    def _computed(self, ids: Ids) -> BlockPart:
        """Compute a block behind the system segment alone."""
        layers = [(self._base[f"{at}.k"], self._base[f"{at}.v"]) for at in range(len(self._base) // 2)]
        cache, start, begun = fill(self._model.begin(), layers), len(self._system), time.perf_counter()
        arrays = self._model.prefill(cache, ids) or take(cache, start, start + len(ids))
        seconds = time.perf_counter() - begun
        if self._planning:
            self._planning.costs.record_prefill(start, start + len(ids), seconds)
        return BlockPart(arrays, None, seconds, is_loaded=False)

    def _sound(self, ids: Ids, part: BlockPart) -> BlockPart:
        """Return a part that came, or compute it where its tensors are not of this model's shapes."""
        try:
            shapes = {name: unpack(part.arrays, name).shape for name in self._base}
        except (LookupError, ValueError):
            shapes = {}
        if shapes == {name: (*one.shape[:2], len(ids), one.shape[3]) for name, one in self._base.items()}:
            return part
        self.suspects += [part.node] if part.node else []
        return self._computed(ids)

    def _account(self, kept: KvBinding, come: Sequence[_Source], spent: float) -> None:
        """Count what was loaded and fetched, and what that saved."""
        worth = sum(one.unit.compute_s for one in come)
        away = [one.unit for one in come if one.header]
        share = sum(unit.compute_s for unit in away) / worth if worth else 0.0
        self._trace.saved_s += max(0.0, worth - spent)
        if nodes := tuple(one.node for one in come if one.node):
            kept.store.record_use(Match(nodes, None, lambda: None), (worth - spent) * (1 - share))
        if away:
            counts = sum(unit.tokens for unit in away), sum(unit.size for unit in away)
            kept.store.record_fetched(*counts, (worth - spent) * share)


class _Coming:
    """Blocks that a thread loads and fetches; mutable."""

    def __init__(self, kept: KvBinding, sources: Sequence[_Source], reader: RangeReader | None) -> None:
        self._kept, self._sources, self._reader = kept, sources, reader
        self._fetched, self._seconds = dict[int, FetchedNode](), dict[int, float]()
        self._places = {at: place for place, at in enumerate(at for at, one in enumerate(sources) if one.node)}

    def load(self, number: int) -> None:
        """Load or fetch a block, in any thread; UnreadableCache, RemoteMiss."""
        one, begun = self._sources[number], time.perf_counter()
        if self._reader and one.node:
            self._reader.read(self._places[number], 0, len(one.ids))
        elif one.header:
            self._fetched[number] = fetch(self._kept, one.header, one.unit)
        self._seconds[number] = time.perf_counter() - begun

    def cancel(self) -> None:
        """End a fetch that is not needed any more."""
        if self._kept.remote and any(one.header for one in self._sources):
            self._kept.remote.cancel()

    def parts(self, first: int) -> Iterator[tuple[Ids, BlockPart]]:
        """Yield the parts of those blocks, from a number on, that have come, and learn what loading them took."""
        come = list(enumerate(self._sources))[first:]
        arrays = self._reader.take() if self._reader and any(one.node for _, one in come) else {}
        for number, one in come:
            if one.node and self._reader:
                start = self._reader.start(self._places[number])
                own = {name: each[..., start : start + len(one.ids), :] for name, each in arrays.items()}
                if self._kept.planning:
                    about = (1, one.unit.size, one.cached, self._seconds[number])
                    self._kept.planning.costs.record_load(*about)
                yield one.ids, BlockPart(own, one.node)
            else:
                own = {each.name: array(each) for each in self._fetched[number].tensors}
                yield one.ids, BlockPart(own, None, one.unit.compute_s)


def _keep(
    kept: KvBinding | None, system: Ids, first: Prefilled, parts: Mapping[Ids, BlockPart], suspects: Sequence[Node],
    *, evict: bool,
) -> int:  # fmt: skip
    """Store the system segment and the blocks that are not stored yet; returns the number of nodes stored."""
    if kept is None:
        return 0
    count = keep(kept, (system,), replace(first, suspects=(*first.suspects, *suspects)), evict=evict)
    with kept.store.match(kept.root, (system,), asked=False, look=look) as match:
        for ids, part in parts.items() if match.nodes else ():
            if part.node is None:
                about = (ids, part.seconds, tensors(part.arrays))
                count += kept.store.keep(kept.root, match.nodes[0], *about, evict=evict) is not None
    return count
