"""Parses one file of any format into items: mbox and emlx are split here, the rest is known by name only."""

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path, PurePath
from typing import BinaryIO

from engine.ingest.headers import decode_text
from engine.ingest.mail import read_mail
from engine.ingest.scan import HEAD, detect, is_mail_field, is_mailbox_name
from engine.ingest.transcripts import NO_SPEECH, may_be_transcript, read_transcripts
from engine.ingest.types import Bug, ParseLimits, UnreadableItem, doubts, isolate, item_or_bug
from store.types import ParsedItem

UNKNOWN = "not mail or a transcript"

_RECORDING = "a recording: make a transcript of it first, as with whisper"
_PROGRAMS = {
    **dict.fromkeys((".pst", ".ost"), "a mailbox of Outlook: make mbox files of it first, as with readpst"),
    ".olm": "a mailbox of Outlook for Mac: export it as mbox or .eml files from a mail program",
    **dict.fromkeys((".m4a", ".mp3", ".mp4", ".mov", ".wav", ".webm", ".ogg", ".flac"), _RECORDING),
}


def read(path: Path, raw_kind: str | None, limits: ParseLimits, root: str = "") -> Iterator[ParsedItem]:
    """Yield one item per document of a file; what cannot be read is an item with a problem, never an exception.

    An exception by a bug fails its message alone, or, outside of messages, the rest of its file.

    `raw_kind` ("mail", "mbox" or "transcript") overrides the detected format. Mail in a state to leave out, by its
    header, file name or a folder below `root`, is an item of that kind without a document.
    """
    count = 0
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            yield _unreadable("not a file")
            return
        with path.open("rb") as file:
            if state := _state_of_path(path, root):
                limits = replace(limits, state=state)
            items = _read_open(file, _name(path), raw_kind, limits, status)
            while (item := isolate(lambda: next(items, None))) is not None:
                count += 1
                yield item
    except Bug as bug:
        yield ParsedItem(count, None, problem=bug.reason)
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
    elif kind == "mbox" or (kind == "mail" and raw_kind is None and is_mailbox_name(name)):
        file.seek(0)
        yield from _read_mbox(file, limits)
    elif kind in ("mail", "emlx"):
        item = _read_message(head + _read_rest(file, status, limits.message_bytes), kind, limits)
        lacks = item.document and name.lower().endswith(".partial.emlx")
        yield replace(item, kinds=tuple({*item.kinds, "unopened"})) if lacks else item
    elif kind == "transcript":
        found = _read_transcripts(name, head + _read_rest(file, status, limits.file_bytes), limits)
        yield from found if raw_kind or found[0].problem != NO_SPEECH else [_unreadable(UNKNOWN)]
    else:
        yield _unreadable(_PROGRAMS.get(PurePath(name.lower()).suffix, UNKNOWN))


def _read_rest(file: BinaryIO, status: os.stat_result, most: int) -> bytes:
    """Read the rest of a file, one byte beyond `most` in all, allocating no more than the file needs."""
    return file.read(max(min(most, status.st_size) + 1 - HEAD, 0))


def _read_mbox(file: BinaryIO, limits: ParseLimits) -> Iterator[ParsedItem]:
    count = 0
    for count, raw in enumerate(split_mbox(file, limits.message_bytes), start=1):
        item = _read_mail(raw, limits, count - 1)
        yield replace(item, offset=None) if count > 1 or raw.startswith(b"From ") else item
    if not count:
        yield _unreadable("no message in it")


def _read_message(raw: bytes, kind: str, limits: ParseLimits) -> ParsedItem:
    if kind == "mail":
        return _read_mail(raw, limits)
    try:
        item = _read_mail(unwrap_emlx(raw), limits)
    except UnreadableItem as error:
        return replace(_read_mail(raw, limits), problem=error.reason)
    return replace(item, offset=None if item.offset is None else item.offset + 1)


def _read_mail(raw: bytes, limits: ParseLimits, item: int = 0) -> ParsedItem:
    if (found := limits.state or state_of(raw)) in limits.leave_out:
        return ParsedItem(item, None, kinds=(found or "",))
    return item_or_bug(item, lambda: _looked_at(read_mail(raw, limits, item), found))


def _looked_at(item: ParsedItem, state: str | None = None) -> ParsedItem:
    """Return an item with the kinds of what looks misread in it; spam carries a warning."""
    if (document := item.document) is None:
        return item
    if state == "spam":
        document = replace(document, warnings=(*document.warnings, "it is marked as spam"))
    kinds = (*item.kinds, *doubts(document))
    return replace(item, document=document, kinds=kinds) if kinds or state else item


def _read_transcripts(name: str, raw: bytes, limits: ParseLimits) -> list[ParsedItem]:
    try:
        return [item_or_bug(one.item, partial(_looked_at, one)) for one in read_transcripts(name, raw, limits)]
    except UnreadableItem as error:
        return [_unreadable(error.reason)]


def _unreadable(text: str) -> ParsedItem:
    return ParsedItem(0, None, problem=text)


# Mail containers: mbox files, streamed message by message, and Apple's emlx. No message is looked into.

