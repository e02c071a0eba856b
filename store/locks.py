"""Who may do what at the same time, between processes: many readers, one writer, or one alone.

Readers and the writer go on beside each other, since LanceDB and SQLite commit atomically. `alone` is for what breaks
readers (rewriting tables): it holds the gate while it waits, so that no new reader gets ahead of it.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, ReadWriteLock, Timeout

from store.errors import Locked

PATIENCE_S = 5.0  # an ingest batch or a vacuum slice takes less; longer is another command's whole run


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
    def writer(self, patience_s: float = PATIENCE_S) -> Iterator[None]:
        """Be the only writer; Locked if another one does not finish within `patience_s`."""
        with self._mutex("writer", "is writing", patience_s), self.reader():
            yield

    @contextmanager
    def alone(self, patience_s: float = PATIENCE_S) -> Iterator[None]:
        """Be the only process at all; Locked if readers or a writer do not finish within `patience_s`."""
        with self._mutex("writer", "is writing", patience_s), self._mutex("gate", "is opening", patience_s):
            access = self._access()
            try:
                access.acquire_write(timeout=patience_s)
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
    def _mutex(self, name: str, doing: str, patience_s: float = PATIENCE_S) -> Iterator[None]:
        lock = FileLock(self._folder / f"{name}.lock", mode=0o600)
        try:
            lock.acquire(timeout=patience_s)
        except Timeout:
            raise Locked(f"another pkb {doing}", "try again when it is done") from None
        try:
            yield
        finally:
            lock.release()

    def _access(self) -> ReadWriteLock:
        # Not the shared instance: two threads of one process must be two holders.
        return ReadWriteLock(self._folder / "access.db", is_singleton=False)
