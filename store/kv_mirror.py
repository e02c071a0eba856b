"""KV nodes as objects in a folder or an object store, encrypted: what is written there, and what is read back.

Each object is one node's file under AES-256-GCM, bound to its node, with a key that stays on the user's machines. Names
are keyed digests: they tell nothing. fsspec brings the bytes to and from wherever a URL points.
"""

import json
import os
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from errno import EIO, ENOENT
from hashlib import blake2b
from io import BytesIO
from itertools import takewhile
from pathlib import Path
from secrets import token_bytes, token_hex
from threading import Condition, Thread
from typing import Any

from store.database import Ledger
from store.errors import PkbError
from store.kv_files import BadNode, header_text, opened, verify
from store.kv_tree import Key
from store.peers import require_private, write_once
from store.remote import ANSWER_S, FAILURES, RemoteCall, RemoteMiss, masked, noted_name

KEY_FILE, _ID_FILE = "mirror.key", "mirror.id"
_KEY_BYTES, _NONCE, _TAG, _ID = 32, 12, 16, 8
_MAGIC = b"pkb kv 1"
_HEAD = len(_MAGIC) + _ID + _NONCE
OVERHEAD = _HEAD + _TAG  # bytes that an object is longer than the file in it
_NAME = re.compile(r"([0-9a-f]{32})(?:-[0-9a-f]{16})?")  # those without a digest are of earlier versions
_LISTED_S, _WAIT_S = 60.0, ANSWER_S / 2  # for which a listing is used, and the first one is waited for
_NOTED_S = 7 * 86400.0  # for which the last list of another process is used
_NOTED = re.compile(r"(\d{1,10}) ([0-9a-f]{16}/([0-9a-f]{32})-[0-9a-f]{16})")  # a line of it: bytes, path, name
_POLL_S = 0.02
_READ = 1 << 20


class MirrorKey:
    """The key of the objects: 32 bytes in a file that only its owner may read."""

    def __init__(self, path: Path, *, create: bool) -> None:
        """Read it, or make it with `create`; PkbError where there is none."""
        if create and not path.exists():
            write_once(path, f"{token_hex(_KEY_BYTES)}\n".encode())
        self._key = _read_key(path)
        self.id = self._derived(b"id", b"")[:_ID]

    def name(self, key: Key) -> str:
        """Return what the name of a node's object begins with."""
        return self._derived(b"name", key)[:16].hex()

    def name_of(self, key: Key, header: bytes) -> str:
        """Return the name of the object of a node's file with a header: another one where anything in it differs."""
        return f"{self.name(key)}-{self._derived(b'tag', key + header)[:8].hex()}"

    def writer(self, folder: Path) -> str:
        """Return the name of the folder that a home writes to; two that share a key do not remove each other's."""
        return self._derived(b"writer", _home_id(folder))[:8].hex()

    def seal(self, key: Key, data: bytes) -> bytes:
        """Return the object of a node's file."""
        head = _MAGIC + self.id + token_bytes(_NONCE)
        sealed: bytes = self._cipher().encrypt(head[-_NONCE:], data, head + key)
        return head + sealed

    def open(self, key: Key, data: bytes) -> bytes:
        """Return the file in an object; BadNode where it is another node's, another key's, or was changed."""
        from cryptography.exceptions import InvalidTag

        head = data[:_HEAD]
        if len(data) < OVERHEAD or not head.startswith(_MAGIC + self.id):
            raise BadNode("mismatch")
        try:
            found: bytes = self._cipher().decrypt(head[-_NONCE:], memoryview(data)[_HEAD:], head + key)
        except InvalidTag:
            raise BadNode("checksum") from None
        return found

    def _cipher(self) -> Any:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return AESGCM(self._derived(b"data", b""))

    def _derived(self, use: bytes, data: bytes) -> bytes:
        return blake2b(data, key=self._key, digest_size=32, person=b"pkb " + use).digest()


def _read_key(path: Path) -> bytes:
    try:
        require_private(path)
        found = bytes.fromhex(path.read_text("ascii").strip())
    except (OSError, ValueError):
        found = b""
    if len(found) != _KEY_BYTES:
        raise PkbError(f"there is no key of the mirror in {path}", "copy it from the machine that pushes")
    return found


