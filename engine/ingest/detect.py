"""Tells by name and first bytes what a file is, and which files of a mail folder hold no mail; reads none of them."""

import re
from pathlib import PurePath
from typing import Literal

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
    """Say whether a file is a mail program's own: indexes, flags, unfinished deliveries, parts kept aside."""
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
    """Say whether the first lines are a mail's header: a field only mail has, or From and others."""
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
