"""Restoring the cached prefix of a prompt: loaded, computed again where that is sooner, or both at once.

match -> plan -> load or compute -> learn. Whatever the plan, the tensors are bit-identical: both ways end at the same
sub-steps. Knows the model and the store by their methods.
"""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from engine.kv.costs import MeasuredCosts
from engine.kv.overlap import Loader
from engine.kv.planners import LoadPlan, Planner, Unit, auto
from engine.kv.planners import compute as compute_all
from engine.kv.planners import load as load_all
from engine.models.kv_read import ReadAt, UnreadableCache
from engine.models.types import KvSliceable
from engine.types import Trace
from store.kv_files import cached_share
from store.kv_index import Match
from store.kv_store import KvStore
from store.kv_tree import Node, TreeRoot, borders
from store.remote import Remote

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Planning:
    """How to divide cached tokens between loading and computing: what both cost here, and who decides."""

    costs: MeasuredCosts
    planner: Planner = auto
    read_at: ReadAt = os.preadv


@dataclass(frozen=True, slots=True)
class KvBinding:
    """Where a model's KV cache is stored: a store, and the root that names all that its tensors depend on.

    Without `planning` everything cached is loaded. `remote` is another place that may have nodes.
    """

    store: KvStore
    root: TreeRoot
    model: KvSliceable
    planning: Planning | None = None
    remote: Remote | None = None


@dataclass(frozen=True, slots=True)
class Restored:
    """A cache of the first tokens of each segment, `present`, and how many of them were loaded, not computed.

    `seconds` are those of computing the segments behind the matched ones, if they are present.
    """

    cache: Any
    present: tuple[int, ...]
    loaded: tuple[int, ...]
    seconds: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class _Span:
    """A sub-step of a matched node: the node's number, its tokens there, its first position, and what it takes."""

    file: int
    start: int
    stop: int
    position: int
    unit: Unit


def restore(kept: KvBinding, match: Match, trace: Trace) -> Restored | None:
    """Return a cache of the matched tokens; None if there are none, or none could be loaded."""
    if not match.found:
        return None
    spans, plan = _planned(kept, match, trace)
    begun = time.perf_counter()
    with trace.step("load") as step:
        try:
            found = _carried_out(kept, match, spans, plan)
        except UnreadableCache:
            found = None
            _check(kept, match)
        step.note = _described(found, match)
    if found and trace.asked:
        _account(kept, match, spans, found, time.perf_counter() - begun, trace)
    return found


def _planned(kept: KvBinding, match: Match, trace: Trace) -> tuple[list[_Span], LoadPlan]:
    planning = kept.planning
    if planning is None:
        return [], LoadPlan("load", 0, None)
    with trace.step("plan") as step:
        spans = list(_spans(kept, match, planning.costs))
        units = [span.unit for span in spans]
        plan = planning.planner(units)
        if plan.way == "overlap" and not kept.model.reads_ranges:
            plan = _better(units)
        step.note = f"{plan.way}{_expectation(plan, units)}"
    return spans, plan


def _better(units: Sequence[Unit]) -> LoadPlan:
    loading, computing = load_all(units), compute_all(units)
    return loading if (loading.seconds or 0.0) <= (computing.seconds or 0.0) else computing


def _expectation(plan: LoadPlan, units: Sequence[Unit]) -> str:
    loading, computing = load_all(units).seconds, sum(unit.compute_s for unit in units)
    expected = "not measured yet" if loading is None else f"{loading * 1000:.0f} ms"
    both = f", both {plan.seconds * 1000:.0f} ms" if plan.way == "overlap" and plan.seconds is not None else ""
    return f" (loading: {expected}, computing: {computing * 1000:.0f} ms{both})"


def _spans(kept: KvBinding, match: Match, costs: MeasuredCosts) -> Iterator[_Span]:
    position = 0
    for number, node in enumerate(match.found):
        length = _length(match, number)
        size, cached = node.bytes / len(node.ids), cached_share(kept.store.path_of(node))
        for start, stop in pairwise(
            (0, *(end for end in borders(len(node.ids), kept.model.sub_step) if end <= length))
        ):
            count = stop - start
            computing = costs.costs.prefill_s(position, position + count)
            loading = costs.costs.load_s(count / length, round(count * size), cached)
            taken = node.seconds * count / len(node.ids) if computing is None else computing
            yield _Span(number, start, stop, position, Unit(count, round(count * size), taken, loading))
            position += count


