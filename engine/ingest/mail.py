"""One RFC 5322 message into a Document: envelope, text, the role of each passage, and an id shared by all copies."""

import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from email.utils import parsedate_tz
from hashlib import blake2b

from msgspec import Struct

from engine.ingest import headers
from engine.ingest.headers import Address, Headers
from engine.ingest.html import is_page
from engine.ingest.mime import Leaf, MimePart, Tree, read_part, walk
from engine.ingest.quotes import IN_FORWARD, IN_NEW_MAIL, IN_REPLY, QuoteRoles, paragraphs, passages_of
from engine.ingest.types import ParseLimits, in_users_zone
from engine.text.people import LIST_TAG, REPLIED, bare_title, header_warnings
from prompts import word_patterns
from store.types import Document, DocumentPassage, FileText, ParsedItem, Role, replace

YEARS = range(1970, 2101)
_STANDARD = re.compile(
    r"\s*(?:\w{3},\s*)?\d+ +[A-Z][a-z]{2} +\d+ +[\d:]+( +([+-]\d{4}|GMT|UTC?|[ECMP][SD]T))?\s*(\([^()]*\)\s*)?$"
)
_COMMENT = re.compile(r"\([^()]*\)(?=.*\d)")  # amid a date
_MESSAGE_ID = re.compile(r"<([^<>\s]{1,300})>")
_FORWARD = re.compile(
    rf"(?:{LIST_TAG.pattern})*+\s*(?:{word_patterns('mail_programs')['forward']})\s{{0,3}}[:：]", re.IGNORECASE
)
_DELIVERED = re.compile(word_patterns("mail_programs")["delivered"])
_FAILED = re.compile(r"\bdmarc=(?:fail|permerror)\b", re.IGNORECASE)


class Envelope(Struct, frozen=True):
    """The decoded header: a `document` without id and text, and what else is needed for those."""

    document: Document  # dated in its writer's zone; without a Date field as it was received, in the user's
    people: tuple[str, ...]  # named in every copy, so without Bcc: addresses in lower case, the sender's first
    sent: datetime | None  # the Date field
    links: tuple[str, ...]  # the message's own id first, where it has one


def read_envelope(header: Headers) -> Envelope:
    """Return the decoded header; never fails."""
    fields = (("from", "x-from"), ("sender", ""), ("reply-to", ""))
    named = next((found for pair in fields if (found := _addresses(header, *pair))), [])
    senders = _behind_list(header, named)
    visible = (*_addresses(header, "to", "x-to"), *_addresses(header, "cc", "x-cc"))
    shown = {one.address for one in visible}
    hidden = [one for one in _addresses(header, "bcc", "x-bcc") if one.address not in shown]
    sent = parse_date(header.first("date"))
    received = _here(header.first("received").rpartition(";")[2])  # its offset is that of a server
    own = _ids(header.first("message-id"))[:1]
    failed = [one.lower() for one in _FAILED.findall(header.first("authentication-results"))][:1]
    # The user's own server writes its fields above those that came with the message.
    own_fields = (header.first(name) for name in header.fields if _DELIVERED.fullmatch(name))
    boxes = (one for value in own_fields for one in headers.parse_addresses(value))
    sending, replies = (headers.parse_addresses(header.first(name)) for name in ("sender", "reply-to"))
    routes = [[one.address for one in found if one.address] for found in (sending or named[:1], replies)]
    odd = header_warnings([(one.name, one.address) for one in senders], *routes)
    others = [link for name in ("in-reply-to", "references") for link in _ids(header.first(name))]
    in_mailbox = _here(header.first(headers.ENVELOPE).partition(" ")[2])
    sender = senders[0] if senders else Address("", "")
    document = Document(
        id="",
        kind="mail",
        title=headers.clean(headers.decode_words(header.first("subject"))),
        sender=str(sender),
        recipients=tuple(map(str, (*visible, *hidden))),
        date=_on_its_clock(sent, header.first("date")) if sent else received or in_mailbox,
        message_id=own[0] if own else None,
        text="",
        passages=(),
        received=received,  # by the last mail server, whose Received field stands first
        delivered=tuple(dict.fromkeys(one.address.lower() for one in boxes if "@" in one.address)),
        warnings=(*odd, *(f"the receiving server could not confirm the sender ({one})" for one in failed)),
    )
    people = tuple((one.address or one.name).lower() for one in (sender, *visible))
    return Envelope(document, people, sent, tuple(dict.fromkeys(own + others))[:50])


