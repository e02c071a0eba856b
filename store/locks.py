"""Who may do what at the same time, between processes: many readers, one writer, or one alone.

Readers and the writer go on beside each other, since LanceDB and SQLite commit atomically. `alone` is for what breaks
readers (rewriting tables): it holds the gate while it waits, so that no new reader gets ahead of it.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, ReadWriteLock, Timeout

from store.errors import Locked

_TRIES, _POLL_S = 500, 0.002  # until those are done who only look whether it is taken


class Lease:
    """The right to something that a home has once; no holder is waited for."""

    def __init__(self, path: Path, descriptor: int = -1) -> None:
        """`descriptor` is that of a holder who hands it on, such as a process to its child."""
        self._path, self._descriptor = path, descriptor

    @property
    def held(self) -> bool:
        """Return whether this object holds it."""
        return self._descriptor >= 0

    def take(self) -> bool:
        """Take it, where nobody else has it; returns whether it is held now."""
        if not self.held:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(self._path, flags, 0o600)
            if not _held(descriptor):
                os.close(descriptor)
                return False
            self._descriptor = descriptor
        return True

    def hand_on(self) -> int:
        """Return the descriptor for a child to inherit; it is held as long as either of the two has it open."""
        os.set_inheritable(self._descriptor, True)
        return self._descriptor

    def free(self) -> None:
        """Let go of it."""
        if self.held:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self.free()

    def is_taken(self) -> bool:
        """Return whether anybody has it."""
        if self.held:
            return True
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return False
        try:
            return not _locked(descriptor, fcntl.LOCK_SH)  # shared: two may ask at once
        finally:
            os.close(descriptor)

    @property
    def lost(self) -> bool:
        """Return whether its file was removed, or another one stands in its place: others would not see it held."""
        try:
            found, own = self._path.stat(), os.fstat(self._descriptor)
        except OSError:
            return True
        return (found.st_dev, found.st_ino) != (own.st_dev, own.st_ino)


def _held(descriptor: int) -> bool:
    """Lock a file for one holder; returns whether it is."""
    for _ in range(_TRIES):
        if _locked(descriptor, fcntl.LOCK_EX):
            return True
        if not _locked(descriptor, fcntl.LOCK_SH):
            return False  # it has a holder, and not only somebody who looks
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        time.sleep(_POLL_S)
    return False


def _locked(descriptor: int, kind: int) -> bool:
    """Lock a file in a way; returns whether that could be."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


TIMEOUT_S = 5.0  # an ingest batch or a vacuum slice takes less; longer is another command's whole run


class Locks:
    """The locks of one home; each method is a context that holds one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def reader(self) -> Iterator[None]:
        """Hold off `alone` while tables are read."""
        with self._mutex("gate", "is rewriting its tables"):
            access = self._access()
            access.acquire_read()
        try:
            yield
        finally:
            access.release()

    @contextmanager
    def writer(self, timeout_s: float = TIMEOUT_S) -> Iterator[None]:
        """Be the only writer; Locked if another one does not finish within `timeout_s`."""
        with self._mutex("writer", "is writing", timeout_s), self.reader():
            yield

    @contextmanager
    def alone(self, timeout_s: float = TIMEOUT_S) -> Iterator[None]:
        """Be the only process at all; Locked if readers or a writer do not finish within `timeout_s`."""
        with self._mutex("writer", "is writing", timeout_s), self._mutex("gate", "is opening", timeout_s):
            access = self._access()
            try:
                access.acquire_write(timeout=timeout_s)
            except Timeout:
                raise Locked("another pkb is reading", "try again when it is done") from None
            try:
                yield
            finally:
                access.release()

    @contextmanager
    def embedder(self) -> Iterator[bool]:
        """Be the only one that fills vectors: gives False, at once, where another process already does."""
        with self._at_once("embedder") as held:
            yield held

    @contextmanager
    def idle(self) -> Iterator[bool]:
        """Be the only one that works while nobody asks: gives False, at once, where another process already does."""
        with self._at_once("idle") as held:
            yield held

    @contextmanager
    def trying(self) -> Iterator[None]:
        """Be the only one that tries things in a home, since two would measure each other; Locked at once."""
        with self._mutex("trying", "bench is running", 0):
            yield

    @contextmanager
    def _at_once(self, name: str) -> Iterator[bool]:
        lock = FileLock(self._folder / f"{name}.lock", mode=0o600)
        with suppress(Timeout):
            lock.acquire(timeout=0)
        try:
            yield lock.is_locked
        finally:
            lock.release()

    @contextmanager
    def _mutex(self, name: str, doing: str, timeout_s: float = TIMEOUT_S) -> Iterator[None]:
        lock = FileLock(self._folder / f"{name}.lock", mode=0o600)
        try:
            lock.acquire(timeout=timeout_s)
        except Timeout:
            raise Locked(f"another pkb {doing}", "try again when it is done") from None
        try:
            yield
        finally:
            lock.release()

    def _access(self) -> ReadWriteLock:
        # Not the shared instance: two threads of one process must be two holders.
        return ReadWriteLock(self._folder / "access.db", is_singleton=False)