LINE_BYTES = 1 << 20  # longest piece of a line read at once
_FROM = re.compile(rb"From .{0,300}?\d\d?:\d\d(?::\d\d)?.{0,40}\d{4}")
_FROM_BARE = re.compile(rb"From(?:[ \t]*\r?\n| (?:\S+@\S+|-|MAILER-DAEMON)\s)")
_FIELD = re.compile(rb"[!-9;-~]{1,80}[ \t]*:|>From ")
_QUOTED = re.compile(rb"^>(>*From )", re.MULTILINE)
_COUNT = re.compile(rb"\s*(\d{1,12})\s*\r?\n")
_FOLDER_DATA = (b"folder internal data", b"x-imap")
_HEADER_END = re.compile(rb"\n\r?\n")


def split_mbox(file: BinaryIO, most: int) -> Iterator[bytes]:
    """Yield the messages of an mbox file behind their From lines, up to `most` + 1 bytes each, ">From " unquoted."""
    message: list[bytes] = []
    size = 0
    started = False
    for line, separates in _marked_lines(file):
        if separates:
            yield from _finished(message, started)
            message, size, started = [line], 0, True
        elif size <= most:
            message.append(line[: most + 1 - size])
            size += len(line)
    yield from _finished(message, started)


def unwrap_emlx(raw: bytes) -> bytes:
    """Return the message in an emlx file, which holds a line with its length, the message and a property list."""
    count = _COUNT.match(raw[:64])
    if count is None:
        raise UnreadableItem("no byte count on the first line")
    return raw[count.end() : count.end() + int(count[1])]


def _marked_lines(file: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """Yield each line, and whether it separates two messages: a From line followed by header fields.

    Thunderbird writes one that is From alone: there a field of mail must follow.
    """
    held: bytes | None = None
    blank, complete = True, True
    while line := file.readline(LINE_BYTES):
        if held is not None:
            yield held, _FIELD.match(line) is not None and (held.strip() != b"From" or is_mail_field(line))
            held = None
        if complete and line.startswith(b"From") and _is_from_line(line, blank):
            held = line
        else:
            yield line, False
        blank, complete = not line.strip(), line.endswith(b"\n")
    if held is not None:
        yield held, False


def _is_from_line(line: bytes, after_blank: bool) -> bool:
    return _FROM.match(line) is not None or (after_blank and _FROM_BARE.match(line) is not None)


def _finished(message: list[bytes], quoted: bool) -> Iterator[bytes]:
    raw = b"".join(message)
    if raw.strip() and not _is_folder_data(raw[:2000].lower()):
        yield _QUOTED.sub(rb"\1", raw) if quoted and b">From " in raw else raw


def _is_folder_data(head: bytes) -> bool:
    """Return whether this is the pseudo-message in which IMAP servers store folder data."""
    return all(mark in head for mark in _FOLDER_DATA)


# States: what the user deleted and a program keeps until it compacts the folder, by Mozilla's flags and by those of
# mutt and of IMAP servers; what a filter or Gmail calls spam; drafts. A folder has a name of RFC 6154, or one that
# programs give it on disk.

_LABEL = rb"Gmail-Labels:(?:(?:[^\n]|\n[ \t])*[,?])?\s*%s[ \t]*(?:[,?\r\n]|$)"
_STATE = re.compile(
    rb"\nX-(?:(?P<deleted>Mozilla-Status:[ \t]*[\da-fA-F]{3}[89a-fA-F]\b|Status:[ \t]*[AFT]*D[AFT]*\s*(?:\n|$)|"
    + (_LABEL % b"Trash")
    + rb")|(?P<spam>Spam-Flag:[ \t]*YES\b|"
    + (_LABEL % b"Spam")
    + rb")|(?P<drafts>Mozilla-Draft-Info:|Unsent:[ \t]*1\b|Status:[ \t]*[AF]*T[AF]*\s*(?:\n|$)|"
    + (_LABEL % b"Drafts?")
    + rb"))"
)
_FOLDER = re.compile(
    r"(?:\.?INBOX\.|\.)?(?:(?P<deleted>trash|deleted (?:items|messages))|(?P<spam>spam|junk(?: e-?mail)?)"
    r"|(?P<drafts>drafts))(?:\.mbox|\.sbd)?",
    re.IGNORECASE,
)
_FLAGS = {"T": "deleted", "D": "drafts"}  # of a maildir


def state_of(raw: bytes) -> str | None:
    """Return the state that a message's header names: deleted, spam, drafts; None for one in use."""
    end = _HEADER_END.search(raw, 0, 8 * HEAD)
    found = _STATE.search(b"\n" + raw[: end.start() if end else 8 * HEAD])
    return found.lastgroup if found else None


def _state_of_path(path: Path, root: str) -> str | None:
    """Return the state that a maildir's flags or a folder below the root name."""
    folder, _, name = str(path).rpartition("/")
    _, _, flags = name.partition(":2,")
    flagged = flags and next((state for flag, state in _FLAGS.items() if flag in flags), None)
    own = _FOLDER.fullmatch(name) if str(path) != root else None
    return flagged or (own and own.lastgroup) or _state_of_folder(folder, root)


@lru_cache(maxsize=256)
def _state_of_folder(folder: str, root: str) -> str | None:
    parts = PurePath(folder).relative_to(root).parts if root and PurePath(folder).is_relative_to(root) else ()
    return next((found.lastgroup for part in parts if (found := _FOLDER.fullmatch(part))), None)
