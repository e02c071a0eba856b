"""Locks between processes: many readers, one writer, or one exclusive process.

Readers and the writer run concurrently, since LanceDB and SQLite commit atomically. `exclusive` is for operations that
break readers (rewriting tables): it holds the gate while it waits, so that no new reader gets ahead of it.
"""

import fcntl
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Literal

from store.errors import Locked

_TRIES, _POLL_S = 500, 0.002  # until processes that only test the lock are done
_INSTANT_S, _OFTEN = 0.05, 30  # how long new readers are held off to find nobody who reads, and how often
_WAIT_S = 0.02  # between looks at a lock that another process holds


class Lease:
    """A lock that one process holds, for an instant or, such as the server, for long."""

    def __init__(self, path: Path, descriptor: int = -1) -> None:
        """`descriptor` is inherited from a holder, such as a parent process."""
        self._path, self._descriptor = path, descriptor

    @property
    def held(self) -> bool:
        """Return whether this object holds the lease."""
        return self._descriptor >= 0

    def acquire(self, timeout_s: float = 0.0, kind: int | None = None) -> bool:
        """Acquire the lease unless another process holds it, and does for so long; returns whether it is held now.

        `kind` is how `flock` locks a file that no process only tests: shared, or for one holder.
        """
        until, flags = time.monotonic() + timeout_s, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        while not self.held:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _remove_folder(self._path)
            descriptor = os.open(self._path, flags, 0o600)
            if _held(descriptor) if kind is None else _locked(descriptor, kind):
                self._descriptor = descriptor
                break
            os.close(descriptor)
            if time.monotonic() >= until:
                break
            time.sleep(_WAIT_S)
        return self.held

    def inheritable(self) -> int:
        """Return the descriptor for a child to inherit; the lease is held as long as either has it open."""
        os.set_inheritable(self._descriptor, True)
        return self._descriptor

    def release(self) -> None:
        """Release the lease."""
        if self.held:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self.release()

    def is_taken(self) -> bool:
        """Return whether any process holds the lease."""
        if self.held:
            return True
        _remove_folder(self._path)
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
        """Return whether the lock file was removed or replaced: other processes would not see the lease held."""
        try:
            found, own = self._path.stat(), os.fstat(self._descriptor)
        except OSError:
            return True
        return (found.st_dev, found.st_ino) != (own.st_dev, own.st_ino)


def _held(descriptor: int) -> bool:
    for _ in range(_TRIES):
        if _locked(descriptor, fcntl.LOCK_EX):
            return True
        if not _locked(descriptor, fcntl.LOCK_SH):
            return False  # held, and not only being tested
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        time.sleep(_POLL_S)
    return False


def _locked(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


TIMEOUT_S = 5.0  # an ingest batch or a vacuum slice takes less; longer is another command's whole run
_Name = Literal["writer", "gate", "access", "mail", "embedder", "idle", "kv"]


class Locks:
    """The locks of one home; each method is a context that holds one. `on_read` is called once that of readers is."""

    def __init__(self, folder: Path, on_read: Callable[[], None] = lambda: None) -> None:
        self._folder, self._on_read = folder, on_read

    @contextmanager
    def reader(self) -> Iterator[None]:
        """Hold off `exclusive` while tables are read."""
        with ExitStack() as held:
            with self._mutex("gate", "is rewriting its tables"):
                held.enter_context(self._mutex("access", "is reading", kind=fcntl.LOCK_SH))
            self._on_read()
            yield

    @contextmanager
    def writer(self, timeout_s: float = TIMEOUT_S) -> Iterator[None]:
        """Be the only writer; Locked if another one does not finish within `timeout_s`."""
        with self._mutex("writer", "is writing", timeout_s), self.reader():
            yield

    @contextmanager
    def exclusive(self, timeout_s: float = TIMEOUT_S) -> Iterator[None]:
        """Be the only process at all; Locked if readers or a writer do not finish within `timeout_s`."""
        with self.rewriter(timeout_s), self.alone(timeout_s, 1):
            yield

    def rewriter(self, timeout_s: float = TIMEOUT_S) -> AbstractContextManager[None]:
        """Be the only writer, without being a reader, so that one can be `alone` now and then; Locked."""
        return self._mutex("writer", "is writing", timeout_s)

    @contextmanager
    def alone(self, timeout_s: float = _INSTANT_S, tries: int = _OFTEN) -> Iterator[None]:
        """Hold off readers, as the only writer; Locked. Tries often for a moment, in which nobody begins to read."""
        with ExitStack() as held:
            for left in reversed(range(tries)):
                try:
                    held.enter_context(self._mutex("gate", "is opening", timeout_s))
                    held.enter_context(self._mutex("access", "is reading", timeout_s, fcntl.LOCK_EX))
                    break
                except Locked:
                    held.close()
                    if not left:
                        raise
                    time.sleep(_WAIT_S)
            yield

    def mail(self) -> AbstractContextManager[None]:
        """Be the only process that reads mail accounts; Locked if another one goes on."""
        return self._mutex("mail", "is reading mail accounts")

    @contextmanager
    def sole(self, name: _Name, timeout_s: float = 0.0, kind: int | None = None) -> Iterator[bool]:
        """Be the only process that embeds chunks, runs idle jobs or writes KV; yields False where another one does."""
        lease = Lease(self._folder / f"{name}.lock")  # of each thread its own
        try:
            yield lease.acquire(timeout_s, kind)
        finally:
            lease.release()

    @contextmanager
    def _mutex(self, name: _Name, doing: str, timeout_s: float = TIMEOUT_S, kind: int | None = None) -> Iterator[None]:
        with self.sole(name, timeout_s, kind) as is_held:
            if not is_held:
                raise blocked(f"another pkb {doing}", self._folder / f"{name}.lock")
            yield


def blocked(what: str, *files: Path, step: str = "try again when it is done") -> Locked:
    """Return the error that a lock is held, with the process and what it does, if Linux reports that."""
    with suppress(OSError):
        inodes = {str(one.stat().st_ino) for one in files if one.exists()}
        held = [line.split() for line in Path("/proc/locks").read_text().splitlines() if "->" not in line]
        rows = [row for row in held if row[5].rpartition(":")[2] in inodes and row[4] != str(os.getpid())]
        for pid in (row[4] for row in sorted(rows, key=lambda row: row[3] != "WRITE")):  # a writer first
            is_stopped = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
            who = f"process {pid}, which is stopped" if is_stopped else f"process {pid}"
            return Locked(f"{what} ({who})", f"kill -CONT {pid}" if is_stopped else step)
    return Locked(what, step)


@contextmanager
def naming_writer(database: Path) -> Iterator[None]:
    """Raise Locked, with the process that writes, where a block finds a database locked longer than SQLite waits."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        # Of a database with a write-ahead log, the locks are on its shared memory.
        raise blocked("another pkb is writing", database.with_name(f"{database.name}-shm")) from None


def _remove_folder(path: Path) -> None:
    """Remove an empty folder where a lock file should be: nobody can hold it."""
    with suppress(OSError):
        path.rmdir()
