"""Tensors of KV files read directly into the buffers of a cache: whole files, or ranges of tokens.

Knows the layout of safetensors files; no caches of mlx-lm and no store. MLX is imported inside functions, because BLAS
must be loaded before it.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from store.kv_files import WIDTHS

Arrays = Mapping[str, Any]  # by name


class UnreadableCache(Exception):
    """Stored tensors cannot be restored: missing, damaged, or another model's."""


# Each safetensors dtype in MLX, and the integers of its width, because the buffer protocol lacks bfloat16.
MLX_DTYPES = {
    "F32": ("float32", "uint32"), "F16": ("float16", "uint16"), "BF16": ("bfloat16", "uint16"),
    "I32": ("int32", "uint32"), "U32": ("uint32", "uint32"), "I8": ("int8", "uint8"),
}  # fmt: skip
_LENGTH = 8  # bytes of the header's length, little-endian
_MAX_HEADER = 4 << 20  # bytes
_GROWTH, _HEADROOM = 256, 64  # tokens: the step by which mlx-lm grows a cache; space for a question


@dataclass(frozen=True, slots=True)
class _Layout:
    """The layout of the tensors of one name: safetensors dtype, heads, and values of a token and head."""

    dtype: str
    heads: int
    width: int

    @property
    def step(self) -> int:
        """Return the bytes of one token and head."""
        return self.width * WIDTHS[self.dtype]


@dataclass(frozen=True, slots=True)
class _File:
    """An open file, positioned at its first tensor; tensors are (1, heads, tokens, width), contiguous and in order."""

    descriptor: int
    begin: int  # of the first tensor
    tokens: int
    kinds: Mapping[str, _Layout]


def _buffers(kinds: Mapping[str, _Layout], capacity: int, *, in_place: bool) -> dict[str, Any]:
    """Return integer arrays of MLX, or of numpy, for so many tokens."""
    import mlx.core as mx

    shapes = {name: (1, layout.heads, capacity, layout.width) for name, layout in kinds.items()}
    integers = {name: MLX_DTYPES[layout.dtype][1] for name, layout in kinds.items()}
    if not in_place:
        return {name: np.zeros(shape, integers[name]) for name, shape in shapes.items()}
    raw = {name: mx.zeros(shape, getattr(mx, integers[name])) for name, shape in shapes.items()}
    mx.eval(list(raw.values()))
    return raw


def _open(path: Path, stack: ExitStack) -> _File:
    """Open a file and parse its header; a malformed one raises any of `_MALFORMED`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    stack.callback(os.close, descriptor)
    length = int.from_bytes(os.read(descriptor, _LENGTH), "little")
    entries = json.loads(os.read(descriptor, min(length, _MAX_HEADER)))
    entries.pop("__metadata__", None)
    tokens, kinds, end = next(iter(entries.values()))["shape"][2], dict[str, _Layout](), 0
    for name, entry in entries.items():
        one, heads, count, width = entry["shape"]
        kind = _Layout(entry["dtype"], heads, width)
        begin, end = end, end + heads * count * kind.step
        if (one, count, [begin, end]) != (1, tokens, entry["data_offsets"]):
            raise ValueError("the tensors are not contiguous or not of the same tokens")
        kinds[name] = kind
    return _File(descriptor, os.lseek(descriptor, 0, os.SEEK_CUR), tokens, kinds)


# What a malformed file raises.
_MALFORMED = (OSError, ValueError, TypeError, LookupError, AttributeError)
ReadAt = Callable[[int, Sequence[memoryview], int], int]  # as os.preadv: a descriptor, buffers, an offset


class RangeReader:
    """Reads ranges of tokens of files, one per segment, into buffers for a cache of them all; UnreadableCache.

    `read` may run in another thread: it uses no MLX.
    """

    def __init__(
        self, paths: Sequence[Path], shared: int | None = None, read_at: ReadAt = os.preadv, *, in_place: bool = False
    ) -> None:
        """Open files, of the last only `shared` tokens; unless they are read `in_place`, `take` copies."""
        self._read_at, self._stack = read_at, ExitStack()
        try:
            self._files = [_open(path, self._stack) for path in paths]
            if any(file.kinds != self._files[0].kinds for file in self._files):
                raise ValueError("the files hold different tensors")
            counts = [file.tokens for file in self._files]
            if shared is not None:
                counts[-1] = min(shared, counts[-1])
            self.kinds = self._files[0].kinds
            self._capacity = -(-(sum(counts) + _HEADROOM) // _GROWTH) * _GROWTH
            self._raw = _buffers(self.kinds, self._capacity, in_place=in_place)
        except _MALFORMED as error:
            self.close()
            raise UnreadableCache(type(error).__name__) from error
        self.starts = list(accumulate(counts, initial=0))  # of each file in the arrays, and their end
        self._into = {
            name: memoryview(array).cast("B") if array.size else memoryview(b"") for name, array in self._raw.items()
        }

    def read_all(self) -> None:
        """Read all tokens; UnreadableCache."""
        for number, (start, stop) in enumerate(pairwise(self.starts)):
            self.read(number, 0, stop - start)

    def read(self, number: int, start: int, stop: int) -> None:
        """Read the tokens of one file from `start` to `stop`; UnreadableCache."""
        file, runs = self._files[number], list(self._runs(number, start, stop))
        whole = stop - start == file.tokens
        size = 1024 if whole else 1  # IOV_MAX: the runs of all tokens of a file follow each other
        try:
            for first in range(0, len(runs), size):
                buffers = [buffer for _, buffer in runs[first : first + size]]
                if self._read_at(file.descriptor, buffers, runs[first][0]) != sum(map(len, buffers)):
                    raise ValueError("the file is shorter than its header says")
        except (OSError, ValueError) as error:
            raise UnreadableCache(type(error).__name__) from error

    def _runs(self, number: int, start: int, stop: int) -> Iterator[tuple[int, memoryview]]:
        file, at = self._files[number], self._files[number].begin
        for name, kind in file.kinds.items():
            for head in range(kind.heads if kind.step else 0):
                place = (head * self._capacity + self.starts[number] + start) * kind.step
                yield at + start * kind.step, self._into[name][place : place + (stop - start) * kind.step]
                at += file.tokens * kind.step

    def take(self) -> Arrays:
        """Return the arrays, which the reader gives up; tokens that were not read have any values."""
        import mlx.core as mx

        raw, self._raw = self._raw, {}
        self._into = {}  # as long as a buffer is in use, MLX copies an array that changes
        arrays = {name: mx.array(one) if isinstance(one, np.ndarray) else one for name, one in raw.items()}
        return {name: arrays[name].view(getattr(mx, MLX_DTYPES[kind.dtype][0])) for name, kind in self.kinds.items()}

    def close(self) -> None:
        """Close the files."""
        self._stack.close()
