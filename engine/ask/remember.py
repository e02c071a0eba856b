"""What the history keeps of a question: how it was answered, and which chunks were retrieved for it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from store.database import Ledger
from store.history import History, HistoryEntry, Retrieved

if TYPE_CHECKING:
    from datetime import datetime

    from engine.ask.evidence import Evidence
    from engine.ask.reply import Reply


@dataclass(frozen=True, slots=True)
class Served:
    """The key of a question, the key of the kept answer that it was given, if any, and whether that may be outdated.

    Without a key of its own it was asked past the bank.
    """

    key: bytes | None
    kept: bytes | None = None
    stale: bool = False


def remember(
    ledger: Ledger,
    text: str,
    at: "datetime",
    reply: "Reply",
    served: Served,
    saved_ms: float,
    evidence: "Evidence | None",
) -> None:
    """Keep a question with its reply's figures; `evidence` is None where nothing was retrieved."""
    tokens = reply.tokens or {}
    about = (at.timestamp(), text, reply.tier, reply.answer is not None, reply.ms["total"], saved_ms)
    read = (tokens.get("prompt"), tokens.get("reused"))
    asked = HistoryEntry(*about, *read, served.key, served.kept, served.stale)
    chunks = in_prompt(evidence) if evidence else ()
    with ledger.transaction():
        Retrieved(ledger).add(History(ledger).add(asked), chunks)


def in_prompt(evidence: "Evidence") -> tuple[str, ...]:
    """Give the ids of all chunks that were found, in document order, whether or not a model had room for them."""
    # As `prompt.in_document_order` has it, which takes longer to import than quotes should wait for.
    placed = [
        (read.date.timestamp() if read.date else 0.0, chunk.document, chunk.position, chunk.id)
        for read in evidence.reads
        for chunk in read.chunks
    ]
    return tuple(chunk for *_, chunk in sorted(placed))
