"""KV nodes from another place: which of a path it has, and their files, verified and within a time.

Whatever the other side does, an answer costs at most the time allowed, and a wrong one is a miss. Knows no protocol:
a `RemoteSource` fetches the bytes. Stores nothing.
"""

import re
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from http.client import HTTPException
from io import BytesIO
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Protocol, TypeVar

from store.errors import PkbError
from store.kv_files import BadNode, Header, Key, Tensor, TreeRoot, child_key, verify
from store.types import replace

T = TypeVar("T")
ANSWER_S = 0.3  # to connect and to learn what is there
PAUSE_S = 60.0  # in which a side that failed is left alone
_RECENT, _RECENT_S = 8, 600.0  # requests, and seconds, from which the time of the next is expected
MOST_KEYS = 1024  # of one question
MOST_BYTES = 1 << 30  # of a node
# What networks, libraries and hostile bytes raise; anything else is a bug, and a miss as well.
FAILURES = (OSError, HTTPException, ValueError, LookupError, TypeError, RuntimeError, ImportError, MemoryError)
_HARMLESS = ("absent", "cancelled")
_SILENT_S = ANSWER_S  # of fetches in a row that were cancelled before any byte came, after which a side counts as late


class RemoteMiss(Exception):
    """A node that could not be had; `reason` is one word.

    absent: not there any more; late: not within the time; cancelled; unreachable: no connection, or it broke; refused:
    no answer of the protocol; damaged: not the node that was wanted.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class RemoteCall:
    """One request, which another thread may end at any time."""

    def __init__(self) -> None:
        self._lock, self._ended = Lock(), ""
        self._close: Callable[[], object] = lambda: None
        self.received = 0  # bytes so far

    def guard(self, close: Callable[[], object]) -> None:
        """Have `close` called when the request is ended; RemoteMiss if it was."""
        with self._lock:
            self._close = close
            ended = self._ended
        if ended:
            close()
            raise RemoteMiss(ended)

    def check(self) -> None:
        """Raise RemoteMiss if the request was ended."""
        if self._ended:
            raise RemoteMiss(self._ended)

    def end(self, reason: str) -> None:
        """End the request; whatever it waits for is closed."""
        with self._lock:
            self._ended = self._ended or reason
            close = self._close
        close()


class RemoteSource(Protocol):
    """A place that has nodes. `sizes` and `read` may raise RemoteMiss, or whatever libraries raise."""

    def sizes(self, keys: Sequence[Key], call: RemoteCall) -> Sequence[int]:
        """Return the bytes of the files of nodes, 0 for one that is not there."""

    def read(self, key: Key, size: int, call: RemoteCall) -> BytesIO:
        """Return a node's file of `size` bytes."""


@dataclass(frozen=True, slots=True)
class FetchedNode:
    """A node's file in memory, verified."""

    header: Header
    file: BytesIO

    @property
    def tensors(self) -> list[Tensor]:
        """Return its tensors, without a copy."""
        data, first = self.file.getbuffer(), len(self.file.getbuffer()) - self.header.payload_bytes
        return [
            Tensor(one.name, one.dtype, one.shape, data[first + one.begin : first + one.end])
            for one in self.header.payloads
        ]


# Times, amounts and the seconds that they took: a few, and none that is old, so that a link that changes is noticed.
_Recent = deque[tuple[float, float, float]]


def _rate(recent: _Recent, now: float) -> float | None:
    """Return the amount in a second; None where nothing is known."""
    seen = [(amount, seconds) for at, amount, seconds in recent.copy() if now - at < _RECENT_S]
    amount, seconds = sum(one for one, _ in seen), sum(one for _, one in seen)
    return amount / seconds if amount and seconds else None


