"""Weight files on disk: tensors without copying, and digests that are computed once per file; it knows no model."""

import json
import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from store.errors import PkbError

DTYPES = {"F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32}
BROKEN = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, MemoryError, RecursionError)


def open_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """Map a safetensors file: read-only arrays that are paged in where they are touched."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        try:
            header = json.loads(file.read(size))
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            return {name: _tensor(data, 8 + size, entry) for name, entry in header.items() if name != "__metadata__"}
        except BROKEN as error:
            raise PkbError(f"{path.name} is not a whole safetensors file", "make setup") from error


def _tensor(data: mmap.mmap, start: int, entry: dict[str, Any]) -> NDArray[Any]:
    shape, (first, last) = entry["shape"], entry["data_offsets"]
    dtype = np.dtype(DTYPES[entry["dtype"]])
    return np.frombuffer(data, dtype, (last - first) // dtype.itemsize, start + first).reshape(shape)


def digest(path: Path, notes: Path | None = None) -> str:
    """Give a file's BLAKE2b digest, remembered in the folder `notes` while its path, size, mtime and inode stay."""
    from hashlib import blake2b

    if notes is None:
        return _digest(path)
    stat = path.stat()
    state = f"{path.resolve()}\n{stat.st_size} {stat.st_mtime_ns} {stat.st_ino}"
    note = notes / f"digest-{blake2b(state.encode(), digest_size=16).hexdigest()}"
    try:
        return note.read_text(encoding="ascii")
    except FileNotFoundError:
        found = _digest(path)
    notes.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = note.with_suffix(f".{os.getpid()}")
    fresh.write_text(found, encoding="ascii")
    fresh.replace(note)
    return found


def _digest(path: Path) -> str:
    from hashlib import blake2b, file_digest

    with path.open("rb") as file:
        return file_digest(file, lambda: blake2b(digest_size=32)).hexdigest()
