"""Chunking: a document into chunks of about 100 words, each with a header that says who, when and what.

Chunks end at paragraphs and speaker turns, else at sentences, else at words. `embed` fills in their vectors, newest
first, and commits as it goes. Knows no files or tokenizers, and the embedder by its protocol.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

from engine.ingest.types import content_id
from engine.text.people import chunk_header, origin_line
from engine.text.terminal import shorten
from store.errors import Locked
from store.locks import Locks
from store.types import Chunk, Document, DocumentPassage, turns

if TYPE_CHECKING:
    from engine.models.types import Embedder
    from store.documents import VectorStore
    from store.types import Vectors

TARGET, MOST = 100, 150  # words
LETTERS = 32  # letters of one long token (URL, base64) that count as a word

# Scripts written without spaces: Thai to Khmer, kana, Han.
UNSPACED = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_UNSPACED = re.compile(f"[{UNSPACED}]")
_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"'”’»)\]]*+\s++(?![a-z])|(?<=[。！？｡])[」』）”]*+(?![。！？｡])")
_LINE, _BLANK = re.compile(r"\n"), re.compile(r"\s++")


class Piece(Struct, frozen=True):
    """A part of one passage that goes into one chunk whole; `weight` is its length in words."""

    text: str
    weight: int
    first: int
    last: int
    speaker: str | None = None


def chunk(document: Document, passages: Sequence[DocumentPassage]) -> list[Chunk]:
    """Return the chunks of a document's passages, in order; a document without passages is one chunk of its title."""
    chunks, speakers = list[Chunk](), frozenset(document.recipients if document.kind == "transcript" else ())
    for _, group in groupby(passages, key=lambda one: (one.role, one.written, one.author)):
        run = list(group)
        for pieces in _pack([piece for passage in run for piece in _pieces(passage, speakers)]):
            chunks.append(_chunk(document, len(chunks), run[0], pieces))
    title = shorten(document.title, 1000)
    if not chunks and title:
        piece = Piece(title, weigh(title), 1, 1)
        return [_chunk(document, 0, DocumentPassage(title, 1, 1), [piece])]
    return chunks


def weigh(text: str) -> int:
    """Return the number of words; two letters of an unspaced script, or 32 letters of a long token, are one."""
    words = text.split()
    if text.isascii() and len(max(words, key=len, default="")) <= LETTERS:
        return len(words)
    return sum(max(1, len(word) // LETTERS, (len(_UNSPACED.findall(word)) + 1) // 2) for word in words)


def _chunk(document: Document, position: int, part: DocumentPassage, pieces: Sequence[Piece]) -> Chunk:
    # An empty line ends a turn that no other speaker's follows.
    ends = ["\n\n" if one.speaker and not after.speaker else "\n" for one, after in pairwise(pieces)]
    text = "".join(piece.text + end for piece, end in zip(pieces, [*ends, ""], strict=True))
    header, origin = chunk_header(document, part), origin_line(document, part)
    first, last = min(piece.first for piece in pieces), max(piece.last for piece in pieces)
    # An answer from the same words of another day is another answer.
    chunk_id = content_id(document.id, str(position), header, origin, text, str(part.written or document.date))
    about = (part.role, part.written, part.author, origin)
    return Chunk(chunk_id, document.id, position, header, text, first, last, *about)


def _pack(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Group the pieces into chunks: a chunk takes the next piece if that brings its weight closer to TARGET."""
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


def _pieces(passage: DocumentPassage, speakers: Collection[str]) -> Iterator[Piece]:
    text, speaker = passage.text, passage.speaker
    name = f"{speaker}: " if speaker else ""
    # Else the text was joined, and the line of a part is unknown.
    same_lines = text.count("\n") == passage.last - passage.first
    line, counted = passage.first, 0
    for start, end in _spans(text, max(1, MOST - weigh(name))):
        line, counted = line + text.count("\n", counted, start), start
        last = line + text.count("\n", start, end)
        said, first = text[start:end], int(bool(speaker))
        if speakers:  # no line ends its turn or begins another: "Ann: yes" may be what Bob writes
            lines = [line for line in said.split("\n") if line.strip() or not speaker]
            kept = [f" {one}" if any(turn.speaker for turn in turns(one, speakers)) else one for one in lines[first:]]
            said = "\n".join([*lines[:first], *kept])
        shown = name + said
        first, last = (line, last) if same_lines else (passage.first, passage.last)
        yield Piece(shown, weigh(shown), first, last, speaker)


def _spans(text: str, most: int) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of the parts of a passage: the whole passage, or sentences up to the target weight."""
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
    text: str, start: int, end: int, goal: int, borders: Sequence[re.Pattern[str]] = (_SENTENCE_END, _LINE, _BLANK)
) -> Iterator[tuple[int, int, int]]:
    """Yield (start, end, weight) of sentences; those above the goal are cut into lines, words, then letters."""
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
        step = goal * (2 if _UNSPACED.search(part) else LETTERS)
        for at in range(start, end, step):
            yield at, min(at + step, end), weigh(text[at : min(at + step, end)])


_COMMIT = 128  # chunks embedded per commit: about 5 s of work on a slow machine
OnVectors = Callable[[Sequence[str], "Vectors"], None]  # receives chunk ids and their new vectors after each commit
_TIMEOUT_S = 0.2  # how long to wait for readers before dropping tables of former embedders is left to the next run


def embed(
    store: "VectorStore", embedder: "Embedder", locks: Locks, on_vectors: OnVectors = lambda _ids, _vectors: None
) -> Iterator[tuple[int, int]]:
    """Embed what is missing; yields how much is done and left after each commit, nothing if another process embeds."""
    with locks.sole("embedder") as locked:
        if not locked:
            return
        with locks.writer():
            store.use(embedder.fingerprint)
        if store.former:
            with suppress(Locked), locks.exclusive(_TIMEOUT_S):  # else next time
                store.drop_former()
        done, missing = 0, store.missing
        while rows := store.wanted(_COMMIT):
            ids, texts = [row["id"] for row in rows], [f"{row['header']}\n{row['text']}" for row in rows]
            vectors = embedder.embed(texts)
            with locks.writer():
                store.put(ids, vectors)
            on_vectors(ids, vectors)
            done, missing = done + len(ids), missing - len(ids)
            yield done, max(missing, 0)
