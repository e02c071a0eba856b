"""Writes messages as Outlook does, from MS-CFB, MS-OXMSG, MS-OXTNEF and MS-OXRTFCP; no more than the tests need."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Union

Tree = Mapping[str, Union[bytes, "Tree"]]
Value = str | bytes | int | datetime
END, FREE, NONE = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFF
SUBJECT, HEADERS, BODY, HTML, RTF, CLASS = 0x37, 0x7D, 0x1000, 0x1013, 0x1009, 0x1A
SENT, ARRIVED, MADE, FLAGS, PAGE, MAIL_PAGE = 0x39, 0xE06, 0x3007, 0xE07, 0x3FFD, 0x3FDE
FROM, FROM_TYPE, FROM_ADDRESS, FROM_SMTP = 0x42, 0x64, 0x65, 0x5D02
SENDER, SENDER_ADDRESS, SENDER_SMTP = 0xC1A, 0xC1F, 0x5D01
NAME, ADDRESS, SMTP, KIND = 0x3001, 0x3003, 0x39FE, 0xC15
DATA, LONG_NAME, MIME, METHOD = 0x3701, 0x3707, 0x370E, 0x3705
START, ENDS, PLACE, PATTERN, ALL_DAY = 0x820D, 0x820E, 0x8208, 0x8232, 0x8215
APPOINTMENT = bytes.fromhex("0220060000000000c000000000000046")
NOON = datetime(2024, 5, 3, 12, 0, tzinfo=UTC)


@dataclass(frozen=True)
class Sent:
    """A message or an attachment: properties by their numbers; those from 0x8000 on are the numbers of names."""

    values: Mapping[int, Value]
    recipients: Sequence[Mapping[int, Value]] = ()
    attachments: Sequence["Sent"] = ()
    message: "Sent | None" = None
    charset: str = ""  # of its texts, which are UTF-16 otherwise
    more: Mapping[str, bytes] = field(default_factory=dict)  # streams


def ticks(moment: datetime) -> int:
    """Return a moment in units of 100 ns since 1601."""
    return int((moment - datetime(1601, 1, 1, tzinfo=UTC)).total_seconds()) * 10**7


def packed(value: Value, charset: str = "") -> tuple[int, bytes]:
    """Return the type of a value, and its bytes."""
    if isinstance(value, int):
        return 0x03, struct.pack("<I", value)
    if isinstance(value, datetime):
        return 0x40, struct.pack("<Q", ticks(value))
    if isinstance(value, bytes):
        return 0x102, value
    return (0x1E, value.encode(charset)) if charset else (0x1F, value.encode("utf-16-le"))


# Compound files.


def compound(tree: Tree, cutoff: int = 4096) -> bytes:
    """Return a compound file of version 3."""
    names, entries = list[str](), list[list[int]]()  # type, right, below, first sector, size
    big, small = list[bytes](), list[bytes]()

    def add(name: str, content: "bytes | Tree") -> int:
        number = len(names)
        names.append(name)
        entries.append([1, NONE, NONE, 0, 0])
        if isinstance(content, bytes):
            into, width = (small, 64) if len(content) < cutoff else (big, 512)
            at = sum(-(-len(one) // width) for one in into)
            entries[number] = [2, NONE, NONE, at if content else END, len(content)]
            into.append(content)
        else:
            before = None
            for inner, held in content.items():
                one = add(inner, held)
                if before is None:
                    entries[number][2] = one
                else:
                    entries[before][1] = one
                before = one
        return number

    add("Root Entry", tree)
    minis = b"".join(one + bytes(-len(one) % 64) for one in small)
    entries[0] = [5, NONE, entries[0][2], sum(-(-len(one) // 512) for one in big), len(minis)]
    streams = [*big, minis, chains(small, 64)]
    streams.append(b"".join(map(_entry, names, entries)))
    tables = 1
    while tables * 128 < sum(-(-len(one) // 512) for one in streams) + tables:
        tables += 1
    table = chains(streams, 512) + struct.pack("<I", 0xFFFFFFFD) * tables
    starts = [sum(-(-len(one) // 512) for one in streams[:count]) for count in range(len(streams) + 1)]
    listed = [starts[-1] + one for one in range(tables)]
    head = struct.pack("<8s16x5H6x", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 0x3E, 3, 0xFFFE, 9, 6)
    head += struct.pack("<9I", 0, tables, starts[-2], 0, cutoff, starts[-3], -(-len(streams[-2]) // 512), END, 0)
    body = b"".join(one + bytes(-len(one) % 512) for one in streams)
    return (head + struct.pack(f"<{tables}I", *listed)).ljust(512, b"\xff") + body + table.ljust(tables * 512, b"\xff")


def chains(streams: Sequence[bytes], width: int) -> bytes:
    """Return the number of the next sector of each one, for streams that follow each other."""
    out = list[int]()
    for one in streams:
        count = -(-len(one) // width)
        out += [*range(len(out) + 1, len(out) + count), END][:count]
    return struct.pack(f"<{len(out)}I", *out)


def _entry(name: str, entry: Sequence[int]) -> bytes:
    kind, right, below, first, size = entry
    coded = name.encode("utf-16-le") + b"\0\0"
    return struct.pack("<64sHBB3I36xIQ", coded, len(coded), kind, 1, NONE, right, below, first, size)


def msg(sent: Sent) -> bytes:
    """Return a .msg file."""
    return compound(storage(sent, 32))


def storage(sent: Sent, head: int) -> Tree:
    """Return the streams of a message or an attachment."""
    names = sorted({number for number in sent.values if number >= 0x8000})
    places = {number: 0x8000 + place for place, number in enumerate(names)}
    tree: dict[str, bytes | Tree] = {**sent.more}
    fixed = bytes(head)
    for number, value in sent.values.items():
        kind, data = packed(value, sent.charset)
        tag = places.get(number, number) << 16 | kind
        if isinstance(value, (str, bytes)):
            tree[f"__substg1.0_{tag:08X}"] = data
        fixed += struct.pack("<II", tag, 6) + (data if kind in (0x03, 0x40) else struct.pack("<I", len(data))).ljust(
            8, b"\0"
        )
    tree["__properties_version1.0"] = fixed
    if head == 32:
        entries = b"".join(struct.pack("<IHH", one, 3 << 1, place) for place, one in enumerate(names))
        tree["__nameid_version1.0"] = {
            "__substg1.0_00020102": APPOINTMENT, "__substg1.0_00030102": entries, "__substg1.0_00040102": b"",
        }  # fmt: skip
    for number, one in enumerate(sent.recipients):
        tree[f"__recip_version1.0_#{number:08X}"] = storage(Sent(one, charset=sent.charset), 8)
    for number, file in enumerate(sent.attachments):
        inner = dict(storage(file, 8))
        if file.message:
            inner["__substg1.0_3701000D"] = storage(file.message, 24)
        tree[f"__attach_version1.0_#{number:08X}"] = inner
    return tree


# TNEF.


def tnef(sent: Sent, page: int = 1252) -> bytes:
    """Return a winmail.dat."""
    out = struct.pack("<IH", 0x223E9F78, 1)
    out += attribute(1, 0x69007, struct.pack("<II", page, 0))
    out += attribute(1, 0x69003, listed(sent.values, sent.charset))
    if sent.recipients:
        rows = b"".join(listed(one, sent.charset) for one in sent.recipients)
        out += attribute(1, 0x69004, struct.pack("<I", len(sent.recipients)) + rows)
    for file in sent.attachments:
        values = dict(file.values)
        out += attribute(2, 0x69002, bytes(14))
        out += attribute(2, 0x18010, str(values.pop(LONG_NAME, "untitled")).encode("cp1252", "replace") + b"\0")
        content = values.pop(DATA, b"")
        assert isinstance(content, bytes)
        out += attribute(2, 0x6800F, content)
        more = bytes(16) + tnef(file.message) if file.message else b""
        out += attribute(2, 0x69005, listed(values, sent.charset, more))
    return out


def attribute(level: int, name: int, data: bytes) -> bytes:
    """Return one attribute, with its checksum."""
    return struct.pack("<BII", level, name, len(data)) + data + struct.pack("<H", sum(data) & 0xFFFF)


def listed(values: Mapping[int, Value], charset: str = "", message: bytes = b"") -> bytes:
    """Return a list of properties; a text of several, and one named by a text, stand in front of them."""
    out = [struct.pack("<HHIII", 0x101E, 0x3A57, 2, 2, 0x61).ljust(16, b"\0") + struct.pack("<II", 2, 0x62)]
    name = "keywords".encode("utf-16-le") + b"\0\0"
    out.append(struct.pack("<HH16sII", 0x03, 0x8123, APPOINTMENT, 1, len(name)) + name + b"\0\0" + struct.pack("<I", 7))
    for number, value in values.items():
        kind, data = packed(value, charset)
        out.append(struct.pack("<HH", kind, min(number, 0x8000)))
        out[-1] += struct.pack("<16sII", APPOINTMENT, 0, number) if number >= 0x8000 else b""
        sized = struct.pack("<II", 1, len(data)) if isinstance(value, (str, bytes)) else b""
        out[-1] += sized + data + bytes(-len(data) % 4)
    if message:
        out.append(struct.pack("<HHII", 0x0D, DATA, 1, len(message)) + message + bytes(-len(message) % 4))
    return struct.pack("<I", len(out)) + b"".join(out)


def compressed(text: bytes) -> bytes:
    """Return text in the form of compressed RTF, in which every byte stands for itself."""
    pieces = [text[at : at + 8] for at in range(0, len(text), 8)]
    body = b"".join(b"\0" + piece for piece in pieces)
    return struct.pack("<II4sI", len(body) + 12, len(text), b"LZFu", 0) + body
