"""What was retrieved for a question, tied to the files it stands in. Knows retrieval and the catalogue, no writer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from engine.ask.question import Question
from engine.ask.reply import Source
from engine.ask.retrieve import Bank, Retrieval, retrieve
from engine.ask.sources import Source as Found
from engine.ask.trace import Trace
from engine.models.protocols import Embedder
from store.catalog import Catalogue
from store.hits import Hit, Vectors
from store.types import Chunk, Place, Scope

_COPIES = 3  # named beside a source
_NEAREST = 50  # as many as a question may read sources


@dataclass(frozen=True, slots=True)
class Read:
    """One source as it is read: its chunks, how well it fits, and where it stands, copies behind it."""

    chunks: tuple[Chunk, ...]  # neighbours, in order
    sender: str
    recipients: tuple[str, ...]
    date: datetime | None
    score: float
    sources: tuple[Source, ...]

    @property
    def header(self) -> str:
        """Give the line that says who, when and what."""
        return self.chunks[0].header

    @property
    def text(self) -> str:
        """Give the text of its chunks, a line end between them."""
        return "\n".join(chunk.text for chunk in self.chunks)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The sources of one question, best first; `chunks` names all that an answer from them depends on."""

    reads: tuple[Read, ...]
    chunks: tuple[str, ...]
    covered: float
    nearest: tuple[float, ...] = ()  # cosines of the chunks looked at, nearest first

    def sources(self, quotes: Sequence[str], lead: int = 0) -> tuple[Source, ...]:
        """Return all places, each with its quote (one a read): those of the read at index `lead`, then by rank."""
        pairs = list(zip(self.reads, quotes, strict=True))
        ordered = [*pairs[lead : lead + 1], *pairs[:lead], *pairs[lead + 1 :]]
        return tuple(replace(source, quote=quote) for read, quote in ordered for source in read.sources)


def gather(
    bank: Bank,
    catalogue: Catalogue,
    embedder: Embedder | None,
    question: Question,
    scope: Scope,
    k: int,
    trace: Trace,
) -> Evidence:
    """Embed a question, where an embedder is given and the bank has vectors, and retrieve for it."""
    vector = None
    if embedder is not None and bank.totals().embedded:
        with trace.step("embed"):
            vector = embedder.embed_question(question.text)
    return find(bank, catalogue, vector, question, scope, k, trace)


def find(
    bank: Bank,
    catalogue: Catalogue,
    vector: Vectors | None,
    question: Question,
    scope: Scope,
    k: int,
    trace: Trace,
) -> Evidence:
    """Retrieve for a question and its vector; a document whose last file vanished a moment ago is left out."""
    with trace.step("retrieve") as step:
        found = retrieve(bank, vector, question, scope, k, Retrieval())
        reads = tuple(read for source in found.sources if (read := _read(catalogue, source, found.hits)))
        step.note = f"{len(found.ranked)} candidates, {len(reads)} sources, {found.covered:.0%} of chunks have vectors"
    # Of what is read, not of all that was found: the same ids must mean the same answer and the same sources.
    chunks = tuple(chunk.id for read in reads for chunk in read.chunks)
    if vector is None:
        return Evidence(reads, chunks, 0.0)
    return Evidence(reads, chunks, found.covered, _nearest(found.hits, vector))


def _nearest(hits: Mapping[str, Hit], vector: Vectors) -> tuple[float, ...]:
    cosines = (float(hit.vector @ vector) for hit in hits.values() if hit.vector is not None)
    return tuple(sorted(cosines, reverse=True)[:_NEAREST])


def _read(catalogue: Catalogue, source: Found, hits: Mapping[str, Hit]) -> Read | None:
    hit, places = hits[source.chunks[0].id], catalogue.places(source.document)
    if not places:
        return None
    lines = (source.first, source.last)
    copies = [(p, hits[c.id], (c.first, c.last)) for c in source.copies for p in catalogue.places(c.document)[:1]]
    standing = [*((place, hit, lines) for place in places), *copies][: 1 + _COPIES]
    sources = tuple(_source(*one, source.score, copy=bool(number)) for number, one in enumerate(standing))
    return Read(source.chunks, hit.sender, hit.recipients, hit.date, source.score, sources)


def _source(place: Place, hit: Hit, lines: tuple[int, int], score: float, *, copy: bool) -> Source:
    """Name one place; its lines are the file's own where the text stands there as it is, else the decoded text's."""
    before, own = place.lines_before or 0, place.lines_before is not None
    about = (place.path, place.message_id, hit.title, hit.date.isoformat() if hit.date else None)
    return Source(*about, (lines[0] + before, lines[1] + before), round(score, 6), "", own, copy)
