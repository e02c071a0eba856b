"""The header of a node's file: safetensors' JSON, with whose tensors they are and checksums of all. Pure.

It is read by writing it again: whatever is not, byte for byte, what would have been written is not a header.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any
from zlib import crc32

from store.kv_tree import Key

VERSION = 1
WIDTHS = {"F32": 4, "F16": 2, "BF16": 2, "U32": 4, "I32": 4, "U16": 2, "I16": 2, "U8": 1, "I8": 1}
_FORMAT = "pkb-kv"
_ABOUT = "__metadata__"
_ALIGN = 8


class BadNode(Exception):
    """A file that is not the node it should be; `reason` is one word: missing, torn, foreign, version or flipped."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Payload:
    """A tensor as a header describes it: `begin` and `end` count bytes from the first payload."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int
    crc: int


@dataclass(frozen=True, slots=True)
class Header:
    """Whose tensors a file holds; only that of a file knows its payloads."""

    root: Key
    key: Key
    parent: Key
    path: Key
    ids: tuple[int, ...]
    payloads: tuple[Payload, ...] = ()

    @property
    def payload_bytes(self) -> int:
        """Give the bytes of all payloads."""
        return self.payloads[-1].end if self.payloads else 0


def encode(header: Header, payloads: Sequence[Payload]) -> bytes:
    """Give the JSON of a header, its length a multiple of eight that depends on no checksum."""
    about = {
        "format": _FORMAT, "version": str(VERSION), "root": header.root.hex(), "key": header.key.hex(),
        "parent": header.parent.hex(), "path": header.path.hex(), "ids": " ".join(map(str, header.ids)),
        "crc": " ".join(f"{one.crc:08x}" for one in payloads),
    }  # fmt: skip
    entries = {p.name: {"dtype": p.dtype, "shape": p.shape, "data_offsets": (p.begin, p.end)} for p in payloads}
    about["sum"] = f"{crc32(json.dumps([about, entries]).encode()):08x}"
    text = json.dumps({_ABOUT: about} | entries, separators=(",", ":")).encode()
    return text + b" " * (-len(text) % _ALIGN)


def decode(text: bytes) -> Header:
    """Read a header; BadNode where it is another program's, another version's, or damaged."""
    try:
        entries = json.loads(text)
        about = entries.pop(_ABOUT)
        if about["format"] == _FORMAT and about["version"] != str(VERSION):
            raise BadNode("version")
        header = _understood(entries, about)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        raise BadNode("foreign") from None
    if encode(header, header.payloads) != text:
        raise BadNode("flipped")
    return header


def _understood(entries: dict[str, Any], about: dict[str, str]) -> Header:
    root, key, parent, path = (bytes.fromhex(about[name]) for name in ("root", "key", "parent", "path"))
    payloads, at = [], 0
    for (name, one), crc in zip(entries.items(), about["crc"].split(), strict=True):
        begin, end = one["data_offsets"]
        payload = Payload(name, one["dtype"], tuple(one["shape"]), begin, end, int(crc, 16))
        numbers = (*payload.shape, end)  # a width may be nought: some layers keep keys alone
        if begin != at or any(type(number) is not int or number < 0 for number in numbers):
            raise ValueError("not a shape, or not behind the payload before it")
        if end != at + WIDTHS[payload.dtype] * prod(payload.shape):
            raise ValueError("not as long as its shape says")
        payloads.append(payload)
        at = end
    return Header(root, key, parent, path, tuple(int(one) for one in about["ids"].split()), tuple(payloads))
