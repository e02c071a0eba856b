"""Prefill with KV reuse: a prompt's segments are loaded, borrowed from another machine, or computed and then stored.

match -> plan -> load or compute -> borrow -> compute the rest -> (decode) -> keep. Whatever the plan, the tensors are
bit-identical: all ways end at the same sub-steps. Files are read in another thread, with no wait longer than computing
takes; KV from another machine is verified before use. Knows the model, the store and the remote by their methods.
"""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise, takewhile
from pathlib import Path
from typing import Any

from engine.kv.costs import Loader, MeasuredCosts, Planner, Unit, Way, auto, computing_s, loading_s, overlap_s
from engine.models.kv_cache import ReadAt, Ropes, UnreadableCache, append, cut, join
from engine.models.mlx import Mlx
from engine.models.types import Ids, LanguageModel
from engine.settings import LINKS
from engine.types import Trace
from store.kv_files import Header, Node, TreeRoot, borders
from store.kv_index import Match
from store.kv_store import KvStore
from store.remote import BITS, FetchedNode, Remote, RemoteMiss, headers_of

LEAST_S = 1.0  # least time to wait for a disk: one that slept needs some


@dataclass(frozen=True, slots=True)
class KvBinding:
    """Where a model's KV cache is stored: a store, and the root that names all that its tensors depend on.

    `planner` divides cached tokens between loading and computing, by what both cost here. `remote` is another place
    that may have nodes, under the root `exact` where they come rounded: those kept here have a root of their own.
    """

    store: KvStore
    root: TreeRoot
    model: Mlx
    costs: MeasuredCosts
    planner: Planner = auto
    read_at: ReadAt = os.preadv
    remote: Remote | None = None
    exact: TreeRoot | None = None


@dataclass(frozen=True, slots=True)
class Prefilled:
    """A cache of the first tokens of each segment, `present`, and how many of them were loaded, not computed: `reused`.

    The first segments are those of `nodes`. Of those behind, `seconds` are those of computing, and `captured` the
    arrays to store that cannot be cut from the cache later.
    """

    cache: Any
    present: tuple[int, ...] = ()
    reused: tuple[int, ...] = ()
    nodes: tuple[Node, ...] = ()
    seconds: tuple[float, ...] = ()
    captured: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class _Span:
    """A sub-step of a matched node: the node's number, its tokens there, its first position, and what it takes."""

    file: int
    start: int
    stop: int
    position: int
    unit: Unit


def restore(kept: KvBinding, match: Match, trace: Trace) -> Prefilled:
    """Return a cache of the matched tokens, of none where they could not be loaded."""
    if not match.found:
        return Prefilled(kept.model.begin())
    (spans, way), begun = _planned(kept, match, trace), time.perf_counter()
    with trace.step("load") as step:
        try:
            found = _carried_out(kept, match, spans, way)
        except UnreadableCache:
            found = Prefilled(kept.model.begin())
            for node in match.found:
                kept.store.folder.check(node, read_data=True)
        loaded = sum(found.reused)
        why = ", computing is sooner" if way == "compute" else ", it did not come in time"
        step.note = f"{loaded} tokens" if loaded else "nothing" + why * bool(found.present)
        step.note += f", {left} computed meanwhile" if loaded and (left := match.tokens - loaded) else ""
    if loaded and trace.asked:
        worth, taken = computing_s([span.unit for span in spans]), time.perf_counter() - begun
        trace.saved_s = max(0.0, worth - taken)
        kept.store.record_use(match, worth - taken, loaded)
        if taken > worth:
            step.note += f"; {(taken - worth) * 1000:.0f} ms longer than computing them"
    return found


def _planned(kept: KvBinding, match: Match, trace: Trace) -> tuple[list[_Span], Way]:
    spans = list(_spans(kept, match))
    units = [span.unit for span in spans]
    with trace.step("plan") as step:
        way, loading, computing = kept.planner(units), loading_s(units), computing_s(units)
        if way == "overlap" and not kept.model.reads_ranges:
            way = "load" if (loading or 0.0) <= computing else "compute"
        expected = "not measured yet" if loading is None else f"{loading * 1000:.0f} ms"
        both = f", both {overlap_s(units) * 1000:.0f} ms" if way == "overlap" and loading is not None else ""
        step.note = f"{way} (loading: {expected}, computing: {computing * 1000:.0f} ms{both})"
    return spans, way


