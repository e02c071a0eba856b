"""KV nodes from another place: which of a path it has, and their files, verified and within a time.

Whatever the other side does, an answer costs at most the time allowed, and a wrong one is a miss. Knows no protocol:
a source fetches the bytes. Stores nothing. Where the link is slow, nodes come rounded: `rounded`, `restored`.
"""

import re
import time
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from http.client import HTTPException
from io import BytesIO
from math import inf, sqrt
from pathlib import Path
from threading import Lock, Thread
from typing import Any, BinaryIO, TypeVar

from store.errors import PkbError
from store.kv_files import BadNode, Header, Key, Tensor, TreeRoot, child_key, verify, write_to
from store.types import replace

T = TypeVar("T")
ANSWER_S = 0.3  # to connect and to learn what is there
PAUSE_S = 60.0  # in which a side that failed is left alone
_RECENT, _RECENT_S = 8, 600.0  # requests, and seconds, from which the time of the next is expected
MOST_KEYS = 1024  # of one question
MOST_BYTES = 1 << 30  # of a node
# What networks, libraries and hostile bytes raise; anything else is a bug, and a miss as well.
FAILURES = (OSError, HTTPException, ValueError, LookupError, TypeError, RuntimeError, ImportError, MemoryError)


class RemoteMiss(Exception):
    """A node that could not be had; the message is a reason of one word.

    absent: not there any more; late: not within the time; cancelled; unreachable: no connection, or it broke; refused:
    no answer of the protocol; damaged: not the node that was wanted.
    """


class RemoteCall:
    """One request, which another thread may end at any time."""

    def __init__(self) -> None:
        self._lock, self._ended = Lock(), ""
        self._close: Callable[[], object] = lambda: None
        self.received = 0  # bytes of the node so far
        self.sent = 0  # bytes that it took to send them, where they are fewer

    def guard(self, close: Callable[[], object]) -> None:
        """Have `close` called when the request is ended; RemoteMiss if it was."""
        with self._lock:
            self._close = close
        if self._ended:
            close()
        self.check()

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


@dataclass(frozen=True, slots=True)
class FetchedNode:
    """A node's file in memory, verified; bytes that came, and the error of its numbers, a share of their spread."""

    header: Header
    file: BytesIO
    sent: int = 0
    error: float = 0.0

    @property
    def tensors(self) -> list[Tensor]:
        """Return its tensors, without a copy."""
        whole = self.file.getbuffer()
        data = whole[len(whole) - self.header.payload_bytes :]
        return [Tensor(one.name, one.dtype, one.shape, data[one.begin : one.end]) for one in self.header.payloads]


BITS = 5  # of a rounded number, about, once compressed
_BOUND, _DEEPEST = 0.03, 2.0  # of errors, as a share of the spread in a layer; times as much in the last (SparKV III-C)
_KV, _ERROR, _STEP, _MEAN = re.compile(r"(\d+)\.[kv]"), "error", ".step", ".mean"
_SMALL, _LARGE = 1 << 7, 1 << 15  # steps that fit into 8 and 16 bits
_SLACK = 1 << 16  # bytes of a header that names steps and means


def rounded(file: BinaryIO) -> bytes:
    """Compress a node's file: keys and values are quantized around their channel's mean, coarser in higher layers.

    The Huffman code of deflate takes about 5 bits for a number. `error` is the root of the mean square error, as a
    share of the spread. BadNode.
    """
    whole, errors, found = BytesIO(file.read()), list[float](), list[Tensor]()
    node = FetchedNode(verify(whole), whole)
    layers = [int(name[1]) if (name := _KV.fullmatch(one.name)) else None for one in node.tensors]
    last = max(filter(None, layers), default=1)
    for layer, one in zip(layers, node.tensors, strict=True):
        is_kv = layer is not None and one.shape[2:3] == (len(node.header.ids),) and len(one.buffer) > 0
        parts, error = _steps(one, 1 + (_DEEPEST - 1) * (layer or 0) / last) if is_kv else ([one], 0.0)
        found += parts
        errors.append(error)
    found.append(_tensor(_ERROR, "F32", [sqrt(sum(errors) / max(1, len(errors)))]))
    write_to(made := BytesIO(), node.header, found)
    coder = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, zlib.Z_HUFFMAN_ONLY)
    return coder.compress(made.getbuffer()) + coder.flush()


