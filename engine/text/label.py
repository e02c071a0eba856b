"""Writes the line above each chunk that says who, when and what; searched, embedded and prompted with it."""

from collections.abc import Sequence
from datetime import datetime

from engine.text.words import words
from store.types import Chunk, Document

_PEOPLE = 200  # of one message: lists beyond are no longer about anybody
_MONTH_NAMES = "january february march april may june july august september october november december"


def searched(chunk: Chunk, sender: str, recipients: Sequence[str], date: datetime | None) -> list[str]:
    """Return the words of one chunk, given the sender, recipients and date of its document; store them space-joined.

    The first chunk of a document stands for its addresses: all its people are searched there.
    """
    parts = [chunk.header, chunk.text]
    if chunk.position == 0:
        parts += [sender, *recipients[:_PEOPLE]]
    if date is not None:
        parts.append(_MONTH_NAMES.split(" ")[date.month - 1])
    return words("\n".join(parts))


_ROLES = {"quote": "quoted", "forward": "forwarded", "attachment": "attachment", "event": "event"}
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def label(document: Document, role: str) -> str:
    """Return who, when and what; not who speaks, since the turns say that themselves."""
    date = [_date(document.date)] if document.date else []
    title = one_line(document.title, 160)
    if document.kind == "mail":
        who = [f"From: {_name(document.sender)}"] if document.sender else []
        who += [f"To: {_names(document.recipients, 2)}"] if document.recipients else []
        parts = [*who, *date, *([title] if title else [])]
    else:
        parts = [f"Meeting: {title}", *date]
    return ", ".join(parts) + (f" [{_ROLES[role]}]" if role in _ROLES else "")


def _date(date: datetime) -> str:
    """Spell the day out, as questions do: words find it, and a model need not reckon the weekday."""
    clock = f" {date:%H:%M}" if (date.hour, date.minute) != (0, 0) else ""  # midnight: only the day is known
    return day(date) + clock


def day(date: datetime) -> str:
    """Spell out weekday and date."""
    return f"{_DAYS[date.weekday()]} {date.day} {_MONTHS[date.month - 1]} {date.year}"


def _names(people: Sequence[str], most: int) -> str:
    more = f" (+{len(people) - most})" if len(people) > most else ""
    return ", ".join(_name(person) for person in people[:most]) + more


def _name(person: str) -> str:
    name, _, address = person.partition("<")
    return one_line(name.strip(' "') or address.rstrip("> "), 60)


def one_line(text: str, most: int) -> str:
    """Return the text on one line of at most so many characters."""
    flat = " ".join(text[: 4 * most].split())
    return flat if len(flat) <= most else flat[: most - 1].rstrip() + "…"