def _spans(kept: KvBinding, match: Match) -> Iterator[_Span]:
    position = 0
    for number, (node, length) in enumerate(zip(match.found, match.lengths, strict=True)):
        size, ends = node.bytes / len(node.ids), borders(len(node.ids), kept.model.sub_step)
        for start, stop in pairwise((0, *(end for end in ends if end <= length))):
            count = stop - start
            computing = kept.costs.prefill_s(position, position + count)
            loading = kept.costs.load.seconds(count / length, round(count * size))
            taken = node.seconds * count / len(node.ids) if computing is None else computing
            yield _Span(number, start, stop, position, Unit(count, round(count * size), taken, loading))
            position += count


def _carried_out(kept: KvBinding, match: Match, spans: Sequence[_Span], way: Way) -> Prefilled:
    lengths, begun = match.lengths, time.perf_counter()
    if way == "compute":
        return Prefilled(kept.model.begin(), (0,) * len(lengths), (0,) * len(lengths), match.nodes)
    paths = [kept.store.folder.path_of(node.key) for node in match.found]
    if kept.model.reads_ranges:
        return _divided(kept, match, spans, paths, way)
    cache = kept.model.restore(paths)
    kept.costs.record_load(len(paths), sum(node.bytes for node in match.found), time.perf_counter() - begun)
    return Prefilled(cache, lengths, lengths, match.nodes)


def _divided(kept: KvBinding, match: Match, spans: Sequence[_Span], paths: Sequence[Path], way: Way) -> Prefilled:
    """Compute the first parts while a thread loads the last ones; if all are loaded, a part is a whole file."""
    parts = [list(found) for _, found in groupby(spans, lambda span: span.file if way == "load" else span)]
    cache, begun = kept.model.begin(), time.perf_counter()
    until = begun + max(LEAST_S, computing_s([span.unit for span in spans]))
    with closing(kept.model.ranges(paths, match.shared, kept.read_at)) as reader:

        def load(number: int) -> None:
            reader.read(parts[number][0].file, parts[number][0].start, parts[number][-1].stop)

        units = [_joined([span.unit for span in part]) for part in parts]
        with Loader(units, load, (UnreadableCache,), until=until, waits=way == "load") as loader:
            while (number := loader.next()) is not None:
                for span in parts[number]:
                    since, end = time.perf_counter(), span.position + span.unit.tokens
                    kept.model.prefill(cache, match.found[span.file].ids[span.start : span.stop])
                    kept.costs.record_prefill(span.position, end, time.perf_counter() - since)
        back = [span for part in parts[loader.back :] for span in part]
        if back:
            join(cache, reader)
            size = sum(span.unit.size for span in back)
            kept.costs.record_load(len({span.file for span in back}), size, loader.seconds)
        elif loader.failed is None:  # not even one came: it takes at least as long
            kept.costs.record_load(1, units[-1].size, time.perf_counter() - begun)
    loaded = [0] * len(match.found)
    for span in back:
        loaded[span.file] += span.unit.tokens
    if loader.failed is not None:
        kept.store.folder.remove_damaged(match.found[parts[loader.failed][0].file])
    return Prefilled(cache, match.lengths, tuple(loaded), match.nodes)


def _joined(units: Sequence[Unit]) -> Unit:
    tokens, size = sum(unit.tokens for unit in units), sum(unit.size for unit in units)
    return Unit(tokens, size, computing_s(units), loading_s(units))


@dataclass(frozen=True, slots=True)
class PromptReader:
    """A model with its KV store (None: store nothing). With `ropes`, prompts are prefilled in blocks."""

    model: LanguageModel
    kept: KvBinding | None = None
    ropes: Ropes | None = None
    links: int = LINKS  # first tokens of each block, which are computed in their place

    def paths(self, segments: Sequence[Ids]) -> list[tuple[Ids, ...]]:
        """Return the path of each node that segments are read from: all prefixes, or the system segment and blocks."""
        if not self.ropes:
            return [tuple(segments[:end]) for end in range(1, len(segments) + 1)]
        system, *blocks = segments
        return [(system,), *((system, ids) for ids in dict.fromkeys(blocks) if len(ids) > self.links)]


