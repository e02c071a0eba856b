"""Finds new, changed and removed files by comparing a walk with the catalog, and which documents new ones replace.

Detects formats. Opens no file but to compare its digest.
"""

import os
import re
import stat
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b, file_digest
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Literal

from msgspec import Struct

from prompts import word_patterns
from store.types import FileState, Place, replace

Format = Literal["mail", "mbox", "emlx", "outlook", "transcript", "calendar", "contacts", "office"]

HEAD = 8192  # bytes from which the format is detected
_WORDS = word_patterns("mail_programs")
_MAIL_FIELDS, _MAIL_ONLY_FIELDS = (frozenset(_WORDS[kind].split("|")) for kind in ("field", "mail field"))
_FIELD = re.compile(rb"([!-9;-~]{1,60})[ \t]*:")
_FROM_LINE = re.compile(
    rb"(?:\xef\xbb\xbf)?\s{0,100}>?From(?: \S[^\n]{0,300}|([ \t\r]*))\n(?:>From [^\n]{0,300}\n)?([!-9;-~]{1,60}[ \t]*:)"
)
COMPOUND, TNEF = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"\x78\x9f\x3e\x22"  # begin the files of Outlook
_OFFICE = re.compile(r"\.(?:pdf|doc[xm]|dot[xm]|ppt[xm]|pps[xm]|xls[xmb]?|xlt[xm]?|od[tsp]|ott)$", re.IGNORECASE)
ARCHIVE = re.compile(rb"PK(?:\x03\x04|\x05\x06)|\x1f\x8b\x08")
_BEGIN = re.compile(rb"(?:\xef\xbb\xbf|\xff\xfe|\xfe\xff)?\s*BEGIN:(VCALENDAR|VCARD)\s", re.IGNORECASE)
_IGNORED_NAMES = {"icon\r", *_WORDS["file"].split("|")}
_IGNORED_ENDINGS = (".msf", ".noindex", ".plist", ".lock", ".tmp", ".swp", ".wdseml", ".emlxpart", "~")
_IGNORED_STARTS = (".", ",", "#", "dovecot", "courierimap")


def ignorable(path: PurePath) -> bool:
    """Return whether a file is internal to a mail program: an index, flags, unfinished, a detached part."""
    name = path.name.lower()
    if name in _IGNORED_NAMES or name.startswith(_IGNORED_STARTS) or name.endswith(_IGNORED_ENDINGS):
        return True
    folders = path.parts[:-1]
    if folders[-1:] == ("tmp",) and name.count(".") >= 2 and name[:1].isdigit():  # a maildir delivery's: time, id, host
        return True
    return "Attachments" in folders and any(folder.endswith(".mbox") for folder in folders)


def detect(name: str, head: bytes) -> Format | None:
    """Return a file's format from its name and first `HEAD` bytes, None if unknown."""
    ending = PurePath(name.lower()).suffix
    if ending == ".emlx":
        return "emlx"
    if head.startswith(TNEF) or (ending == ".msg" and head.startswith(COMPOUND)):  # as are those of Word and Excel
        return "outlook"
    if is_office(name, head):
        return "office"
    if ending == ".eml":
        return "mail"
    if ending in (".vtt", ".srt", ".sbv"):
        return "transcript"
    if begins := _BEGIN.match(head.replace(b"\0", b"") if head[:1] in b"\xff\xfe" else head):  # in UTF-16
        return "calendar" if begins[1].lower() == b"vcalendar" else "contacts"
    if (first := _FROM_LINE.match(head)) and (first[1] is None or is_mail_field(first[2])):
        return "mbox"
    return "mail" if _begins_header(head) else None


def is_office(name: str, head: bytes) -> bool:
    """Return whether a file is a PDF or of an office program, whose text can be read; from its first `HEAD` bytes."""
    begins = head.startswith((b"PK\x03\x04", COMPOUND)) or b"%PDF-" in head[:1024]
    return head.startswith((b"%PDF-", b"{\\rtf")) or (begins and _OFFICE.search(name) is not None)


def is_tar(head: bytes) -> bool:
    """Return whether a file is a tar file, from its first `HEAD` bytes."""
    return head[257:262] == b"ustar"


def is_mail_field(line: bytes) -> bool:
    """Return whether a line begins a field of a mail's header: a known one, or a program's own."""
    found = _FIELD.match(line)
    name = found[1].decode("ascii").lower() if found else ""
    return name in _MAIL_FIELDS or name in _MAIL_ONLY_FIELDS or name.startswith("x-")


