"""A document ready to be kept, and its rows in LanceDB's tables. Knows columns; opens nothing."""

from dataclasses import dataclass
from typing import Any

from store.records import Chunk, Document

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Entry:
    """A document ready to be kept: its chunks, their words (joined by spaces), and its collections.

    `owned` are the digests of the passages that are searched in it, `quoted` of those that are searched elsewhere.
    """

    document: Document
    chunks: tuple[Chunk, ...]
    tokens: tuple[str, ...]
    collections: tuple[str, ...]
    owned: tuple[bytes, ...] = ()
    quoted: tuple[bytes, ...] = ()

    @property
    def date(self) -> str | None:
        """Give the date as the ledger keeps it."""
        return self.document.date.isoformat() if self.document.date else None


def document_row(entry: Entry) -> Row:
    """Give the row of the document itself."""
    d = entry.document
    kept = {
        "id": d.id,
        "kind": d.kind,
        "title": d.title,
        "message_id": d.message_id,
        "text": d.text,
        "sender": d.sender,
    }
    return kept | _about(entry)


def chunk_rows(entry: Entry) -> list[Row]:
    """Give the rows of its chunks, in order."""
    about = _about(entry) | {"title": entry.document.title}
    return [
        {
            "id": chunk.id, "document": chunk.document, "position": chunk.position, "header": chunk.header,
            "text": chunk.text, "words": tokens, "first": chunk.first, "last": chunk.last,
            "sender": _sender(entry.document, chunk), **about,
        }
        for chunk, tokens in zip(entry.chunks, entry.tokens, strict=True)
    ]  # fmt: skip


def _about(entry: Entry) -> Row:
    document = entry.document
    return {"date": document.date, "recipients": "\n".join(document.recipients), "collections": list(entry.collections)}


def _sender(document: Document, chunk: Chunk) -> str:
    """Give who speaks in a chunk: a mail's sender, or those attendees of a meeting whose turns are in it."""
    if document.kind == "mail":
        return document.sender
    return "\n".join(name for name in document.recipients if f"{name}:" in chunk.text)
