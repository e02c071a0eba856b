"""The resident process: accepts connections, queues their requests, sends the results, and stops when idle.

One thread serves all connections. Knows frames but not questions.
"""

import os
import selectors
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from queue import SimpleQueue
from typing import Any

from engine.serve.process import Broken, Frame, Frames, encode, own_peer
from engine.serve.worker import QueuedRequest, RequestQueue
from store.locks import Lease

_RECV_BYTES = 1 << 16
_MAX_UNSENT = 16 << 20  # bytes, for a client that does not read them


@dataclass(slots=True, eq=False)
class Connection:
    """A connection: its partial input, its unsent output, and the request that it waits for."""

    end: socket.socket
    frames: Frames = field(default_factory=Frames)
    out: bytearray = field(default_factory=bytearray)
    job: "QueuedRequest | None" = None


class Connections:
    """All connections, watched by a selector."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector, self._all = selector, set[Connection]()

    def __iter__(self) -> Iterator[Connection]:
        return iter(list(self._all))

    def __contains__(self, caller: object) -> bool:
        return caller in self._all

    def waiting(self) -> list[Connection]:
        """Return those that wait for a request."""
        return [one for one in self._all if one.job]

    def accept(self, listener: socket.socket) -> Connection | None:
        """Accept a connection; None if it is closed again, or another user's."""
        try:
            end, _ = listener.accept()
        except OSError:
            return None
        pid = None
        with suppress(OSError):
            pid = own_peer(end)
        if pid is None:
            end.close()
            return None
        end.setblocking(False)
        caller = Connection(end)
        self._all.add(caller)
        self._selector.register(end, selectors.EVENT_READ, caller)
        return caller

    def talk(self, caller: Connection, events: int) -> list[Frame]:
        """Send pending output and return the frames received; a closed or malformed connection is dropped."""
        try:
            if events & selectors.EVENT_WRITE:
                self._flush(caller)
            if events & selectors.EVENT_READ:
                if data := caller.end.recv(_RECV_BYTES):
                    return caller.frames.feed(data)
                self.drop(caller)
        except BlockingIOError:
            pass
        except (OSError, Broken):
            self.drop(caller)
        return []

    def send(self, caller: Connection, kind: str, values: Mapping[str, Any]) -> None:
        """Send a frame, now or once the client reads; one that reads nothing for too long is dropped."""
        try:
            caller.out += encode(kind, values)
            self._flush(caller)
        except BlockingIOError:
            pass
        except (OSError, Broken):
            self.drop(caller)
        if len(caller.out) > _MAX_UNSENT:
            self.drop(caller)

    def drop(self, caller: Connection) -> None:
        """Close a connection and cancel its request."""
        if caller in self._all:
            self._all.remove(caller)
            self._selector.unregister(caller.end)
            caller.end.close()
            if caller.job and not caller.job.answered:
                caller.job.cancelled = True

    def _flush(self, caller: Connection) -> None:
        try:
            while caller.out:
                del caller.out[: caller.end.send(caller.out)]
        finally:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if caller.out else 0)
            self._selector.modify(caller.end, events, caller)


_BEAT_S = 0.5  # between heartbeats; a client waits four times as long before it takes this process for hung
_POLL_S = 2.0  # between checks whether to stop, while idle
_GRACE_S = 3.0  # for the current request after a signal
_SOON_S = 0.2  # for the current warm-up: the next question may be waiting for the lock
_BYTES = 1 << 16
_JOBS = ("ask", "call", "idle", "ahead")
_Sent = tuple[Connection, str, Mapping[str, Any]]


