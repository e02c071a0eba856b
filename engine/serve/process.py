"""The resident process of a home: how to start, find, identify and stop it, and the messages sent over its socket.

Messages (frames) are JSON, one a line; msgspec checks their parts against types. Only its owner can connect: the
socket's folder is private, and both sides check the user id of the other.
"""

import json
import os
import signal
import socket
import stat
import struct
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import msgspec
from msgspec import Struct, convert

from engine.settings import Settings
from engine.types import Answer, AskOptions, AskResult, Step, Trace, json_values
from store.home import Home
from store.locks import Lease
from store.types import replace

if TYPE_CHECKING:
    from engine.session import Session

LIMIT = 8 << 20  # bytes of one frame: fifty long sources take a tenth of it

Frame = dict[str, Any]


class Broken(Exception):
    """The input is not a frame, or the resident process is gone or hangs."""


def encode(kind: str, values: Mapping[str, Any]) -> bytes:
    """Return the line of a frame; Broken where it would be too long."""
    line = json.dumps({"kind": kind, **values}).encode() + b"\n"  # escaped: file names need not be text
    if len(line) > LIMIT:
        raise Broken(f"a frame of {len(line)} bytes")
    return line


def decode(line: bytes) -> Frame:
    """Return the frame of a line; Broken, also where the line has no end."""
    try:
        frame = json.loads(line.decode(), parse_constant=int)  # which refuses NaN and infinity
    except (ValueError, RecursionError):  # of which bad UTF-8 is one
        raise Broken("a frame that is no JSON") from None
    if not isinstance(frame, dict) or not isinstance(frame.get("kind"), str):
        raise Broken("a frame without a kind")
    return frame


T = TypeVar("T")


def unpack(kind: type[T], value: Any) -> T:
    """Return JSON values as a value of this type, each part checked against its own; Broken."""
    try:
        return convert(value, kind)
    except ValueError as error:  # also of a field's name that is not text
        raise Broken(str(error)) from None


class Request(Struct, frozen=True):
    """A question, when and how it is asked, and every setting that it is asked under."""

    text: str
    options: AskOptions
    now: datetime
    settings: Settings
    keeps_tensors: bool
    collection: str | None
    streams: bool
    epoch: int  # if anything was forgotten since, the result is not stored


def request(opened: "Session", text: str, options: AskOptions, *, streams: bool) -> Any:
    """Write a question down."""

    def anywhere(name: str) -> str:  # as it is understood in any folder
        return str(Path(name).absolute()) if name and Path(name).is_dir() else name

    settings, model, embed = opened.settings, opened.settings.model, opened.settings.embed
    model, embed = replace(model, name=anywhere(model.name)), replace(embed, model=anywhere(embed.model))
    settings = replace(settings, model=model, embed=embed)
    how = (opened.keeps_tensors, opened.collection, streams, opened.ledger.epoch)
    return json_values(Request(text, options, opened.now, settings, *how))


def answer(answered: AskResult) -> Any:
    """Serialize an answer and its trace to JSON values."""
    trace = answered.trace
    return json_values([answered.reply, answered.covered, trace.steps, trace.notices, trace.saved_s])


def answered(values: Any) -> AskResult:
    """Deserialize an answer and its trace; Broken if the values are malformed."""
    reply, covered, steps, notices, saved_s = unpack(tuple[Answer, float | None, list[Step], list[str], float], values)
    return AskResult(reply, Trace(steps, notices, saved_s), covered)


_LONGEST = 103  # bytes that macOS takes of a socket's path; Linux takes four more
_LINUX = struct.Struct("3i")  # pid, uid, gid
_DARWIN = struct.Struct("IIh")  # version, uid, number of groups


def socket_paths(data: Path) -> list[Path]:
    """Return where the socket may be: in the home, else, as where that path is too long, in a short folder."""
    short = f"/tmp/pkb-{os.getuid()}-{blake2b(os.fsencode(data), digest_size=6).hexdigest()}"
    paths = (folder / "socket" for folder in (data / "serve", Path(short)))
    return [path for path in paths if len(os.fsencode(path)) <= _LONGEST]


def listen(data: Path) -> tuple[socket.socket, Path] | None:
    """Listen on the first usable socket path, replacing a stale socket; None if no path is usable."""
    for path in socket_paths(data):
        with suppress(OSError):  # a file system without sockets, or a missing folder
            path.parent.mkdir(mode=0o700, exist_ok=True)
            if is_private(path.parent):
                path.unlink(missing_ok=True)
                listener = socket.socket(socket.AF_UNIX)
                listener.bind(str(path))  # created 0600: every command sets the umask
                path.chmod(0o600)
                listener.listen(64)
                return listener, path
    return None


def is_private(folder: Path) -> bool:
    """Return whether a path is a folder, not a link to one, that only its owner can access."""
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def own_peer(end: socket.socket) -> int | None:
    """Return the id of the process at the other end, None if it is another user's; OSError if it is gone."""
    if sys.platform == "darwin":
        _, uid, _ = _DARWIN.unpack_from(end.getsockopt(0, 1, 76))  # LOCAL_PEERCRED of SOL_LOCAL
        (pid,) = struct.unpack("i", end.getsockopt(0, 2, 4))  # LOCAL_PEERPID
    else:
        pid, uid, _ = _LINUX.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _LINUX.size))
    return int(pid) if uid == os.getuid() else None


