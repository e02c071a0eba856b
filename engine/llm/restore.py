"""Restoring the cached prefix of a prompt: loaded, computed again where that is sooner, or both at once.

match -> plan -> load or compute -> learn. Whatever the plan, the tensors are bit-identical: both ways end at the same
sub-steps. Files are read in other threads, which nobody waits for longer than computing takes. Knows the model and the
store by their methods.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import inf
from pathlib import Path
from typing import Any, TypeVar

from engine.kv.costs import Costs, LoadPlan, MeasuredCosts, Planner, Unit, auto
from engine.kv.costs import compute as compute_all
from engine.kv.costs import load as load_all
from engine.kv.overlap import Loader, hangs, within
from engine.models.kv_read import OpenFiles, ReadAt, UnreadableCache, open_files
from engine.models.types import KvSliceable
from engine.types import Trace
from store.kv_files import Node, TreeRoot, borders, cached_share, read_through
from store.kv_index import Match
from store.kv_store import KvStore
from store.remote import Remote

Ids = tuple[int, ...]


T = TypeVar("T")
LEAST_S = 1.0  # for which a disk is waited for at least: one that slept needs some
LATE = "the disk does not answer"


def look(work: Callable[[], T]) -> T | None:
    """Return what a look at the disk returns; None where it takes longer than LEAST_S, or an earlier one hangs."""
    return None if hangs() else within(time.perf_counter() + LEAST_S, work, (OSError,))


@dataclass(frozen=True, slots=True)
class Planning:
    """How to divide cached tokens between loading and computing: what both cost here, and who decides."""

    costs: MeasuredCosts
    planner: Planner = auto
    read_at: ReadAt = os.preadv


@dataclass(frozen=True, slots=True)
class KvBinding:
    """Where a model's KV cache is stored: a store, and the root that names all that its tensors depend on.

    Without `planning` everything cached is loaded, in the calling thread. `remote` is another place that may have
    nodes.
    """

    store: KvStore
    root: TreeRoot
    model: KvSliceable
    planning: Planning | None = None
    remote: Remote | None = None


@dataclass(frozen=True, slots=True)
class Restored:
    """A cache of the first tokens of each segment, `present`, and how many of them were loaded, not computed.

    `seconds` are those of computing the segments behind the matched ones, if they are present. `suspects` are nodes
    that could not be read, to be checked after the answer.
    """

    cache: Any
    present: tuple[int, ...]
    loaded: tuple[int, ...]
    seconds: tuple[float, ...] = ()
    suspects: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class _Span:
    """A sub-step of a matched node: the node's number, its tokens there, its first position, and what it takes."""

    file: int
    start: int
    stop: int
    position: int
    unit: Unit


@dataclass(frozen=True, slots=True)
class _Task:
    """How to restore a match: its sub-steps, the plan, how much of its files is in memory, and when to stop waiting."""

    spans: Sequence[_Span]
    plan: LoadPlan
    cached: float = 1.0
    until: float = inf  # of time.perf_counter()


def restore(kept: KvBinding, match: Match, trace: Trace) -> Restored | None:
    """Return a cache of the matched tokens, of none where they could not be loaded; None if nothing matched."""
    if not match.found:
        return None
    task, begun = _planned(kept, match, trace), time.perf_counter()
    with trace.step("load") as step:
        try:
            found = _carried_out(kept, match, task)
        except UnreadableCache:
            found = Restored(kept.model.begin(), (), (), suspects=tuple(match.found))
        step.note = _described(found, match, task.plan)
    if found.present and trace.asked:
        _account(kept, match, task.spans, found, time.perf_counter() - begun, trace)
    return found


def _planned(kept: KvBinding, match: Match, trace: Trace) -> _Task:
    planning = kept.planning
    if planning is None:
        return _Task((), LoadPlan("load", 0, None))
    with trace.step("plan") as step:
        costs = planning.costs.costs
        computing = costs.prefill_s(0, match.tokens)
        taken = _worth(match.found, match) if computing is None else computing
        until = time.perf_counter() + max(LEAST_S, taken)
        shares = None if hangs() else within(until, lambda: [cached_share(path) for path in _files(kept, match)[0]])
        spans = list(_spans(kept, match, costs, shares or [0.0] * len(match.found)))
        units = [span.unit for span in spans]
        if shares is None:
            step.note = f"compute: {LATE}"
            return _Task(spans, compute_all(units))
        plan = planning.planner(units)
        if plan.way not in ("load", "compute") and not kept.model.reads_ranges:
            plan = _better(units)
        step.note = f"{plan.way}{_expectation(plan, units)}"
        sizes = [node.bytes for node in match.found]
        cached = sum(size * share for size, share in zip(sizes, shares, strict=True)) / max(1, sum(sizes))
    return _Task(spans, plan, cached, until)


def _better(units: Sequence[Unit]) -> LoadPlan:
    loading, computing = load_all(units), compute_all(units)
    return loading if (loading.seconds or 0.0) <= (computing.seconds or 0.0) else computing


def _expectation(plan: LoadPlan, units: Sequence[Unit]) -> str:
    loading, computing = load_all(units).seconds, sum(unit.compute_s for unit in units)
    expected = "not measured yet" if loading is None else f"{loading * 1000:.0f} ms"
    both = (
        f", both {plan.seconds * 1000:.0f} ms"
        if plan.way not in ("load", "compute") and plan.seconds is not None
        else ""
    )
    return f" (loading: {expected}, computing: {computing * 1000:.0f} ms{both})"