def _begins_header(head: bytes) -> bool:
    """Return whether the first lines are a mail header: a field that only mail has, or From or Subject and others."""
    mail_only, known = set[str](), set[str]()
    for line in head.lstrip(b"\xef\xbb\xbf \r\n").split(b"\n"):
        field = _FIELD.match(line)
        if field is None and (not line.strip() or not line[:1].isspace()):
            return False
        name = field[1].decode("ascii").lower() if field else ""
        if name in _MAIL_ONLY_FIELDS:
            mail_only.add(name)
        elif name in _MAIL_FIELDS:
            known.add(name)
        if len(mail_only) + len(known) > (1 if mail_only else 2) and (mail_only or known & {"from", "subject"}):
            return True
    return False


_SKIPPED_FOLDERS = {b".git", b".hg", b".svn", b"node_modules", b"__pycache__", b".venv"}


class Changes(Struct):
    """The result of a walk; mutable while walking."""

    seen: int = 0
    new: dict[bytes, FileState] = {}
    changed: dict[bytes, FileState] = {}
    same: dict[bytes, FileState] = {}  # written to, with the content that was read
    gone: set[bytes] = set()
    unreadable: dict[bytes, str] = {}  # path -> reason


def find_changes(root: bytes, known: Mapping[bytes, FileState], is_ignored: Callable[[Path], bool]) -> Changes:
    """Return the changes at or below `root` since the `known` states; what cannot be read is not gone."""
    found, present = Changes(), set()
    for path, state in _files(root, found):
        before = known.get(path)
        if before is None and is_ignored(Path(os.fsdecode(path))):
            continue
        present.add(path)
        found.seen += 1
        if before is None:
            found.new[path] = state
        elif not before.is_as(state):
            # It may hold what was read of it, as after a restore, and not be marked to be read again.
            if before.mtime_ns != -1 and before.size == state.size and before.digest:
                now = with_digest(path, state)
                if now.digest == before.digest:
                    found.same[path] = now
                    continue
            found.changed[path] = state
    found.gone = {path for path in known.keys() - present if found.unreadable.keys().isdisjoint(ancestors(path))}
    return found


def ancestors(path: bytes) -> Iterator[bytes]:
    """Yield a path and then its parent folders, nearest first."""
    while path.strip(b"/"):
        yield path
        path = path.rpartition(b"/")[0]
    yield b"/"


def state_of(path: bytes) -> FileState | None:
    """Return a file's state, None if it is not a regular file any more."""
    with suppress(OSError):
        status = Path(os.fsdecode(path)).stat()
        return _state(status) if stat.S_ISREG(status.st_mode) else None
    return None


_LARGE = 1 << 20  # bytes from which a file of another program is not read as a whole
_COARSEST_NS = 2 * 10**9  # between two times of a file; on FAT, elsewhere less
_SKEW_NS = 86_400 * 10**9  # that the clock of a file server may be ahead, at most; no write now has a later time


def with_digest(path: bytes, state: FileState) -> FileState:
    """Return a file's state with the digest of its content; a large one of no format has none, and is soon read."""
    with suppress(OSError), Path(os.fsdecode(path)).open("rb") as file:  # whoever reads it says why
        head = file.read(HEAD)
        known = detect(os.fsdecode(path), head) or ARCHIVE.match(head) or is_tar(head)
        if known or state.size < _LARGE or b"\0" not in head:
            digest = blake2b(head, digest_size=16)
            file_digest(file, lambda: digest)
            return replace(state, digest=digest.digest())
    return state


def as_recorded(path: bytes, state: FileState, began: int) -> FileState:
    """Return what is recorded of a file whose content was looked at after `began`, in nanoseconds since the epoch.

    One that was written to just before may be written to again within the same tick of the clock: it has no ctime, so
    that its content is compared in the next run. One that was written to since has no digest, and is read again.
    """
    now = state_of(path)
    digest = state.digest if now and now.is_as(state) else b""
    young = any(-_SKEW_NS <= began - time <= _COARSEST_NS for time in (state.mtime_ns, state.ctime_ns))
    return replace(state, ctime_ns=-1 if young and digest else state.ctime_ns, digest=digest)


def is_skipped_folder(name: str) -> bool:
    """Return whether a walk skips folders of this name, which belong to some program."""
    return os.fsencode(name) in _SKIPPED_FOLDERS


def _files(root: bytes, found: Changes) -> Iterator[tuple[bytes, FileState]]:
    """Yield the files below a root, without recursion and without following links to folders, which may form cycles."""
    if state := state_of(root):
        yield root, state
        return
    folders, delivered = [root], set[bytes]()  # the latter: folders of maildirs, in which no program makes links
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as entries:
                listed = list(entries)
        except OSError as error:
            found.unreadable[folder] = (error.strerror or "cannot be listed").lower()
            continue
        maildir = {entry.name for entry in listed} >= {b"cur", b"new", b"tmp"}
        delivered |= {entry.path for entry in listed if maildir and entry.name in (b"cur", b"new")}
        for entry in listed:
            try:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in _SKIPPED_FOLDERS and not (maildir and entry.name == b"tmp"):
                        folders.append(entry.path)
                elif stat.S_ISREG((status := entry.stat(follow_symlinks=folder not in delivered)).st_mode):
                    yield entry.path, _state(status)
            except FileNotFoundError:
                continue  # a broken link, or removed since the folder was listed
            except OSError as error:
                found.unreadable[entry.path] = (error.strerror or "cannot be looked at").lower()


