"""Where the resident process of a home listens, and whose process is at the other end of a socket.

Nobody else may come near it: the folder is the owner's alone, and both sides look who the other is.
"""

import json
import os
import signal
import socket
import stat
import struct
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.serve.protocol import PROTOCOL, Broken, Frame, Frames, encode
from store.locks import Lease

if TYPE_CHECKING:
    from engine.session import Session
    from store.home import Home


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
    """Yield where the socket may be: in the home, or where its path is too long, in short folders of the system's."""
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
    """Return whether a folder, not a link to one, is the owner's alone."""
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
    """Return where the process was said to listen; None where nothing was said, or what it says cannot be."""
    try:
        path = Path(json.loads(record.read_text("utf-8"))["socket"])
        return path if is_private(path.parent) else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def peer(end: socket.socket) -> Peer:
    """Return whose process is at the other end; OSError where it is gone."""
    if sys.platform == "darwin":
        _, uid, _ = _DARWIN.unpack_from(end.getsockopt(0, 1, 76))  # LOCAL_PEERCRED of SOL_LOCAL
        (pid,) = struct.unpack("i", end.getsockopt(0, 2, 4))  # LOCAL_PEERPID
        return Peer(pid, uid)
    pid, uid, _ = _LINUX.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _LINUX.size))
    return Peer(pid, uid)


_ROOT = Path(__file__).parents[2]
_PACKAGES = ("cli", "engine", "store", "prompts")
_CODE = (".py", ".txt")
# Where models are found, what computes, and where the days begin.
_NAMES = ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME", "PKB_BLAS", "TZ")


def identity(home: "Home", environ: Mapping[str, str]) -> str:
    """Return the digest; it reads no code, only when that was written or installed."""
    try:
        config = home.config.read_bytes().hex()
    except OSError:
        config = ""
    places = [os.fsencode(place).hex() for place in (home.data, home.cache, home.config)]
    parts = [PROTOCOL, places, config, [environ.get(name) for name in _NAMES], code(_ROOT), _libraries()]
    return blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def code(root: Path) -> list[tuple[str, int, int]]:
    """Return what changes with the code below a folder: of a checkout each file, of installed packages the folder.

    An installer adds and removes entries of that folder. A file of a checkout may be written without any such trace.
    """
    if not (root / "pyproject.toml").exists():
        return [(str(root), root.stat().st_mtime_ns, 0)]
    return sorted(file for package in _PACKAGES for file in _files(str(root / package)))


