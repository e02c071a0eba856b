"""What was retrieved for a question, tied to the files it stands in. Knows retrieval and the catalogue, no writer."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from engine.ask.question import Question
from engine.ask.reply import Source
from engine.ask.retrieve import Bank, Retrieval, retrieve
from engine.ask.sources import Source as Found
from engine.ask.trace import Trace
from engine.models.protocols import Embedder
from store.catalogue import Catalogue
from store.hits import Hit
from store.records import Place, Scope


@dataclass(frozen=True, slots=True)
class Read:
    """One source as it is read: its text under its header, where it stands, and how well it fits."""

    header: str
    text: str
    title: str
    sender: str
    recipients: tuple[str, ...]
    date: datetime | None
    place: Place
    first: int
    last: int
    score: float

    @property
    def lines(self) -> tuple[int, int]:
        """Give 1-based inclusive lines of the file, where the text stands there as it is, else of the decoded text."""
        before = self.place.lines_before or 0
        return self.first + before, self.last + before

    def to_source(self, quote: str) -> Source:
        """Give it as a reply names it."""
        date = self.date.isoformat() if self.date else None
        score = round(self.score, 6)
        return Source(self.place.path, self.place.message_id, self.title, date, self.lines, score, quote)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The sources of one question, best first; `chunks` names all that an answer from them depends on."""

    reads: tuple[Read, ...]
    chunks: tuple[str, ...]
    covered: float


def gather(
    bank: Bank, catalogue: Catalogue, embedder: Embedder | None, question: Question, scope: Scope, k: int, trace: Trace
) -> Evidence:
    """Retrieve for a question; a document whose last file vanished a moment ago is left out."""
    with trace.step("retrieve") as step:
        found = retrieve(bank, embedder, question, scope, k, Retrieval())
        reads = tuple(read for source in found.sources if (read := _read(catalogue, source, found.hits)))
        step.note = f"{len(found.ranked)} candidates, {len(reads)} sources, {found.covered:.0%} of chunks have vectors"
    chunks = tuple(chunk.id for source in found.sources for chunk in source.chunks)
    return Evidence(reads, chunks, found.covered)


def _read(catalogue: Catalogue, source: Found, hits: Mapping[str, Hit]) -> Read | None:
    hit, places = hits[source.chunks[0].id], catalogue.places(source.document)
    if not places:
        return None
    text = "\n".join(chunk.text for chunk in source.chunks)
    about = (hit.title, hit.sender, hit.recipients, hit.date, places[0])
    return Read(hit.chunk.header, text, *about, source.first, source.last, source.score)
