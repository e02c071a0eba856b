"""Messages as Outlook keeps them, in `.msg` files and in `winmail.dat`, made into MIME; parses no mail itself.

The formats are Microsoft's: MS-CFB (files in a file), MS-OXMSG, MS-OXTNEF, MS-OXRTFCP. MS-OXPROPS numbers properties.
"""

import re
import struct
from array import array
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from email.utils import format_datetime
from hashlib import blake2b
from io import BytesIO
from mimetypes import MimeTypes
from urllib.parse import quote

from msgspec import Struct

from engine.ingest.headers import MOST_ADDRESSES, clean, decode_text, fields_of
from engine.ingest.scan import TNEF
from engine.ingest.types import ParseLimits, UnreadableItem

_Values = dict[int, str | bytes | int]
_Storage = dict[str, "bytes | _Storage"]


def as_mime(raw: bytes, limits: ParseLimits) -> bytes:
    """Return a message of Outlook as one of MIME; UnreadableItem if it is damaged or something else."""
    if len(raw) > limits.message_bytes:
        raise UnreadableItem(f"larger than {limits.message_bytes >> 20} MB")
    try:
        if raw.startswith(TNEF):
            return _mime(_read_tnef(raw, limits.depth, limits))
        return _mime(_read_message(_read_compound(raw), 32, {}, limits.depth))
    except (struct.error, IndexError):
        raise UnreadableItem("damaged") from None


# Properties of a message, a recipient or an attachment: a number stands for each.

_WIDTHS = {0x02: 2, 0x03: 4, 0x0B: 2, 0x40: 8}  # of the integers that are read here
_TEXT8, _TEXT, _OBJECT, _BINARY = 0x1E, 0x1F, 0x0D, 0x102
_NAMED = 0x8000  # a number from here on stands for a name, which is another number or a text
_CHARSETS = {20866: "koi8-r", 21866: "koi8-u", 51932: "euc-jp", 51949: "euc-kr", 54936: "gb18030"}
_CHARSETS |= dict.fromkeys((50220, 50221, 50222), "iso-2022-jp")
_ON_WINDOWS = {"koi8-r": "cp1251", "koi8-u": "cp1251", "euc-jp": "cp932", "iso-2022-jp": "cp932"}


