"""What all parsers share: limits, the error for an unreadable item, and ids derived from content."""

from dataclasses import dataclass
from hashlib import blake2b


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
