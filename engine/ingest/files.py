"""Parses one file of any format into items: archives, mbox and emlx are split here, the rest is known by name only."""

import gzip
import json
import os
import re
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import datetime
from functools import cache, lru_cache, partial
from hashlib import blake2b
from io import BufferedReader, BytesIO, FileIO, RawIOBase
from itertools import chain, pairwise
from pathlib import Path, PurePath
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from msgspec import Struct

from engine.ingest import scan
from engine.ingest.headers import clean, decode_text, tidy
from engine.ingest.mail import Section, assemble, file_sections, read_mail
from engine.ingest.mime import Tree, file_text
from engine.ingest.outlook import as_mime
from engine.ingest.quotes import IN_NEW_MAIL
from engine.ingest.types import Files, ParseLimits, Read, T, UnreadableItem, content_id, doubts, isolate, item_or_bug
from store.catalog import BUG
from store.types import Document, FilePart, FileText, ParsedItem, replace

if TYPE_CHECKING:
    from engine.ingest.office import OfficeFiles

_ONE_MESSAGE = re.compile(r"\A\d|\.(?:eml|txt)\Z", re.IGNORECASE)  # programs count the names of such files
UNKNOWN = "not mail or a transcript"
_LEVELS = 2  # of archives in archives

_RECORDING = "a recording: make a transcript of it first, as with whisper"
_PROGRAMS = {
    **dict.fromkeys((".pst", ".ost"), "a mailbox of Outlook: make mbox files of it first, as with readpst"),
    ".olm": "a mailbox of Outlook for Mac: export it as mbox or .eml files from a mail program",
    **dict.fromkeys((".m4a", ".mp3", ".mp4", ".mov", ".wav", ".webm", ".ogg", ".flac"), _RECORDING),
}


def read(path: Path, limits: ParseLimits) -> Iterator[ParsedItem]:
    """Yield one item per document of a file; what cannot be read is an item with a problem, never an exception.

    An exception by a bug fails its message alone, or, outside of messages, the rest of its file.

    Mail in a state to leave out, by its header, file name or a folder, is an item of that kind without a document.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            yield _unreadable("not a file")
            return
        limits = replace(limits, state=_state_of_path(path, limits.root), changed=status.st_mtime)
        if path.suffix == ".json" and (users := path.parent.parent / _USERS).is_file():  # an export, unpacked
            limits = replace(limits, names=_names_in(users.read_bytes()))
        with _buffered(FileIO(path)) as file:
            most = min(max(limits.archive_ratio * status.st_size, limits.message_bytes), limits.archive_bytes)
            name = os.fsencode(path.name).decode("utf-8", "replace")
            yield from _read_each(lambda: file, name, limits, _Allowance(most))
    except PermissionError:
        yield _unreadable("permission denied")
    except OSError as error:
        yield _unreadable((error.strerror or "cannot be opened").lower())


def read_all(files: Files, limits: ParseLimits) -> Generator[Read, None, None]:
    """Yield of each file its state, with the digest of its content, and then its items."""
    with with_attachments(limits) as limits:
        for path, state in files:
            yield scan.with_digest(path, state)
            yield from read(Path(os.fsdecode(path)), limits)


@lru_cache(maxsize=2)
def _names_in(raw: bytes) -> dict[str, str]:
    """Return the names of people by their ids in Slack's users.json; none in any other file."""
    with suppress(ValueError, RecursionError):
        users = [one for one in json.loads(raw) if isinstance(one, dict) and isinstance(one.get("profile"), dict)]
        names = {one.get("id"): one["profile"].get("real_name") or one.get("name") for one in users}
        return {key: clean(name) for key, name in names.items() if isinstance(key, str) and isinstance(name, str)}
    return {}


class _Allowance(Struct):
    """How many bytes may still be unpacked of a file. Mutable."""

    bytes: int


_Opens = Callable[[], BufferedReader]


def _read_each(opens: _Opens, name: str, limits: ParseLimits, allowance: _Allowance) -> Iterator[ParsedItem]:
    """Yield the items of a file or member; damage or a bug ends it alone, unpacking to too much ends its archive."""
    count = 0
    try:
        items = _read_open(opens(), name, limits, allowance)
        while (item := isolate(lambda: next(items, None))) is not None:
            count += 1
            yield item
    except UnreadableItem as error:
        if allowance.bytes < 0 and limits.inside:
            raise
        yield ParsedItem(count, None, problem=str(error))


