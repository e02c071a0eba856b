"""What a retrieved chunk brings with it: its neighbours, or its part of its thread, so that a model reads in context.

What a chunk brings depends on that chunk and the bank alone, not on what else was retrieved: then the same thread is
the same segments in every prompt. Knows threads by the protocol below, no model and so no tokens: a token is taken for
four bytes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Protocol

from engine.ask.sources import Source
from store.hits import Hit
from store.records import Chunk, Scope

_TOKEN_BYTES = 4
_FRAME_TOKENS = 4  # of a chunk's number and line ends


class Threads(Protocol):
    """What is asked of a knowledge bank."""

    def thread(self, document: str) -> Sequence[str]:
        """Give the documents of its thread that are near a document, oldest first; itself always."""
        ...

    def chunks_of(self, documents: Sequence[str], scope: Scope) -> list[Hit]:
        """Give all chunks of these documents within the scope, in no order and without vectors."""
        ...


@dataclass(frozen=True, slots=True)
class Whole:
    """How much comes with a retrieved chunk: "none", "neighbours" or "thread", each time of at most so many tokens."""

    how: str = "none"
    tokens: int = 0


def bring(bank: Threads, whole: Whole, sources: Sequence[Source], scope: Scope) -> dict[str, Hit]:
    """Give what comes with the chunks of these sources and is neither among them nor a copy of one, by chunk id."""
    brought, known = dict[str, Hit](), dict[str, list[Hit]]()  # all chunks of a thread, under each of its documents
    for chunk in (chunk for source in sources for chunk in source.chunks):
        if chunk.document not in known:
            documents = bank.thread(chunk.document) if whole.how == "thread" else [chunk.document]
            hits = sorted(bank.chunks_of(documents, scope), key=_place)
            known |= dict.fromkeys(documents, hits)
        with_it = _part if whole.how == "thread" else _beside
        brought |= {hit.chunk.id: hit for hit in with_it(known[chunk.document], chunk, whole.tokens)}
    there = {chunk.id for source in sources for chunk in (*source.chunks, *source.copies)}
    return {name: hit for name, hit in brought.items() if name not in there}


def widened(sources: Sequence[Source], brought: Mapping[str, Hit]) -> list[Source]:
    """Join what was brought to the sources that it stands beside; the rest are sources of score 0 behind them all."""
    ranks = {chunk.id: rank for rank, source in enumerate(sources) for chunk in source.chunks}
    found = [chunk for source in sources for chunk in source.chunks]
    runs = list(_runs([*found, *(hit.chunk for hit in brought.values())]))
    ranked = [(min((ranks[chunk.id] for chunk in run if chunk.id in ranks), default=None), run) for run in runs]
    own = sorted((one for one in ranked if one[0] is not None), key=lambda one: one[0] or 0)
    aside = [run for rank, run in ranked if rank is None]
    order = {hit.chunk.id: place for place, hit in enumerate(brought.values())}
    joined = [_source(run, sources, ranks) for _, run in own]
    return joined + [Source(run, 0.0) for run in sorted(aside, key=lambda run: order[run[0].id])]


def _source(run: tuple[Chunk, ...], sources: Sequence[Source], ranks: Mapping[str, int]) -> Source:
    """Make one source of a run of chunks, as good as the best in it."""
    inside = sorted({ranks[chunk.id] for chunk in run if chunk.id in ranks})
    copies = tuple(copy for rank in inside for copy in sources[rank].copies)
    return Source(run, sources[inside[0]].score, copies)


def _beside(hits: Sequence[Hit], chunk: Chunk, limit: int) -> list[Hit]:
    """Give the chunks before and behind a chunk in its document, as far as the limit goes."""
    near = [hit for hit in hits if abs(hit.chunk.position - chunk.position) == 1]
    return [hit for hit, sum_so_far in zip(near, accumulate(map(_tokens, near)), strict=True) if sum_so_far <= limit]


def _part(hits: Sequence[Hit], chunk: Chunk, limit: int) -> Sequence[Hit]:
    """Give the part of a thread that a chunk stands in: counted from the thread's start, each as long as may be."""
    starts, size = [0], 0
    for place, hit in enumerate(hits):
        size += _tokens(hit)
        if size > limit and place > starts[-1]:
            starts.append(place)
            size = _tokens(hit)
    parts = (hits[start:end] for start, end in pairwise([*starts, len(hits)]))
    return next((part for part in parts if any(hit.chunk.id == chunk.id for hit in part)), ())


def _runs(chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, ...]]:
    """Put chunks that follow on each other in one document together."""
    run: list[Chunk] = []
    for chunk in sorted(chunks, key=lambda chunk: (chunk.document, chunk.position)):
        if run and (run[-1].document, run[-1].position + 1) != (chunk.document, chunk.position):
            yield tuple(run)
            run = []
        run.append(chunk)
    if run:
        yield tuple(run)


def _tokens(hit: Hit) -> int:
    return len(f"{hit.chunk.header}\n{hit.chunk.text}".encode()) // _TOKEN_BYTES + _FRAME_TOKENS


def _place(hit: Hit) -> tuple[float, str, int]:
    return hit.date.timestamp() if hit.date else 0.0, hit.chunk.document, hit.chunk.position
