"""Passages for tests: of chunks, or of one text."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from engine.types import Passage, Source
from store.types import Chunk, Hit


def passage(
    chunks: Sequence[Chunk],
    sender: str = "",
    recipients: tuple[str, ...] = (),
    date: datetime | None = None,
    score: float = 1.0,
    sources: tuple[Source, ...] = (),
) -> Passage:
    """Join chunks of one document."""
    return Passage(
        tuple(Hit(chunk, "", None, date, sender, recipients, "", score) for chunk in chunks), sources=sources
    )


def of_text(
    header: str, text: str, date: datetime | None, sender: str, score: float, recipients: tuple[str, ...] = ()
) -> Passage:
    """Make a passage of one chunk."""
    return passage((Chunk("a0", "a", 0, header, text, 1, 1),), sender, recipients, date, score)


def changed(one: Passage, **parts: Any) -> Passage:
    """Return a passage of one chunk with other parts."""
    names = ("header", "text", "date", "sender", "score", "recipients")
    return of_text(**{name: getattr(one, name) for name in names} | parts)