def _home_id(folder: Path) -> bytes:
    """Return random bytes that name a home, made at the first call."""
    path = folder / _ID_FILE
    if not path.exists():
        write_once(path, f"{token_hex(16)}\n".encode())
    return path.read_bytes()


def mirror_error(url: str, error: Exception) -> PkbError:
    """Return what to tell the user of an error of a back end: its kind alone, for its text may hold a credential."""
    reason = (isinstance(error, OSError) and error.strerror) or type(error).__name__
    problem = f"cannot use {masked(url)} as a mirror (kv.remote, or the URL given): {reason}"
    return PkbError(problem, "check its address and credentials, then: pkb kv push --dry-run")


def _not_installed(url: str) -> PkbError:
    from fsspec.registry import known_implementations

    kind = url.partition("://")[0]
    told = re.search(r"[Ii]nstall (\w+)|requires \"(\w+)\"", known_implementations.get(kind, {}).get("err", ""))
    package = told and (told[1] or told[2])
    problem = f"the package that fsspec needs for {kind}:// is not installed (kv.remote, or the URL given)"
    return PkbError(problem, f"uv pip install {package}" if package else None)


class _BackendErrors:
    """A context in which any error of a back end is an OSError: each raises those of packages of its own."""

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> None:
        ours = (OSError, ImportError, PkbError, BadNode, RemoteMiss, AssertionError)
        if isinstance(error, Exception) and not isinstance(error, ours):
            raise OSError(EIO, type(error).__name__) from None


