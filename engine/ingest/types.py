"""What all parsers share: their version, limits, the error for an unreadable item, and ids derived from content.

Also what is known of a document beside its text: when it was first seen, and the people its header names. A date later
than that is a claim: the document counts as written when it was first seen, and keeps the claim.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from functools import cache
from hashlib import blake2b
from typing import Final, TypeVar
from zoneinfo import ZoneInfo, available_timezones

from engine.text.people import LOOK_ALIKE, folded_address, folded_name, name_and_address, traces
from store.catalog import BUG
from store.errors import PkbError
from store.provenance import NamedAddress, Provenance
from store.types import Document, DocumentPassage, ParsedItem

# Raise it with each change after which a file is decoded to another text, date, sender or role: every file is then read
# again by the next `pkb ingest`, and what is decoded anew replaces what was decoded before.
PARSER_VERSION: Final = 7


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


class Bug(UnreadableItem):
    """An item on which pkb itself failed, by an exception that no parser expects."""


T = TypeVar("T")
BUG_EVENT: Final = "pkb.bug"
_ENDS_THE_RUN = (MemoryError, OSError, PkbError, UnreadableItem)  # these are no bugs


def isolate(work: Callable[[], T]) -> T:
    """Return what work on one document gives; raises Bug in place of an exception that is one."""
    try:
        return work()
    except Exception as error:
        if isinstance(error, _ENDS_THE_RUN):
            raise
        raise Bug(_describe(error)) from error


def item_or_bug(item: int, parse: Callable[[], ParsedItem]) -> ParsedItem:
    """Return what parsing one item of a file gives; a bug fails it alone."""
    try:
        return isolate(parse)
    except Bug as bug:
        return ParsedItem(item, None, problem=bug.reason)


def _describe(error: Exception) -> str:
    """Return which exception a bug raised and where, without its message, which could hold mail.

    An audit event holds the traceback, which the command line shows with `PKB_DEBUG`.
    """
    sys.audit(BUG_EVENT, error)
    where, trace = "", error.__traceback__
    while trace:
        if (module := str(trace.tb_frame.f_globals.get("__name__"))).startswith("engine."):
            where = f" at {module}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"{BUG} {type(error).__name__}{where}; please report it; it is read again after an update of pkb"


def content_id(*parts: str) -> str:
    """Return a digest of some texts, each prefixed by its length so that no other split gives the same id."""
    digest = blake2b(digest_size=16)
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.hexdigest()


_ZONE_NAMES = ("EST", "EDT", "CST", "CDT", "MST", "MDT", "PST", "PDT", "CET", "CEST")
ZONE_HOURS = dict(zip(_ZONE_NAMES, (-5, -4, -6, -5, -7, -6, -8, -7, 1, 2), strict=True))


def named_zone(name: str) -> timezone | None:
    """Return the zone that an abbreviation stands for, in America if it stands for several; None if it is unclear."""
    hours = 0.0 if name in ("Z", "GMT", "UTC", "UT") else ZONE_HOURS.get(name, _abbreviations().get(name))
    return None if hours is None else timezone(timedelta(hours=hours))


@cache
def _abbreviations() -> dict[str, float]:
    """Return the hours of the abbreviations that mean one offset in all zones that use them."""
    found = dict[str, set[float]]()
    for zone in map(ZoneInfo, available_timezones()):
        for month in (1, 7):
            at = datetime(2020, month, 1, tzinfo=zone)
            found.setdefault(at.tzname() or "", set()).add((at.utcoffset() or timedelta()) / timedelta(hours=1))
    return {name: offsets.pop() for name, offsets in found.items() if len(offsets) == 1}


def in_users_zone(clock: datetime) -> datetime:
    """Return a time of day that was written without a zone as one of the user's zone: its day stays as written."""
    return clock.replace(tzinfo=None).astimezone()


_SKEW = timedelta(hours=1)  # between the clocks of a sender and of who receives: a date this much later is believed
_ZONES = timedelta(hours=26)  # between any two zones: a date this much later has another reason than a clock
_OLDEST = datetime(1990, 1, 1, tzinfo=UTC)  # a server's clock that says an earlier time was not set
_PEOPLE = 20  # recipients whose names are kept; a longer list knows nobody better


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
    claimed = document.date if document.date > seen + _ZONES else None
    return replace(document, date=date, claimed=claimed, passages=passages)


def _not_after(passage: DocumentPassage, seen: datetime) -> DocumentPassage:
    """Return a passage that is undated where its date is later than what quotes it was seen."""
    return replace(passage, written=None) if passage.written and passage.written > seen + _SKEW else passage


def provenance(document: Document, seen: datetime) -> Provenance:
    """Return what is recorded of a document."""
    people = list[NamedAddress]()
    if document.kind == "mail":
        named = [(document.sender, True), *((one, False) for one in document.recipients[:_PEOPLE])]
        people += [found for shown, sends in named for found in _named(shown, sends=sends)]
        sent = document.received or document.date  # whoever forges a mail writes its date, not when it was received
        traced = traces([one for one, _ in named], document.warnings, sent)
        people += [NamedAddress(name, one, sends=False) for name, one in traced]
    return Provenance(seen.astimezone(UTC), document.warnings, tuple(dict.fromkeys(people)))


def _named(shown: str, *, sends: bool) -> list[NamedAddress]:
    """Return a person by name, and by what the address looks like."""
    name, address = name_and_address(shown)
    found = [NamedAddress(folded, address.lower(), sends)] if (folded := folded_name(name)) else []
    return found + ([NamedAddress(f"{LOOK_ALIKE}{folded_address(address)}", address.lower(), sends)] if address else [])