def _read_open(file: BufferedReader, name: str, limits: ParseLimits, allowance: _Allowance) -> Iterator[ParsedItem]:
    """Yield the items of a file; UnreadableItem ends it."""
    head = file.peek(scan.HEAD)[: scan.HEAD]
    kind = limits.kind or scan.detect(name, head)
    if limits.kind == "mail" and name.lower().endswith(".emlx"):
        kind = "emlx"
    if kind is None and (head or not limits.inside):
        from engine.ingest.transcripts import may_be_transcript  # mail needs none of it

        kind = "transcript" if may_be_transcript(name, decode_text(head)) else None
    if not head:
        yield _unreadable("empty" if kind or not limits.inside else UNKNOWN)
    elif kind == "office" and limits.text_of:
        yield _read_file(name, file.read(limits.message_bytes + 1), limits)
    elif scan.ARCHIVE.match(head) or scan.is_tar(head):
        yield from _read_archive(file, name, limits, allowance)
    elif kind == "mbox" or (kind == "mail" and limits.kind is None and _ONE_MESSAGE.search(name) is None):
        count = 0
        for count, raw in enumerate(split_mbox(file, limits.message_bytes), start=1):
            item = _read_mail(raw, limits, count - 1)
            yield replace(item, offset=None) if count > 1 or raw.startswith(b"From ") else item
        if not count:
            yield _unreadable("no message in it")
    elif kind in ("mail", "emlx", "outlook"):
        item = _read_message(file.read(limits.message_bytes + 1), kind, limits)
        lacks = item.document and name.lower().endswith(".partial.emlx")
        yield replace(item, kinds=tuple({*item.kinds, "unopened"})) if lacks else item
    elif kind == "transcript":
        yield from _read_transcripts(name, file.read(limits.file_bytes + 1), limits)
    elif kind in ("calendar", "contacts"):
        from engine.ingest.calendar import read_calendar, read_contacts

        read_items, raw = read_calendar if kind == "calendar" else read_contacts, file.read(limits.file_bytes + 1)
        why = "not a text" if "\0" in decode_text(raw) else "no event, task or contact in it"
        yield from read_items(raw, limits) or [_unreadable(why)]
    else:
        yield _unreadable(_PROGRAMS.get(PurePath(name.lower()).suffix, UNKNOWN))


def _buffered(file: RawIOBase) -> BufferedReader:
    """Return a file whose first `HEAD` bytes can be looked at."""
    return BufferedReader(file, scan.HEAD)


def _read_message(raw: bytes, kind: str, limits: ParseLimits) -> ParsedItem:
    if raw.startswith((scan.COMPOUND, scan.TNEF)):
        return replace(_read_mail(as_mime(raw, limits), limits), offset=None)
    if kind == "mail":
        return _read_mail(raw, limits)
    # A file of Apple holds a line with the message's length, the message and a property list.
    if (count := re.match(rb"\s*(\d{1,12})\s*\r?\n", raw[:64])) is None:
        return replace(_read_mail(raw, limits), problem="no byte count on the first line")
    item = _read_mail(raw[count.end() : count.end() + int(count[1])], limits)
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
    """Return the transcripts in a file, or a table; one that was not named as such, and is none, is unknown."""
    from engine.ingest.records import NO_SPEECH
    from engine.ingest.transcripts import read_transcripts

    try:
        found = [item_or_bug(one.item, partial(_looked_at, one)) for one in read_transcripts(name, raw, limits)]
    except UnreadableItem as error:
        found = [_unreadable(str(error))]
    if found[0].problem != NO_SPEECH:
        return found
    if limits.text_of and name.lower().endswith((".csv", ".tsv")):
        return [_read_file(name, raw, limits)]
    return found if limits.kind else [_unreadable(UNKNOWN)]


def _read_file(name: str, raw: bytes, limits: ParseLimits) -> ParsedItem:
    return item_or_bug(0, lambda: _looked_at(_as_document(name, raw, limits)))