class Server:
    """The server process: it exits when stopped, idle for too long, over its memory limit, or without its lock."""

    def __init__(
        self, listener: socket.socket, lease: Lease, environ: Mapping[str, str], identity: str, idle_s: float | None
    ) -> None:
        """Serve an environment; `idle_s` are the idle seconds after which the process stops, None for never."""
        self._listener, self._lease, self._idle_s = listener, lease, idle_s
        self._hello = {"identity": identity, "version": version("pkb")}
        self._selector = selectors.DefaultSelector()
        self._connections = Connections(self._selector)
        self._outbox: SimpleQueue[_Sent | None] = SimpleQueue()
        self._wake, self._woken = socket.socketpair()
        self._requests = RequestQueue(environ, partial(self._post, None))
        self._since, self._last, self._last_heartbeat = time.time(), time.monotonic(), 0.0
        self._stopping = False
        self._quit_at: float | None = None

    def run(self) -> bool:
        """Serve; pending requests are answered before it stops, unless a signal ends it. False after a bug."""
        for end in (self._listener, self._woken):
            end.setblocking(False)
            self._selector.register(end, selectors.EVENT_READ)
        self._wake.setblocking(False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._quit)
        self._requests.start()
        while self._requests.is_alive():
            late = self._quit_at is not None and time.monotonic() - self._quit_at > _GRACE_S
            if late or (self._stopping and not self._busy() and not self._has_pending()):
                break
            self._step()
        sound = self._requests.is_alive() or self._requests.sound
        self._requests.end()
        self._requests.join(_GRACE_S if self._requests.running else _SOON_S)
        return sound

    def _busy(self) -> bool:
        return bool(self._connections.waiting()) or not self._outbox.empty()

    def _has_pending(self) -> bool:
        """Return whether output is unsent, within the grace period."""
        return time.monotonic() - self._last < _GRACE_S and any(caller.out for caller in self._connections)

    def _quit(self, *_: object) -> None:
        """Stop as soon as the current request can be cancelled."""
        self._quit_at = time.monotonic()
        self._requests.end()
        self._wake_up()

    def _step(self) -> None:
        for key, events in self._selector.select(_BEAT_S if self._busy() or self._has_pending() else _POLL_S):
            if key.fileobj is self._listener:
                if caller := self._connections.accept(self._listener):
                    self._connections.send(caller, "hello", self._hello)
            elif key.fileobj is self._woken:
                self._woken.recv(_BYTES)
            elif key.data in self._connections:
                for frame in self._connections.talk(key.data, events):
                    if key.data in self._connections:  # the frame before may have dropped it
                        self._handle(key.data, frame)
        self._deliver()
        self._send_heartbeats()
        self._stop_if_due()

    def _handle(self, caller: Connection, frame: Frame) -> None:
        """Handle a frame at once or queue it; a connection that sends an unknown one is dropped."""
        kind = frame["kind"]
        if kind in _JOBS and caller.job is None and not self._stopping:
            caller.job = QueuedRequest(frame, lambda kind, values: self._post((caller, kind, values)))
            self._requests.add(caller.job)
        elif kind == "ahead" and caller.job and caller.job.frame["kind"] == kind:
            caller.job.frame = frame  # more is typed
        elif kind == "status":
            self._connections.send(caller, "status", self._status())
        elif kind == "stop":
            self._begin_stop()
        else:
            self._connections.drop(caller)

    def _status(self) -> dict[str, Any]:
        from engine.models.runtime import resident

        made = {"pid": os.getpid(), "version": self._hello["version"], "since": self._since}
        done = {"jobs": len(self._connections.waiting()), "answered": self._requests.answered}
        return made | done | {"model": self._requests.model, "memory": resident()}

    def _post(self, sent: _Sent | None) -> None:
        self._outbox.put(sent)
        self._wake_up()

    def _wake_up(self) -> None:
        with suppress(BlockingIOError):  # full: the thread wakes anyway
            self._wake.send(b"!")

    def _deliver(self) -> None:
        while not self._outbox.empty():
            if (sent := self._outbox.get()) is not None and sent[0] in self._connections:
                caller, kind, values = sent
                caller.job = caller.job if kind == "piece" else None
                self._connections.send(caller, kind, values)

    def _send_heartbeats(self) -> None:
        if time.monotonic() - self._last_heartbeat >= _BEAT_S:
            self._last_heartbeat = time.monotonic()
            for caller in self._connections.waiting():
                if not caller.out:
                    self._connections.send(caller, "beat", {})

    def _stop_if_due(self) -> None:
        """Stop if idle for too long, too large, or without the lock."""
        if self._busy():
            self._last = time.monotonic()
        idle = self._idle_s is not None and time.monotonic() - self._last > self._idle_s
        if not self._stopping and (idle or self._requests.large or self._lease.lost):
            self._begin_stop()

    def _begin_stop(self) -> None:
        """Accept no more requests: the next client starts another process."""
        self._stopping, self._last = True, time.monotonic()
        for caller in self._connections.waiting():
            if caller.job and caller.job.is_idle:
                caller.job.cancelled = True
        if self._listener.fileno() >= 0:
            self._selector.unregister(self._listener)
            self._listener.close()
