"""Parses one file of any format into items; knows formats by name only."""

import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from engine.ingest.charsets import decode_text
from engine.ingest.mail import read_mail
from engine.ingest.mailbox import split_mbox, unwrap_emlx
from engine.ingest.scan import HEAD, detect
from engine.ingest.transcripts import may_be_transcript, read_transcript
from engine.ingest.types import ParseLimits, UnreadableItem
from store.types import ParsedItem

UNKNOWN = "not mail or a transcript"


def read(path: Path, raw_kind: str | None, limits: ParseLimits) -> Iterator[ParsedItem]:
    """Yield one item per document of a file; what cannot be read is an item with a problem, never an exception.

    `raw_kind` ("mail", "mbox" or "transcript") overrides the detected format.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            yield _unreadable("not a file")
            return
        with path.open("rb") as file:
            yield from _read_open(file, _name(path), raw_kind, limits, status)
    except PermissionError:
        yield _unreadable("permission denied")
    except OSError as error:
        yield _unreadable((error.strerror or "cannot be opened").lower())


def _name(path: Path) -> str:
    """Return the file's name as text; undecodable bytes are replaced."""
    return os.fsencode(path.name).decode("utf-8", "replace")


def _read_open(
    file: BinaryIO, name: str, raw_kind: str | None, limits: ParseLimits, status: os.stat_result
) -> Iterator[ParsedItem]:
    head = file.read(HEAD)
    kind = raw_kind or detect(name, head)
    if raw_kind == "mail" and name.lower().endswith(".emlx"):
        kind = "emlx"
    if kind is None and may_be_transcript(name, decode_text(head)):
        kind = "transcript"
    if not head:
        yield _unreadable("empty")
    elif kind == "mbox":
        file.seek(0)
        yield from _read_mbox(file, limits)
    elif kind in ("mail", "emlx"):
        yield _read_message(head + _read_rest(file, status, limits.message_bytes), kind, limits)
    elif kind == "transcript":
        modified = datetime.fromtimestamp(status.st_mtime, UTC)
        yield _read_transcript(name, head + _read_rest(file, status, limits.file_bytes), modified, limits)
    else:
        yield _unreadable(UNKNOWN)


def _read_rest(file: BinaryIO, status: os.stat_result, most: int) -> bytes:
    """Read the rest of a file, one byte beyond `most` in all, allocating no more than the file needs."""
    return file.read(max(min(most, status.st_size) + 1 - HEAD, 0))


def _read_mbox(file: BinaryIO, limits: ParseLimits) -> Iterator[ParsedItem]:
    count = 0
    for count, raw in enumerate(split_mbox(file, limits.message_bytes), start=1):
        yield replace(read_mail(raw, limits, count - 1), offset=None)
    if not count:
        yield _unreadable("no message in it")


def _read_message(raw: bytes, kind: str, limits: ParseLimits) -> ParsedItem:
    if kind == "mail":
        return read_mail(raw, limits)
    try:
        item = read_mail(unwrap_emlx(raw), limits)
    except UnreadableItem as error:
        return replace(read_mail(raw, limits), problem=error.reason)
    return replace(item, offset=None if item.offset is None else item.offset + 1)


def _read_transcript(name: str, raw: bytes, modified: datetime, limits: ParseLimits) -> ParsedItem:
    try:
        return read_transcript(name, raw, modified, limits)
    except UnreadableItem as error:
        return _unreadable(error.reason)


def _unreadable(text: str) -> ParsedItem:
    return ParsedItem(0, None, problem=text)
