"""Frames between the commands and the resident process: a length, then one JSON object that says its kind.

Knows bytes and limits; neither sockets nor what the frames mean.
"""

import json
from collections.abc import Mapping
from struct import Struct
from typing import Any, NoReturn

PROTOCOL = 1  # raised when a frame changes its meaning
LIMIT = 8 << 20  # bytes of one frame: fifty long sources take a tenth of it
_LENGTH = Struct(">I")

Frame = dict[str, Any]


class Broken(Exception):
    """What came in is no frame; nothing behind it can be understood either."""


def encode(kind: str, values: Mapping[str, Any]) -> bytes:
    """Give the bytes of a frame; Broken where it would be too long."""
    body = json.dumps({"kind": kind, **values}).encode()  # escaped: file names need not be text
    if len(body) > LIMIT:
        raise Broken(f"a frame of {len(body)} bytes")
    return _LENGTH.pack(len(body)) + body


class Frames:
    """Takes bytes as they come, in pieces of any size, and gives the frames that they complete."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit, self._bytes = limit, bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Give the frames that are whole now, in order; Broken where one cannot be."""
        self._bytes += data
        found = []
        while (body := self._next()) is not None:
            found.append(_read(body))
        return found

    def _next(self) -> bytes | None:
        if len(self._bytes) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._bytes)
        if length > self._limit:
            raise Broken(f"a frame of {length} bytes")
        end = _LENGTH.size + length
        if len(self._bytes) < end:
            return None
        body = bytes(self._bytes[_LENGTH.size : end])
        del self._bytes[:end]
        return body


def _read(body: bytes) -> Frame:
    try:
        frame = json.loads(body.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError):  # of which bad UTF-8 is one
        raise Broken("a frame that is no JSON") from None
    if not isinstance(frame, dict) or not isinstance(frame.get("kind"), str):
        raise Broken("a frame without a kind")
    return frame


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)