def _as_document(name: str, raw: bytes, limits: ParseLimits) -> ParsedItem:
    """Return a table, or a file of an office program, as a document; its date is its own, or that of the file."""
    if len(raw) > limits.message_bytes:
        return _unreadable(f"larger than {limits.message_bytes >> 20} MB")
    is_office = scan.is_office(name, raw[: scan.HEAD])
    found = file_text(raw, limits) if is_office else FileText((FilePart("", tidy(decode_text(raw))),))
    if not (found.parts or found.unread):
        return _unreadable(found.problem or "no text in it")
    date, tree = found.date or datetime.fromtimestamp(limits.changed or 0).astimezone(), Tree(limits, lambda: False)
    begins = f"[file: {name}, {'written' if found.date else 'last changed'} {date:%Y-%m-%d}]"
    sections = [Section(begins, "body"), *file_sections(name, found, "file", "body")]
    text, passages = assemble(sections, IN_NEW_MAIL, date, tree)
    id_ = content_id("file", name, blake2b(raw).hexdigest())
    document = Document(id_, "file", name, "", (), date, None, text, passages)
    return ParsedItem(0, document, problem="; ".join(filter(None, (found.problem, *tree.problems))) or None)


@contextmanager
def with_attachments(limits: ParseLimits) -> Iterator[ParseLimits]:
    """Have files of office programs read, if they are to be, by a process that ends with the block, unless one does."""
    with ExitStack() as stack:

        @cache
        def office() -> "OfficeFiles":
            from engine.ingest.office import OfficeFiles  # most folders have no such file

            return stack.enter_context(closing(OfficeFiles(limits.ocr)))

        reading = {"text_of": lambda data: office().text_of(data), "members": partial(_attached_members, limits)}
        yield replace(limits, **reading) if limits.attachments and not limits.text_of else limits


def attached_file(path: Path | str, about: str | tuple[str, str | None], place: str) -> tuple[str, bytes] | None:
    """Return the file that a text of a message (Message-ID, or title and date) is from; None unless it must be one."""
    found, files = list[tuple[str, bytes]](), set[tuple[str, bytes]]()
    limits = ParseLimits(leave_out=frozenset(), text_of=lambda _: FileText())
    limits = replace(limits, members=partial(_attached_members, limits), on_file=lambda *file: found.append(file))
    for item in read(Path(path), limits):
        name = max((name for name, _ in found if f"{place}, ".startswith(f"{name}, ")), key=len, default="")
        if (one := item.document) and about == (one.message_id or (one.title, one.date and one.date.isoformat())):
            files.update(file for file in found if file[0] == name)
        found.clear()
    return files.pop() if len(files) == 1 else None


def _unreadable(text: str) -> ParsedItem:
    return ParsedItem(0, None, problem=text)


# Archives: what a zip, tar or gzip file holds is read in place, a member after the other. Nothing is written.

_PIECE = 1 << 16  # bytes read at once
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)  # which need little memory
_DAMAGE = (
    *(zlib.error, struct.error, zipfile.BadZipFile, tarfile.TarError),
    *(EOFError, OSError, RuntimeError, ValueError, LookupError),
)
_OF_PROGRAMS = (["mimetype"], ["[Content_Types].xml"], ["META-INF/MANIFEST.MF"])  # a document or a program begins so
_USERS = "users.json"  # of Slack
_DIRECTORY = re.compile(rb"PK(?:\x05\x06.{8}(.{4})|\x06\x06.{36}(.{8}))", re.DOTALL)
_LONGEST_NAME, _LONGEST_ENTRY = 1 << 16, 200  # bytes; the second in the directory of a zip file
_Member = tuple[str, _Opens]


