"""Prefill with KV reuse: cached segments of a prompt are loaded, the rest is computed, and stored after the answer.

match -> restore -> compute -> (decode) -> store. Knows segments as token ids, the model and the store by their methods.
"""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from engine.llm.borrow import borrow
from engine.llm.restore import LATE, Ids, KvBinding, Restored, look, restore
from engine.models.rope import Ropes
from engine.models.types import LanguageModel
from engine.types import Trace
from store.kv_files import Node


@dataclass(frozen=True, slots=True)
class PromptReader:
    """A model with its KV store (None: store nothing). With `ropes`, prompts are prefilled in blocks.

    One that `caches_prefixes` itself needs no store to read the beginning of a prompt again.
    """

    model: LanguageModel
    kept: KvBinding | None = None
    ropes: Ropes | None = None
    caches_prefixes: bool = False


@dataclass(frozen=True, slots=True)
class Prefilled:
    """A cache of all segments but the last; `reused` (loaded) tokens and `seconds` of computing, by segment.

    `captured` are the arrays to store of each segment that cannot be cut from the cache later. `suspects` are nodes
    that could not be read.
    """

    cache: Any
    nodes: tuple[Node, ...]
    reused: tuple[int, ...]
    seconds: tuple[float, ...]
    captured: tuple[Any, ...]
    suspects: tuple[Node, ...] = ()


def prefill(reading: PromptReader, segments: Sequence[Ids], trace: Trace, held: ExitStack) -> Prefilled:
    """Prefill all segments given; matched nodes stay in the store until `held` is closed.

    Hits count for questions, not for prefetches.
    """
    model, kept = reading.model, reading.kept
    if kept is None:
        return _compute(reading, Restored(model.begin(), (), ()), (), segments, trace)
    with trace.step("match") as step:
        match = held.enter_context(kept.store.match(kept.root, segments, asked=trace.asked, look=look))
        found = f"{len(match.nodes)} of {len(segments)} segments" + (", and part of one" if match.partial else "")
        step.note = LATE if match.late else found
    here = restore(kept, match, trace)
    whole = borrow(kept, match, here, segments, trace)
    read = _compute(reading, whole, match.nodes if here and here.present else (), segments, trace)
    return replace(read, suspects=here.suspects if here else ())


def keep(kept: KvBinding, segments: Sequence[Ids], read: Prefilled, *, evict: bool = True) -> int:
    """Store the computed segments, each below the one before it; returns how many were stored.

    Without `evict` nothing is evicted for them. Nodes that could not be read are checked first: nothing is stored below
    one that is damaged, nor on a disk that does not answer.
    """
    if kept.planning:
        kept.planning.costs.save()
    if not kept.store.answers(look):
        return 0
    sound = [kept.store.check(node, read_data=True) for node in read.suspects]
    if read.nodes and not all(sound):
        return 0
    nodes, at, count = list(read.nodes), sum(map(len, segments[: len(read.nodes)])), 0
    for ids, seconds, captured in list(zip(segments, read.seconds, read.captured, strict=True))[len(nodes) :]:
        tensors = kept.model.cut(read.cache, at, at + len(ids), captured)
        node = kept.store.keep(kept.root, nodes[-1] if nodes else None, ids, seconds, tensors, evict=evict)
        if node is None:
            break  # a child needs its parent
        nodes.append(node)
        at, count = at + len(ids), count + 1
    return count


def _compute(
    reading: PromptReader, found: Restored, nodes: tuple[Node, ...], segments: Sequence[Ids], trace: Trace
) -> Prefilled:
    """Compute what a cache does not hold yet of each segment."""
    seconds, captured, cache = list[float](), list[Any](), found.cache
    present, loaded = ([*counts, *[0] * (len(segments) - len(counts))] for counts in (found.present, found.loaded))
    with trace.step("prefill") as step:
        for ids, there in zip(segments, present, strict=True):
            begun = time.perf_counter()
            passed = reading.model.prefill(cache, ids[there:]) if there < len(ids) else None
            captured.append(passed if reading.kept else None)
            # Where part of a segment was reused, the time of the rest is extrapolated to the whole.
            seconds.append((time.perf_counter() - begun) * len(ids) / max(1, len(ids) - there))
        step.note = " ".join(f"{there}/{len(ids)}" for ids, there in zip(segments, loaded, strict=True)) + " reused"
    taken = evened(seconds, list(map(len, segments)), present)
    _learn(reading.kept, segments, present, taken)
    taken[len(nodes) : len(nodes) + len(found.seconds)] = found.seconds
    return Prefilled(cache, nodes, tuple(loaded), tuple(taken), tuple(captured))


def _learn(kept: KvBinding | None, segments: Sequence[Ids], present: Sequence[int], seconds: Sequence[float]) -> None:
    """Learn from the segments that were computed as a whole what computing costs."""
    if kept is None or kept.planning is None:
        return
    position = 0
    for ids, there, taken in zip(segments, present, seconds, strict=True):
        if ids and not there:
            kept.planning.costs.record_prefill(position, position + len(ids), taken)
        position += len(ids)


def evened(seconds: Sequence[float], lengths: Sequence[int], reused: Sequence[int]) -> list[float]:
    """Return the seconds of each segment, those of the first computed one capped at the next one's per token.

    Otherwise a process's warm-up would count as saved time at every hit.
    """
    taken, computed = list(seconds), [number for number, there in enumerate(reused) if there < lengths[number]]
    if len(computed) > 1:
        first, second = computed[:2]
        taken[first] = min(taken[first], taken[second] * lengths[first] / lengths[second])
    return taken
