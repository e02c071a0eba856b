"""Reads a mail account by IMAP, without changing it, into folders of pkb, which are ingested like any other.

    folders   those worth reading
    listing   the UIDs and sizes of a folder's messages
    messages  those that are not here yet, the newest first, a batch at a time
    removal   of the files of messages that are gone from the server

The name of a file holds UIDVALIDITY and UID: there is no other state. The server is not trusted: all that it sends has
a limit of bytes and of seconds. Knows no index and no terminal.
"""

import imaplib
import os
import re
import shutil
import ssl
import time
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from msgspec import Struct

from engine.text.terminal import line
from store.errors import DiskFull, PkbError, UsageError
from store.home import replacing
from store.types import replace

_PORT = 993
_AGAIN = "the same command again: it goes on where it stopped"
_ADDRESS = re.compile(r"(?i:imaps):/{1,2}([^/]+)@([\w.-]+)(?::(\d{1,5}))?(?:/(.*))?", re.DOTALL)
_UNSAFE = re.compile(r"[/%\x00-\x1f\x7f]|^\.")  # in the name of a folder on disk


class MailAccount(Struct, frozen=True):
    """An account at a mail server, or one folder of it."""

    user: str
    host: str
    port: int = _PORT
    folder: str | None = None

    @property
    def name(self) -> str:
        """Return user and server, with the port where it is not the usual one, as the name of a folder on disk."""
        return _on_disk(f"{self.user}@{self.host}" + f":{self.port}" * (self.port != _PORT))

    def __str__(self) -> str:
        return f"imaps://{self.name}" + (f"/{self.folder.replace('%', '%25')}" if self.folder else "")

    def place(self, mail: Path) -> Path:
        """Return the folder on disk that the account is read into, below the one of all accounts."""
        return mail / self.name / _on_disk(self.folder or "")


def parse_account(text: str) -> MailAccount | None:
    """Return the account of an address, None if it is none; UsageError, which does not repeat it, if it is wrong."""
    if not re.match(r"(?i)imaps?:", text):
        return None
    found = _ADDRESS.fullmatch(text)
    before = unquote(text.rpartition("@")[0].partition(":")[2])
    user, port = (unquote(found[1]), int(found[3] or _PORT)) if found else (before.strip("/"), 0)
    wrong = {
        "an account is read over TLS alone: write imaps, not imap": re.match(r"(?i)imap:", text),
        "the address of an account has a name and an @ in front of the server": not user,
        "the address of an account has a password in it; pkb asks for it": ":" in user,
        "the server or port of an account cannot be one": not 0 < port < 1 << 16,
    }
    if why := next((why for why, is_so in wrong.items() if is_so), ""):
        raise UsageError(why, "pkb ingest imaps://NAME@SERVER[:PORT][/FOLDER]")
    assert found
    folder = unquote(found[4] or "").strip("/")
    return MailAccount(user, found[2].lower(), port, ("INBOX" if folder.upper() == "INBOX" else folder) or None)


def account_at(mail: Path, path: str) -> MailAccount | None:
    """Return the account of an address, or the one that is read into a folder on disk; None if it is neither."""
    parts = Path(path).relative_to(mail).parts if Path(path).is_relative_to(mail) else ()
    return parse_account(f"imaps://{'/'.join(parts)}" if 0 < len(parts) < 3 else path)


def place_at(mail: Path, address: str) -> Path | None:
    """Return where an account is read into, or the file of a message that is named behind its folder; None for none."""
    folder, _, file = address.rpartition("/")
    folder, file = (folder, file) if _FILE.fullmatch(file) else (address, "")
    account = parse_account(folder)
    return account.place(mail) / file if account else None


def shown_path(mail: Path, path: str) -> str:
    """Return a path, of what an account is read into the account: it can be named like that."""
    return str(account_at(mail, path) or path)


def _on_disk(name: str) -> str:
    return _UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", name)


class NoPassword(PkbError):
    """The server refuses the password, or there is none."""


