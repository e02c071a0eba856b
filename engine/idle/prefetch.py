"""Jobs that prefill segments of prompts and store their KV cache.

The N chunks retrieved most often and the N newest that are not cached yet, each right behind the system
segment: as the first of a prompt, or, with `blocks`, as a block that fits any place. Where the cache is full,
prefetched chunks that no question used are evicted, the oldest first; nothing else is.
restore: segments of stored questions that had no room, once there is space again.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import islice, takewhile
from math import inf

from msgspec import Struct

from engine.idle.refresh import Reasker
from engine.kv.restore import KvBinding, PromptReader, keep, prefill
from engine.llm.prompt import PromptChunk, fit, prompt_of, system_ids
from engine.models.types import Ids
from engine.types import Trace
from store.answers import CachedAnswer
from store.jobs import Job, Outcome, Planned
from store.kv_files import Key, Node, TreeRoot
from store.kv_index import CountTotal, path_keys
from store.search import Reader
from store.types import Chunk, replace

Path = tuple[Ids, ...]  # a segment behind those of its prefix
Evictable = tuple[float, Node]  # a prefetched node, and the age of its chunk: its place among the newest ones


def cost_of_token(cached: CountTotal) -> tuple[float, float]:
    """Return the seconds that one token takes to prefill, and its bytes: the means of all cached; a guess at first."""
    return (cached.seconds / cached.tokens, cached.bytes / cached.tokens) if cached.tokens else (1e-3, 0.0)


class WantedSegment(Struct, frozen=True):
    """A segment that questions are expected to need, and its job. Nodes `instead` are evicted for it."""

    job: Job
    path: Path
    bytes: int
    instead: tuple[Node, ...] = ()


def key_of(root: TreeRoot, path: Path) -> Key:
    """Return the key of the last segment of a path."""
    return path_keys(root, path)[-1]


def is_cached(binding: KvBinding, path: Path) -> bool:
    """Return whether the last segment of a path is cached."""
    return binding.store.index.find(key_of(binding.root, path)) is not None


@dataclass(frozen=True, slots=True)
class PrefetchContext:
    """The model and the cache to prefetch with: `lock` keeps tables from rewriting, `is_over` tells when to end."""

    reader: PromptReader
    binding: KvBinding
    reasker: Reasker
    lock: Callable[[], AbstractContextManager[None]]
    is_over: Callable[[], bool]


def plan_segments(context: PrefetchContext, segments: Iterable[WantedSegment]) -> list[Planned]:
    """Plan these segments, best first, as they are in the documents of now."""
    generation = context.reasker.ledger.generation
    by_key = {one.job.subject: one for one in segments}
    return [(one.job, partial(_run, context, one, generation)) for one in by_key.values()]


def _run(context: PrefetchContext, segment: WantedSegment, generation: int) -> Outcome:
    """Prefill a segment behind its prefix and store it in place of what it replaces, unless there is no space."""
    binding, path = context.binding, segment.path
    if is_cached(binding, path):
        return Outcome("cached")
    if segment.bytes > binding.store.free(sum(node.bytes for node in segment.instead)):
        return Outcome("no space")
    with context.lock():
        if context.reasker.ledger.generation != generation:
            return Outcome("new mail")  # a chunk that was removed must not be prefilled
        prefilled = prefill(context.reader, path, Trace(asked=False))
        binding.store.evict_unused([node.key for node in segment.instead])
        is_whole = len(prefilled.nodes) + keep(binding, path, prefilled, evict=False) == len(path)
    return Outcome(made=(key_of(binding.root, path),)) if is_whole else Outcome("no space")


def plan_prefetch(
    context: PrefetchContext, bank: Reader, lists: Sequence[Sequence[str]], new: Sequence[Chunk]
) -> list[Planned]:
    """Plan the chunks to prefetch; each run goes further back in the new ones, until the space is used.

    `lists` are the ids that each question retrieved, oldest question first; `new` are other chunks, newest first.
    """
    settings = context.reasker.settings
    times = most_retrieved(lists, settings.idle.ahead)
    with context.lock():
        found = {hit.chunk.id: hit.chunk for hit in bank.chunks(list(times))}
    frequent = {_path(context, found[name]): name for name in times if name in found}
    binding = context.binding
    (one_s, one_size), system = cost_of_token(binding.store.index.totals()), (system_ids(context.reader.model),)

    def segment(path: Path, what: str, reason: str, expected: float) -> WantedSegment:
        tokens, key = len(path[-1]), key_of(binding.root, path).hex()
        job = Job("prefetch", key, what, reason, expected, tokens * one_s, tokens)
        return WantedSegment(job, path, int(tokens * one_size))

    wanted = list[tuple[int, WantedSegment]]()
    for path, name in frequent.items():
        if not is_cached(binding, path):
            uses = times[name] if context.reader.ropes else times[name] / settings.ask.k  # one of k is a prompt's first
            reason = "retrieved once" if times[name] == 1 else f"retrieved for {times[name]} questions"
            wanted.append((-1, segment(path, found[name].header, reason, uses)))
    tried = takewhile(lambda _: not context.is_over(), enumerate(new))
    paths = ((age, _path(context, chunk)) for age, chunk in tried)
    uncached = ((age, path) for age, path in paths if path not in frequent and not is_cached(binding, path))
    for age, path in islice(uncached, settings.idle.ahead):
        wanted.append((age, segment(path, new[age].header, "new, not retrieved yet", 0.0)))

    def evictable() -> list[Evictable]:
        protected = {key_of(binding.root, path) for path in frequent}
        ages = {key_of(binding.root, _path(context, chunk)): age for age, chunk in enumerate(new)}
        unused = [node for node in binding.store.index.unused("prefetch", "blocks") if node.key not in protected]
        return sorted(((ages.get(node.key, inf), node) for node in unused), key=lambda one: one[0])

    chosen = list(make_room(wanted, binding.store.free(), evictable))
    if chosen and not is_cached(binding, system):
        chosen.insert(0, segment(system, "system prompt", "shared by every question", 0.0))
    return plan_segments(context, chosen)


def most_retrieved(lists: Sequence[Sequence[str]], most: int) -> dict[str, int]:
    """Return the `most` most retrieved chunks with the number of questions that retrieved each; ties: latest first."""
    times = Counter(name for chunks in lists for name in dict.fromkeys(chunks))
    last = {name: number for number, chunks in enumerate(lists) for name in chunks}
    return dict(sorted(times.items(), key=lambda one: (-one[1], -last[one[0]], one[0]))[:most])


def make_room(
    wanted: Sequence[tuple[float, WantedSegment]], free: int, evictable: Callable[[], list[Evictable]]
) -> Iterator[WantedSegment]:
    """Yield the segments, each with the older nodes to evict if it does not fit into the `free` bytes.

    `wanted` pairs each segment with its age. `evictable` returns the newest node first, and is called only when a
    segment does not fit. If evicting all older nodes would not free enough, none is evicted.
    """
    left: list[Evictable] | None = None
    for age, segment in wanted:
        evicted = list[Evictable]()
        if segment.bytes > free and left is None:
            left = evictable()
        while left and segment.bytes > free and left[-1][0] > age:
            evicted.append(left.pop())
            free += evicted[-1][1].bytes
        if segment.bytes > free and left is not None:
            free -= sum(node.bytes for _, node in evicted)
            left += reversed(evicted)
            yield segment
            continue
        free -= segment.bytes
        about = segment.job.reason + "; replaces older, never used entries" * bool(evicted)
        job = replace(segment.job, reason=about)
        yield replace(segment, job=job, instead=tuple(node for _, node in evicted))


def _path(context: PrefetchContext, chunk: Chunk) -> Path:
    """Return the path of a chunk as the first one of a prompt, or as a block."""
    reader, shown = context.reader, [PromptChunk(chunk, 0, None)]
    return reader.paths(prompt_of(reader.model, shown, "", in_blocks=bool(reader.ropes)).ids[:-1])[-1]


def plan_restores(context: PrefetchContext, entries: Iterable[tuple[CachedAnswer, float]]) -> list[Planned]:
    """Plan the segments of these entries' prompts that are not cached, given how often each entry is wanted."""
    binding, reader, found = context.binding, context.reader, dict[str, WantedSegment]()
    most = context.reasker.settings.model.max_tokens
    cached = binding.store.index.totals()
    mean = cached.bytes / cached.count if cached.count else 0  # of a segment: below it nothing is worth retrieving for
    one_s, one_size = cost_of_token(cached)
    wanted = entries if binding.store.free() > mean else ()
    for entry, times in takewhile(lambda _: not context.is_over(), wanted):
        if not (evidence := context.reasker.evidence(entry)).passages:
            continue
        asked = (entry.question, context.reasker.now, evidence, most)
        segments = fit(reader.model, *asked, in_blocks=bool(reader.ropes))
        for path in reader.paths(segments.ids[:-1]):  # all but the last
            if not is_cached(binding, path):
                key, tokens = key_of(binding.root, path).hex(), len(path[-1])
                expected = times + (found[key].job.expected if key in found else 0.0)
                about = (entry.question, "not stored for lack of space", expected, tokens * one_s)
                found[key] = WantedSegment(Job("restore", key, *about, tokens), path, int(tokens * one_size))
    return plan_segments(context, found.values())
