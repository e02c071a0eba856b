"""A block of documents becomes chunks in the knowledge bank, oldest first, each passage of text searched once."""

from collections.abc import Iterator, MutableMapping, Sequence
from datetime import UTC, datetime
from functools import partial

from engine.ask.searched import searched
from engine.ingest import once
from engine.ingest.blocks import Block
from engine.ingest.chunking import chunk
from store import documents
from store.catalog import Catalogue
from store.database import Ledger
from store.documents import Knowledge
from store.types import Document, Entry, Place

_COMMIT = 500  # documents: a kill repeats at most these
_UNDATED = datetime.min.replace(tzinfo=UTC)


def keep(ledger: Ledger, knowledge: Knowledge, block: Block) -> Iterator[int]:
    """Commit a block, yielding the number of documents after each commit; its files are done with the last one."""
    catalogue, standing = Catalogue(ledger), _standing(block)
    # Oldest first: the message that was quoted comes before the one that quotes it, and replies find their threads.
    ordered = sorted(block.documents.values(), key=lambda d: (d.date or _UNDATED, d.id))
    for start in range(0, max(len(ordered), 1), _COMMIT):
        batch = ordered[start : start + _COMMIT]
        collections = {d.id: _collections(catalogue, d.id, standing[d.id]) for d in batch}
        entries = _entries(ledger, batch, collections)
        last = start + _COMMIT >= len(ordered)
        record = partial(_finish, catalogue, block) if last else partial(_record, catalogue, batch, standing)
        knowledge.commit(entries, record)
        yield len(batch)


def _standing(block: Block) -> dict[str, list[Place]]:
    """Give the places of each document that are not in the catalogue yet."""
    found: dict[str, list[Place]] = {}
    for file in block.files:
        for place in file.places[file.kept :]:
            found.setdefault(place.document, []).append(place)
    return found


def _collections(catalogue: Catalogue, document: str, places: Sequence[Place]) -> tuple[str, ...]:
    return tuple(sorted({*catalogue.collections(document), *(place.collection for place in places)}))


def _entries(ledger: Ledger, batch: Sequence[Document], collections: dict[str, tuple[str, ...]]) -> list[Entry]:
    digests = {document.id: once.digests(document) for document in batch}
    owners = dict(documents.owners(ledger, (digest for several in digests.values() for digest in several)))
    for document in batch:
        for digest in once.bodies(document, digests[document.id]):
            owners.setdefault(digest, document.id)
    return [_entry(document, digests[document.id], owners, collections[document.id]) for document in batch]


def _entry(
    document: Document, digests: Sequence[bytes], owners: MutableMapping[bytes, str], collections: tuple[str, ...]
) -> Entry:
    """Make the entry of a document; `owners` learns what is searched in it."""
    split = once.split(document, digests, owners)
    for digest in split.owned:
        owners.setdefault(digest, document.id)
    chunks = tuple(chunk(document, split.passages))
    tokens = tuple(" ".join(searched(piece, document.sender, document.recipients, document.date)) for piece in chunks)
    return Entry(document, chunks, tokens, collections, split.owned, split.quoted)


def _record(catalogue: Catalogue, batch: Sequence[Document], standing: dict[str, list[Place]]) -> None:
    by_file: dict[str, list[Place]] = {}
    for document in batch:
        for place in standing[document.id]:
            by_file.setdefault(place.path, []).append(place)
    for path, places in by_file.items():
        catalogue.put_places(path, places)


def _finish(catalogue: Catalogue, block: Block) -> None:
    for file in block.files:
        if file.whole:
            catalogue.put_file(file.path, file.state, file.places, file.problems)
        else:
            catalogue.put_places(file.path, file.places[file.kept :])
            file.kept = len(file.places)