def _steps(one: Tensor, growth: float) -> tuple[list[Tensor], float]:
    """Return keys or values as steps and what they mean, with their mean square error; with extremes, as they are."""
    import numpy as np

    is_whole = one.dtype == "I8"
    with np.errstate(all="ignore"):  # what is not finite is sent as it is
        values = _numbers(one)
        mean = _tensor(one.name + _MEAN, "I8" if is_whole else "BF16", values.mean(axis=2, keepdims=True))
        spread = float(values.std())
        step = 2 * _BOUND * growth * spread
        width = _tensor(one.name + _STEP, one.dtype, [max(1, step // 1) if is_whole else step])  # names the dtype, too
        steps = np.rint((values - _numbers(mean)) / _numbers(width))
        most = float(np.abs(steps).max())
        if not (0 < spread < inf and most < _LARGE):
            return [one], 0.0
        again = _numbers(_tensor(one.name, one.dtype, _numbers(mean) + steps * _numbers(width)))
        error = float(np.square(again - values).mean()) / spread**2
    packed = _tensor(one.name, "I8" if most < _SMALL else "I16", steps)
    return [packed, mean, width], error


def inflated(data: bytes, size: int) -> BytesIO:
    """Return the file of steps that `rounded` has compressed, for a node of `size` bytes; BadNode."""
    coder = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        return BytesIO(coder.decompress(data, 2 * size + _SLACK))
    except zlib.error:
        raise BadNode from None


def _restored(node: FetchedNode) -> FetchedNode:
    """Return a node with numbers from one with steps; ValueError, LookupError."""
    import numpy as np

    by_name, found = {one.name: one for one in node.tensors}, list[Tensor]()
    for name, one in by_name.items():
        if mean := by_name.get(name + _MEAN):
            step = by_name[name + _STEP]
            if mean.shape != (*one.shape[:2], 1, one.shape[3]) or step.shape != (1,):
                raise ValueError("another shape")
            with np.errstate(all="ignore"):
                one = _tensor(name, step.dtype, _numbers(mean) + _numbers(one) * _numbers(step))
        if name != _ERROR and not name.endswith((_MEAN, _STEP)):
            found.append(one)
    write_to(file := BytesIO(), node.header, found)
    return FetchedNode(verify(file), file, node.sent, float(_numbers(by_name[_ERROR])[0]))


_NUMPY = {"F32": "<f4", "F16": "<f2", "BF16": "<u2", "I8": "i1", "I16": "<i2"}


def _numbers(tensor: Tensor) -> Any:
    import numpy as np

    raw = np.frombuffer(tensor.buffer, _NUMPY[tensor.dtype]).reshape(tensor.shape)
    return (raw.astype("<u4") << 16).view("<f4") if tensor.dtype == "BF16" else raw.astype("<f4")


def _tensor(name: str, dtype: str, numbers: Any) -> Tensor:
    import numpy as np

    found = np.ascontiguousarray(numbers, "<f4")
    shape = found.shape
    if dtype == "BF16":
        found = found.view("<u4")
        found = (found + 0x7FFF + ((found >> 16) & 1)) >> 16  # to even
    elif dtype in ("I8", "I16"):
        found = np.clip(np.rint(found), *((-127, 127) if dtype == "I8" else (1 - _LARGE, _LARGE - 1)))
    return Tensor(name, dtype, shape, found.astype(_NUMPY[dtype]).tobytes())


# Times, amounts and the seconds that they took: a few, and none that is old, so that a link that changes is noticed.
_Recent = deque[tuple[float, float, float]]


def _rate(recent: _Recent, now: float) -> float | None:
    seen = [(amount, seconds) for at, amount, seconds in recent.copy() if now - at < _RECENT_S]
    amount, seconds = sum(one for one, _ in seen), sum(one for _, one in seen)
    return amount / seconds if amount and seconds else None


class Remote:
    """The nodes of another place, for any number of threads. After a failure it is left alone for a while."""

    def __init__(self, source: Any, now: Callable[[], float] = time.monotonic, *, is_rounded: bool = False) -> None:
        """`source` is like a PeerSource, its files with steps if it `is_rounded`; `now` never goes back."""
        self._source, self._now, self.is_rounded = source, now, is_rounded
        self._lock, self._calls, self._cancelled = Lock(), dict[RemoteCall, Future[Any]](), False
        self._alone_until = now()
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
        """Return the bytes of nodes that came in a second of late, with what decoding took; None where none did."""
        return _rate(self._transfers, self._now())

    def find(self, keys: Sequence[Key], within_s: float = ANSWER_S) -> Sequence[int]:
        """Return the bytes of the files of nodes, 0 for one not there; empty without an answer. Ends a `cancel`."""
        self._cancelled = False
        self.last_miss = "" if self.is_available else self.last_failure or "unreachable"
        if not keys or self.last_miss:
            return ()

        def ask(call: RemoteCall) -> Sequence[int]:
            sizes: Sequence[int] = self._source.sizes(keys[:MOST_KEYS], call)
            if len(sizes) > len(keys) or any(type(one) is not int or not 0 <= one <= MOST_BYTES for one in sizes):
                raise RemoteMiss("refused")
            return tuple(sizes)

        try:
            sizes, seconds = self._run(RemoteCall(), within_s, ask)
        except RemoteMiss as miss:
            self.last_miss = str(miss)
            return ()
        self._answers.append((self._now(), 1, seconds))
        return sizes

    def fetch(self, expected: Header, size: int, within_s: float) -> FetchedNode:
        """Return the node of a header, of a size that `find` told, within some seconds; RemoteMiss."""
        if not self.is_available:
            raise RemoteMiss("unreachable")
        call, begun = RemoteCall(), self._now()

        def work(call: RemoteCall) -> FetchedNode:
            file = self._source.read(expected.key, size, call)
            header = verify(file)
            if replace(header, payloads=()) != replace(expected, payloads=()):
                raise BadNode
            found = FetchedNode(header, file, call.sent or size)
            return _restored(found) if self.is_rounded else found

        try:
            return self._run(call, within_s, work)[0]
        finally:
            self._transfers.append((self._now(), call.received, self._now() - begun))

    def cancel(self) -> None:
        """End all requests that run in other threads, and refuse further ones until the next `find`."""
        with self._lock:
            self._cancelled = True
            running = list(self._calls.items())
        for call, answer in running:
            answer.cancel()
            call.end("cancelled")

    def _run(self, call: RemoteCall, within_s: float, work: Callable[[RemoteCall], T]) -> tuple[T, float]:
        """Run a request on its own thread, since nothing else bounds a name lookup; returns its result and seconds."""
        begun, answer = self._now(), Future[T]()
        with self._lock:
            if self._cancelled:
                raise RemoteMiss("cancelled")
            self._calls[call] = answer
        try:
            Thread(target=_answer, args=(work, call, answer), name="kv remote", daemon=True).start()
            return answer.result(max(0.0, within_s)), self._now() - begun
        except TimeoutError:
            reason = "late"
        except CancelledError:
            reason = "cancelled"
        except RuntimeError:  # no thread can be started
            reason = "unreachable"
        except RemoteMiss as miss:
            reason = str(miss)
        finally:
            with self._lock:
                del self._calls[call]
            call.end("late")  # if it goes on
        if reason not in ("absent", "cancelled"):
            with self._lock:
                self._alone_until, self.last_failure = self._now() + PAUSE_S, reason
        raise RemoteMiss(reason)


def _answer(work: Callable[[RemoteCall], T], call: RemoteCall, answer: Future[T]) -> None:
    miss = RemoteMiss("refused")
    try:
        found = work(call)
        with suppress(InvalidStateError):  # it was cancelled
            answer.set_result(found)
    except RemoteMiss as error:
        miss = error
    except BadNode:
        miss = RemoteMiss("damaged")
    except (PkbError, OSError):
        miss = RemoteMiss("unreachable")  # or a peer or a key is not there: `pkb doctor` says so
    except FAILURES:
        pass
    finally:
        with suppress(InvalidStateError):  # it was answered, or cancelled
            answer.set_exception(miss)


def headers_of(root: TreeRoot, segments: Sequence[Sequence[int]]) -> list[Header]:
    """Return the header that the node of each segment must have: their keys to find, themselves to fetch."""
    headers, above = list[Header](), root
    for ids in segments:
        here = TreeRoot(child_key(above.key, ids), child_key(above.path, ids))
        headers.append(Header(root.key, here.key, above.key, here.path, tuple(ids)))
        above = here
    return headers


@lru_cache(maxsize=8)
def open_remote(url: str, folder: Path, bits: int = 0) -> Remote:
    """Return the place that `kv.remote` names, one object per process, which knows how fast it was.

    `folder` holds the keys; with `bits` nodes come rounded. Nothing is contacted, and what is wrong with either shows
    as misses.
    """
    from store.peers import PeerBook, PeerSource, parse_address

    source = PeerSource(lambda: parse_address(url), PeerBook(folder), is_rounded=bool(bits))
    return Remote(source, is_rounded=bool(bits))
