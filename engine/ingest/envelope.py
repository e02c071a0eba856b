"""What a message's header says of it: who, when, what about, in which thread; knows nothing of bodies."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from email.utils import parsedate_tz

from engine.ingest.addresses import Address, display_names, named, parse_addresses
from engine.ingest.headers import Headers, clean, decode_words

MOST_LINKS = 50
YEARS = range(1970, 2101)
_MESSAGE_ID = re.compile(r"<([^<>\s]{1,300})>")
_REPLY = re.compile(
    r"\s*(?:(?:re|aw|antw|antwort|sv|vs|res|rif|odp|ynt|vl|fwd?|wg|tr|rv|enc|doorst|回复|答复|回覆|转发|轉寄|返信|転送)"
    r"\s{0,3}(?:[\[(]\d{1,3}[\])]|\^\d{1,3})?\s{0,3}[:：])",
    re.IGNORECASE,
)
_FORWARD = re.compile(r"\s*(?:fwd?|wg|tr|rv|enc|doorst|vl|转发|轉寄|転送)\s{0,3}[:：]", re.IGNORECASE)
_TAG = re.compile(r"\s*\[[^\[\]]{1,40}\]")


@dataclass(frozen=True, slots=True)
class Envelope:
    """The decoded header; `sent` is the Date field alone, `date` also what the last relay said."""

    title: str
    sender: Address
    recipients: tuple[Address, ...]
    visible: tuple[Address, ...]  # recipients that every copy names, so without Bcc
    sent: datetime | None
    date: datetime | None
    links: tuple[str, ...]  # the message's own id first, where it has one
    message_id: str | None


def read_envelope(headers: Headers) -> Envelope:
    """Decode a header; never fails."""
    senders = _people(headers, "from", "x-from") or _people(headers, "sender", "") or _people(headers, "reply-to", "")
    visible = (*_people(headers, "to", "x-to"), *_people(headers, "cc", "x-cc"))
    hidden = [
        one for one in _people(headers, "bcc", "x-bcc") if one.address not in {other.address for other in visible}
    ]
    sent = parse_date(headers.first("date"))
    own = _ids(headers.first("message-id"))[:1]
    others = [link for name in ("in-reply-to", "references") for link in _ids(headers.first(name))]
    return Envelope(
        title=clean(decode_words(headers.first("subject"))),
        sender=senders[0] if senders else Address("", ""),
        recipients=(*visible, *hidden),
        visible=visible,
        sent=sent,
        date=sent or parse_date(headers.first("received").rpartition(";")[2]),
        links=tuple(dict.fromkeys(own + others))[:MOST_LINKS],
        message_id=own[0] if own else None,
    )


def parse_date(value: str) -> datetime | None:
    """Read a Date field; None for what is no date of this age. A missing zone is taken for UTC."""
    try:
        parts = parsedate_tz(value[:200])
        if parts is None or parts[0] not in YEARS:
            return None
        moment = datetime(*parts[:5], min(parts[5], 59), tzinfo=UTC)
    except (ValueError, TypeError, IndexError, OverflowError):  # the parser's own, for hostile text
        return None
    zone = parts[9] or 0
    if abs(zone) >= 86_400:
        return moment
    return (moment - timedelta(seconds=zone)).astimezone(timezone(timedelta(seconds=zone)))


def topic_of(title: str) -> str:
    """Give a subject without reply, forward and list marks, casefolded."""
    end = 0
    while mark := _REPLY.match(title, end) or _TAG.match(title, end):
        end = mark.end()
    return title[end:].strip().casefold() or title.strip().casefold()


def is_reply(title: str) -> bool:
    """Say whether a subject has a reply or forward mark, list tags aside."""
    return _REPLY.match(title, _behind_tags(title)) is not None


def is_forward(title: str) -> bool:
    """Say whether a subject's first mark, list tags aside, is one of forwarding."""
    return _FORWARD.match(title, _behind_tags(title)) is not None


def _behind_tags(title: str) -> int:
    end = 0
    while tag := _TAG.match(title, end):
        end = tag.end()
    return end


def _people(headers: Headers, field: str, names: str) -> list[Address]:
    found = parse_addresses(", ".join(headers.all(field)))
    if not names or all(one.name for one in found):
        return found
    shown = [headers.first(names)] if field == "from" else display_names(headers.first(names), len(found))
    return (
        [named(one, display) for one, display in zip(found, shown, strict=False)] if len(shown) == len(found) else found
    )


def _ids(value: str) -> list[str]:
    value = value[:20_000]
    if "<" not in value:  # seen bare in the wild
        return [clean(value)[:300]] if value.strip() and " " not in value.strip() else []
    return [clean(found) for found in _MESSAGE_ID.findall(value)]
