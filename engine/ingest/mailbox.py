"""Mail containers: mbox files, streamed message by message, and Apple's emlx. Does not look inside a message."""

import re
from collections.abc import Iterator
from typing import BinaryIO

from engine.ingest.types import UnreadableItem

LINE_BYTES = 1 << 20  # longest piece of a line read at once
_FROM = re.compile(rb"From .{0,300}?\d\d?:\d\d(?::\d\d)?.{0,40}\d{4}")
_FROM_BARE = re.compile(rb"From (?:\S+@\S+|-|MAILER-DAEMON)\s")
_FIELD = re.compile(rb"[!-9;-~]{1,80}[ \t]*:|>From ")
_QUOTED = re.compile(rb"^>(>*From )", re.MULTILINE)
_COUNT = re.compile(rb"\s*(\d{1,12})\s*\r?\n")
_FOLDER_DATA = (b"folder internal data", b"x-imapbase:")


def split_mbox(file: BinaryIO, most: int) -> Iterator[bytes]:
    """Yield the messages of an mbox file, up to `most` + 1 bytes each, with ">From " unquoted."""
    message: list[bytes] = []
    size = 0
    started = False
    for line, separates in _marked_lines(file):
        if separates:
            if started or message:
                yield from _finished(message)
            message, size, started = [], 0, True
        elif size <= most and (started or line.strip()):
            message.append(line[: most + 1 - size])
            size += len(line)
    yield from _finished(message)


def unwrap_emlx(raw: bytes) -> bytes:
    """Return the message in an emlx file, which holds a line with its length, the message and a property list."""
    count = _COUNT.match(raw[:64])
    if count is None:
        raise UnreadableItem("no byte count on the first line")
    return raw[count.end() : count.end() + int(count[1])]


def _marked_lines(file: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """Yield each line, and whether it separates two messages: a From line followed by header fields."""
    held: bytes | None = None
    blank, complete = True, True
    while line := file.readline(LINE_BYTES):
        if held is not None:
            yield held, _FIELD.match(line) is not None
            held = None
        if complete and line.startswith(b"From ") and _is_from_line(line, blank):
            held = line
        else:
            yield line, False
        blank, complete = not line.strip(), line.endswith(b"\n")
    if held is not None:
        yield held, False


def _is_from_line(line: bytes, after_blank: bool) -> bool:
    return _FROM.match(line) is not None or (after_blank and _FROM_BARE.match(line) is not None)


def _finished(message: list[bytes]) -> Iterator[bytes]:
    raw = b"".join(message)
    if raw.strip() and not _is_folder_data(raw[:2000].lower()):
        yield _QUOTED.sub(rb"\1", raw) if b">From " in raw else raw


def _is_folder_data(head: bytes) -> bool:
    """Return whether this is the pseudo-message in which IMAP servers store folder data."""
    return all(mark in head for mark in _FOLDER_DATA)
