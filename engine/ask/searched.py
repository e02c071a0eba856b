"""The words a chunk is found by, as they are stored beside it: its text and header, and what the header leaves out.

A header that is prompted must be short; what is searched may hold every address, and the month by its name.
"""

from collections.abc import Sequence
from datetime import datetime

from engine.ask.words import words
from store.types import Chunk

_PEOPLE = 200  # of one message: lists beyond are no longer about anybody
_MONTHS = "january february march april may june july august september october november december"


def searched(chunk: Chunk, sender: str, recipients: Sequence[str], date: datetime | None) -> list[str]:
    """Give the words of one chunk, given the sender, recipients and date of its document; store them space-joined.

    The first chunk of a document stands for its addresses: all its people are searched there.
    """
    parts = [chunk.header, chunk.text]
    if chunk.position == 0:
        parts += [sender, *recipients[:_PEOPLE]]
    if date is not None:
        parts.append(_MONTHS.split(" ")[date.month - 1])
    return words("\n".join(parts))
