"""The connections of a resident process: who is at the other end, what came of them, what is still to be sent.

Nobody is waited for. Knows frames, and the job that a caller waits for only as something to be given up with it.
"""

import os
import selectors
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cli.daemon.address import peer
from cli.daemon.wire import Broken, Frame, Frames, encode

if TYPE_CHECKING:
    from cli.daemon.turns import Job

_BYTES = 1 << 16
_MOST = 16 << 20  # bytes that wait for a caller who does not read them


@dataclass(slots=True, eq=False)
class Caller:
    """A connection: what came in part, what is still to be sent, and the job that it waits for."""

    end: socket.socket
    frames: Frames = field(default_factory=Frames)
    out: bytearray = field(default_factory=bytearray)
    job: "Job | None" = None


class Callers:
    """All connections, watched by a selector."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector, self._all = selector, set[Caller]()

    def __iter__(self) -> Iterator[Caller]:
        return iter(list(self._all))

    def __contains__(self, caller: object) -> bool:
        return caller in self._all

    def waiting(self) -> list[Caller]:
        """Give those that wait for a job."""
        return [one for one in self._all if one.job]

    def accept(self, listener: socket.socket) -> Caller | None:
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
        caller = Caller(end)
        self._all.add(caller)
        self._selector.register(end, selectors.EVENT_READ, caller)
        return caller

    def talk(self, caller: Caller, events: int) -> list[Frame]:
        """Send what waits, and give the frames that came; one that hangs up or speaks nonsense is forgotten."""
        try:
            if events & selectors.EVENT_WRITE:
                self._flush(caller)
            if events & selectors.EVENT_READ:
                if data := caller.end.recv(_BYTES):
                    return caller.frames.feed(data)
                self.drop(caller)
        except BlockingIOError:
            pass
        except (OSError, Broken):
            self.drop(caller)
        return []

    def send(self, caller: Caller, kind: str, values: Mapping[str, Any]) -> None:
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

    def drop(self, caller: Caller) -> None:
        """Forget a caller, and with it what is being done for it."""
        if caller in self._all:
            self._all.remove(caller)
            self._selector.unregister(caller.end)
            caller.end.close()
            if caller.job and not caller.job.answered:
                caller.job.cancelled = True

    def _flush(self, caller: Caller) -> None:
        try:
            while caller.out:
                del caller.out[: caller.end.send(caller.out)]
        finally:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if caller.out else 0)
            self._selector.modify(caller.end, events, caller)
