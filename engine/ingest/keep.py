"""A block of documents becomes chunks in the knowledge bank, oldest first, each passage of text searched once."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial

from engine.ask.searched import searched
from engine.ingest import once
from engine.ingest.blocks import Block
from engine.ingest.chunking import chunk
from store import passages
from store.catalogue import Catalogue
from store.knowledge import Entry, Knowledge
from store.ledger import Ledger
from store.records import Document
from store.threads import thread_of

_COMMIT = 500  # documents: a kill repeats at most these
_UNDATED = datetime.min.replace(tzinfo=UTC)


def keep(
    ledger: Ledger, knowledge: Knowledge, block: Block, collections: Callable[[str], Iterable[str]]
) -> Iterator[int]:
    """Commit a block, yielding the number of documents after each commit; its files are done with the last one.

    `collections` gives those that a document belongs to by places from before.
    """
    catalogue = Catalogue(ledger)
    # Oldest first: the message that was quoted comes before the one that quotes it, and replies find their threads.
    ordered = sorted(block.documents.values(), key=lambda d: (d.date or _UNDATED, d.id))
    own = _own_collections(block)
    for start in range(0, max(len(ordered), 1), _COMMIT):
        batch = ordered[start : start + _COMMIT]
        entries = _entries(ledger, batch, lambda d: tuple(sorted({*own.get(d, ()), *collections(d)})))
        last = start + _COMMIT >= len(ordered)
        knowledge.commit(entries, partial(_record, catalogue, block, batch, last=last))
        yield len(batch)


def _own_collections(block: Block) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for file in block.files:
        for place in file.places:
            found.setdefault(place.document, set()).add(place.collection)
    return found


def _entries(ledger: Ledger, batch: Sequence[Document], collections: Callable[[str], tuple[str, ...]]) -> list[Entry]:
    with ledger.transaction():
        for document in batch:
            passages.own(ledger, document.id, once.bodies(document))
        return [_entry(ledger, document, collections(document.id)) for document in batch]


def _entry(ledger: Ledger, document: Document, collections: tuple[str, ...]) -> Entry:
    split = once.split(document, passages.owners(ledger, once.digests(document)))
    passages.own(ledger, document.id, split.owned)
    passages.quote(ledger, document.id, split.quoted)
    chunks = tuple(chunk(document, split.passages))
    tokens = tuple(
        " ".join(searched(piece, document.sender, document.recipients, document.date)) for piece in chunks
    )
    return Entry(document, chunks, tokens, collections, thread_of(ledger, document))


def _record(catalogue: Catalogue, block: Block, batch: Sequence[Document], *, last: bool) -> None:
    if not last:
        ids = {document.id for document in batch}
        catalogue.put_places(place for file in block.files for place in file.places if place.document in ids)
        return
    for file in block.files:
        if file.whole:
            catalogue.put_file(file.path, file.state, file.places, file.problems)
        else:
            catalogue.put_places(file.places)
