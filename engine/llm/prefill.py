"""Prefill with KV reuse: cached segments of a prompt are loaded, the rest is computed, and stored after the answer.

match -> load -> compute -> (decode) -> store. Knows segments as token ids, the model and the store by their methods.
Loaded and computed tensors are bit-identical: both are computed in the same sub-steps of each segment.
"""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from engine.models.rope import Ropes
from engine.models.types import KvSliceable, LanguageModel, UnreadableCache
from engine.types import Trace
from store.kv_index import Match
from store.kv_store import KvStore
from store.kv_tree import Node, TreeRoot

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KvBinding:
    """Where a model's KV cache is stored: a store, and the root that names all that its tensors depend on."""

    store: KvStore
    root: TreeRoot
    model: KvSliceable


@dataclass(frozen=True, slots=True)
class PromptReader:
    """A model with its KV store, None to store nothing; with `ropes` prompts are prefilled in blocks.

    One that `caches_prefixes` itself needs no store to read the beginning of a prompt again.
    """

    model: LanguageModel
    kept: KvBinding | None = None
    ropes: Ropes | None = None
    caches_prefixes: bool = False


@dataclass(frozen=True, slots=True)
class Prefilled:
    """A cache of all segments but the last; `reused` tokens and `seconds` of computing, by segment.

    `captured` are the arrays to store of each segment that cannot be cut from the cache later.
    """

    cache: Any
    nodes: tuple[Node, ...]
    reused: tuple[int, ...]
    seconds: tuple[float, ...]
    captured: tuple[Any, ...]


def prefill(reading: PromptReader, segments: Sequence[Ids], trace: Trace, held: ExitStack) -> Prefilled:
    """Prefill all segments given; matched nodes stay in the store until `held` is closed.

    Hits count for questions, not for prefetches.
    """
    model, kept = reading.model, reading.kept
    if kept is None:
        return _compute(reading, model.begin(), (), [0] * len(segments), segments, trace)
    with trace.step("match") as step:
        match = held.enter_context(kept.store.match(kept.root, segments, asked=trace.asked))
        step.note = f"{len(match.nodes)} of {len(segments)} segments" + (", and part of one" if match.partial else "")
    begun = time.perf_counter()
    with trace.step("load") as step:
        cache = _load(kept, match)
        step.note = f"{match.tokens} tokens" if cache is not None else "nothing"
    if cache is None:
        return _compute(reading, model.begin(), (), [0] * len(segments), segments, trace)
    if trace.asked:
        trace.saved_s = max(0.0, _worth(match) - (time.perf_counter() - begun))
        kept.store.record_use(match, trace.saved_s)
    reused = [len(node.ids) for node in match.nodes] + ([match.partial.tokens] if match.partial else [])
    reused += [0] * (len(segments) - len(reused))
    return _compute(reading, cache, match.nodes, reused, segments, trace)


def keep(kept: KvBinding, segments: Sequence[Ids], read: Prefilled, *, evict: bool = True) -> int:
    """Store the computed segments, each below the one before it; returns how many were stored.

    Without `evict` nothing is evicted for them.
    """
    nodes, at, count = list(read.nodes), sum(map(len, segments[: len(read.nodes)])), 0
    for ids, seconds, captured in list(zip(segments, read.seconds, read.captured, strict=True))[len(nodes) :]:
        tensors = kept.model.cut(read.cache, at, at + len(ids), captured)
        node = kept.store.keep(kept.root, nodes[-1] if nodes else None, ids, seconds, tensors, evict=evict)
        if node is None:
            break  # a child needs its parent
        nodes.append(node)
        at, count = at + len(ids), count + 1
    return count


def _load(kept: KvBinding, match: Match) -> Any:
    """Return a cache restored from the matched nodes; None if there are none, or a file is gone or damaged."""
    if not match.found:
        return None
    shared = match.partial.tokens if match.partial else None
    try:
        return kept.model.restore([kept.store.path_of(node) for node in match.found], shared)
    except UnreadableCache:
        for node in match.found:
            kept.store.check(node, read_data=True)
        return None


def _worth(match: Match) -> float:
    """Return how many seconds computing the matched segments took, counting a partial match in proportion."""
    part = match.partial
    share = part.node.seconds * part.tokens / len(part.node.ids) if part else 0.0
    return sum(node.seconds for node in match.nodes) + share


def _compute(
    reading: PromptReader, cache: Any, nodes: tuple[Node, ...], reused: list[int], segments: Sequence[Ids], trace: Trace
) -> Prefilled:
    seconds, captured = [], []
    with trace.step("prefill") as step:
        for ids, there in zip(segments, reused, strict=True):
            begun = time.perf_counter()
            passed = reading.model.prefill(cache, ids[there:]) if there < len(ids) else None
            captured.append(passed if reading.kept else None)
            # Where part of a segment was reused, the time of the rest is extrapolated to the whole.
            seconds.append((time.perf_counter() - begun) * len(ids) / max(1, len(ids) - there))
        step.note = " ".join(f"{there}/{len(ids)}" for ids, there in zip(segments, reused, strict=True)) + " reused"
    taken = evened(seconds, list(map(len, segments)), reused)
    return Prefilled(cache, nodes, tuple(reused), tuple(taken), tuple(captured))


def evened(seconds: Sequence[float], lengths: Sequence[int], reused: Sequence[int]) -> list[float]:
    """Return the seconds of each segment, those of the first computed one capped at the next one's per token.

    Otherwise a process's warm-up would count as saved time at every hit.
    """
    taken, computed = list(seconds), [number for number, there in enumerate(reused) if there < lengths[number]]
    if len(computed) > 1:
        first, second = computed[:2]
        taken[first] = min(taken[first], taken[second] * lengths[first] / lengths[second])
    return taken
