"""How much of one file or item is read, and the error that says why one is not; knows no format."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The caps that keep one bad item from costing too much; what lies beyond them is named as a problem."""

    message_bytes: int = 64 << 20  # of one message, attachments included
    file_bytes: int = 256 << 20  # of one file read whole; mbox files are streamed and have no cap
    parts: int = 500  # MIME parts of one message
    depth: int = 20  # multiparts and messages inside each other
    header_bytes: int = 256 << 10  # of one message's own header
    text_chars: int = 2_000_000  # of one document's decoded text
    seconds: float = 10.0  # for one item


class Unreadable(Exception):
    """An item that cannot be read; the reason holds none of its content."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