def _state(status: os.stat_result) -> FileState:
    return FileState(status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns)


class MailPlace(Struct, frozen=True):
    """A folder or file with mail of a program: files and their bytes, at `least`, if there was no time for all."""

    program: str
    path: str
    files: int
    bytes: int
    least: bool
    problem: str | None  # why it cannot be listed


def find_mail(home: Path, is_late: Callable[[], bool]) -> Iterator[MailPlace]:
    """Yield where programs keep mail in a home folder; links that lead out of it are not followed."""
    home, known = Path(os.path.realpath(home)), list[Path]()
    listed = ((program, one) for program, places in word_patterns("mail_places").items() for one in places.split("|"))
    for program, place in listed:
        paths = (path.parent if path.name == "cur" else path for path in home.glob(place))
        parts = ("cur", "new", "tmp") if place.endswith("/cur") else ()  # of a maildir
        real = (Path(os.path.realpath(path)) for path in paths if all((path / name).exists() for name in parts))
        for path in sorted(real):
            if home in path.parents and not any(path == one or one in path.parents for one in known):
                known.append(path)
                found, files, size = Changes(), 0, 0
                for file, state in _files(os.fsencode(path), found):
                    if is_late():
                        break
                    if not ignorable(Path(os.fsdecode(file))):
                        files, size = files + 1, size + state.size
                problem = found.unreadable.get(os.fsencode(path))
                if files or problem:
                    yield MailPlace(program, str(path), files, size, is_late(), problem)


# Versions: which documents of a changed file are new versions of former ones.
#
# An item is the same as before if it has the same Message-ID. Without one, it is if it has the same position between
# two unchanged items, or if the file held only one document. A former item with no such successor is gone: removing it
# is up to the guard.


# A former place, and the document that replaces its one; None: a new decoding that leaves it out.
Replacement = tuple[Place, str | None]


def replacements(former: Sequence[Place], now: Sequence[Place], *, complete: bool, anew: bool) -> list[Replacement]:
    """Return the former places of a file whose documents it no longer holds but holds new versions of.

    Both are in order of their items. An incomplete list of new places replaces by Message-ID alone. In a file that was
    only decoded `anew`, all that it no longer holds is replaced.
    """
    here = {place.document for place in now}
    left = {place.document: place for place in former if place.document not in here}
    named = {place.message_id: place.document for place in now if place.message_id}
    found: dict[str, str | None] = {one: named[p.message_id] for one, p in left.items() if p.message_id in named}
    if complete and now:
        current = [one for one in sorted(former, key=lambda one: one.position or 0) if one.position is not None]
        single = len(current) == 1
        found |= {current[0].document: now[0].document} if single else dict(_by_position(current, now))
    if complete and anew:
        found = dict.fromkeys(one for one, place in left.items() if place.position is not None) | found
    return [(left[document], by) for document, by in found.items() if document in left]


def _by_position(former: Sequence[Place], now: Sequence[Place]) -> Iterator[tuple[str, str]]:
    """Pair items without a Message-ID, in order, between each two neighbours of those that stayed."""
    before, after = ([place.message_id or place.document for place in places] for places in (former, now))
    for (start, begin), (stop, end) in pairwise([(-1, -1), *_stayed(before, after), (len(former), len(now))]):
        old = [place.document for place in former[start + 1 : stop] if not place.message_id]
        new = [place.document for place in now[begin + 1 : end] if not place.message_id]
        yield from zip(old, new, strict=False)
    for place in former:  # set aside by a read that was not finished, in favour of the item at its position
        if place.item < 0 and not place.message_id and (at := place.position or 0) < len(now):
            yield place.document, now[at].document


def _stayed(former: Sequence[str], now: Sequence[str]) -> list[tuple[int, int]]:
    """Return the longest common run of items in the same order, as pairs of indices (patience sorting)."""
    # difflib's would take 8 s for 12,000 messages of which every second one was deleted.
    first = {key: at for at, key in reversed([*enumerate(former)])}
    ends, tops, links = list[int](), list[int](), dict[int, int | None]()
    at = {index: first[key] for index, key in enumerate(now) if key in first}
    for index, place in at.items():
        pile = bisect_left(ends, place)
        links[index] = tops[pile - 1] if pile else None
        ends[pile : pile + 1], tops[pile : pile + 1] = [place], [index]
    chain, last = list[tuple[int, int]](), tops[-1] if tops else None
    while last is not None:
        chain.append((at[last], last))
        last = links[last]
    return chain[::-1]
