"""What it takes until the first token of an answer, and whether the files for it come from memory or from the disk."""

import gc
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any


@dataclass(frozen=True, slots=True)
class First:
    """Seconds until the first token of an answer: of it matching, loading, and reading what was not loaded."""

    total: float
    match: float = 0.0
    load: float = 0.0
    reused: int = 0
    kept: float = 0.0  # keeping it, after the first token

    @property
    def rest(self) -> float:
        """Give the seconds that went neither into matching nor into loading."""
        return self.total - self.match - self.load


def drop(paths: Iterable[Path]) -> None:
    """Have the system forget what it remembers of files, so that they are read from the disk."""
    for path in paths:
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def timed(work: Callable[[], Any]) -> First:
    """Time some work as if it ended with a first token."""
    begun = perf_counter()
    work()
    return First(perf_counter() - begun)


def afresh() -> None:
    """Have MLX let go of memory that what ran before has left, or who loads next pays for that."""
    import mlx.core as mx

    gc.collect()
    mx.clear_cache()


def settle(paths: Iterable[Path]) -> None:
    """Have files on disk: what is not cannot be dropped from memory."""
    for path in paths:
        with path.open("rb") as file:
            os.fsync(file.fileno())