def kept_password(account: MailAccount) -> str | None:
    """Return the password that the system's keyring has for an account, if any."""
    import keyring.errors

    with suppress(keyring.errors.KeyringError):
        found: str | None = keyring.get_password(f"pkb imaps://{account.name}", account.user)
        return found
    return None


def keep_password(account: MailAccount, password: str, agreed: Callable[[], bool]) -> None:
    """Put a password into the system's keyring, where that is `agreed`; PkbError if there is none."""
    import keyring.errors

    rings = getattr(keyring.get_keyring(), "backends", [keyring.get_keyring()])
    if any(not type(ring).__module__.startswith("keyring.backends.") for ring in rings):  # some write a plain file
        raise PkbError("the keyring in use is not the system's; no password was kept", None)
    try:
        if agreed():
            keyring.set_password(f"pkb imaps://{account.name}", account.user, password)
    except keyring.errors.KeyringError:
        raise PkbError("the system has no keyring, or it is locked; no password was kept", None) from None


_LINE, _REST = 1 << 16, 1 << 20  # bytes of a line; of a reply without its messages
_SILENCE_S, _REPLY_S = 60.0, 900.0
_LISTED, _TOGETHER, _TOGETHER_BYTES = 2_000, 50, 1 << 20  # messages listed, and fetched, by a command
_MOST_MESSAGES = 5_000_000  # of a folder
_NAME = re.compile(rb'\(([^()]*)\) (?:"(?:[^"\\]|\\.)*"|NIL) (?:\{\d+\}|"((?:[^"\\]|\\.)*)"|(\S+))\s*')
_UID, _SIZE = re.compile(rb"\bUID (\d{1,10})\b"), re.compile(rb"\bRFC822\.SIZE (\d{1,10})\b")
_FLAGS = re.compile(rb"\bFLAGS \(([^()]*)\)")
_NEWS = re.compile(rb"\* \d+ (?:EXISTS|EXPUNGE|FETCH)\b", re.IGNORECASE)
_USES = {"\\trash", "\\junk", "\\drafts", "\\all"}  # RFC 6154: not worth reading, or copies
_NO_FOLDER = {"\\noselect", "\\nonexistent"}
_LEFT_OUT = {b"\\deleted", b"$junk", b"junk", b"\\draft"}
_MALFORMED = (imaplib.IMAP4.error, ValueError, TypeError, KeyError, IndexError, AttributeError)


class MailFolder(Struct, frozen=True):
    """A folder at the server: its name, as the server writes it too, and what it is used for."""

    name: str
    raw: str
    uses: frozenset[str]


