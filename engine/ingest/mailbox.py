"""Containers of messages: mbox files, streamed message by message, and Apple's emlx; knows nothing inside a message."""

import re
from collections.abc import Iterator
from typing import BinaryIO

from engine.ingest.charsets import UnreadableItem

LINE_BYTES = 1 << 20  # read at once
_FROM = re.compile(rb"From .{0,300}?\d\d?:\d\d(?::\d\d)?.{0,40}\d{4}")
_FROM_BARE = re.compile(rb"From (?:\S+@\S+|-|MAILER-DAEMON)\s")
_FIELD = re.compile(rb"[!-9;-~]{1,80}[ \t]*:|>From ")
_QUOTED = re.compile(rb"^>(>*From )", re.MULTILINE)
_COUNT = re.compile(rb"\s*(\d{1,12})\s*\r?\n")
_FOLDER_DATA = (b"folder internal data", b"x-imapbase:")


def split_mbox(file: BinaryIO, most: int) -> Iterator[bytes]:
    """Yield the messages of an mbox file with From lines and their quoting undone; at most `most` + 1 bytes of each."""
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
    """Take the message out of an emlx file: a line with its length, the message, a property list."""
    count = _COUNT.match(raw[:64])
    if count is None:
        raise UnreadableItem("no byte count on the first line")
    return raw[count.end() : count.end() + int(count[1])]


def _marked_lines(file: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """Yield each line, and whether it parts two messages: a From line that header fields follow."""
    held: bytes | None = None
    blank, whole = True, True
    while line := file.readline(LINE_BYTES):
        if held is not None:
            yield held, _FIELD.match(line) is not None
            held = None
        if whole and line.startswith(b"From ") and _is_from_line(line, blank):
            held = line
        else:
            yield line, False
        blank, whole = not line.strip(), line.endswith(b"\n")
    if held is not None:
        yield held, False


def _is_from_line(line: bytes, after_blank: bool) -> bool:
    return _FROM.match(line) is not None or (after_blank and _FROM_BARE.match(line) is not None)


def _finished(message: list[bytes]) -> Iterator[bytes]:
    raw = b"".join(message)
    if raw.strip() and not _is_folder_data(raw[:2000].lower()):
        yield _QUOTED.sub(rb"\1", raw) if b">From " in raw else raw


def _is_folder_data(head: bytes) -> bool:
    """Recognise the first message that IMAP servers keep for themselves."""
    return all(mark in head for mark in _FOLDER_DATA)