def _files(folder: str) -> Iterator[tuple[str, int, int]]:
    """Yield path, time and size of the files of code in a folder and in those below it."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path)
            elif entry.name.endswith(_CODE):
                found = entry.stat()
                yield entry.path, found.st_mtime_ns, found.st_size


def _libraries() -> int:
    """Return when a library was last installed or removed, in ns: when the folder that holds typer changed."""
    from importlib.util import find_spec

    found = find_spec("typer")  # a dependency of every command
    assert found
    assert found.origin
    return Path(found.origin).parents[1].stat().st_mtime_ns


SILENCE_S = 2.0  # a process that works says so four times as often
_BYTES = 1 << 16
_END_S, _RETRY_S = 5.0, 0.005  # a process that holds gigabytes may take its time to end


class ConnectionLost(Exception):
    """The process at the other end is gone, or hangs."""


class ServerLink:
    """An open connection; `hello` is what the process said of itself."""

    def __init__(self, end: socket.socket, pid: int, lock: Path) -> None:
        """`lock` is the file that the process has locked as long as it lives."""
        self._end, self._frames, self._waiting = end, Frames(), list[Frame]()
        self.pid, self._lock = pid, Lease(lock)
        end.settimeout(SILENCE_S)
        self.hello = self.receive()

    def send(self, kind: str, values: Mapping[str, Any]) -> None:
        """Send a frame; Lost where nobody takes it, or it is too long."""
        try:
            self._end.sendall(encode(kind, values))
        except TimeoutError:
            self._kill()
        except (OSError, Broken):
            raise ConnectionLost from None

    def receive(self) -> Frame:
        """Return the next frame; Lost where the connection ends, or nothing is said for too long: then it is ended."""
        while not self._waiting:
            try:
                data = self._end.recv(_BYTES)
                self._waiting = self._frames.feed(data)
            except TimeoutError:
                self._kill()
            except (OSError, Broken):
                raise ConnectionLost from None
            if not data:
                raise ConnectionLost
        return self._waiting.pop(0)

    def answers(self) -> Iterator[Frame]:
        """Yield the frames that answer what was sent, without those that only say that it is being worked on."""
        while True:
            if (frame := self.receive())["kind"] != "beat":
                yield frame

    def close(self) -> None:
        """Hang up; what is still being worked on is broken off."""
        self._end.close()

    def _kill(self) -> None:
        """End a process that hangs, for it may hold a model; everything it kept survives that."""
        with suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)
            until = time.monotonic() + _END_S
            # Its locks may go after its sockets, and before nobody has them, no other process can be started.
            while self._lock.is_taken() and time.monotonic() < until:
                os.kill(self.pid, 0)
                time.sleep(_RETRY_S)
        raise ConnectionLost


def lock_of(home: "Home") -> Path:
    """Return the file whose lock the resident process holds as long as it lives."""
    return home.locks / "serve.lock"


def record_of(home: "Home") -> Path:
    """Return the file that says where the resident process listens."""
    return home.locks / "serve.json"


def connect(home: "Home") -> ServerLink | None:
    """Reach the resident process of a home, whatever its version; None where there is none, or it is not ours."""
    path = announced(record_of(home))
    if path is None:
        return None
    end = socket.socket(socket.AF_UNIX)
    end.settimeout(SILENCE_S)
    try:
        end.connect(str(path))
        found = peer(end)
        if found.uid == os.getuid():
            return ServerLink(end, found.pid, lock_of(home))
    except (OSError, ConnectionLost):
        pass
    end.close()
    return None


TRIES = 3  # of a process that is gone again before it can be reached: more of them would be gone too
LOCK = 3  # the descriptor by which a process hands the lock to the one that it starts
_PROJECT = Path(__file__).parents[2]
_POLL_S = 0.02


def start(opened: "Session") -> bool:
    """Start the process, where none is; it is handed the lock, so that no second one can be started meanwhile."""
    lease = Lease(lock_of(opened.home))
    if not lease.acquire():
        return False
    null = [(os.POSIX_SPAWN_OPEN, descriptor, os.devnull, os.O_RDWR, 0) for descriptor in range(LOCK)]
    given = [(os.POSIX_SPAWN_DUP2, lease.inheritable(), LOCK)]
    words = [sys.executable, "-P", "-m", "cli.app", "serve", "--lock", str(LOCK)]
    # The lock first: its descriptor may be one of the three that are opened anew, where those were closed.
    os.posix_spawn(sys.executable, words, _environment(opened), file_actions=[*given, *null])
    lease.release()
    return True


def stop(home: "Home", timeout_s: float) -> bool:
    """Have the process end, once it has answered what it was asked; returns whether it has."""
    if link := connect(home):
        with suppress(ConnectionLost), closing(link):
            link.send("stop", {})
    lease, until = Lease(lock_of(home)), time.monotonic() + timeout_s
    while lease.is_taken():
        if time.monotonic() > until:
            return False
        time.sleep(_POLL_S)
    return True


def release_start_lock(home: "Home") -> None:
    """Have the process close what it has open of the home, so that it may be rewritten; it opens it again when asked.

    What it had read may still be in its memory: before something is forgotten, it is to be stopped.
    """
    if link := connect(home):
        with suppress(ConnectionLost), closing(link):
            link.send("release", {})
            next(link.answers())


def _environment(opened: "Session") -> dict[str, str]:
    """Return the environment of the process: of this home wherever it runs, of no single question."""
    home, environ = opened.home, dict(opened.environ)
    environ |= {"PKB_HOME": str(home.data), "PKB_CACHE": str(home.cache), "PKB_CONFIG": str(home.config)}
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_PROJECT), environ.get("PYTHONPATH"))))
    if "PKB_THREADS" not in environ:  # then it was this process that set it, for its own numpy
        environ.pop("OPENBLAS_NUM_THREADS", None)
    environ.pop("PKB_NOW", None)
    return environ
