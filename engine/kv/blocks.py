"""Prefill in blocks: each chunk attends to the system segment alone, then its keys move to their place in the prompt.

Only the question attends to all blocks. A block's tensors depend on its own tokens alone: not on its position, its
neighbours or the cache. Loaded or computed, they are moved from the same form by the same function, so that both ways
are bit-identical. A block is stored as a child of the system segment.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

from engine.kv.costs import hangs, within
from engine.kv.restore import LEAST_S, KvBinding, PromptReader, look
from engine.models.kv_cache import Cache, Ropes, concatenated, files, fill, tensor, unpack
from engine.models.kv_read import Arrays, UnreadableCache
from engine.models.types import Ids, LanguageModel
from engine.types import Trace
from store.kv_files import Node, Tensor, read_through
from store.kv_index import Match

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


def load(paths: Sequence[Path], count: int) -> list[Arrays]:
    """Read the arrays of `count` layers from files, in the calling thread; UnreadableCache if any is missing."""
    import mlx.core as mx

    opened, wanted = files(paths), {f"{number}.{kv}" for number in range(count) for kv in "kv"}
    if any(not wanted <= one.keys() for one in opened):
        raise UnreadableCache("LookupError")
    try:
        mx.eval([list(one.values()) for one in opened])
    except RuntimeError as error:
        raise UnreadableCache(type(error).__name__) from error
    return opened


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


Prefix = tuple[Ids, ...]  # the system segment, or that and a block behind it


@dataclass(frozen=True, slots=True)
class BlockPart:
    """The last segment of a path as it is stored: loaded from a node, or computed in `seconds`."""

    arrays: Arrays
    node: Node | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class PrefixCache:
    """A cache of all segments but the last; `reused` tokens by segment.

    `keep` stores what was computed; `release` frees the cache after that.
    """

    cache: Any
    reused: tuple[int, ...]
    keep: Callable[[], int]
    release: Callable[[], None] = lambda: None


def read(reading: PromptReader, segments: Sequence[Ids], trace: Trace, held: ExitStack) -> PrefixCache:
    """Prefill the system segment and its blocks; matched nodes stay in the store until `held` is closed."""
    assert reading.ropes, "this model's keys cannot be moved"
    system, *blocks = segments
    paths: list[Prefix] = [(system,), *((system, ids) for ids in blocks)]
    found, suspects = dict[Prefix, BlockPart](), list[Node]()
    if reading.kept:
        found = _find(reading.kept, paths, len(reading.ropes.layers), trace, held, suspects)
    with trace.step("prefill") as step:
        parts = _compute(reading.model, reading.ropes, paths, found)
        moves = [0, *(place - len(system) for place in accumulate(map(len, segments[:-1])))]
        cache = fill(reading.model.begin(), assemble([parts[path].arrays for path in paths], moves, reading.ropes))
        reused = tuple(len(path[-1]) if path in found else 0 for path in paths)
        step.note = " ".join(f"{there}/{len(ids)}" for ids, there in zip(segments, reused, strict=True)) + " reused"
    return PrefixCache(cache, reused, partial(_keep, reading.kept, parts, suspects, evict=trace.asked))


def _find(
    kept: KvBinding, paths: Sequence[Prefix], count: int, trace: Trace, held: ExitStack, suspects: list[Node]
) -> dict[Prefix, BlockPart]:
    """Load the cached parts of the paths; none if a file is late, or bad: `suspects` need a check later."""
    with trace.step("match") as step:
        nodes = _match(kept, paths, held, asked=trace.asked)
        step.note = f"{sum(path in nodes for path in paths)} of {len(paths)} segments"
    begun = time.perf_counter()
    with trace.step("load") as step:
        opened = list[Arrays]()
        try:
            opened = _opened(kept, list(nodes.values()), count)
        except UnreadableCache:
            suspects.extend(nodes.values())
        nodes = nodes if opened else {}
        step.note = f"{sum(len(node.ids) for node in nodes.values())} tokens" if nodes else "nothing"
    if nodes and trace.asked:
        worth = sum(node.seconds for node in nodes.values())
        whole = Match(tuple(nodes.values()), None, lambda: None)
        trace.saved_s = max(0.0, worth - (time.perf_counter() - begun))
        kept.store.record_use(whole, trace.saved_s)
    return {path: BlockPart(arrays, node) for (path, node), arrays in zip(nodes.items(), opened, strict=True)}


def _opened(kept: KvBinding, nodes: Sequence[Node], count: int) -> list[Arrays]:
    """Read the files of nodes; none where the disk does not bring them before they would have been computed."""
    files = [kept.store.path_of(node) for node in nodes]
    until = time.perf_counter() + max(LEAST_S, sum(node.seconds for node in nodes))
    # MLX reads in the thread that evaluates: so that it does not wait there, the files are brought to memory before.
    if not nodes or hangs() or not within(until, lambda: read_through(files)):
        return []
    return load(files, count)


def _match(kept: KvBinding, paths: Sequence[Prefix], held: ExitStack, *, asked: bool) -> dict[Prefix, Node]:
    """Return the nodes at the ends of paths, protected from eviction until `held` is closed."""
    found = dict[Prefix, Node]()
    for path in dict.fromkeys(paths):
        match = held.enter_context(kept.store.match(kept.root, path, asked=asked, look=look))
        if len(match.nodes) == len(path):
            found[path] = match.nodes[-1]
        elif not match.nodes:
            return {}  # without the system segment there are no blocks
    return found


def _compute(
    model: LanguageModel, ropes: Ropes, paths: Sequence[Prefix], found: Mapping[Prefix, BlockPart]
) -> dict[Prefix, BlockPart]:
    """Add the missing parts, each computed after the system segment alone."""
    parts = dict(found)
    for path in dict.fromkeys(paths):
        if path not in parts:
            above = parts.get(path[:-1])
            cache = fill(model.begin(), assemble([above.arrays], [0], ropes)) if above else model.begin()
            start, begun = sum(map(len, path[:-1])), time.perf_counter()
            arrays = model.prefill(cache, path[-1]) or take(cache, start, start + len(path[-1]))
            parts[path] = BlockPart(arrays, None, time.perf_counter() - begun)
    return parts


def _keep(kept: KvBinding | None, parts: Mapping[Prefix, BlockPart], suspects: Sequence[Node], *, evict: bool) -> int:
    """Store the computed parts, the system segment first; returns the number of nodes stored."""
    if kept is None or not kept.store.answers(look):
        return 0
    for suspect in suspects:
        kept.store.check(suspect, read_data=True)
    nodes, count = {path: part.node for path, part in parts.items() if part.node}, 0
    for path, part in parts.items():
        above = nodes.get(path[:-1])
        if part.node or (len(path) > 1 and above is None):
            continue  # stored already, or without its parent
        if node := kept.store.keep(kept.root, above, path[-1], part.seconds, tensors(part.arrays), evict=evict):
            nodes[path], count = node, count + 1
    return count
