"""The vectors of the bank's questions as one file that is mapped and searched whole. Knows no questions and no SQLite.

It is a copy: rows are only ever added at its end, by one process at a time, or all of it is replaced by another file.
Whatever it holds is to be held against what it was copied from. A file that cannot be written is simply not there.
"""

import fcntl
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[Any]  # number (increasing), group (of what may be compared), vector
_MAGIC, _HEADER = b"pkbquest", 64  # bytes
_READ, _WRITE = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW


class Matrix:
    """One file of rows made by one embedder; another embedder's file, or a damaged one, is as good as none."""

    def __init__(self, path: Path, embedder: str, width: int) -> None:
        self.dtype = np.dtype([("number", "<i8"), ("group", "<i8"), ("vector", "<f4", (width,))])
        self._path, self._part = path, path.with_suffix(".part")
        self._header = (_MAGIC + blake2b(f"{embedder}/{width}".encode(), digest_size=16).digest()).ljust(_HEADER, b"\0")
        self._seen: tuple[int, int] | None = None  # the inode and the size of the file that is mapped
        self._rows = self.none

    @property
    def none(self) -> Rows:
        """Give no rows."""
        return np.empty(0, self.dtype)

    def rows(self) -> Rows:
        """Give the rows of the file as it is now; they stay as they are whatever becomes of it."""
        try:
            found = self._path.stat()
            if self._seen != (found.st_ino, found.st_size):
                self._rows, self._seen = self._map()
        except OSError:
            self._rows, self._seen = self.none, None
        return self._rows

    def append(self, rows: Rows, after: int) -> None:
        """Add the rows that follow the one numbered `after`, but for those that another process has added meanwhile."""
        with suppress(OSError), self._locked(self._path) as file:
            size = os.fstat(file).st_size
            if size < _HEADER or os.pread(file, _HEADER, 0) != self._header:
                return
            count = (size - _HEADER) // self.dtype.itemsize  # what a killed process half wrote is written over
            end = _HEADER + count * self.dtype.itemsize
            last = int.from_bytes(os.pread(file, 8, end - self.dtype.itemsize), "little") if count else 0
            if last >= after:  # else it is another file by now, and there would be a gap
                os.pwrite(file, rows[rows["number"] > last].tobytes(), end)

    def replace(self, rows: Rows) -> None:
        """Put another file in the place of this one, unless another process is about to."""
        with suppress(OSError), self._locked(self._part, os.O_CREAT) as file:
            os.ftruncate(file, 0)
            with os.fdopen(os.dup(file), "wb") as part:
                part.write(self._header)
                part.write(rows.tobytes())
            self._part.replace(self._path)

    def _map(self) -> tuple[Rows, tuple[int, int]]:
        descriptor = os.open(self._path, _READ)
        try:
            found = os.fstat(descriptor)
            seen, count = (found.st_ino, found.st_size), (found.st_size - _HEADER) // self.dtype.itemsize
            if count <= 0 or os.pread(descriptor, _HEADER, 0) != self._header:
                return self.none, seen
            mapped = mmap.mmap(descriptor, _HEADER + count * self.dtype.itemsize, access=mmap.ACCESS_READ)
        finally:
            os.close(descriptor)
        rows = np.frombuffer(mapped, self.dtype, count, _HEADER)
        # A power cut may leave pages of zeros, and every page holds a number.
        return (rows if (np.diff(rows["number"], prepend=0) > 0).all() else self.none), seen

    @contextmanager
    def _locked(self, path: Path, flags: int = 0) -> Iterator[int]:
        """Open a file that no other process writes to; OSError where one does, or has put another in its place."""
        file = os.open(path, _WRITE | flags, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(file).st_ino != path.stat().st_ino:
                raise FileNotFoundError(path)
            yield file
        finally:
            os.close(file)