def _spans(kept: KvBinding, match: Match, costs: Costs, shares: Sequence[float]) -> Iterator[_Span]:
    position = 0
    for number, (node, cached) in enumerate(zip(match.found, shares, strict=True)):
        length, size = _length(match, number), node.bytes / len(node.ids)
        for start, stop in pairwise(
            (0, *(end for end in borders(len(node.ids), kept.model.sub_step) if end <= length))
        ):
            count = stop - start
            computing = costs.prefill_s(position, position + count)
            loading = costs.load_s(count / length, round(count * size), cached)
            taken = node.seconds * count / len(node.ids) if computing is None else computing
            yield _Span(number, start, stop, position, Unit(count, round(count * size), taken, loading))
            position += count


def _length(match: Match, number: int) -> int:
    """Return the matched tokens of a node."""
    return match.partial.tokens if match.partial and number == len(match.nodes) else len(match.found[number].ids)


def _carried_out(kept: KvBinding, match: Match, task: _Task) -> Restored:
    lengths = tuple(_length(match, number) for number in range(len(match.found)))
    computed = Restored(kept.model.begin(), (0,) * len(lengths), (0,) * len(lengths))
    if task.plan.way == "compute":
        return computed
    paths, _ = _files(kept, match)
    if kept.planning and kept.model.reads_ranges:
        opened = within(task.until, lambda: open_files(paths), (UnreadableCache,), OpenFiles.close)
        return _divided(kept, kept.planning, match, task, opened, lengths) if opened else computed
    return _whole(kept, match, task, lengths) or computed


def _files(kept: KvBinding, match: Match) -> tuple[list[Path], int | None]:
    """Return the matched files, and the tokens of the last one that are matched; None for all."""
    return [kept.store.path_of(node) for node in match.found], match.partial.tokens if match.partial else None


def _whole(kept: KvBinding, match: Match, task: _Task, lengths: tuple[int, ...]) -> Restored | None:
    """Load all files at once; None where the disk does not bring them in time."""
    paths, shared = _files(kept, match)
    planning, begun = kept.planning, time.perf_counter()
    # MLX reads in the thread that evaluates: so that it does not wait there, the files are brought to memory before.
    if planning and not within(task.until, lambda: read_through(paths)):
        return None
    cache = kept.model.restore(paths, shared)
    if planning:
        size = sum(node.bytes * count // len(node.ids) for node, count in zip(match.found, lengths, strict=True))
        planning.costs.record_load(len(paths), size, task.cached, time.perf_counter() - begun)
    return Restored(cache, lengths, lengths)


def _divided(
    kept: KvBinding, planning: Planning, match: Match, task: _Task, opened: OpenFiles, lengths: tuple[int, ...]
) -> Restored:
    """Compute the first parts while a thread loads the last ones; to be loaded alone, whole files are the parts."""
    by_file = task.plan.way == "load"
    parts = [list(found) for _, found in groupby(task.spans, lambda span: span.file if by_file else span)]
    fixed = None if task.plan.way == "overlap" else task.plan.computed
    cache, costs, begun = kept.model.begin(), planning.costs, time.perf_counter()
    with closing(kept.model.ranges(opened, _files(kept, match)[1], planning.read_at)) as reader:

        def load(number: int) -> None:
            reader.read(parts[number][0].file, parts[number][0].start, parts[number][-1].stop)

        units = [_joined([span.unit for span in part]) for part in parts]
        with Loader(units, load, (UnreadableCache,), until=task.until, fixed=fixed) as loader:
            while (number := loader.next()) is not None:
                for span in parts[number]:
                    _compute(kept, cache, match, span, costs)
        back = [span for part in parts[loader.back :] for span in part]
        if back:
            kept.model.join(cache, reader)
            size = round(sum(span.unit.tokens for span in back) * reader.token_bytes)
            costs.record_load(len({span.file for span in back}), size, task.cached, loader.seconds)
        elif not loader.error:  # not even one came: it takes at least as long
            costs.record_load(1, units[-1].size, task.cached, time.perf_counter() - begun)
    loaded = [0] * len(lengths)
    for span in back:
        loaded[span.file] += span.unit.tokens
    suspects = () if loader.failed is None else (match.found[parts[loader.failed][0].file],)
    return Restored(cache, lengths, tuple(loaded), suspects=suspects)


def _joined(units: Sequence[Unit]) -> Unit:
    """Return several units as one."""
    tokens, size = sum(unit.tokens for unit in units), sum(unit.size for unit in units)
    return Unit(tokens, size, sum(unit.compute_s for unit in units), load_all(units).seconds)


def _compute(kept: KvBinding, cache: Any, match: Match, span: _Span, costs: MeasuredCosts) -> None:
    begun = time.perf_counter()
    kept.model.prefill(cache, match.found[span.file].ids[span.start : span.stop])
    costs.record_prefill(span.position, span.position + span.unit.tokens, time.perf_counter() - begun)


def _described(found: Restored, match: Match, plan: LoadPlan) -> str:
    loaded = sum(found.loaded)
    if not loaded:
        why = ", computing is sooner" if plan.way == "compute" else ", it did not come in time"
        return "nothing" + (why if found.present and not found.suspects else "")
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