class MailConnection(imaplib.IMAP4_SSL):
    """A connection to an account: TLS with a valid certificate, and limits of what is read. PkbError names both."""

    def __init__(self, account: MailAccount, password: str, authorities: str = "") -> None:
        """Log in; `authorities` is a file of certificates (PEM) that are trusted beside the system's. NoPassword."""
        self.account, self._place = account, str(account)
        self._received, self._left, self._until, self._silence = bytearray(), _REST, 0.0, _SILENCE_S
        context = ssl.create_default_context()
        try:
            if authorities:
                context.load_verify_locations(Path(authorities).expanduser())
        except OSError:
            raise PkbError(f"no certificates can be read from {authorities}", "pkb config set ingest.ca FILE") from None
        with self._limited():
            super().__init__(account.host, account.port, ssl_context=context, timeout=_SILENCE_S)
        try:
            with self._limited():
                self._log_in(account.user, password)
        except PkbError:
            self.shutdown()
            raise

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self.shutdown()  # without waiting for a goodbye

    def read(self, size: int) -> bytes:
        """Return `size` bytes of a literal; PkbError if that is more than was requested."""
        if size > self._left + len(self._received):
            raise self._error("the server sends more than was asked for")
        while len(self._received) < size:
            self._receive()
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken

    def readline(self) -> bytes:
        """Return a line; PkbError if it has no end."""
        while (end := self._received.find(b"\n")) < 0:
            if len(self._received) > _LINE:
                raise self._error("the server sends a line without end")
            self._receive()
        return self.read(end + 1)

    def _receive(self) -> None:
        """Wait for more, until the time of this reply is over; TimeoutError."""
        if (seconds := min(self._until - time.monotonic(), self._silence)) <= 0:
            raise TimeoutError
        self.sock.settimeout(seconds)
        received = self.sock.recv(_LINE)
        self._left -= len(received)
        if not received or self._left < 0:
            why = "sends more than was asked for" if received else "ended the connection"
            raise self._error(f"the server {why}")
        self._received += received

    @contextmanager
    def _limited(self, size: int = _REST, seconds: float = 0.0) -> Iterator[None]:
        """Limit the replies that a block reads, and their silence, and name what goes wrong in it."""
        self._left, self._silence = size - len(self._received), seconds or _SILENCE_S
        self._until = time.monotonic() + (seconds or _REPLY_S)
        try:
            yield
        except ssl.SSLCertVerificationError as error:
            step = "ask whoever runs it; for a server of your own: pkb config set ingest.ca FILE"
            raise self._error(f"the certificate is not valid ({error.verify_message})", step) from None
        except ssl.SSLError:
            raise self._error("TLS failed: is this the server's port for IMAP over TLS, and is it up?") from None
        except TimeoutError:
            raise self._error("the server does not answer") from None
        except OSError as error:
            raise self._error(f"no connection ({(error.strerror or 'lost').lower()})") from None
        except _MALFORMED:
            raise self._error("the server does not speak IMAP as it should, or refuses") from None

    def _error(self, why: str, step: str = _AGAIN) -> PkbError:
        return PkbError(f"{line(self._place)}: {why}", step)

    def _log_in(self, user: str, password: str) -> None:
        try:
            if "AUTH=PLAIN" in self.capabilities:
                self.authenticate("PLAIN", lambda _: b"\0".join(map(str.encode, ("", user, password))))
            else:
                self.login(user, password)
        except self.abort:
            raise
        except self.error:
            why = f"{line(self._place)}: the server refuses name or password"
            raise NoPassword(why, "an app password, if the provider has them") from None
        self.capabilities = tuple(self.capability()[1][-1].decode("ascii", "replace").upper().split())

    def folders(self) -> list[MailFolder]:
        """Return the folders that hold messages."""
        extended = {"LIST-EXTENDED", "SPECIAL-USE"} <= {*self.capabilities}
        with self._limited():
            replies = self.list('""', '"*"' + " RETURN (SPECIAL-USE)" * extended)[1]
        found = (_folder(text, literal) for text, literal in _grouped(replies))
        return [one for one in found if one and not one.uses & _NO_FOLDER]

    def examine(self, folder: MailFolder) -> tuple[int, int]:
        """Open a folder read-only; returns the number of its messages, and its UIDVALIDITY."""
        self._place = str(replace(self.account, folder=folder.name))
        name = re.sub(r'(["\\])', r"\\\1", folder.raw)
        with self._limited():
            status, found = self.select(f'"{name}"', readonly=True)
            total, validity = int(found[-1] or b""), int(self.response("UIDVALIDITY")[1][-1])
        if status != "OK" or total > _MOST_MESSAGES or not 0 < validity < 1 << 32:
            raise self._error("the server does not open this folder")
        return total, validity

    def listing(self, total: int) -> dict[int, int | None]:
        """Return the sizes of the folder's messages by UID, None for those left out; a server may omit some."""
        sizes = dict[int, int | None]()
        for first in range(1, total + 1, _LISTED):
            with self._limited():
                replies = self.fetch(f"{first}:{min(first + _LISTED - 1, total)}", "(UID RFC822.SIZE FLAGS)")[1]
            for text, _ in _grouped(replies):
                uid, size, flags = _UID.search(text), _SIZE.search(text), _FLAGS.search(text)
                if uid and size and flags:
                    sizes[int(uid[1])] = None if _LEFT_OUT & {*flags[1].lower().split()} else int(size[1])
        return sizes

    def messages(self, uids: Sequence[int], size: int) -> Iterator[tuple[int, bytes]]:
        """Yield those of some messages that the server sends, without marking them as read."""
        with self._limited(size + _REST):
            replies = self.uid("FETCH", ",".join(map(str, uids)), "(UID BODY.PEEK[])")[1]
        wanted = {*uids}
        for text, body in _grouped(replies):
            uid = _UID.search(text)
            if uid and body is not None and (number := int(uid[1])) in wanted:
                wanted.remove(number)
                yield number, body

    def wait(self, seconds: float) -> None:
        """Wait until the open folder changes, at most `seconds`; the whole time if the server has no IDLE."""
        if "IDLE" not in self.capabilities:
            time.sleep(seconds)
            return
        with self._limited(seconds=seconds), suppress(TimeoutError):
            self.send(b"pkb IDLE\r\n")
            while not _NEWS.match(self.readline()):
                pass
        with self._limited():
            self.send(b"DONE\r\n")
            while not self.readline().startswith(b"pkb "):
                pass


