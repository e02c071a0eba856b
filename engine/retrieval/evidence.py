"""What was retrieved for a question, tied to the files it stands in. Knows retrieval and the catalogue, no writer."""

from collections.abc import Mapping, Sequence
from typing import Any

from engine.models.types import Embedder
from engine.retrieval.retrieve import RetrievalLimits, Searchable, retrieve
from engine.retrieval.retrieve import SourceSpan as Found
from engine.text.question import Question
from engine.types import SCHEMA, Evidence, Passage, Source, Trace
from store.catalog import Catalog
from store.hits import Hit, Vectors
from store.search import Reader
from store.types import Place, Scope

_COPIES = 3  # named beside a source
_NEAREST = 50  # as many as a question may read sources


def gather(
    bank: Searchable,
    catalogue: Catalog,
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
    bank: Searchable,
    catalogue: Catalog,
    vector: Vectors | None,
    question: Question,
    scope: Scope,
    k: int,
    trace: Trace,
) -> Evidence:
    """Retrieve for a question and its vector; a document whose last file vanished a moment ago is left out."""
    with trace.step("retrieve") as step:
        found = retrieve(bank, vector, question, scope, k, RetrievalLimits())
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


def _read(catalogue: Catalog, source: Found, hits: Mapping[str, Hit]) -> Passage | None:
    hit, places = hits[source.chunks[0].id], catalogue.places(source.document)
    if not places:
        return None
    lines = (source.first, source.last)
    copies = [(p, hits[c.id], (c.first, c.last)) for c in source.copies for p in catalogue.places(c.document)[:1]]
    standing = [*((place, hit, lines) for place in places), *copies][: 1 + _COPIES]
    sources = tuple(_source(*one, source.score, copy=bool(number)) for number, one in enumerate(standing))
    return Passage(source.chunks, hit.sender, hit.recipients, hit.date, source.score, sources)


def _source(place: Place, hit: Hit, lines: tuple[int, int], score: float, *, copy: bool) -> Source:
    """Name one place; its lines are the file's own where the text stands there as it is, else the decoded text's."""
    before, own = place.lines_before or 0, place.lines_before is not None
    about = (place.path, place.message_id, hit.title, hit.date.isoformat() if hit.date else None)
    return Source(*about, (lines[0] + before, lines[1] + before), round(score, 6), "", own, copy)


def shown(reader: Reader, places: Sequence[Place]) -> list[dict[str, Any]]:
    """Return the documents that stand at these places, in order, as plain values."""
    kept = reader.documents([place.document for place in places])
    return [_shown(kept[place.document], place) for place in places if place.document in kept]


def _shown(row: dict[str, Any], place: Place) -> dict[str, Any]:
    before = place.lines_before or 0
    return {
        "schema": SCHEMA,
        "path": place.path,
        "item": place.item,
        "message_id": row["message_id"],
        "kind": row["kind"],
        "title": row["title"],
        "sender": row["sender"],
        "recipients": [name for name in row["recipients"].split("\n") if name],
        "date": row["date"].isoformat() if row["date"] else None,
        "collection": place.collection,
        "lines": [before + 1, before + row["text"].count("\n") + 1],
        "text": row["text"],
    }
