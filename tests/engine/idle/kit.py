"""What tests of idle work share: chunks as retrieval gives them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from store.types import Chunk, Hit

DAY = datetime(2024, 5, 3, tzinfo=UTC)


def hit(text: str, name: str = "a", position: int = 0, **about: Any) -> Hit:
    """Make a chunk of a document, a mail from Ann to Bob of 3 May unless said otherwise."""
    chunk = Chunk(f"{name}/{position}", name, position, about.pop("header", "From: Ann Lee, rehearsal"), text, 1, 1)
    usual: dict[str, Any] = {
        "vector": None, "date": DAY, "sender": "Ann Lee <ann.lee@example.org>", "title": "Rehearsal",
        "recipients": ("Bob Roy <bob@example.org>",),
    }  # fmt: skip
    return Hit(chunk, "", **(usual | about))


def chat(text: str, *people: str, **about: Any) -> Hit:
    """Make a chunk of a transcript."""
    return hit(text, **({"sender": "\n".join(people), "recipients": people, "title": "session"} | about))


@dataclass
class Writes:
    """Writes what it was told to; remembers the segments that it was shown."""

    text: str = ""
    shown: list[str] = field(default_factory=list)

    def __call__(self, segments: Sequence[str]) -> str:
        """Write."""
        self.shown += segments
        return self.text