_ROOT = Path(__file__).parents[2]
# Environment variables that change answers: where models are found, when a day begins.
_NAMES = ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME", "TZ")


def identity(home: Home, environ: Mapping[str, str]) -> str:
    """Return a digest of home, settings and code; of code it reads modification times alone."""
    config = b""
    with suppress(OSError):
        config = home.config.read_bytes()
    installed = Path(msgspec.__file__).parents[1].stat().st_mtime_ns  # when a library was last installed or removed
    parts = (home.data, home.cache, home.config, config, *map(environ.get, _NAMES), code(_ROOT), installed)
    return blake2b(repr(parts).encode(), digest_size=16).hexdigest()


def code(root: Path) -> list[tuple[str, int, int]]:
    """Return a state that changes with the code in a folder: each file of a checkout, else the folder's own mtime.

    Installing changes the mtime of site-packages; editing a file of a checkout changes that of no folder.
    """
    if not (root / "pyproject.toml").exists():
        return [(str(root), root.stat().st_mtime_ns, 0)]
    folders = (found for package in ("cli", "engine", "store", "prompts") for found in os.walk(root / package))
    paths = [Path(folder, name) for folder, _, names in folders for name in names if name.endswith((".py", ".txt"))]
    return sorted((str(path), (found := path.stat()).st_mtime_ns, found.st_size) for path in paths)


SILENCE_S = 2.0  # a busy process sends a heartbeat four times as often
_END_S, _RETRY_S = 5.0, 0.005  # a process that holds gigabytes ends slowly


class ServerLink:
    """An open connection to the resident process; `hello` is its first frame."""

    def __init__(self, end: socket.socket, pid: int, lock: Path) -> None:
        """Wait for the first frame; `lock` is the file that the process keeps locked."""
        self._end, self._in, self.pid, self._lock = end, end.makefile("rb"), pid, Lease(lock)
        end.settimeout(SILENCE_S)
        self.hello = self.receive()

    def send(self, kind: str, values: Mapping[str, Any]) -> None:
        """Send a frame; Broken where it is not accepted or too long."""
        try:
            self._end.sendall(encode(kind, values))
        except TimeoutError:
            self._kill()
        except OSError:
            raise Broken from None

    def receive(self) -> Frame:
        """Return the next frame; Broken where the process ends, or is silent for too long and is killed."""
        try:
            return decode(self._in.readline(LIMIT))
        except TimeoutError:
            self._kill()
        except OSError:
            raise Broken from None

    def answers(self, on_beat: Callable[[], None] = lambda: None) -> Iterator[Frame]:
        """Yield the frames that come; a heartbeat calls `on_beat` instead."""
        while True:
            if (frame := self.receive())["kind"] != "beat":
                yield frame
            else:
                on_beat()

    def close(self) -> None:
        """Close the connection, which cancels the request in progress."""
        self._in.close()
        self._end.close()

    def _kill(self) -> NoReturn:
        """Kill a process that hangs, because it may hold a model; its home survives that."""
        with suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)
            until = time.monotonic() + _END_S
            # Its locks may be released after its sockets; only then can another process start.
            while self._lock.is_taken() and time.monotonic() < until:
                os.kill(self.pid, 0)
                time.sleep(_RETRY_S)
        raise Broken


def lock_of(home: Home) -> Path:
    """Return the file that the resident process keeps locked."""
    return home.locks / "serve.lock"


def connect(home: Home) -> ServerLink | None:
    """Connect to the resident process of a home, of any version; None if there is none, or another user's."""
    for path in socket_paths(home.data):
        end = socket.socket(socket.AF_UNIX)
        end.settimeout(SILENCE_S)
        with suppress(OSError, Broken):
            if is_private(path.parent):
                end.connect(str(path))
                if (pid := own_peer(end)) is not None:
                    return ServerLink(end, pid, lock_of(home))
        end.close()
    return None


TRIES = 3  # starts of a process that ends before it accepts connections
LOCK = 3  # the descriptor by which the started process inherits the lock


def start(opened: "Session") -> bool:
    """Start the resident process, unless one holds the lock; it inherits the lock, so that no second one can start."""
    lease = Lease(lock_of(opened.home))
    if not lease.acquire():
        return False
    null = [(os.POSIX_SPAWN_OPEN, descriptor, os.devnull, os.O_RDWR, 0) for descriptor in range(LOCK)]
    given = [(os.POSIX_SPAWN_DUP2, lease.inheritable(), LOCK)]
    words = [sys.executable, "-P", "-m", "cli.app", "serve", "--lock", str(LOCK)]
    environ = {**opened.environ, **opened.home.environ}
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_ROOT), environ.get("PYTHONPATH"))))
    if "PKB_THREADS" not in environ:  # this process set it for its own numpy
        environ.pop("OPENBLAS_NUM_THREADS", None)
    environ.pop("PKB_NOW", None)  # of a single question
    # The lock first: if a standard stream was closed, the lock's descriptor may be one of the three reopened.
    with suppress(OSError):  # no process or memory left: as if it had ended at once
        os.posix_spawn(sys.executable, words, environ, file_actions=[*given, *null])
    lease.release()
    return True


def stop(home: Home, timeout_s: float) -> bool:
    """Stop the process once its requests are answered; returns whether it ended in time."""
    if link := connect(home):
        with suppress(Broken), closing(link):
            link.send("stop", {})
    lease, until = Lease(lock_of(home)), time.monotonic() + timeout_s
    while lease.is_taken():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True