def _file_system(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path there; PkbError."""
    import fsspec

    try:
        with _BackendErrors():
            files, root = fsspec.core.url_to_fs(url)
    except ImportError:
        raise _not_installed(url) from None
    except OSError as error:
        raise mirror_error(url, error) from None
    return files, root


def reach(url: str) -> None:
    """List a URL, to see whether it can be; PkbError, OSError."""
    files, root = _file_system(url)
    with suppress(FileNotFoundError), _BackendErrors():
        files.ls(root)


_PUSHED, _PENDING = "kv.mirrors", "forget.mirrors"  # small values of the ledger


def pushed_to(ledger: Ledger) -> list[str]:
    """Return the URLs that were pushed to."""
    return list(json.loads(ledger.get(_PUSHED) or "[]"))


def record_push(ledger: Ledger, url: str) -> None:
    """Remember that a URL was pushed to."""
    ledger.set(_PUSHED, json.dumps(sorted({*pushed_to(ledger), url})))


def forget_push(ledger: Ledger, url: str) -> None:
    """Forget that a URL was pushed to, and what is still to be removed from it."""
    ledger.set(_PUSHED, json.dumps([one for one in pushed_to(ledger) if one != url]))
    pending = pending_removal(ledger)
    put_pending_removal(ledger, replace(pending, urls=tuple(one for one in pending.urls if one != url)))


@dataclass(frozen=True, slots=True)
class PendingRemoval:
    """Mirrors from which objects are still to be removed, and what the names of those objects begin with."""

    urls: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


def pending_removal(ledger: Ledger) -> PendingRemoval:
    """Return what is still to be removed from mirrors."""
    found = json.loads(ledger.get(_PENDING) or "{}")
    return PendingRemoval(*(tuple(found.get(one, ())) for one in ("urls", "names")))


def put_pending_removal(ledger: Ledger, pending: PendingRemoval) -> None:
    """Remember what is still to be removed from mirrors; nothing without a URL."""
    ledger.set(_PENDING, json.dumps({"urls": pending.urls, "names": pending.names} if pending.urls else {}))


def has_pushed(folder: Path) -> bool:
    """Return whether a home has the files that its first push makes."""
    return (folder / KEY_FILE).exists() and (folder / _ID_FILE).exists()


@dataclass(frozen=True, slots=True)
class PushPlan:
    """What makes a mirror equal to the local nodes: nodes to write, their bytes, and the names of objects to remove."""

    upload: tuple[Key, ...]
    upload_bytes: int
    delete: tuple[str, ...]
    unchanged: int


class Mirror:
    """The objects at a URL: of all machines that have its key to read, of this one to write."""

    def __init__(self, url: str, folder: Path, *, create: bool = False) -> None:
        """`folder` holds the key, made with `create`. PkbError without one, or where fsspec cannot serve the URL."""
        self.key, self._folder = MirrorKey(folder / KEY_FILE, create=create), folder
        self._files, root = _file_system(url)
        self.root = f"{root.rstrip('/')}/{self.key.id.hex()}"

    @property
    def _own(self) -> str:
        return f"{self.root}/{self.key.writer(self._folder)}"

    def listing(self) -> dict[str, tuple[str, int]]:
        """Return path and bytes of each node's object by what its name begins with, of all machines; OSError."""
        found = self._listed(self.root)
        return {name.partition("-")[0]: found[name] for name in sorted(found)}

    def _listed(self, folder: str) -> dict[str, tuple[str, int]]:
        try:
            with _BackendErrors():
                self._files.invalidate_cache()
                found = self._files.find(folder, detail=True)
        except FileNotFoundError:
            return {}
        names = {path.rpartition("/")[2]: (path, entry) for path, entry in found.items()}
        return {name: (path, int(entry.get("size") or 0)) for name, (path, entry) in names.items() if _is_name(name)}

    def named(self, names: Collection[str]) -> list[str]:
        """Return the paths of the objects whose names begin so, of all machines; OSError, also for a missing disk."""
        top = self.root.rpartition("/")[0]
        with _BackendErrors():
            if "file" in self._files.protocol and not self._files.isdir(top):
                raise FileNotFoundError(ENOENT, "no such folder")
            self._files.invalidate_cache()
            with suppress(FileNotFoundError):
                found = self._files.find(self.root)
                return sorted(path for path in found if path.rpartition("/")[2].partition("-")[0] in names)
        return []

    def forget(self, names: Collection[str], nodes: Mapping[Key, int], path_of: Callable[[Key], Path]) -> int:
        """Remove the objects whose names begin so, and those of this machine without a node; returns how many."""
        paths = set(self.named(names))
        if has_pushed(self._folder):
            paths |= {f"{self._own}/{name}" for name in self.plan(nodes, path_of).delete}
        for path in sorted(paths):
            with suppress(FileNotFoundError), _BackendErrors():
                self._files.rm_file(path)
        if left := paths.intersection(self.named(names)):
            raise OSError(EIO, f"{len(left)} objects are still there")
        return len(paths)

    def read(self, path: str, key: Key, size: int, call: RemoteCall) -> bytes:
        """Return the file of so many bytes in an object; OSError, BadNode."""
        data, longest = BytesIO(), size + OVERHEAD
        with _BackendErrors(), self._files.open(path, "rb") as file:
            while block := file.read(min(_READ, longest + 1 - data.tell())):
                data.write(block)
                call.received += len(block)
                call.check()
        if data.tell() != longest:
            raise BadNode("mismatch")
        return self.key.open(key, data.getvalue())

    def plan(self, nodes: Mapping[Key, int], path_of: Callable[[Key], Path]) -> PushPlan:
        """Compare this machine's objects with its nodes, the bytes of their files and what is in these; OSError."""
        there = {name: size for name, (_, size) in self._listed(self._own).items()}
        wanted = dict[str, tuple[Key, int]]()
        for key, size in nodes.items():
            with suppress(BadNode), opened(path_of(key)) as file:
                wanted[self.key.name_of(key, header_text(file))] = key, size
        missing = [(key, size) for name, (key, size) in wanted.items() if there.get(name) != size + OVERHEAD]
        stale = tuple(sorted(there.keys() - wanted.keys()))
        keys, total = tuple(key for key, _ in missing), sum(size for _, size in missing)
        return PushPlan(keys, total, stale, len(wanted) - len(missing))

    def apply(self, plan: PushPlan, path_of: Callable[[Key], Path], on_bytes: Callable[[int], None]) -> int:
        """Remove and write objects; returns how many were written, without nodes that are gone by then. OSError."""
        for name in plan.delete:  # first: what was forgotten here must not stay because a later upload fails
            with suppress(FileNotFoundError), _BackendErrors():
                self._files.rm_file(f"{self._own}/{name}")
        written = done = 0
        for key in plan.upload:
            with suppress(BadNode), _BackendErrors(), opened(path_of(key)) as file:
                verify(file)
                name = self.key.name_of(key, header_text(file))
                file.seek(0)
                data = file.read()
                self._files.makedirs(self._own, exist_ok=True)
                self._files.pipe_file(f"{self._own}/{name}", self.key.seal(key, data))
                written, done = written + 1, done + len(data)
                on_bytes(done)
        return written


def _is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


class MirrorSource:
    """The nodes in a mirror, which is listed once a minute on a thread of its own: nobody waits for a long list.

    The last list stays on the disk, for the next process to use until it has one of its own.
    """

    def __init__(self, url: str, folder: Path) -> None:
        """`folder` holds the key, and the last list."""
        self._url, self._folder, self._noted = url, folder, folder / noted_name("listed", url)
        self._changed, self._lister = Condition(), Thread()
        self._mirror: Mirror | None = None
        self._key: MirrorKey | None = None
        self._listing, self._due, self._failure = dict[str, tuple[str, int]](), float("-inf"), ""
        self._is_tried = self._is_listed = False  # by this process

    def prepare(self) -> None:
        """Begin to list the mirror, if it is time to; nothing is waited for."""
        with self._changed:
            if (now := time.monotonic()) > self._due:
                self._due = now + _LISTED_S
                if not self._lister.is_alive():  # else a dead disk would hold ever more threads
                    self._lister = Thread(target=self._list, name="kv mirror", daemon=True)
                    self._lister.start()

    def sizes(self, keys: Sequence[Key], call: RemoteCall) -> Sequence[int]:
        """Return the bytes of the files of the first nodes of a path that the mirror has; RemoteMiss without a list."""
        self.prepare()
        with self._changed:
            self._changed.wait_for(lambda: self._is_tried or all(map(self._size, keys)), _WAIT_S)
            failure, self._failure = self._failure, ""
        if failure:
            raise RemoteMiss(failure)
        found = list(takewhile(bool, map(self._size, keys)))
        if not found and not self._is_listed:
            raise RemoteMiss("unlisted")
        return found

    def _size(self, key: Key) -> int:
        return max(0, self._listing.get(self._key.name(key), ("", 0))[1] - OVERHEAD) if self._key else 0

    def _list(self) -> None:
        failure = "refused"
        try:
            if not self._key:
                self._recall()
            mirror = self._mirror = self._mirror or Mirror(self._url, self._folder)
            self._listing, self._is_listed = mirror.listing(), True
            failure = ""
        except (OSError, PkbError):
            failure = "unreachable"
        except FAILURES:
            pass
        finally:
            with self._changed:
                self._failure, self._is_tried = failure, True
                self._changed.notify_all()
        if not failure:
            with suppress(OSError):
                _replace(self._noted, _spelt(self._listing, mirror.root))

    def _recall(self) -> None:
        """Use the last list of another process; PkbError without the key."""
        key = MirrorKey(self._folder / KEY_FILE, create=False)
        with suppress(*FAILURES):
            if 0 <= time.time() - self._noted.stat().st_mtime < _NOTED_S:
                self._listing = _understood(self._noted.read_text("ascii"))
        self._key = key
        with self._changed:
            self._changed.notify_all()

    def read(self, key: Key, size: int, call: RemoteCall) -> BytesIO:
        """Return a node's file."""
        while self._mirror is None and self._lister.is_alive():  # known from the last list, and not yet opened
            call.check()
            time.sleep(_POLL_S)
        mirror, (path, _) = self._mirror, self._listing.get(self._key.name(key) if self._key else "", ("", 0))
        if not mirror or not path:
            raise RemoteMiss("absent" if mirror else "unreachable")
        try:
            there = path if path.startswith(mirror.root) else f"{mirror.root}/{path}"
            return BytesIO(mirror.read(there, key, size, call))
        except FileNotFoundError:
            raise RemoteMiss("absent") from None

    def close(self) -> None:
        """Do nothing: no connection of ours stays open."""


def _spelt(listing: Mapping[str, tuple[str, int]], root: str) -> str:
    """Return a list as text, a line an object: its bytes, and its path below the root."""
    below = ((path.removeprefix(f"{root}/"), size) for path, size in listing.values())
    return "".join(f"{size} {path}\n" for path, size in below if _NOTED.fullmatch(f"{size} {path}"))


def _understood(text: str) -> dict[str, tuple[str, int]]:
    """Return the list in a text, without what is none of it."""
    lines = filter(None, map(_NOTED.fullmatch, text.splitlines()))
    return {line[3]: (line[2], int(line[1])) for line in lines}


def _replace(path: Path, text: str) -> None:
    """Write a file whole and for its owner alone, in place of an earlier one; OSError."""
    part = path.with_name(f"{path.name}-{token_hex(8)}.part")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(text)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
