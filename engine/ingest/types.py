"""What all parsers share: their version, limits, the error for an unreadable item, and ids derived from content."""

from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import Final

# Raise it with each change after which a file is decoded to another text, date, sender or role: every file is then read
# again by the next `pkb ingest`, and what is decoded anew replaces what was decoded before.
PARSER_VERSION: Final = 2


@dataclass(frozen=True, slots=True)
class ParseLimits:
    """Caps that keep one bad item from costing too much; whatever exceeds them is reported as a problem."""

    message_bytes: int = 64 << 20  # of one message, attachments included; mail servers accept less
    file_bytes: int = 256 << 20  # of one file read into memory; mbox files are streamed without a cap
    parts: int = 500  # MIME parts of one message
    depth: int = 20  # of nested multiparts and messages
    header_bytes: int = 256 << 10  # of one message's header
    text_chars: int = 2_000_000  # of one document's decoded text
    seconds: float = 10.0  # for one item


class UnreadableItem(Exception):
    """An item that cannot be read; the reason contains none of its content."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def content_id(*parts: str) -> str:
    """Return a digest of some texts, each prefixed by its length so that no other split gives the same id."""
    digest = blake2b(digest_size=16)
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.hexdigest()


ZONE_HOURS = {
    "EST": -5,
    "EDT": -4,
    "CST": -6,
    "CDT": -5,
    "MST": -7,
    "MDT": -6,
    "PST": -8,
    "PDT": -7,
    "CET": 1,
    "CEST": 2,
}


def in_users_zone(clock: datetime) -> datetime:
    """Return a time of day that was written without a zone as one of the user's zone: its day stays as written."""
    return clock.replace(tzinfo=None).astimezone()