class _Bounded(RawIOBase):
    """Bytes in an archive as a file that is read once; UnreadableItem if they are damaged or unpack to too much."""

    def __init__(self, file: IO[bytes] | gzip.GzipFile, allowance: _Allowance, size: int | None = None) -> None:
        self._file, self._allowance, self.left = file, allowance, size

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Read the next bytes."""
        view = memoryview(buffer)
        most = len(view) if self.left is None else min(len(view), self.left)
        data = _undamaged(lambda: self._file.read(most))
        self._allowance.bytes -= len(data)
        if self._allowance.bytes < 0:
            raise UnreadableItem("unpacks to more than its size allows; the rest was not read")
        if self.left is not None:
            if most and not data:
                raise UnreadableItem("damaged")
            self.left -= len(data)
        view[: len(data)] = data
        return len(data)


def _undamaged(work: Callable[[], T]) -> T:
    """Run a function that reads an archive; UnreadableItem if it is damaged."""
    try:
        return work()
    except _DAMAGE as error:
        if isinstance(error, OSError) and error.errno:
            raise
        raise UnreadableItem("damaged") from None


def _read_archive(file: BufferedReader, name: str, limits: ParseLimits, allowance: _Allowance) -> Iterator[ParsedItem]:
    """Yield the items of all members, numbered through; the problem of a member names it."""
    if limits.inside == _LEVELS:
        raise UnreadableItem("archives are nested too deeply")
    count = unknown = 0
    for number, (member, opens) in enumerate(_members(file, name, limits, allowance)):
        path = PurePath(member.replace("\\", "/"))
        if number == limits.archive_members:
            raise UnreadableItem(f"files beyond the first {number} were not read")
        if scan.ignorable(path) or any(map(scan.is_skipped_folder, path.parts)):
            continue
        if member == _USERS:
            limits = replace(limits, names=_names_in(opens().read(limits.file_bytes + 1)))
            continue
        state = limits.state or _state_of_path(PurePath("/", path), "/")
        for item in _read_each(opens, path.name, replace(limits, state=state, inside=limits.inside + 1), allowance):
            unknown += item.problem == UNKNOWN
            if item.problem != UNKNOWN:
                named = item.problem and not item.problem.startswith(BUG)
                problem = f"{item.problem} ({clean(member)[:200]})" if named else item.problem
                yield replace(item, item=count, offset=None, problem=problem)
                count += 1
    if unknown or not count:
        yield ParsedItem(count, None, problem=f"{UNKNOWN}: {unknown} of its files" if count else UNKNOWN)


def _members(file: BufferedReader, name: str, limits: ParseLimits, allowance: _Allowance) -> Iterator[_Member]:
    """Yield the name of each file in an archive, and what opens it; no folder and no link."""
    if file.peek(scan.HEAD).startswith(b"PK"):
        whole = file if file.seekable() else BytesIO(file.read(limits.file_bytes + 1))
        return _zip_members(whole, limits, allowance)
    if not scan.is_tar(file.peek(scan.HEAD)):
        name, file = PurePath(name).stem, _buffered(_Bounded(gzip.GzipFile(fileobj=file), allowance))
    return _tar_members(file, allowance) if scan.is_tar(file.peek(scan.HEAD)) else iter([(name, lambda: file)])


def _zip_members(file: BinaryIO, limits: ParseLimits, allowance: _Allowance) -> Iterator[_Member]:
    file.seek(max(file.seek(0, os.SEEK_END) - 2 * _LONGEST_NAME, 0))
    sizes = [int.from_bytes(short or long, "little") for short, long in _DIRECTORY.findall(file.read())]
    if any(_LONGEST_ENTRY * limits.archive_members < size != 0xFFFFFFFF for size in sizes):
        raise UnreadableItem("too many files")  # whose names would all be held in memory
    archive = _undamaged(lambda: zipfile.ZipFile(file))
    members = sorted(archive.infolist(), key=lambda info: info.filename != _USERS)  # first, for those after it
    for info in members if archive.namelist()[:1] not in _OF_PROGRAMS else ():
        if not (info.filename.endswith("/") or stat.S_ISLNK(info.external_attr >> 16)):
            yield info.filename, partial(_open_in_zip, archive, info, allowance)


def _attached_members(limits: ParseLimits, data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the files in an attached zip file, with as many bytes together as a message may have."""
    for name, opens in _zip_members(BytesIO(data), limits, _Allowance(limits.message_bytes)):
        if not scan.ignorable(PurePath(name.replace("\\", "/"))):
            yield clean(name), opens().read(limits.message_bytes + 1)


def _open_in_zip(archive: zipfile.ZipFile, info: zipfile.ZipInfo, allowance: _Allowance) -> BufferedReader:
    if info.flag_bits & 1 or info.compress_type not in _METHODS:
        raise UnreadableItem("encrypted" if info.flag_bits & 1 else "compressed by an unsupported method")
    return _buffered(_Bounded(_undamaged(lambda: archive.open(info)), allowance))


