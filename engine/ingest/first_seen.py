"""What is known of a document beside what it says of itself: when it was first seen, and the people its header names.

A date later than that is a claim: the document counts as written when it was first seen, and keeps the claim.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from engine.text.people import folded_address, folded_name, name_and_address
from store.provenance import NamedAddress, Provenance
from store.types import Document, DocumentPassage

_SKEW = timedelta(hours=1)  # between the clocks of a sender and of who receives: a date this much later is believed
_OLDEST = datetime(1990, 1, 1, tzinfo=UTC)  # a server's clock that says an earlier time was not set
_PEOPLE = 20  # recipients whose names are kept; a longer list knows nobody better
LOOK_ALIKE = "@"  # before a folded address, which no folded name begins with


def seen_at(document: Document, before: datetime | None, now: datetime) -> datetime:
    """Return when a document was first seen: read by pkb, or received by the last mail server, whichever was first."""
    first = min(before or now, now.replace(microsecond=0))
    received = document.received
    return min(first, received) if received and received >= _OLDEST else first


def as_seen(document: Document, seen: datetime) -> Document:
    """Return a document whose dates are not later than it was first seen, in the zone that they were written in."""
    passages = tuple(_not_after(passage, seen) for passage in document.passages)
    if document.date is None or document.date <= seen + _SKEW:
        return replace(document, passages=passages)
    date = seen.astimezone(document.date.tzinfo)
    return replace(document, date=date, claimed=document.date, passages=passages)


def _not_after(passage: DocumentPassage, seen: datetime) -> DocumentPassage:
    """Return a passage that is undated where its date is later than what quotes it was seen."""
    return replace(passage, written=None) if passage.written and passage.written > seen + _SKEW else passage


def provenance(document: Document, seen: datetime) -> Provenance:
    """Return what is recorded of a document."""
    people: tuple[NamedAddress, ...] = ()
    if document.kind == "mail":
        named = [(document.sender, True), *((one, False) for one in document.recipients[:_PEOPLE])]
        people = tuple(dict.fromkeys(found for shown, sends in named for found in _named(shown, sends=sends)))
    return Provenance(seen.astimezone(UTC), document.warnings, people)


def _named(shown: str, *, sends: bool) -> list[NamedAddress]:
    """Return a person by name, and by what the address looks like."""
    name, address = name_and_address(shown)
    found = [NamedAddress(folded, address.lower(), sends)] if (folded := folded_name(name)) else []
    return found + ([NamedAddress(f"{LOOK_ALIKE}{folded_address(address)}", address.lower(), sends)] if address else [])
