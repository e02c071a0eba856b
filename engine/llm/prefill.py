"""Reads a prompt into a model's cache: what of it was read before is loaded, the rest is computed, and kept later.

match -> load -> compute -> (answer) -> keep. Knows segments as token ids, and the model and the tree by what they do.
Loaded or computed, the tensors are the same to the last bit: both ways go in the same sub-steps of each segment.
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
    """Where the model's tensors are kept: a store, and the root that stands for all that changes them."""

    store: KvStore
    root: TreeRoot
    model: KvSliceable


@dataclass(frozen=True, slots=True)
class PromptReader:
    """A model that reads prompts, and where what it has read is kept, None where nothing is.

    With `ropes` it reads them in blocks.
    """

    model: LanguageModel
    kept: KvBinding | None = None
    ropes: Ropes | None = None


@dataclass(frozen=True, slots=True)
class Prefilled:
    """A cache that has read all segments but the last; `reused` tokens and `seconds` of computing, by segment.

    `captured` is what is to be kept of each segment and that the cache has not held on to.
    """

    cache: Any
    nodes: tuple[Node, ...]
    reused: tuple[int, ...]
    seconds: tuple[float, ...]
    captured: tuple[Any, ...]


def prefill(reading: PromptReader, segments: Sequence[Ids], trace: Trace, held: ExitStack) -> Prefilled:
    """Read the segments in front of the last one; what is matched stays in the store until `held` is closed.

    What is used is counted where a question asked for it, and not where it is read ahead.
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
        kept.store.used(match, trace.saved_s)
    reused = [len(node.ids) for node in match.nodes] + ([match.partial.tokens] if match.partial else [])
    reused += [0] * (len(segments) - len(reused))
    return _compute(reading, cache, match.nodes, reused, segments, trace)


def keep(kept: KvBinding, segments: Sequence[Ids], read: Prefilled, *, evict: bool = True) -> int:
    """Keep what was computed, each segment under the one before it; returns the number of segments kept.

    Without `evict` nothing else goes for it.
    """
    nodes, at, count = list(read.nodes), sum(map(len, segments[: len(read.nodes)])), 0
    for ids, seconds, captured in list(zip(segments, read.seconds, read.captured, strict=True))[len(nodes) :]:
        tensors = kept.model.cut(read.cache, at, at + len(ids), captured)
        node = kept.store.keep(kept.root, nodes[-1] if nodes else None, ids, seconds, tensors, evict=evict)
        if node is None:
            break  # nothing can stand below it
        nodes.append(node)
        at, count = at + len(ids), count + 1
    return count


def _load(kept: KvBinding, match: Match) -> Any:
    """Return a cache that holds what was matched; None where nothing was, or where a file is gone or damaged."""
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
    """Return the seconds that computing what was matched took once; of a part, its share."""
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
            # What a part of a segment took stands for the whole of it.
            seconds.append((time.perf_counter() - begun) * len(ids) / max(1, len(ids) - there))
        step.note = " ".join(f"{there}/{len(ids)}" for ids, there in zip(segments, reused, strict=True)) + " reused"
    taken = evened(seconds, list(map(len, segments)), reused)
    return Prefilled(cache, nodes, tuple(reused), tuple(taken), tuple(captured))


def evened(seconds: Sequence[float], lengths: Sequence[int], reused: Sequence[int]) -> list[float]:
    """Return the seconds of each segment, the first that was computed no more a token than the next.

    Else what a process makes ready when it first computes would count as saved again at every hit.
    """
    taken, computed = list(seconds), [number for number, there in enumerate(reused) if there < lengths[number]]
    if len(computed) > 1:
        first, second = computed[:2]
        taken[first] = min(taken[first], taken[second] * lengths[first] / lengths[second])
    return taken