def prefill(reading: PromptReader, segments: Sequence[Ids], trace: Trace) -> Prefilled:
    """Prefill all segments given. Hits count for questions, not for prefetches."""
    model, kept = reading.model, reading.kept
    if kept is None:
        return _compute_missing(reading, Prefilled(model.begin()), segments, trace)
    with trace.step("match") as step:
        match = kept.store.match(kept.root, segments)
        step.note = f"{len(match.nodes)} of {len(segments)} segments"
        step.note += ", and part of one" if match.shared else ""
    whole = borrow(kept, match, restore(kept, match, trace), segments, trace)
    return _compute_missing(reading, whole, segments, trace)


def keep(kept: KvBinding, segments: Sequence[Ids], read: Prefilled, *, evict: bool = True) -> int:
    """Store the computed segments, each below the one before it; returns how many were stored.

    Without `evict` nothing is evicted for them, and nothing is stored below a node that could not be read.
    """
    kept.costs.save()
    nodes, at, count = list(read.nodes), sum(map(len, segments[: len(read.nodes)])), 0
    for ids, seconds, captured in zip(segments[len(nodes) :], read.seconds, read.captured, strict=True):
        tensors = cut(read.cache, at, at + len(ids), captured)
        node = kept.store.keep(kept.root, nodes[-1] if nodes else None, ids, seconds, tensors, evict=evict)
        if node is None:
            break  # a child needs its parent
        nodes.append(node)
        at, count = at + len(ids), count + 1
    return count


def _compute_missing(reading: PromptReader, found: Prefilled, segments: Sequence[Ids], trace: Trace) -> Prefilled:
    seconds, captured, cache, position = list[float](), list[Any](), found.cache, 0
    present, loaded = ([*counts, *[0] * (len(segments) - len(counts))] for counts in (found.present, found.reused))
    with trace.step("prefill") as step:
        for ids, there in zip(segments, present, strict=True):
            begun = time.perf_counter()
            passed = reading.model.prefill(cache, ids[there:]) if there < len(ids) else None
            captured.append(passed if reading.kept else None)
            # Where part of a segment was reused, the time of the rest is extrapolated to the whole.
            seconds.append((time.perf_counter() - begun) * len(ids) / max(1, len(ids) - there))
            if ids and not there and reading.kept:  # computed as a whole
                reading.kept.costs.record_prefill(position, position + len(ids), seconds[-1])
            position += len(ids)
        step.note = " ".join(f"{there}/{len(ids)}" for ids, there in zip(segments, loaded, strict=True)) + " reused"
    taken = (*found.seconds, *seconds[len(found.nodes) + len(found.seconds) :])
    arrays = (*found.captured, *captured[len(found.nodes) + len(found.captured) :])
    return Prefilled(cache, tuple(map(len, segments)), tuple(loaded), found.nodes, taken, arrays)


_TOKEN_S = 0.002  # guessed seconds of computing a token, before any was measured
_MOST_TOKEN_BYTES = 1 << 20  # of keys and values; no model here makes more
_PATIENCE = 2.0  # times as long as computing takes, and at least LEAST_S, may a node take to come
_NOTHING = {"": "nothing there", "late": "no answer in time"}


def borrow(kept: KvBinding, match: Match, here: Prefilled, segments: Sequence[Ids], trace: Trace) -> Prefilled:
    """Return the cache with as many of the next segments as another place has, fetched or computed meanwhile."""
    remote, costs, first = kept.remote, kept.costs, len(match.nodes)
    complete = match.shared is None and here.present == tuple(len(node.ids) for node in match.nodes)
    if remote is None or not complete or not kept.model.reads_ranges:
        return here
    with trace.step("remote") as step:
        headers = headers_of(kept.exact or kept.root, segments)[first:]
        starts = list(accumulate(map(len, segments), initial=0))
        units = [unit for unit in takewhile(bool, offered(remote, costs, headers, starts[first:-1])) if unit]
        if not units or kept.planner(units) == "compute":
            step.note = "computing is sooner" if units else _NOTHING.get(remote.last_miss, "no answer")
            return here
        begun, measured = time.perf_counter(), costs.prefill_s(0, 1) is not None
        fetched, front = _fetched(kept, remote, here, headers, units)
        result = _appended(front, units, fetched, measured=measured) if fetched else front
        come, taken = [units[number] for number in fetched], time.perf_counter() - begun
        sent, rounding = said(list(fetched.values()))
        if come and trace.asked:
            saved = computing_s(units) - taken if measured else 0.0
            kept.store.record_fetched(sum(u.tokens for u in come), sent, saved)
            trace.saved_s += max(0.0, saved)
        meanwhile = sum(result.present[first:]) - sum(result.reused[first:])
        step.note = f"{len(come)} of {len(units)} segments fetched, {sent / 1e6:.1f} MB{rounding}"
        step.note += f", {meanwhile} tokens computed meanwhile" if meanwhile else ""
    return result


