"""A command's end of the connection to the resident process of its home. Knows frames, and not what they ask for."""

import os
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.daemon.address import announced, peer
from cli.daemon.wire import Broken, Frame, Frames, encode
from store.locks import Lease

if TYPE_CHECKING:
    from store.home import Home

SILENCE_S = 2.0  # a process that works says so four times as often
_BYTES = 1 << 16
_END_S, _NAP_S = 5.0, 0.005  # a process that holds gigabytes may take its time to end


class Lost(Exception):
    """The process at the other end is gone, or hangs."""


class Link:
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
            raise Lost from None

    def receive(self) -> Frame:
        """Give the next frame; Lost where the connection ends, or nothing is said for too long: then it is ended."""
        while not self._waiting:
            try:
                data = self._end.recv(_BYTES)
                self._waiting = self._frames.feed(data)
            except TimeoutError:
                self._kill()
            except (OSError, Broken):
                raise Lost from None
            if not data:
                raise Lost
        return self._waiting.pop(0)

    def answers(self) -> Iterator[Frame]:
        """Give the frames that answer what was sent, without those that only say that it is being worked on."""
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
                time.sleep(_NAP_S)
        raise Lost


def lock_of(home: "Home") -> Path:
    """Give the file whose lock the resident process holds as long as it lives."""
    return home.locks / "serve.lock"


def record_of(home: "Home") -> Path:
    """Give the file that says where the resident process listens."""
    return home.locks / "serve.json"


def connect(home: "Home") -> Link | None:
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
            return Link(end, found.pid, lock_of(home))
    except (OSError, Lost):
        pass
    end.close()
    return None
