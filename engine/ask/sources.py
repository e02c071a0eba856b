"""Ranked chunks to sources: copies folded into one, neighbours of one document joined.

Knows nothing of how the ranks came about.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from store.types import Chunk


@dataclass(frozen=True, slots=True)
class Scored:
    """One chunk and its score."""

    chunk: Chunk
    score: float


@dataclass(frozen=True, slots=True)
class Source:
    """Neighbouring chunks of one document, in order; `score` is the best one's, `copies` have equal text."""

    chunks: tuple[Chunk, ...]
    score: float
    copies: tuple[Chunk, ...] = ()

    @property
    def document(self) -> str:
        """Give the document all of its chunks are from."""
        return self.chunks[0].document

    @property
    def first(self) -> int:
        """Give the first line, 1-based."""
        return min(chunk.first for chunk in self.chunks)

    @property
    def last(self) -> int:
        """Give the last line, 1-based, inclusive."""
        return max(chunk.last for chunk in self.chunks)


def fold(ranked: Sequence[Scored]) -> list[tuple[Scored, list[Chunk]]]:
    """Keep the best of chunks with the same text, white space apart, each with what was folded into it."""
    kept: dict[str, tuple[Scored, list[Chunk]]] = {}
    for scored in ranked:
        text = " ".join(scored.chunk.text.split())
        if text in kept:
            kept[text][1].append(scored.chunk)
        else:
            kept[text] = (scored, [])
    return list(kept.values())


def join(ranked: Sequence[Scored], k: int, most: int) -> list[Source]:
    """Make the first k sources, best first, each of at most `most` neighbouring chunks.

    A chunk beside one already taken joins its source, which keeps its rank, so that later chunks can still come in.
    """
    groups: list[list[Scored]] = []
    copies: dict[str, list[Chunk]] = {}
    for scored, same in fold(ranked):
        group = next((group for group in groups if len(group) < most and _beside(group, scored.chunk)), None)
        if group is None and len(groups) == k:
            break
        if group is None:
            groups.append([scored])
        else:
            group.append(scored)
        copies[scored.chunk.id] = same
    return [_source(group, copies) for group in groups]


def _beside(group: Sequence[Scored], chunk: Chunk) -> bool:
    return any(s.chunk.document == chunk.document and abs(s.chunk.position - chunk.position) == 1 for s in group)


def _source(group: Sequence[Scored], copies: dict[str, list[Chunk]]) -> Source:
    chunks = sorted((scored.chunk for scored in group), key=lambda chunk: chunk.position)
    same = tuple(copy for chunk in chunks for copy in copies[chunk.id])
    return Source(tuple(chunks), group[0].score, same)
