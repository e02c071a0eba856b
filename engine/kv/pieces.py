"""Cuts a prompt into blocks: each chunk is two, its number line and the rest. Computes nothing.

So the rest is the same block under every number, and there are only as many number lines as a prompt has chunks.
"""

from dataclasses import replace

from engine.ask.prompt import chunk_segment, halved
from engine.ask.segments import Segments
from engine.models.protocols import LanguageModel
from store.types import Chunk


def in_blocks(model: LanguageModel, segments: Segments) -> Segments:
    """Give the segments of a prompt with each chunk in two."""
    cut = [tuple(model.tokens(half)) for chunk in segments.prompt.chunks for half in halved(chunk)]
    return replace(segments, ids=(segments.ids[0], *filter(None, cut), segments.ids[-1]))


def block_of(chunk: Chunk) -> str:
    """Give the block of a chunk, whatever its number."""
    return halved(chunk_segment(1, chunk))[1]
