"""What has changed on disk since the last look: a walk compared with the catalogue. Opens no file."""

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Literal

from store.types import FileState

Format = Literal["mail", "mbox", "emlx", "transcript"]

HEAD = 8192  # bytes that tell
_KNOWN = frozenset(
    (
        *("from", "to", "cc", "bcc", "subject", "date", "sender", "reply-to", "references", "in-reply-to", "x-mailer"),
        *("list-id", "importance", "status", "x-from", "x-to", "user-agent", "resent-from", "newsgroups", "path"),
        *("content-disposition", "content-transfer-encoding", "content-id", "authentication-results", "envelope-to"),
        *("x-mozilla-status", "x-uidl"),
    )
)
_TELLING = frozenset(  # fields that nothing but mail begins with
    (
        *("message-id", "received", "return-path", "delivered-to", "dkim-signature", "arc-seal", "x-received"),
        *("mime-version", "content-type"),
    )
)
_FIELD = re.compile(rb"([!-9;-~]{1,60})[ \t]*:")
_FROM_LINE = re.compile(rb"\s{0,100}From \S[^\n]{0,300}\n(?:>From [^\n]{0,300}\n)?[!-9;-~]{1,60}:")
_IGNORED_NAMES = frozenset(
    (
        *("maildirfolder", "maildirsize", "subscriptions", "table_of_contents", "thumbs.db", "desktop.ini", "icon\r"),
        *("filterlog.html", "foldertree.json", "popstate.dat", "msgfilterrules.dat", "virtualfolders.dat"),
        *("panacea.dat", "envelope index", "envelope index-shm", "envelope index-wal"),
    )
)
_IGNORED_ENDINGS = (".msf", ".noindex", ".plist", ".lock", ".tmp", ".swp", ".wdseml", ".emlxpart", "~")
_IGNORED_STARTS = (".", ",", "#", "dovecot", "courierimap")


def ignorable(path: PurePath) -> bool:
    """Return whether a file is a mail program's own: indexes, flags, unfinished deliveries, parts kept aside."""
    name = path.name.lower()
    if name in _IGNORED_NAMES or name.startswith(_IGNORED_STARTS) or name.endswith(_IGNORED_ENDINGS):
        return True
    folders = path.parts[:-1]
    if folders[-1:] == ("tmp",) and _is_maildir_name(name):
        return True
    return "Attachments" in folders and any(folder.endswith(".mbox") for folder in folders)


def detect(name: str, head: bytes) -> Format | None:
    """Tell a file's format from its name and first `HEAD` bytes, None if neither says."""
    ending = PurePath(name.lower()).suffix
    if ending == ".emlx":
        return "emlx"
    if ending == ".eml":
        return "mail"
    if ending in (".vtt", ".srt", ".sbv"):
        return "transcript"
    if _FROM_LINE.match(head):
        return "mbox"
    return "mail" if _begins_header(head) else None


def _is_maildir_name(name: str) -> bool:
    """Recognise a delivery's unique name: a moment, an id and a host."""
    return name.count(".") >= 2 and name[:1].isdigit()


def _begins_header(head: bytes) -> bool:
    """Return whether the first lines are a mail's header: a field only mail has, or From and others."""
    telling, known = set[str](), set[str]()
    for line in head.lstrip(b"\xef\xbb\xbf \r\n").split(b"\n"):
        field = _FIELD.match(line)
        if field is None and (not line.strip() or not line[:1].isspace()):
            return False
        name = field[1].decode("ascii").lower() if field else ""
        if name in _TELLING:
            telling.add(name)
        elif name in _KNOWN:
            known.add(name)
        if len(telling) + len(known) > (1 if telling else 2) and (telling or known & {"from", "subject"}):
            return True
    return False


_FOREIGN = {b".git", b".hg", b".svn", b"node_modules", b"__pycache__", b".venv"}


@dataclass(slots=True)
class Look:
    """The outcome of a walk; grows while it goes on."""

    seen: int = 0
    new: dict[bytes, FileState] = field(default_factory=dict)
    changed: dict[bytes, FileState] = field(default_factory=dict)
    gone: set[bytes] = field(default_factory=set)
    closed: dict[bytes, str] = field(default_factory=dict)  # what could not be looked at, and why


def look(root: bytes, known: Mapping[bytes, FileState], ignorable: Callable[[Path], bool]) -> Look:
    """Compare all files at or below `root` with what is known; what cannot be looked at is not gone."""
    found, present = Look(), set()
    for path, state in _files(root, found):
        if known.get(path) == state:
            present.add(path)
            found.seen += 1
        elif path in known or not ignorable(Path(os.fsdecode(path))):
            present.add(path)
            found.seen += 1
            (found.changed if path in known else found.new)[path] = state
    found.gone = {path for path in known.keys() - present if found.closed.keys().isdisjoint(upwards(path))}
    return found


def upwards(path: bytes) -> Iterator[bytes]:
    """Yield a path and then the folders above it, nearest first."""
    while path.strip(b"/"):
        yield path
        path = path.rpartition(b"/")[0]
    yield b"/"


def state_of(path: bytes) -> FileState | None:
    """Return a file's state, None where it is not a regular file any more."""
    try:
        status = Path(os.fsdecode(path)).stat()
    except OSError:
        return None
    return _state(status) if stat.S_ISREG(status.st_mode) else None


def reached(root: str, path: str) -> str:
    """Return the deepest folder at or above a path that a walk from `root`, which lies above it, comes to now."""
    folder = root
    for name in filter(None, path[len(root) :].split("/")):
        below, passed_over = Path(folder, name), is_foreign(name) or (name == "tmp" and _is_maildir(Path(folder)))
        if passed_over or below.is_symlink() or not below.is_dir():
            break
        folder = str(below)
    return folder


def is_foreign(name: str) -> bool:
    """Return whether a folder of this name is some program's own, into which no walk goes."""
    return os.fsencode(name) in _FOREIGN


def _is_maildir(folder: Path) -> bool:
    return all(Path(folder, name).exists() for name in ("cur", "new", "tmp"))


def _files(root: bytes, found: Look) -> Iterator[tuple[bytes, FileState]]:
    """Walk without recursion and without following links to folders, which could lead in circles."""
    if state := state_of(root):
        yield root, state
        return
    folders = [root]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as entries:
                listed = list(entries)
        except OSError as error:
            found.closed[folder] = (error.strerror or "cannot be listed").lower()
            continue
        maildir = {entry.name for entry in listed} >= {b"cur", b"new", b"tmp"}
        for entry in listed:
            try:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in _FOREIGN and not (maildir and entry.name == b"tmp"):
                        folders.append(entry.path)
                elif stat.S_ISREG((status := entry.stat()).st_mode):
                    yield entry.path, _state(status)
            except FileNotFoundError:
                continue  # a link to nowhere, or gone since the folder was listed
            except OSError as error:
                found.closed[entry.path] = (error.strerror or "cannot be looked at").lower()


def _state(status: os.stat_result) -> FileState:
    return FileState(status.st_size, status.st_mtime_ns, status.st_ino)