def offered(
    remote: Remote, costs: MeasuredCosts, headers: Sequence[Header], starts: Sequence[int]
) -> list[Unit | None]:
    """Return what the nodes of headers, at these positions, take to fetch and to compute; None of one not there."""
    sizes, units = remote.find([one.key for one in headers]), list[Unit | None]()
    latency, rate = remote.latency, remote.rate
    for header, start, size in zip(headers, starts, (*sizes, *[0] * (len(headers) - len(sizes))), strict=True):
        count = len(header.ids)
        taken = costs.prefill_s(start, start + count)
        arrival_s = latency + size / rate if latency and rate else None
        unit = Unit(count, size, count * _TOKEN_S if taken is None else taken, arrival_s)
        units.append(unit if 0 < size <= count * _MOST_TOKEN_BYTES else None)
    return units


def fetch(remote: Remote, header: Header, unit: Unit) -> FetchedNode:
    """Fetch a node, within a time that depends on what computing it takes; RemoteMiss."""
    return remote.fetch(header, unit.size, max(LEAST_S, _PATIENCE * unit.compute_s))


def said(fetched: Sequence[FetchedNode]) -> tuple[int, str]:
    """Return the bytes that came, and how far rounded numbers are off; empty where they are exact."""
    error = max((one.error for one in fetched), default=0.0)
    rounding = f" in {BITS} bits, error {error:.1%} of the spread" if error else ""
    return sum(one.sent for one in fetched), rounding


def _fetched(
    kept: KvBinding, remote: Remote, here: Prefilled, headers: Sequence[Header], units: Sequence[Unit]
) -> tuple[dict[int, FetchedNode], Prefilled]:
    """Fetch nodes from the back and compute from the front; returns those fetched, and the cache of the others."""
    fetched, seconds, captured = dict[int, FetchedNode](), list[float](), list[Any]()

    def load(number: int) -> None:
        fetched[number] = fetch(remote, headers[number], units[number])

    position = sum(here.present)
    with Loader(units, load, (RemoteMiss,), remote.cancel) as loader:
        while (number := loader.next()) is not None:
            ids, begun = headers[number].ids, time.perf_counter()
            captured.append(kept.model.prefill(here.cache, ids))
            seconds.append(time.perf_counter() - begun)
            kept.costs.record_prefill(position, position + len(ids), seconds[-1])
            position += len(ids)
        back = loader.back
    present = (*here.present, *(unit.tokens for unit in units[: len(seconds)]))
    about = (present, (*here.reused, *[0] * len(seconds)), here.nodes, tuple(seconds), tuple(captured))
    return {number: fetched[number] for number in range(back, len(units))}, Prefilled(here.cache, *about)


def _appended(front: Prefilled, units: Sequence[Unit], fetched: dict[int, FetchedNode], *, measured: bool) -> Prefilled:
    """Append what was fetched to the cache; what does not fit the model is computed after all."""
    try:
        captured = append(front.cache, [fetched[number].tensors for number in sorted(fetched)])
    except UnreadableCache:
        fetched.clear()
        return front
    come = [units[number] for number in sorted(fetched)]
    counts = [unit.tokens for unit in come]
    seconds = (*front.seconds, *(unit.compute_s * measured for unit in come))
    both = ((*front.present, *counts), (*front.reused, *counts))
    return Prefilled(front.cache, *both, front.nodes, seconds, (*front.captured, *captured))
