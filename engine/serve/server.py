"""The resident process: takes what callers ask for, hands it to its turns, sends what comes, and knows when to leave.

One thread for all callers; it knows frames, and nothing of questions.
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
from queue import SimpleQueue
from typing import Any

from engine.serve.process import peer
from engine.serve.protocol import Broken, Frame, Frames, encode
from engine.serve.worker import QueuedRequest, RequestQueue
from store.locks import Lease

_RECV_BYTES = 1 << 16
_MOST = 16 << 20  # bytes that wait for a caller who does not read them


@dataclass(slots=True, eq=False)
class Connection:
    """A connection: what came in part, what is still to be sent, and the job that it waits for."""

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
        """Return those that wait for a job."""
        return [one for one in self._all if one.job]

    def accept(self, listener: socket.socket) -> Connection | None:
        """Take a connection; None where it is gone again, or another user's."""
        try:
            end, _ = listener.accept()
        except OSError:
            return None
        try:
            ours = peer(end).uid == os.getuid()
        except OSError:
            ours = False
        if not ours:
            end.close()
            return None
        end.setblocking(False)
        caller = Connection(end)
        self._all.add(caller)
        self._selector.register(end, selectors.EVENT_READ, caller)
        return caller

    def talk(self, caller: Connection, events: int) -> list[Frame]:
        """Send what waits, and give the frames that came; one that hangs up or speaks nonsense is forgotten."""
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
        """Send a frame, now or as soon as the other end takes it; one that takes nothing for too long is forgotten."""
        try:
            caller.out += encode(kind, values)
            self._flush(caller)
        except BlockingIOError:
            pass
        except (OSError, Broken):
            self.drop(caller)
        if len(caller.out) > _MOST:
            self.drop(caller)

    def drop(self, caller: Connection) -> None:
        """Forget a caller, and with it what is being done for it."""
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


_BEAT_S = 0.5  # a caller waits four times as long before it thinks that this process hangs
_POLL_S = 2.0  # between two looks at whether to stay, while nobody asks
_GRACE_S = 3.0  # for what is being done when a signal comes
_SOON_S = 0.2  # for what is only being made ready: whoever asks next may wait for that to end
_BYTES = 1 << 16
_JOBS = ("ask", "complete", "idle", "release")
_Sent = tuple[Connection, str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """What the process says of itself, and when it leaves: seconds without a job, None never."""

    identity: str
    version: str
    idle_s: float | None


class Server:
    """Runs until it is told to stop, is idle for too long, takes too much memory, or has lost its lock."""

    def __init__(self, listener: socket.socket, lease: Lease, about: ProcessInfo, environ: Mapping[str, str]) -> None:
        self._listener, self._lease, self._about = listener, lease, about
        self._selector = selectors.DefaultSelector()
        self._callers = Connections(self._selector)
        self._mail: SimpleQueue[_Sent | None] = SimpleQueue()
        self._wake, self._woken = socket.socketpair()
        self._requests = RequestQueue(environ, partial(self._post, None))
        self._since, self._last, self._beaten = time.time(), time.monotonic(), 0.0
        self._leaving = False
        self._quit_at: float | None = None

    def run(self) -> bool:
        """Serve; who waits for an answer when it leaves gets it, unless a signal ends it. False after a bug."""
        for end in (self._listener, self._woken):
            end.setblocking(False)
            self._selector.register(end, selectors.EVENT_READ)
        self._wake.setblocking(False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._quit)
        self._requests.start()
        while self._requests.is_alive() and not self._is_done():
            self._step()
        sound = self._requests.is_alive() or self._requests.sound
        self._requests.end()
        self._requests.join(_GRACE_S if self._requests.works else _SOON_S)
        return sound

    def _is_done(self) -> bool:
        late = self._quit_at is not None and time.monotonic() - self._quit_at > _GRACE_S
        return late or (self._leaving and not self._busy() and not self._has_pending())

    def _busy(self) -> bool:
        return bool(self._callers.waiting()) or not self._mail.empty()

    def _has_pending(self) -> bool:
        """Return whether a caller has yet to take what was sent to it, and is not too slow."""
        return time.monotonic() - self._last < _GRACE_S and any(caller.out for caller in self._callers)

    def _quit(self, *_: object) -> None:
        """Leave as soon as what is being done can be broken off."""
        self._quit_at = time.monotonic()
        self._requests.end()
        self._nudge()

    def _step(self) -> None:
        for key, events in self._selector.select(_BEAT_S if self._busy() or self._has_pending() else _POLL_S):
            if key.fileobj is self._listener:
                if caller := self._callers.accept(self._listener):
                    self._callers.send(caller, "hello", self._hello())
            elif key.fileobj is self._woken:
                self._woken.recv(_BYTES)
            elif key.data in self._callers:
                for frame in self._callers.talk(key.data, events):
                    if key.data in self._callers:  # still: the frame before may have been one too many
                        self._take(key.data, frame)
        self._deliver()
        self._beat()
        self._consider()

    def _hello(self) -> dict[str, Any]:
        return {"identity": self._about.identity, "version": self._about.version}

    def _take(self, caller: Connection, frame: Frame) -> None:
        """Do at once what a frame asks for, or put it among the jobs; who asks for what there is not is forgotten."""
        kind = frame["kind"]
        if kind in _JOBS and caller.job is None and not self._leaving:
            caller.job = QueuedRequest(frame, partial(self._post_to, caller))
            self._requests.add(caller.job)
        elif kind == "status":
            self._callers.send(caller, "status", self._status())
        elif kind == "stop":
            self._leave()
        else:
            self._callers.drop(caller)

    def _status(self) -> dict[str, Any]:
        from engine.models.memory import resident

        made = {"pid": os.getpid(), "version": self._about.version, "since": self._since}
        done = {"jobs": len(self._callers.waiting()), "answered": self._requests.answered}
        return made | done | {"model": self._requests.model, "memory": resident()}

    def _post_to(self, caller: Connection, kind: str, values: Mapping[str, Any]) -> None:
        """Have a frame sent by the thread that sends; any thread may."""
        self._post((caller, kind, values))

    def _post(self, sent: _Sent | None) -> None:
        self._mail.put(sent)
        self._nudge()

    def _nudge(self) -> None:
        with suppress(BlockingIOError):  # full: it will look anyway
            self._wake.send(b"!")

    def _deliver(self) -> None:
        while not self._mail.empty():
            if (sent := self._mail.get()) is not None and sent[0] in self._callers:
                caller, kind, values = sent
                caller.job = caller.job if kind == "piece" else None
                self._callers.send(caller, kind, values)

    def _beat(self) -> None:
        """Tell those who wait that their job is not forgotten."""
        if time.monotonic() - self._beaten >= _BEAT_S:
            self._beaten = time.monotonic()
            for caller in self._callers.waiting():
                if not caller.out:
                    self._callers.send(caller, "beat", {})

    def _consider(self) -> None:
        """Leave where nothing speaks for staying."""
        if self._busy():
            self._last = time.monotonic()
        idle = self._about.idle_s is not None and time.monotonic() - self._last > self._about.idle_s
        if not self._leaving and (idle or self._requests.large or self._lease.lost):
            self._leave()

    def _leave(self) -> None:
        """Take no more questions: whoever asks from now on starts another process."""
        self._leaving, self._last = True, time.monotonic()
        for caller in self._callers.waiting():
            if caller.job and caller.job.is_idle:
                caller.job.cancelled = True
        if self._listener.fileno() >= 0:
            self._selector.unregister(self._listener)
            self._listener.close()
