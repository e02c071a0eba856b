"""Measures what prefill and loading take on this machine, for plans that need not learn it from questions.

Knows a loaded model by its methods, and a folder to write one file to; no prompts.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from engine.kv.costs import MeasuredCosts
from engine.models.types import KvSliceable

_TOKEN = 5  # any id: speed does not depend on the text
_FILES, _SIZE, _BLOCK = 4, 16 << 20, 1 << 20  # files of so many bytes, read by blocks
ROUNDS = 3  # of prefill; the first sub-step of a process is not learnt from


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was measured: tokens prefilled, and the bytes of files that were loaded, cold and cached."""

    tokens: int
    loaded: int
    seconds: float


def calibrate(
    model: KvSliceable, longest: int, folder: Path, costs: MeasuredCosts, on_tokens: Callable[[int], None]
) -> Calibration:
    """Prefill up to `longest` tokens and read files in a folder; `costs` learns both and is saved."""
    begun, prefilled, loaded = time.perf_counter(), 0, 0
    for _ in range(ROUNDS):
        for tokens in _prefilled(model, longest, costs):
            prefilled += tokens
            on_tokens(prefilled)
    for _ in range(ROUNDS):
        loaded += _loaded(folder, costs)
    costs.save()
    return Calibration(prefilled, loaded, time.perf_counter() - begun)


def _prefilled(model: KvSliceable, longest: int, costs: MeasuredCosts) -> Iterator[int]:
    """Prefill in sub-steps; yields the tokens of each."""
    cache, step = model.begin(), model.sub_step
    for start in range(0, max(step, longest - step + 1), step):
        begun = time.perf_counter()
        model.prefill(cache, [_TOKEN] * step)
        costs.record_prefill(start, start + step, time.perf_counter() - begun)
        yield step
    model.release(cache)


def _loaded(folder: Path, costs: MeasuredCosts) -> int:
    """Read files that the system has dropped from memory, and once more; returns the bytes."""
    total = 0
    for number in range(_FILES):
        with _file(folder, _SIZE >> number) as path:
            for cached in (0.0, 1.0):
                if cached or _dropped(path):
                    begun = time.perf_counter()
                    total += _read(path)
                    costs.record_load(1, path.stat().st_size, cached, time.perf_counter() - begun)
    return total


@contextmanager
def _file(folder: Path, size: int) -> Iterator[Path]:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"calibration.{os.getpid()}"
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
            for _ in range(0, size, _BLOCK):
                file.write(os.urandom(min(_BLOCK, size)))
            file.flush()
            os.fsync(file.fileno())
        yield path
    finally:
        path.unlink(missing_ok=True)


def _dropped(path: Path) -> bool:
    """Drop a file from the system's memory; False where the system cannot."""
    if not hasattr(os, "posix_fadvise"):
        return False
    with suppress(OSError), path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return True
    return False


def _read(path: Path) -> int:
    buffer, total = bytearray(_BLOCK), 0
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            total += count
    return total
