"""Cuts one document into chunks of about 100 words, each under a header that says who, when and what.

Borders are those of paragraphs and speaker turns, then of sentences, then of words. Knows nothing about files,
tokenizers or models.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby

from engine.text.label import chunk_header
from engine.text.terminal import shorten
from store.types import Chunk, Document, DocumentPassage

TARGET, MOST = 100, 150  # words
LETTERS = 32  # of one word without a blank that count as a word more: addresses, tables, base64

# Scripts that are written without blanks: Thai to Khmer, kana, Han.
WIDE = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_WIDE = re.compile(f"[{WIDE}]")
_STOP = re.compile(r"(?<=[.!?…])[\"'”’»)\]]*+\s++(?![a-z])|(?<=[。！？｡])[」』）”]*+(?![。！？｡])")
_LINE, _BLANK = re.compile(r"\n"), re.compile(r"\s++")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of one passage that is never cut again, as it will stand in the chunk."""

    text: str
    weight: int
    first: int
    last: int


def chunk(document: Document, passages: Sequence[DocumentPassage]) -> list[Chunk]:
    """Cut the passages of one document, in their order; a document without any gives one chunk of its title."""
    chunks = list[Chunk]()
    for role, run in groupby(passages, key=lambda passage: passage.role):
        for pieces in _pack([piece for passage in run for piece in _pieces(passage)]):
            chunks.append(_chunk(document, len(chunks), chunk_header(document, role), pieces))
    title = shorten(document.title, 1000)
    if not chunks and title:
        piece = Piece(title, weigh(title), 1, 1)
        return [_chunk(document, 0, chunk_header(document, "body"), [piece])]
    return chunks


def embedded_text(chunk: Chunk) -> str:
    """Return what is searched, embedded and prompted."""
    return f"{chunk.header}\n{chunk.text}"


def weigh(text: str) -> int:
    """Count words: two letters of a script without blanks are one, and so are 32 letters of anything else."""
    words = text.split()
    if text.isascii() and len(max(words, key=len, default="")) <= LETTERS:
        return len(words)
    return sum(max(1, len(word) // LETTERS, (len(_WIDE.findall(word)) + 1) // 2) for word in words)


def _chunk(document: Document, position: int, header: str, pieces: Sequence[Piece]) -> Chunk:
    text = "\n".join(piece.text for piece in pieces)
    digest = blake2b(digest_size=16)
    for part in (document.id, str(position), header, text):
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    first, last = min(piece.first for piece in pieces), max(piece.last for piece in pieces)
    return Chunk(digest.hexdigest(), document.id, position, header, text, first, last)


def _pack(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Put pieces together for as long as that brings their sum nearer to the target."""
    packs, weight = list[list[Piece]](), MOST
    for piece in pieces:
        both = weight + piece.weight
        if both <= MOST and abs(both - TARGET) <= abs(weight - TARGET):
            packs[-1].append(piece)
            weight = both
        else:
            packs.append([piece])
            weight = piece.weight
    if len(packs) > 1 and weight < TARGET // 2:
        before = sum(piece.weight for piece in packs[-2])
        if before + weight <= MOST:
            packs[-2:] = [packs[-2] + packs[-1]]
    return packs


def _pieces(passage: DocumentPassage) -> Iterator[Piece]:
    text, speaker = passage.text, shorten(passage.speaker or "", 80)
    name, lines = f"{speaker}: " if speaker else "", text.count("\n")
    mapped = lines == passage.last - passage.first  # else the text was joined, and any part may stand on any line
    line, seen = passage.first, 0
    for start, end in _spans(text, max(1, MOST - weigh(name))):
        line, seen = line + text.count("\n", seen, start), start
        last = line + text.count("\n", start, end)
        said = name + text[start:end]
        first, last = (line, last) if mapped else (passage.first, passage.last)
        yield Piece(said, weigh(said), first, last)


def _spans(text: str, most: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of a passage without the blanks around them: all of it, or sentences up to the target."""
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    goal = min(TARGET, most)
    units = _units(text, start, end, goal) if weigh(text) > most else iter([(start, end, start < end)])
    weight, tail = 0, start
    for first, last, heavy in units:
        if weight and (weight + heavy > most or abs(weight + heavy - goal) > abs(weight - goal)):
            yield start, tail
            start, weight = first, 0
        weight, tail = weight + heavy, last
    if weight:
        yield start, tail


def _units(
    text: str, start: int, end: int, goal: int, borders: Sequence[re.Pattern[str]] = (_STOP, _LINE, _BLANK)
) -> Iterator[tuple[int, int, int]]:
    """Yield (start, end, weight) of the sentences, or of the lines, words, then letters of what is over the goal."""
    part = text[start:end]
    weight = weigh(part)
    if weight <= goal:
        if weight:
            yield start, start + len(part.rstrip()), weight
    elif borders:
        stops = [stop.end() for stop in borders[0].finditer(text, start, end)]
        for first, last in zip([start, *stops], [*stops, end], strict=True):
            yield from _units(text, first, last, goal, borders[1:])
    else:
        step = goal * (2 if _WIDE.search(part) else LETTERS)
        for at in range(start, end, step):
            yield at, min(at + step, end), weigh(text[at : min(at + step, end)])
