"""The header of a chunk (who, when, what), and the words that a chunk is indexed under."""

from collections.abc import Sequence
from datetime import datetime

from engine.text.dates import MONTH_NAMES, spell_date
from engine.text.terminal import shorten
from engine.text.words import words
from store.types import Chunk, Document, Role

_PEOPLE = 200  # recipients indexed per message; longer lists say nothing about any one of them
_ROLES = {"quote": "quoted", "forward": "forwarded", "attachment": "attachment", "event": "event"}


def index_words(chunk: Chunk, sender: str, recipients: Sequence[str], date: datetime | None) -> list[str]:
    """Return the words that a chunk is indexed under, given the sender, recipients and date of its document.

    Only the first chunk of a document is indexed under its addresses.
    """
    parts = [chunk.header, chunk.text]
    if chunk.position == 0:
        parts += [sender, *recipients[:_PEOPLE]]
    if date is not None:
        parts.append(MONTH_NAMES[date.month - 1])
    return words("\n".join(parts))


def chunk_header(document: Document, role: Role, written: datetime | None = None) -> str:
    """Return the header of a chunk: who, when and what. Speakers are left out: the turns name them.

    A quoted or forwarded text is marked with the day on which it was `written`, or as undated: its "tomorrow" is not
    that of the document.
    """
    date = [_date(document.date)] if document.date else []
    title = shorten(document.title, 160)
    if document.kind == "mail":
        who = [f"From: {_name(document.sender)}"] if document.sender else []
        who += [f"To: {_names(document.recipients, 2)}"] if document.recipients else []
        parts = [*who, *date, *([title] if title else [])]
    else:
        parts = [f"Meeting: {title}", *date]
    mark = _ROLES.get(role, "")
    if role in ("quote", "forward"):
        mark += f", written {_date(written)}" if written else ", undated"
    return ", ".join(parts) + (f" [{mark}]" if mark else "")


def _date(date: datetime) -> str:
    """Write the date out as questions do, so that words match it and no model has to compute the weekday."""
    clock = f" {date:%H:%M}" if (date.hour, date.minute) != (0, 0) else ""  # midnight: only the day is known
    return spell_date(date, weekday=True) + clock


def _names(people: Sequence[str], most: int) -> str:
    more = f" (+{len(people) - most})" if len(people) > most else ""
    return ", ".join(_name(person) for person in people[:most]) + more


def _name(person: str) -> str:
    name, _, address = person.partition("<")
    return shorten(name.strip(' "') or address.rstrip("> "), 60)
