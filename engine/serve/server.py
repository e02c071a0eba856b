"""The resident process: accepts connections, queues their requests, sends the results, and stops when idle.

One thread serves all connections. Knows frames but not questions.
"""

import asyncio
import os
import signal
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from math import inf
from typing import Any

from engine.serve.process import HEAD, Broken, Frame, decode, encode, length_of, own_peer
from engine.serve.worker import QueuedRequest, RequestQueue
from store.locks import Lease

_MAX_UNSENT = 16 << 20  # bytes, for a client that does not read them
_BEAT_S = 0.5  # between heartbeats; a client waits four times as long before it takes this process for hung
_POLL_S = 2.0  # between checks whether to stop, while idle
_GRACE_S = 3.0  # for the current request after a signal
_SOON_S = 0.2  # for the current warm-up: the next question may be waiting for the lock
_JOBS = ("ask", "call", "idle", "ahead")


@dataclass(slots=True, eq=False)
class Connection:
    """A connection, and the request that it waits for."""

    out: asyncio.StreamWriter
    job: QueuedRequest | None = None

    @property
    def unsent(self) -> int:
        """Return the bytes that its client has not read yet."""
        return self.out.transport.get_write_buffer_size()


class Server:
    """The server process: it exits when stopped, idle for too long, over its memory limit, or without its lock."""

    def __init__(
        self, listener: socket.socket, lease: Lease, environ: Mapping[str, str], identity: str, idle_s: float | None
    ) -> None:
        """Serve an environment; `idle_s` are the idle seconds after which the process stops, None for never."""
        self._listener, self._lease, self._idle_s = listener, lease, idle_s
        self._hello = {"identity": identity, "version": version("pkb")}
        self._connections, self._changed = set[Connection](), asyncio.Event()
        self._requests = RequestQueue(environ, partial(self._from_thread, self._changed.set))
        self._since, self._last, self._last_heartbeat = time.time(), time.monotonic(), 0.0
        self._stopping, self._quit_at = False, inf
        self._bug: BaseException | None = None  # in what serves a connection: it ends the process

    def run(self) -> bool:
        """Serve; pending requests are answered before it stops, unless a signal ends it. False after a bug."""
        return asyncio.run(self._run())

    async def _run(self) -> bool:
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._note_bug)
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._quit)
        self._accepting = await asyncio.start_unix_server(self._talk, sock=self._listener)
        self._requests.start()
        while self._requests.is_alive() and time.monotonic() < self._quit_at + _GRACE_S:
            waits = self._busy() or self._has_pending()
            if self._stopping and not waits:
                break
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), _BEAT_S if waits else _POLL_S)
            self._changed.clear()
            if self._bug:
                raise self._bug
            self._send_heartbeats()
            self._stop_if_due()
        sound = self._requests.is_alive() or self._requests.sound
        self._requests.end()
        self._requests.join(_GRACE_S if self._requests.running else _SOON_S)
        return sound

    def _note_bug(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._bug = context.get("exception") or RuntimeError(context["message"])
        self._changed.set()

    def _busy(self) -> bool:
        return any(one.job for one in self._connections)

    def _has_pending(self) -> bool:
        """Return whether output is unsent, within the grace period."""
        return time.monotonic() - self._last < _GRACE_S and any(one.unsent for one in self._connections)

    def _quit(self) -> None:
        """Stop as soon as the current request can be cancelled."""
        self._quit_at = time.monotonic()
        self._requests.end()
        self._changed.set()

    async def _talk(self, reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        """Serve a connection until it is closed or malformed; none of another user."""
        caller, pid = Connection(out), None
        with suppress(OSError):
            pid = own_peer(out.get_extra_info("socket"))
        if pid is None:
            out.transport.abort()
            return
        self._connections.add(caller)
        self._send(caller, "hello", self._hello)
        try:
            while caller in self._connections:  # a frame may have dropped it
                head = await reader.readexactly(HEAD)
                self._handle(caller, decode(await reader.readexactly(length_of(head))))
                self._changed.set()
        except (OSError, EOFError, Broken):
            pass
        finally:
            self._drop(caller)

    def _handle(self, caller: Connection, frame: Frame) -> None:
        """Handle a frame at once or queue it; a connection that sends an unknown one is dropped."""
        kind = frame["kind"]
        if kind in _JOBS and caller.job is None and not self._stopping:
            caller.job = QueuedRequest(frame, partial(self._from_thread, self._deliver, caller))
            self._requests.add(caller.job)
        elif kind == "ahead" and caller.job and caller.job.frame["kind"] == kind:
            caller.job.frame = frame  # more is typed
        elif kind == "status":
            self._send(caller, "status", self._status())
        elif kind == "stop":
            self._begin_stop()
        else:
            self._drop(caller)

    def _send(self, caller: Connection, kind: str, values: Mapping[str, Any]) -> None:
        """Send a frame, now or once the client reads; one that reads nothing for too long is dropped."""
        if caller in self._connections:
            try:
                caller.out.write(encode(kind, values))
            except Broken:
                self._drop(caller)
            if caller.unsent > _MAX_UNSENT:
                self._drop(caller)

    def _drop(self, caller: Connection) -> None:
        """Close a connection and cancel its request."""
        if caller in self._connections:
            self._connections.remove(caller)
            caller.out.transport.abort()
            if caller.job and not caller.job.answered:
                caller.job.cancelled = True
            self._changed.set()

    def _status(self) -> dict[str, Any]:
        from engine.models.runtime import resident

        made = {"pid": os.getpid(), "version": self._hello["version"], "since": self._since}
        done = {"jobs": sum(one.job is not None for one in self._connections), "answered": self._requests.answered}
        return made | done | {"model": self._requests.model, "memory": resident()}

    def _deliver(self, caller: Connection, kind: str, values: Mapping[str, Any]) -> None:
        caller.job = caller.job if kind == "piece" else None
        self._send(caller, kind, values)
        self._changed.set()

    def _from_thread(self, call: Any, *given: Any) -> None:
        """Have a function called by the thread that serves the connections, unless that has ended."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call, *given)

    def _send_heartbeats(self) -> None:
        if time.monotonic() - self._last_heartbeat >= _BEAT_S:
            self._last_heartbeat = time.monotonic()
            for caller in [one for one in self._connections if one.job and not one.unsent]:
                self._send(caller, "beat", {})

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
        for caller in self._connections:
            if caller.job and caller.job.is_idle:
                caller.job.cancelled = True
        self._accepting.close()