def _grouped(replies: Sequence[Any]) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the text of each reply, and its first literal."""
    text, literal = b"", None
    for one in replies:
        if isinstance(one, tuple) and literal is None:
            text, literal = one
        elif isinstance(one, bytes):
            yield text + one, literal
            text, literal = b"", None


def _folder(text: bytes, literal: bytes | None) -> MailFolder | None:
    """Return the folder of a line of a list, None if there is none in it, or a name that cannot be sent back."""
    found = _NAME.fullmatch(text)
    raw = literal or found[3] or re.sub(rb"\\(.)", rb"\1", found[2] or b"") if found else b""
    if found is None or not re.fullmatch(rb"[ -~]+", raw):
        return None

    def decode(shifted: re.Match[bytes]) -> bytes:  # modified UTF-7 (RFC 3501, 5.1.3)
        text = shifted[1].replace(b",", b"/") + b"=" * (-len(shifted[1]) % 4)
        return b64decode(text, validate=True).decode("utf-16-be").encode() or b"&"

    name = raw.decode("ascii")
    with suppress(ValueError):
        name = re.sub(rb"&([A-Za-z0-9+,]*)-", decode, raw).decode()
    uses = frozenset(found[1].decode("ascii", "replace").lower().split())
    return MailFolder("INBOX" if raw.upper() == b"INBOX" else name, raw.decode("ascii"), uses)


_FILE = re.compile(r"(\d{1,10})\.(\d{1,10})\.(?:eml|noindex)")
_FORGOTTEN = ".noindex"  # the ending of an empty file in place of a message that is never to be fetched again
_PART = ".tmp"  # neither is ingested
_ROOM = 100 << 20  # bytes of the disk that stay free


class Fetched(Struct):
    """What was read of an account: its folders, and how many messages."""

    account: str
    folders: list[str]
    left_out: list[str]
    new: int = 0
    gone: int = 0
    too_large: int = 0  # not asked for
    missing: int = 0  # not sent by the server
    marked: int = 0  # deleted, junk or drafts by their flags


@dataclass(slots=True)
class MailReader:
    """Brings the folders of an account up to date; one process at a time. PkbError, DiskFull: what was read stays."""

    connection: MailConnection
    mail: Path
    most: int  # bytes of a message that is read
    is_forgotten: Callable[[bytes], bool]
    on_progress: Callable[[str, int, int | None], None]
    restore: bool = False  # forgotten messages, too
    _fetched: Fetched = field(init=False)

    def read(self) -> Fetched:
        """Read all folders that are worth it, or the one named."""
        account, folders = self.connection.account, self.connection.folders()
        chosen = self._chosen(folders)
        left_out = [one.name for one in folders if one not in chosen and account.folder is None]
        self._fetched = Fetched(str(account), [one.name for one in chosen], left_out)
        for folder in chosen:
            self._read(folder, replace(account, folder=folder.name).place(self.mail))
        if account.folder is None and "INBOX" in self._fetched.folders:
            there = {replace(account, folder=one.name).place(self.mail) for one in folders}
            for place in {one for one in account.place(self.mail).iterdir() if one.is_dir()} - there:
                self._fetched.gone += len(_stored(place))
                shutil.rmtree(place)
        return self._fetched

    def _chosen(self, folders: Sequence[MailFolder]) -> list[MailFolder]:
        """Return the folders to read, the inbox last: it is waited for. PkbError if the one named is not there."""
        account, chosen = self.connection.account, dict[str, MailFolder]()
        for one in folders:
            place = replace(account, folder=one.name).place(self.mail)
            if len(os.fsencode(place.name)) > 255:  # bytes
                continue
            usual = not one.uses & _USES or place.is_dir()  # the latter: it was asked for before
            if one.name == account.folder or (account.folder is None and usual):
                chosen.setdefault(place.name.casefold(), one)  # some disks take these names as one
        if account.folder is not None and not chosen:
            raise PkbError(f"{line(str(account))}: there is no such folder", f"pkb ingest imaps://{line(account.name)}")
        return sorted(chosen.values(), key=lambda one: one.name == "INBOX")

    def _read(self, folder: MailFolder, place: Path) -> None:
        """Fetch what is new, and remove what is gone, if the server listed all that it has."""
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in (*place.glob(f"*{_PART}"), *(place.glob(f"*{_FORGOTTEN}") if self.restore else ())):
            path.unlink()  # parts are those of a killed process
        total, validity = self.connection.examine(folder)
        listed, stored = self.connection.listing(total), _stored(place)
        sizes = {uid: size for uid, size in listed.items() if size is not None}
        self._fetched.marked += len(listed) - len(sizes)
        self._fetch({uid: size for uid, size in sizes.items() if (validity, uid) not in stored}, place, validity)
        gone = [path for (of, uid), path in stored.items() if of != validity or uid not in sizes]
        for path in gone if len(listed) == total else ():
            path.unlink(missing_ok=True)
            self._fetched.gone += 1

    def _fetch(self, sizes: dict[int, int], place: Path, validity: int) -> None:
        small = sorted((uid for uid, size in sizes.items() if size <= self.most), reverse=True)
        self._fetched.too_large += len(sizes) - len(small)
        total = self._fetched.new + len(small)
        ends = accumulate(max(sizes[uid], _TOGETHER_BYTES // _TOGETHER) for uid in small)
        # So few by a command that a cut loses little.
        for _, group in groupby(zip(small, ends, strict=True), lambda one: one[1] // _TOGETHER_BYTES):
            some = [uid for uid, _ in group]
            size, before = sum(sizes[uid] for uid in some), self._fetched.new
            if shutil.disk_usage(place).free < size + _ROOM:
                raise DiskFull(f"no space left on the disk: {place}", "pkb ingest, once there is room")
            for uid, sent in self.connection.messages(some, 2 * size):  # some servers only estimate the size
                raw, path = sent.replace(b"\r\n", b"\n"), place / f"{validity}.{uid}.eml"
                if self.is_forgotten(raw):
                    raw, path = b"", path.with_suffix(_FORGOTTEN)
                # Synced before it has its name: a name that is there means that all of the file is.
                with replacing(path, path.with_suffix(_PART), lasting=True) as file:
                    file.write(raw)
                self._fetched.new += 1
            self._fetched.missing += before + len(some) - self._fetched.new
            self.on_progress("fetch", self._fetched.new, total)


def _stored(place: Path) -> dict[tuple[int, int], Path]:
    """Return the files of a folder by UIDVALIDITY and UID, those of forgotten messages, too."""
    named = ((path, _FILE.fullmatch(path.name)) for path in place.iterdir())
    return {(int(name[1]), int(name[2])): path for path, name in named if name}


def forget_message(mail: Path, path: str) -> None:
    """Remove the file of a message below the folder of all accounts, so that it is not fetched again."""
    file = Path(path)
    if file.is_relative_to(mail) and _FILE.fullmatch(file.name) and file.exists():  # else removed by hand
        file.with_suffix(_FORGOTTEN).touch(0o600)
        file.unlink()