def _behind_list(header: Headers, senders: Sequence[Address]) -> Sequence[Address]:
    """Return who wrote a message that a list sends under its own address, with the writer's name in front of it."""
    own = senders[0] if senders else Address("", "")
    if not own.address or own.address.replace("@", ".").lower() not in header.first("list-id").lower():
        return senders
    named = [one for field in ("x-original-from", "reply-to", "cc") for one in _addresses(header, field, "")]
    others = (one for one in named if one.name and one.address != own.address)
    writers = [one for one in others if re.match(rf"{re.escape(one.name)}\b", own.name.strip("'\""))]
    return writers[:1] or senders


def parse_date(value: str) -> datetime | None:
    """Return the date in a Date field; None if there is none or its year is out of range. No zone means UTC."""
    value = value[:200] if _STANDARD.match(value) else _COMMENT.sub(" ", value[:200])
    # What does not have the form of RFC 5322 is read as in a quoted header, if it can be.
    if not _STANDARD.match(value) and (found := headers.date_in_header(value, None, UTC)) and found.year in YEARS:
        return found
    with suppress(ValueError, TypeError, IndexError, OverflowError):  # raised by the standard parser on hostile text
        if (parts := parsedate_tz(value)) and parts[0] in YEARS:
            zone = (parts[9] or 0) if abs(parts[9] or 0) < 86_400 else 0
            return datetime(*parts[:5], min(parts[5], 59), tzinfo=timezone(timedelta(seconds=zone)))
    return None


def _on_its_clock(moment: datetime, value: str) -> datetime:
    """Return the moment of a Date field in its writer's zone; in the user's, where the field names none."""
    if moment.utcoffset():
        return moment
    if re.search(r"-00:?00\b", value):  # RFC 5322 3.3: a moment in UTC, which says nothing of its writer's zone
        return moment.astimezone()
    named = re.search(r"[+-]\d\d:?\d\d\b|\b(?:GMT|UTC?|Z)\b", value, re.IGNORECASE)
    return moment if named else in_users_zone(moment)


def _here(value: str) -> datetime | None:
    moment = parse_date(value)
    return moment and moment.astimezone()


def _addresses(header: Headers, field: str, names: str) -> Sequence[Address]:
    found = headers.parse_addresses(", ".join(header.fields.get(field, ())))
    if not names or all(one.name for one in found):
        return found
    shown = [header.first(names)[: headers.LONGEST]]
    if field != "from":  # it does not quote the commas in names
        shown = re.split(r"(?<=>),\s*" if ">" in shown[0] else ",", shown[0])
    return found if len(shown) != len(found) else [*map(headers.with_display_name, found, shown)]


def _ids(value: str) -> list[str]:
    value = value[:20_000]
    if "<" not in value:  # some programs leave the brackets out
        return [headers.clean(value)[:300]] if value.strip() and " " not in value.strip() else []
    return [headers.clean(found) for found in _MESSAGE_ID.findall(value)]


ATTACHMENT_CHARS = 100_000  # of one attachment's text
_BODIES = frozenset(
    ("text/plain", "text/html", "text/enriched", "text/richtext", "text/rtf", "text/markdown", "application/xhtml+xml")
)


class Section(Struct, frozen=True):
    """A section of a document's text."""

    text: str
    role: Role | None = None  # None: the body, whose passages have roles of their own
    place: str = ""  # the attached file that it is from, and the part of it
    read: bool = False  # by another program: no part of a message's identity