class _Item(Struct):
    """A message or an attachment; mutable while it is read."""

    values: _Values = {}
    recipients: list["_Item"] = []
    attachments: list["_Item"] = []
    message: "_Item | None" = None  # that is attached

    def text(self, *numbers: int) -> str:
        """Return the first of these properties that is a text, and not an empty one."""
        found = (one for number in numbers if isinstance(one := self.values.get(number), str))
        return next((one for one in found if one.strip()), "")

    def data(self, number: int) -> bytes:
        """Return the bytes of a property, those of a text in UTF-8."""
        found = self.text(number).encode("utf-8", "replace") or self.values.get(number)
        return found if isinstance(found, bytes) else b""

    def number(self, *numbers: int) -> int:
        """Return the first of these numbers that is there and not 0."""
        found = (one for number in numbers if isinstance(one := self.values.get(number), int))
        return next(filter(None, found), 0)

    def time(self, *numbers: int) -> datetime | None:
        """Return the first of these times, in UTC without saying so."""
        ticks = self.number(*numbers)  # of 100 ns since 1601
        return datetime(1601, 1, 1) + timedelta(microseconds=ticks // 10) if 0 < ticks < 10**18 else None


def _value(kind: int, data: bytes, charset: str) -> str | bytes | int:
    if kind in _WIDTHS:
        return int.from_bytes(data[: _WIDTHS[kind]], "little")
    if kind == _TEXT:
        return data.decode("utf-16-le", "replace").rstrip("\0")
    return decode_text(data.rstrip(b"\0"), charset) if kind == _TEXT8 else data


def _charset(page: int) -> str:
    return _CHARSETS.get(page) or (f"iso-8859-{page - 28590}" if 28590 < page < 28606 else f"cp{page}" if page else "")


# A .msg file: streams in sectors, each of which has the number of the next one of its stream.

_ENTRY = struct.Struct("<64sHBx3I36xI2I")  # name, its bytes, type; entries beside and below; first sector, size
_STORAGE, _STREAM = 1, 2
_PROPERTIES, _PROPERTY = "__properties_version1.0", re.compile(r"__substg1\.0_([\dA-F]{4})([\dA-F]{4})", re.IGNORECASE)


class _Sectors(Struct, frozen=True):
    """A file, or its short streams: where the first sector begins, how large each is, and which one follows each."""

    raw: bytes
    start: int
    width: int
    following: "array[int]"

    def read(self, at: int, size: int | None = None) -> bytes:
        """Return the stream that begins in a sector; UnreadableItem if its size is another one, or it has no end."""
        pieces, most = list[bytes](), len(self.following)
        while at < len(self.following) and len(pieces) < (most if size is None else min(most, -(-size // self.width))):
            pieces.append(self.raw[self.start + at * self.width : self.start + (at + 1) * self.width])
            at = self.following[at]
        data = b"".join(pieces)[:size]
        if size != 0 and (at < len(self.following) or len(data) < (size or 0)):
            raise UnreadableItem("damaged")
        return data


def _read_compound(raw: bytes) -> _Storage:
    """Return the streams of a compound file by their names, those in a storage as a dictionary."""
    width = 4096 if raw[30] == 12 else 512
    begin, cutoff, minis = struct.unpack_from("<I4xII", raw, 48)
    tables, at = list(struct.unpack_from("<109I", raw, 76)), struct.unpack_from("<I", raw, 68)[0]
    while at < len(raw) // width and len(tables) < len(raw) // width + 109:  # others are listed in sectors of their own
        *more, at = struct.unpack_from(f"<{width // 4}I", raw, (at + 1) * width)
        tables += more
    listed = (raw[(one + 1) * width : (one + 2) * width] for one in tables if one < len(raw) // width)
    sectors = _Sectors(raw, width, width, _numbers(b"".join(listed)[: len(raw)]))
    directory = sectors.read(begin)
    entries = list(_ENTRY.iter_unpack(directory[: len(directory) // 128 * 128]))
    if sum(entry[-2] for entry in entries if entry[2] == _STREAM) > len(raw):  # sectors that are of several streams
        raise UnreadableItem("damaged")
    short = _Sectors(sectors.read(*entries[0][-3:-1]), 0, 64, _numbers(sectors.read(minis)))
    root, seen = _Storage(), {0}
    todo = [(entries[0][5], root)]
    while todo:
        number, into = todo.pop()
        if number in seen or number >= len(entries):
            continue
        seen.add(number)
        coded, length, kind, left, right, below, at, size, _ = entries[number]
        name = coded[: max(length - 2, 0)].decode("utf-16-le", "replace")
        todo += [(left, into), (right, into)]
        if kind == _STORAGE:
            into[name] = inner = _Storage()
            todo.append((below, inner))
        elif kind == _STREAM:
            into[name] = (short if size < cutoff else sectors).read(at, size)
    return root


def _numbers(data: bytes) -> "array[int]":
    return array("I", data[: len(data) // 4 * 4])


def _read_message(storage: _Storage, head: int, names: Mapping[int, int], levels: int) -> _Item:
    """Return the message in a storage whose properties have a header of so many bytes."""
    if _PROPERTIES not in storage:
        raise UnreadableItem("not a message of Outlook")
    listed = storage.get("__nameid_version1.0")
    if isinstance(listed, dict) and isinstance(coded := listed.get("__substg1.0_00030102"), bytes):
        named = struct.iter_unpack("<IHH", coded[: len(coded) // 8 * 8])
        names = {_NAMED + place: name for name, is_text, place in named if not is_text & 1}
    message, charset = _read_item(storage, head, names)
    for name, inner in sorted(storage.items()):
        if isinstance(inner, dict) and name.startswith(("__recip", "__attach")):
            one, _ = _read_item(inner, 8, names, charset)
            (message.recipients if name.startswith("__recip") else message.attachments).append(one)
            content = inner.get("__substg1.0_3701000D")
            if isinstance(content, dict) and levels and _PROPERTIES in content:
                one.message = _read_message(content, 24, names, levels - 1)
    return message


def _read_item(storage: _Storage, head: int, names: Mapping[int, int], charset: str = "") -> tuple[_Item, str]:
    """Return the properties in a storage, and the charset of those texts that are not in UTF-16."""
    item, fixed = _Item(), storage.get(_PROPERTIES)
    if isinstance(fixed, bytes):
        for kind, number, data in struct.iter_unpack("<HH4x8s", fixed[head : head + (len(fixed) - head) // 16 * 16]):
            if kind in _WIDTHS:
                item.values[names.get(number, number)] = _value(kind, data, "")
    charset = charset or _charset(item.number(0x3FFD, 0x3FDE))
    charset = _ON_WINDOWS.get(charset, charset)  # those are made for mail
    for name, content in storage.items():
        if isinstance(content, bytes) and (tag := _PROPERTY.fullmatch(name)):
            number = int(tag[1], 16)
            item.values[names.get(number, number)] = _value(int(tag[2], 16), content, charset)
    return item, charset


# TNEF, as in winmail.dat: attributes, of which some are lists of properties.

_ATTRIBUTES = {0x8004: (_TEXT8, 0x37), 0x800C: (_TEXT8, 0x1000), 0x8010: (_TEXT8, 0x3707), 0x800F: (_BINARY, 0x3701)}
_PAGE, _MESSAGE, _PEOPLE, _NEW, _ATTACHMENT = 0x9007, 0x9003, 0x9004, 0x9002, 0x9005


def _read_tnef(raw: bytes, levels: int, limits: ParseLimits) -> _Item:
    message, charset, at = _Item(), "", 6
    here = message
    while at + 9 <= len(raw) and len(message.attachments) <= limits.parts:
        attribute, size = struct.unpack_from("<xHxxI", raw, at)
        data = BytesIO(raw[at + 9 : at + 9 + size])
        at += size + 11  # and a sum
        if attribute == _PAGE:
            charset = _charset(_integer(data))
        elif attribute == _NEW:
            here = _Item()
            message.attachments.append(here)
        elif attribute == _PEOPLE:
            rows = range(min(_integer(data), 3 * MOST_ADDRESSES - len(message.recipients)))
            message.recipients += [_Item(_listed_values(data, charset)) for _ in rows]
        elif attribute in (_MESSAGE, _ATTACHMENT):
            here.values |= _listed_values(data, charset)
        elif attribute in _ATTRIBUTES:
            kind, number = _ATTRIBUTES[attribute]
            here.values.setdefault(number, _value(kind, data.read(), charset))
    for one in message.attachments:
        if levels and (content := one.data(0x3701)[16:]).startswith(TNEF):  # behind the name of its interface
            one.message = _read_tnef(content, levels - 1, limits)
    return message


def _integer(data: BytesIO) -> int:
    (found,) = struct.unpack("<I", data.read(4))  # fails at the end: what is read there would be counts without end
    return int(found)


def _listed_values(data: BytesIO, charset: str) -> _Values:
    values = _Values()
    for _ in range(_integer(data)):
        kind, number = struct.unpack("<HH", data.read(4))
        if number >= _NAMED:
            is_text, number = struct.unpack("<16xII", data.read(24))
            if is_text:
                data.read(number + -number % 4)
                number = 0
        several, kind = kind & 0x1000, kind & 0xFFF
        sized = kind in (_TEXT8, _TEXT, _OBJECT, _BINARY)
        for _ in range(_integer(data) if several or sized else 1):
            size = _integer(data) if sized else 16 if kind == 0x48 else 8 if kind in (5, 6, 7, 0x14, 0x40) else 4
            content = data.read(size + -size % 4)
            if len(content) < size:
                raise UnreadableItem("damaged")
            values.setdefault(number, _value(kind, content[:size], charset))
    return values


_BEFORE = (  # each text, as if it had been written already
    rb"{\rtf1\ansi\mac\deff0\deftab720{\fonttbl;}{\f0\fnil \froman \fswiss \fmodern \fscript \fdecor MS Sans Serif"
    rb"SymbolArialTimes New RomanCourier{\colortbl\red0\green0\blue0"
    b"\r\n"
    rb"\par \pard\plain\f0\fs20\b\i\u\tab\tx"
)
_STORED, _RING = b"MELA", 4096


def unpack_rtf(data: bytes) -> bytes:
    """Return compressed RTF as it was, at most nine times its size; what is behind a damaged place is left out."""
    out, at = bytearray(_BEFORE), 16
    if data[8:12] == _STORED:
        return data[16:]
    while at < len(data):
        marks, at = data[at], at + 1
        for bit in range(8):
            if marks >> bit & 1 == 0:
                out += data[at : at + 1]
                at += 1
                continue
            copied = int.from_bytes(data[at : at + 2].ljust(2, b"\0"), "big")
            back, count, at = (len(out) - (copied >> 4)) % _RING, (copied & 15) + 2, at + 2
            if not back or back > len(out) or at > len(data):
                return bytes(out[len(_BEFORE) :])
            piece = out[len(out) - back : len(out) - back + count]
            out += (piece * count)[:count]
    return bytes(out[len(_BEFORE) :])


_AUTHOR, _SENDER = (0x42, 0x5D02, 0x65), (0xC1A, 0x5D01, 0xC1F, 0x5D0A)  # name, and addresses; the last of who made it
_RECIPIENTS = (("to", 1, 0xE04), ("cc", 2, 0xE03), ("bcc", 3, 0xE02))  # the type of each, and a list of their names
_FIELDS = {"subject": 0x37, "message-id": 0x1035, "in-reply-to": 0x1042, "references": 0x1039}
TYPES = MimeTypes()
# The last is a changed one of a series.
_EVENTS = ("ipm.appointment", "ipm.schedule.meeting", "ipm.ole.class.{00061055")
_METHODS = {".request": "REQUEST", ".canceled": "CANCEL", ".resp": "REPLY"}


def _mime(message: _Item) -> bytes:
    received = fields_of(message.data(0x7D)).fields
    fields = {name: found for name, found in received.items() if not name.startswith(("content-", "mime-"))}
    for name, value in _fields(message):
        if name not in fields or ("@" in value and "@" not in fields[name][0]):  # people, by their names alone
            fields[name] = [value]
    lines = (f"{name.title()}: {clean(value)}\n" for name, found in fields.items() for value in found if value)
    signed = [one.data(0x3701) for one in message.attachments if one.text(0x370E).startswith("multipart/")]
    plain, html, rtf = message.data(0x1000), message.data(0x1013), message.data(0x1009)
    charset = "utf-8" if message.text(0x1013) else _charset(message.number(0x3FDE))
    texts = [_part("text/plain; charset=utf-8", plain)] if plain.strip() else []
    if html or rtf:
        texts.append(_part(f'text/html; charset="{charset}"', html) if html else _part("text/rtf", unpack_rtf(rtf)))
    body = [_multipart("alternative", texts)] if texts else []
    parts = signed or [*body, *_event(message), *map(_file, message.attachments)]
    return "".join(lines).encode("utf-8", "replace") + _multipart("mixed", parts)


def _fields(message: _Item) -> Iterator[tuple[str, str]]:
    author, sender = _person(message, *_AUTHOR), _person(message, *_SENDER)
    if "@" not in author and message.text(0x42) in ("", message.text(0xC1A)):
        author = sender
    yield "from", author
    yield "sender", sender if "@" in sender and sender != author else ""
    for name, kind, shown in _RECIPIENTS:
        people = (_person(one, 0x3001, 0x39FE, 0x3003) for one in message.recipients if one.number(0xC15) & 15 == kind)
        yield name, ", ".join(filter(None, people)) or message.text(shown)
    sent, arrived = message.time(0x39, 0xE06, 0x3007), message.time(0xE06)
    yield "date", format_datetime(sent) if sent else ""
    yield "received", f"; {format_datetime(arrived)}" if arrived else ""
    yield "x-unsent", "1" if message.number(0xE07) & 8 and not message.number(0x39, 0xE06) else ""
    yield from ((name, message.text(number)) for name, number in _FIELDS.items())


def _person(one: _Item, name: int, *addresses: int) -> str:
    """Return a person for a header; an address that only the server of an organization knows is left out."""
    found = (re.sub(r"[<>\s]", "", one.text(number)) for number in addresses)
    address = next((text for text in found if "@" in text and text[0] != "/"), "")
    shown = clean(one.text(name)).strip("'")
    quoted = '"' + re.sub(r'(["\\])', r"\\\1", shown) + '"'
    return address if shown.lower() in ("", address.lower()) else f"{quoted} <{address}>" if address else quoted


def _file(one: _Item) -> bytes:
    if one.message:
        return _part("message/rfc822", _mime(one.message))
    name = clean(one.text(0x3707, 0x3704, 0x3001))[:200]
    kind = clean(one.text(0x370E)) or TYPES.guess_type(name)[0] or "application/octet-stream"
    return _part(kind, one.data(0x3701), f"Content-Disposition: attachment; filename*=utf-8''{quote(name)}\n")


def _event(message: _Item) -> list[bytes]:
    kind, start, end = message.text(0x1A).lower(), message.time(0x820D, 0x60), message.time(0x820E, 0x61)
    if not start or not kind.startswith(_EVENTS):
        return []
    form, shift = ("%Y%m%d", 12) if message.number(0x8215) else ("%Y%m%dT%H%M%SZ", 0)  # days: midnight in some zone
    times = ((one + timedelta(hours=shift)).strftime(form) for one in (start, end or start))
    texts = (re.sub(r"([\\;,])", r"\\\1", clean(message.text(number))) for number in (0x37, 0x8208, 0x8232))
    names = ("SUMMARY", "LOCATION", "DESCRIPTION", "DTSTART", "DTEND")
    lines = [f"{name}:{value}" for name, value in zip(names, (*texts, *times), strict=True) if value]
    method = next((method for word, method in _METHODS.items() if word in kind), "")
    calendar = ["BEGIN:VCALENDAR", f"METHOD:{method}", "BEGIN:VEVENT", *lines, "END:VEVENT", "END:VCALENDAR", ""]
    return [_part("text/calendar; charset=utf-8", "\n".join(calendar).encode("utf-8", "replace"))]


def _part(kind: str, data: bytes, more: str = "") -> bytes:
    return f"Content-Type: {kind}\n{more}\n".encode("utf-8", "replace") + data


def _multipart(kind: str, parts: list[bytes]) -> bytes:
    if len(parts) < 2:
        return b"".join(parts) or b"\n"
    mark = blake2b(b"".join(parts), digest_size=16).hexdigest()  # which none of them can contain
    bodies = b"".join(f"--{mark}\n".encode() + part + b"\n" for part in parts)
    return _part(f"multipart/{kind}; boundary={mark}", bodies + f"--{mark}--\n".encode())