class Remote:
    """The nodes of another place, for any number of threads. After a failure it is left alone for a while."""

    def __init__(self, source: RemoteSource, now: Callable[[], float] = time.monotonic) -> None:
        """`now` returns seconds of a clock that never goes back."""
        self._source, self._now = source, now
        self._lock, self._calls, self._cancelled = Lock(), dict[RemoteCall, SimpleQueue[object]](), False
        self._alone_until, self._silent_s = now(), 0.0
        self.last_failure = ""
        self.last_miss = ""  # why the last `find` has no answer; empty where it has one
        self._answers, self._transfers = _Recent(maxlen=_RECENT), _Recent(maxlen=_RECENT)

    @property
    def is_available(self) -> bool:
        """Return whether the other side would be asked now."""
        return self._now() >= self._alone_until

    @property
    def latency(self) -> float | None:
        """Return the average seconds of recent round trips; None if there were none."""
        rate = _rate(self._answers, self._now())
        return rate and 1 / rate

    @property
    def rate(self) -> float | None:
        """Return the bytes that came in a second of late, on average; None where none did."""
        return _rate(self._transfers, self._now())

    def find(self, keys: Sequence[Key], within_s: float = ANSWER_S) -> Sequence[int]:
        """Return the bytes of the files of nodes, 0 for one that is not there; empty without an answer.

        Ends an earlier `cancel`.
        """
        self._cancelled = False
        self.last_miss = "" if self.is_available else self.last_failure or "unreachable"
        if not keys or self.last_miss:
            return ()
        wanted = keys[:MOST_KEYS]
        try:
            sizes, seconds = self._run(
                RemoteCall(), within_s, lambda call: _checked(self._source.sizes(wanted, call), len(wanted))
            )
        except RemoteMiss as miss:
            self.last_miss = miss.reason
            return ()
        self._answers.append((self._now(), 1, seconds))
        return sizes

    def fetch(self, expected: Header, size: int, within_s: float) -> FetchedNode:
        """Return the node of a header, of a size that `find` told, within some seconds; RemoteMiss."""
        if not self.is_available:
            raise RemoteMiss("unreachable")
        call, begun = RemoteCall(), self._now()

        def work(call: RemoteCall) -> tuple[Header, BytesIO]:
            file = self._source.read(expected.key, size, call)
            header = verify(file)
            if replace(header, payloads=()) != replace(expected, payloads=()):
                raise BadNode("mismatch")
            return header, file

        try:
            (header, file), _ = self._run(call, within_s, work)
        except RemoteMiss as miss:
            if miss.reason == "cancelled" and not call.received:
                # It tells what it has, and sends nothing of it before all was computed.
                self._silent_s += self._now() - begun
                if self._silent_s >= _SILENT_S:
                    self._silent_s = 0.0
                    self._note("late")
            raise
        finally:
            self._transfers.append((self._now(), call.received, self._now() - begun))
        self._silent_s = 0.0
        return FetchedNode(header, file)

    def cancel(self) -> None:
        """End all requests that run in other threads, and refuse further ones until the next `find`."""
        with self._lock:
            self._cancelled = True
            running = list(self._calls.items())
        for call, answers in running:
            answers.put(RemoteMiss("cancelled"))
            call.end("cancelled")

    def _run(self, call: RemoteCall, within_s: float, work: Callable[[RemoteCall], T]) -> tuple[T, float]:
        """Run a request on its own thread, since nothing else bounds a name lookup; returns its result and seconds."""
        begun, answers = self._now(), SimpleQueue[object]()
        with self._lock:
            if self._cancelled:
                raise RemoteMiss("cancelled")
            self._calls[call] = answers
        done = list[T]()
        found: object
        try:
            Thread(target=_answer, args=(work, call, answers, done), name="kv remote", daemon=True).start()
            found = answers.get(timeout=max(0.0, within_s))
        except Empty:
            found = RemoteMiss("late")
        except RuntimeError:  # no thread can be started
            found = RemoteMiss("unreachable")
        finally:
            with self._lock:
                del self._calls[call]
            if not done:
                call.end("late")
        if isinstance(found, RemoteMiss):
            self._note(found.reason)
            raise RemoteMiss(found.reason)
        return done[0], self._now() - begun

    def _note(self, reason: str) -> None:
        if reason not in _HARMLESS:
            with self._lock:
                self._alone_until, self.last_failure = self._now() + PAUSE_S, reason


def _answer(work: Callable[[RemoteCall], T], call: RemoteCall, answers: SimpleQueue[object], done: list[T]) -> None:
    found: object = RemoteMiss("refused")
    try:
        done.append(work(call))
        found = None
    except RemoteMiss as miss:
        found = miss
    except BadNode:
        found = RemoteMiss("damaged")
    except (PkbError, OSError):
        found = RemoteMiss("unreachable")  # or a peer or a key is not there: `pkb doctor` says so
    except FAILURES:
        pass
    finally:
        answers.put(found)


def headers_of(root: TreeRoot, segments: Sequence[Sequence[int]]) -> list[Header]:
    """Return the header that the node of each segment must have: their keys to find, themselves to fetch."""
    headers, above = list[Header](), root
    for ids in segments:
        here = TreeRoot(child_key(above.key, ids), child_key(above.path, ids))
        headers.append(Header(root.key, here.key, above.key, here.path, tuple(ids)))
        above = here
    return headers


def _checked(sizes: Sequence[int], most: int) -> tuple[int, ...]:
    if len(sizes) > most or any(type(one) is not int or not 0 <= one <= MOST_BYTES for one in sizes):
        raise RemoteMiss("refused")
    return tuple(sizes)


def masked(url: str) -> str:
    """Return a URL without user, password and query, any of which may be a credential: fit to be shown."""
    return re.sub(r"\?[^#]*", "?***", re.sub(r"://.*@", "://***@", url))


@lru_cache(maxsize=8)
def open_remote(url: str, folder: Path) -> Remote:
    """Return the place that `kv.remote` names, one object per process, which knows how fast it was.

    `folder` holds the keys. Nothing is contacted, and what is wrong with either shows as misses.
    """
    return Remote(source_of(url, folder))


def source_of(url: str, folder: Path) -> RemoteSource:
    """Return a function that fetches bytes from a URL, which is read at the first request."""
    from store.peers import PeerBook, PeerSource, parse_address

    return PeerSource(lambda: parse_address(url), PeerBook(folder))
