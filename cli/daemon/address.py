"""Where the resident process of a home listens, and whose process is at the other end of a socket.

Nobody else may come near it: the folder is the owner's alone, and both sides look who the other is.
"""

import json
import os
import socket
import stat
import struct
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

_LONGEST = 103  # bytes that macOS takes of a socket's path; Linux takes four more
_PRIVATE = 0o077  # what nobody else may do
_NAME = "socket"
_LINUX = struct.Struct("3i")  # pid, uid, gid
_DARWIN = struct.Struct("IIh")  # version, uid, number of groups


@dataclass(frozen=True, slots=True)
class Peer:
    """The process at the other end."""

    pid: int
    uid: int


def places(data: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    """Give where the socket may be: in the home, or where its path is too long, in short folders of the system's."""
    name = f"pkb-{os.getuid()}-{blake2b(os.fsencode(data), digest_size=6).hexdigest()}"
    short = [base for base in (environ.get("XDG_RUNTIME_DIR"), environ.get("TMPDIR"), "/tmp") if base]
    for folder in (data / "serve", *(Path(base) / name for base in short)):
        if folder.is_absolute() and len(os.fsencode(folder / _NAME)) <= _LONGEST:
            yield folder / _NAME


def listen(data: Path, environ: Mapping[str, str]) -> tuple[socket.socket, Path] | None:
    """Listen in the first place that will do, what an earlier process left there removed; None where none will."""
    for path in places(data, environ):
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            if not is_private(path.parent):
                continue
            path.unlink(missing_ok=True)
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(str(path))  # made 0600, as the umask of every command has it
            path.chmod(0o600)
            listener.listen(64)
        except OSError:  # a disk that takes no sockets, a folder that is not there
            continue
        return listener, path
    return None


def is_private(folder: Path) -> bool:
    """Tell whether a folder, not a link to one, is the owner's alone."""
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & _PRIVATE


def announce(record: Path, path: Path) -> None:
    """Write down where the process listens, for those who look for it."""
    partial = record.with_suffix(".part")
    partial.write_text(json.dumps({"socket": str(path), "pid": os.getpid()}), "utf-8")
    partial.replace(record)


def withdraw(record: Path, path: Path) -> None:
    """Remove what this process listened at and what it wrote down of that, unless another one has taken its place."""
    with suppress(OSError, ValueError, LookupError, TypeError):
        if json.loads(record.read_text("utf-8"))["pid"] != os.getpid():
            return
    record.unlink(missing_ok=True)
    path.unlink(missing_ok=True)
    with suppress(OSError):  # where something else lies in it
        path.parent.rmdir()


def announced(record: Path) -> Path | None:
    """Give where the process was said to listen; None where nothing was said, or what it says cannot be."""
    try:
        path = Path(json.loads(record.read_text("utf-8"))["socket"])
        return path if is_private(path.parent) else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def peer(end: socket.socket) -> Peer:
    """Say whose process is at the other end; OSError where it is gone."""
    if sys.platform == "darwin":
        _, uid, _ = _DARWIN.unpack_from(end.getsockopt(0, 1, 76))  # LOCAL_PEERCRED of SOL_LOCAL
        (pid,) = struct.unpack("i", end.getsockopt(0, 2, 4))  # LOCAL_PEERPID
        return Peer(pid, uid)
    pid, uid, _ = _LINUX.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _LINUX.size))
    return Peer(pid, uid)
