"""Weight files on disk as tensors, without copying; it knows no model."""

import json
import mmap
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