def _tar_members(file: BufferedReader, allowance: _Allowance) -> Iterator[_Member]:
    stream = _Bounded(file, allowance, _LONGEST_NAME)  # while a header is read, so that it takes little memory
    archive = _undamaged(partial(tarfile.open, fileobj=stream, mode="r|", bufsize=tarfile.BLOCKSIZE))
    while info := _undamaged(archive.next):
        stream.left, vars(archive)["members"] = None, []  # no name is kept
        if info.isreg() and (opened := archive.extractfile(info)):
            member = _Bounded(opened, allowance)
            yield info.name, partial(_buffered, member)
            while member.read(_PIECE):
                pass
        stream.left = _LONGEST_NAME
    if stream.read(_PIECE).strip(b"\0"):  # behind what tarfile takes for the end
        raise UnreadableItem("damaged")


# Mbox files, streamed message by message. No message is looked into.

LINE_BYTES = 1 << 20  # longest piece of a line read at once
_FROM = re.compile(rb"From .{0,300}?\d\d?:\d\d(?::\d\d)?.{0,40}\d{4}")
_FROM_BARE = re.compile(rb"From(?:[ \t]*\r?\n| (?:\S+@\S+|-|MAILER-DAEMON)\s)")
_FIELD = re.compile(rb"[!-9;-~]{1,80}[ \t]*:|>From ")
_QUOTED = re.compile(rb"^>(>*From )", re.MULTILINE)
_HEADER_END = re.compile(rb"\n\r?\n")


def split_mbox(file: BinaryIO, most: int) -> Iterator[bytes]:
    """Yield the messages of an mbox file behind their From lines, up to `most` + 1 bytes each, ">From " unquoted."""
    message, size, started = list[bytes](), 0, False
    for line, separates in chain(_marked_lines(file), [(b"", True)]):
        if separates:
            raw = b"".join(message)
            head = raw[:2000].lower()  # of the pseudo-message in which IMAP servers store folder data
            if raw.strip() and not (b"folder internal data" in head and b"x-imap" in head):
                yield _QUOTED.sub(rb"\1", raw) if started and b">From " in raw else raw
            message, size, started = [line], 0, True
        elif size <= most:
            message.append(line[: most + 1 - size])
            size += len(line)


def _marked_lines(file: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """Yield each line, and whether it separates two messages: a From line followed by header fields."""
    before = b"\n"
    for line, after in pairwise(chain(iter(partial(file.readline, LINE_BYTES), b""), [b""])):
        starts = line.startswith(b"From") and before.endswith(b"\n")
        starts = starts and bool(_FROM.match(line) or (not before.strip() and _FROM_BARE.match(line)))
        # Thunderbird writes one that is From alone: there a field of mail must follow.
        yield line, starts and bool(_FIELD.match(after)) and (line.strip() != b"From" or scan.is_mail_field(after))
        before = line


# States: what the user deleted and a program keeps until it compacts the folder, by Mozilla's flags and by those of
# mutt and of IMAP servers; what a filter or Gmail calls spam; drafts. A folder has a name of RFC 6154, or one that
# programs give it on disk.

_LABEL = rb"Gmail-Labels:(?:(?:[^\n]|\n[ \t])*[,?])?\s*%s[ \t]*(?:[,?\r\n]|$)"
_STATE = re.compile(
    rb"\nX-(?:(?P<deleted>Mozilla-Status:[ \t]*[\da-fA-F]{3}[89a-fA-F]\b|Status:[ \t]*[AFT]*D[AFT]*\s*(?:\n|$)|"
    + (_LABEL % b"Trash")
    + rb")|(?P<spam>Spam-(?:Flag|Status):[ \t]*(?:YES|Yes)\b|"
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


def state_of(raw: bytes) -> str | None:
    """Return the state that a message's header names: deleted, spam, drafts; None for one in use."""
    end = _HEADER_END.search(raw, 0, 8 * scan.HEAD)
    found = _STATE.search(b"\n" + raw[: end.start() if end else 8 * scan.HEAD])
    return found.lastgroup if found else None


def _state_of_path(path: PurePath, root: str) -> str | None:
    """Return the state that a maildir's flags or a folder below the root name."""
    flags = path.name.partition(":2,")[2]
    flagged = "deleted" if "T" in flags else "drafts" if "D" in flags else None
    parts = path.parts[len(PurePath(root).parts) :] if root else path.parts[-1:]
    return flagged or next((found.lastgroup for part in parts[::-1] if (found := _FOLDER.fullmatch(part))), None)