def _length(match: Match, number: int) -> int:
    """Return the matched tokens of a node."""
    return match.partial.tokens if match.partial and number == len(match.nodes) else len(match.found[number].ids)


def _carried_out(kept: KvBinding, match: Match, spans: Sequence[_Span], plan: LoadPlan) -> Restored | None:
    lengths = tuple(_length(match, number) for number in range(len(match.found)))
    if plan.way == "compute":
        return Restored(kept.model.begin(), (0,) * len(lengths), (0,) * len(lengths))
    if plan.way == "overlap":
        return _overlapped(kept, match, spans, lengths)
    paths, shared = _files(kept, match)
    cached, begun = _cached(kept, match), time.perf_counter()
    cache = kept.model.restore(paths, shared, kept.planning.read_at if kept.planning else os.preadv)
    if kept.planning:
        size = sum(node.bytes * count // len(node.ids) for node, count in zip(match.found, lengths, strict=True))
        kept.planning.costs.record_load(len(paths), size, cached, time.perf_counter() - begun)
    return Restored(cache, lengths, lengths)


def _files(kept: KvBinding, match: Match) -> tuple[list[Path], int | None]:
    """Return the matched files, and the tokens of the last one that are matched; None for all."""
    return [kept.store.path_of(node) for node in match.found], match.partial.tokens if match.partial else None


def _overlapped(kept: KvBinding, match: Match, spans: Sequence[_Span], lengths: tuple[int, ...]) -> Restored:
    """Compute the first sub-steps while a thread loads the last ones."""
    assert kept.planning
    model, costs, units = kept.model, kept.planning.costs, [span.unit for span in spans]
    paths, shared = _files(kept, match)
    cached, cache = _cached(kept, match), model.begin()
    with closing(model.open_ranges(paths, shared, kept.planning.read_at)) as reader:

        def load(number: int) -> None:
            reader.read(spans[number].file, spans[number].start, spans[number].stop)

        with Loader(units, load, (UnreadableCache,)) as loader:
            while (number := loader.next()) is not None:
                _compute(kept, cache, match, spans[number], costs)
        back = spans[loader.back :]
        if back:
            model.join(cache, reader)
            size = round(sum(span.unit.tokens for span in back) * reader.token_bytes)
            costs.record_load(len({span.file for span in back}), size, cached, loader.seconds)
    if loader.error:
        _check(kept, match)
    loaded = [0] * len(lengths)
    for span in back:
        loaded[span.file] += span.unit.tokens
    return Restored(cache, lengths, tuple(loaded))


def _compute(kept: KvBinding, cache: Any, match: Match, span: _Span, costs: MeasuredCosts) -> None:
    begun = time.perf_counter()
    kept.model.prefill(cache, match.found[span.file].ids[span.start : span.stop])
    costs.record_prefill(span.position, span.position + span.unit.tokens, time.perf_counter() - begun)


def _cached(kept: KvBinding, match: Match) -> float:
    """Return the share of the matched files that the system has in memory, by size."""
    if not kept.planning:
        return 1.0
    shares = [(node.bytes, cached_share(kept.store.path_of(node))) for node in match.found]
    return sum(size * share for size, share in shares) / max(1, sum(size for size, _ in shares))


def _check(kept: KvBinding, match: Match) -> None:
    for node in match.found:
        kept.store.check(node, read_data=True)


def _described(found: Restored | None, match: Match) -> str:
    if found is None:
        return "nothing"
    loaded = sum(found.loaded)
    if not loaded:
        return "nothing, computing is sooner"
    return f"{loaded} tokens" + (f", {match.tokens - loaded} computed meanwhile" if loaded < match.tokens else "")


def _account(
    kept: KvBinding, match: Match, spans: Sequence[_Span], found: Restored, seconds: float, trace: Trace
) -> None:
    """Count the hit and what it saved; a restore that took longer than computing would have is said."""
    if not any(found.loaded):
        kept.store.record_computed(match)
        return
    worth = sum(span.unit.compute_s for span in spans) if spans else _worth(match.found, match)
    trace.saved_s = max(0.0, worth - seconds)
    kept.store.record_use(match, worth - seconds, sum(found.loaded))
    if seconds > worth:
        trace.steps[-1].note += f"; {(seconds - worth) * 1000:.0f} ms longer than computing them"


def _worth(nodes: Sequence[Node], match: Match) -> float:
    """Return how many seconds computing the matched tokens took when they were stored."""
    return sum(node.seconds * _length(match, number) / len(node.ids) for number, node in enumerate(nodes))