def sections_of(found: Sequence[Leaf], tree: Tree) -> list[Section]:
    """Return the body first, then attachments in order, then files without text; problems are added to the tree."""
    bodies: list[str] = []
    others: list[Section] = []
    names: list[str] = []
    read: list[Section] = []
    for one in found:
        words, *attached = sections_of(one.within, tree) if one.within else [Section("")]
        if one.is_message:  # in the form of a forwarded one
            lines = ["---------- Forwarded message ----------", *_header_lines(one.part.headers), "", words.text]
            others += [Section("\n".join(lines).rstrip(), "forward"), *attached]
            continue
        read += file_sections(one.part.filename or one.part.kind, one.file) if one.file else ()
        read += (replace(each, read=True) for each in (words, *attached) if each.text)
        if one.text is None or not one.text.strip():
            names += [_name_line(one.part)] if one.text is None or one.part.filename else []
        elif one.part.kind in ("text/calendar", "application/ics") or one.part.filename.lower().endswith(".ics"):
            from engine.ingest.calendar import MOST_EVENTS, event_texts  # most mail has none

            events = [Section(text, "event") for text in event_texts(one.text)]
            if len(events) >= MOST_EVENTS:
                tree.problem(f"events beyond the first {MOST_EVENTS} were not read")
            others += events or [_attachment(one, tree)]
        elif not one.part.attached and (
            one.part.kind.startswith("multipart/")  # one that could not be split into parts
            or (one.part.kind in _BODIES and not (one.part.filename and bodies))
        ):
            bodies.append(one.text.rstrip("\n"))
        else:
            others.append(_attachment(one, tree))
    files = [Section("\n".join(names), "attachment")] if names else []
    return [Section("\n\n".join(bodies)), *dict.fromkeys(others), *files, *read]


def file_sections(name: str, found: FileText, kind: str = "attachment", role: Role = "attachment") -> list[Section]:
    """Return the text of a file, a section for each part, below its name and place; or why it has none."""
    if found.unread:
        return [Section(f"[{kind}: {name}: {found.unread}]", role, name, read=True)]
    places = ((", ".join(filter(None, (name, part.place))), part.text) for part in found.parts)
    return [Section(f"[{kind}: {place}]\n\n{text}", role, place, read=True) for place, text in places]


def _attachment(leaf: Leaf, tree: Tree) -> Section:
    text = (leaf.text or "").strip("\n")
    if len(text) > ATTACHMENT_CHARS:
        tree.problem(f"text of an attachment beyond {ATTACHMENT_CHARS} characters was not read")
        text = text[:ATTACHMENT_CHARS]
    return Section(f"{_name_line(leaf.part)}\n{text}", "attachment", leaf.part.filename)


def _name_line(part: MimePart) -> str:
    return f"[attachment: {part.filename or part.kind}]"


def _header_lines(header: Headers) -> list[str]:
    envelope = read_envelope(header)
    document = envelope.document
    moment = envelope.sent or (document.date and document.date.astimezone(UTC))  # the same in every zone of a user
    fields = {
        "From": document.sender,
        "Date": moment.isoformat(" ", "minutes") if moment else "",
        "To": ", ".join(document.recipients),
        "Subject": document.title,
    }
    return [f"{name}: {value}" for name, value in fields.items() if value]


_QUOTED_FROM = re.compile(r"^>+From ", re.MULTILINE)
_UNENCODED = frozenset(("", "7bit", "8bit", "binary"))


def read_mail(
    raw: bytes, limits: ParseLimits, item: int = 0, clock: Callable[[], float] = time.monotonic
) -> ParsedItem:
    """Return one parsed message; what could not be read is named in `problem`, and nothing is raised."""
    if not raw.strip():
        return ParsedItem(item, None, problem="empty")
    start = clock()
    tree = Tree(limits, lambda: clock() - start > limits.seconds)
    if len(raw) > limits.message_bytes:
        raw = raw[: limits.message_bytes]
        tree.problem(f"bytes beyond {limits.message_bytes} were not read")
    part = read_part(raw, limits)
    if len(raw) - len(part.body) > limits.header_bytes:
        tree.problem(f"header beyond {limits.header_bytes} bytes was not read")
    envelope = read_envelope(part.headers)
    document = envelope.document
    if len(document.recipients) >= headers.MOST_ADDRESSES:
        tree.problem(f"recipients beyond the first {headers.MOST_ADDRESSES} of a field were not read")
    found = walk(part, tree)
    title, quotes = bare_title(document.title), IN_NEW_MAIL
    if _FORWARD.match(document.title):
        quotes = IN_FORWARD
    elif REPLIED.match(document.title) or set(envelope.links) - {document.message_id}:
        quotes = replace(IN_REPLY, title=title if len(title) > 3 else "")
    sections = sections_of(found, tree)
    sections.sort(key=lambda one: one.read)
    text, passages = assemble(sections, quotes, document.date, tree)
    said = [one for one in sections if not one.read]
    own = assemble(said, quotes, document.date, tree)[0] if len(said) < len(sections) else text
    if not text and not part.headers.fields and not tree.problems:
        return ParsedItem(item, None, problem="empty")
    offset = _offset(raw, part, found, text)
    kinds = ("no-date",) if document.date and not (envelope.sent or document.received) else ()  # its mailbox has one
    document = replace(document, id=_shared_id(envelope, own), text=text, passages=passages)
    return ParsedItem(item, document, offset, "; ".join(tree.problems) or None, kinds)


def _shared_id(envelope: Envelope, own: str) -> str:
    """Return a digest of what all copies of a message share: not Bcc, names, From quoting, a list's tag."""
    parts = (
        "mail",
        envelope.sent.astimezone(UTC).isoformat() if envelope.sent else "",
        *envelope.people,
        LIST_TAG.sub("", envelope.document.title).strip(),
        _QUOTED_FROM.sub("From ", own).rstrip(),
    )
    return blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def assemble(
    sections: Sequence[Section], quotes: QuoteRoles, sent: datetime | None, tree: Tree
) -> tuple[str, tuple[DocumentPassage, ...]]:
    """Return the sections joined by empty lines, and their passages."""
    lines_before, length = 0, 0
    texts: list[str] = []
    passages: list[DocumentPassage] = []
    for section in sections:
        text = section.text.rstrip("\n")
        if not text.strip():
            continue
        room = tree.limits.text_chars - length
        if len(text) > room:
            tree.problem(f"text beyond {tree.limits.text_chars} characters was not read")
            text = text[: max(room, 0)].rstrip("\n")
        if not text:
            break
        if section.role is None:
            passages += passages_of(text, quotes, lines_before + 1, sent)
        else:
            lines, named = text.split("\n"), bool(section.place) and not section.read
            first, roles = lines_before + 1, [section.role] * len(lines)
            names = paragraphs(lines[:named], roles[:named], first)  # of each message that has the file
            found = paragraphs(lines[named:], roles[named:], first + named, sent)
            passages += [replace(one, author=section.place or one.author) for one in (*names, *found)]
        texts.append(text)
        length += len(text) + 2
        lines_before += text.count("\n") + 2
    return "\n\n".join(texts), tuple(passages)


def _offset(raw: bytes, part: MimePart, found: Sequence[Leaf], text: str) -> int | None:
    """Return the number of lines above the text; None if the text is not in the message verbatim."""
    plain = part.kind == "text/plain" and not part.is_flowed and part.encoding in _UNENCODED and len(found) == 1
    if not plain or is_page(part.body.decode("latin-1")):
        return None
    if text.count("\n") != part.body.rstrip(b"\r\n").count(b"\n"):  # bare carriage returns, or a text that was cut
        return None
    return raw.count(b"\n", 0, len(raw) - len(part.body))
