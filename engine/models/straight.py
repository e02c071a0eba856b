"""Reads keys and values of one file behind the other straight to where a cache holds them, each byte copied once.

`mx.load` and a join copy each byte twice. Memory that is new to MLX is cleared first, which takes longer than reading;
so that of a cache that is no longer needed is read into where there is one, or such as was cleared before. Knows the
safetensors format and no caches.
MLX is imported inside functions, since BLAS must be there before it.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from engine.models.protocols import Unreadable
from engine.models.tensors import Arrays

# What a width is to MLX, and to us while it is bytes: of one of them the buffer protocol knows nothing.
_WORDS = {"F32": ("float32", "uint32"), "F16": ("float16", "uint16"), "BF16": ("bfloat16", "uint16")}
_BYTES = {"F32": 4, "F16": 2, "BF16": 2}
_ABOUT = "__metadata__"
_LENGTH = 8  # bytes of the header's length, little-endian, which stand before it
_MOST = 4 << 20  # bytes of a header
_GROWS, _SPARE = 256, 64  # tokens: a cache is copied to grow by so many; a question is seldom longer
_AT_ONCE = 1024  # pieces to a call of the system, which takes no more


@dataclass(frozen=True, slots=True)
class _Kind:
    """What the tensors of one name have in common: width in safetensors' words, heads, and numbers of a token."""

    dtype: str
    heads: int
    width: int

    @property
    def step(self) -> int:
        """Give the bytes of a token of one head."""
        return self.width * _BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class _File:
    """An open file, at its first tensor: (1, heads, tokens, width) each, one behind the other in this order."""

    descriptor: int
    tokens: int
    kinds: Mapping[str, _Kind]


def read(paths: Sequence[Path], lent: int | None = None, spare: Arrays | None = None) -> tuple[Arrays, int]:
    """Give the tensors of the files, joined, of the last file `lent` tokens; and how many tokens that is; Unreadable.

    Behind them there is room for more: (1, heads, at least so many tokens, width). They may lie in `spare` afterwards,
    which nobody else may read then.
    """
    with ExitStack() as held:
        try:
            files = [_open(path, held) for path in paths]
            if any(file.kinds != files[0].kinds for file in files):
                raise ValueError("other tensors")
            counts = [file.tokens for file in files]
            if lent is not None:
                counts[-1] = min(lent, counts[-1])
            return _joined(files, counts, spare or {}), sum(counts)
        except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
            raise Unreadable(type(error).__name__) from error


def clear(like: Arrays, tokens: int) -> Arrays:
    """Give arrays like these, of keys and values, with room for so many tokens and a question behind them."""
    import mlx.core as mx

    room = _rounded(tokens + _SPARE)
    found = {name: mx.zeros((*array.shape[:2], room, array.shape[3]), array.dtype) for name, array in like.items()}
    mx.eval(list(found.values()))
    return found


def _joined(files: Sequence[_File], counts: Sequence[int], spare: Arrays) -> Arrays:
    import mlx.core as mx

    kinds = files[0].kinds
    raw, room = _room(kinds, sum(counts) + _SPARE, spare)
    into = {name: memoryview(array).cast("B") if array.size else memoryview(b"") for name, array in raw.items()}
    for file, at, count in zip(files, accumulate(counts, initial=0), counts, strict=False):
        pieces = list(_pieces(file, into, room, at, count))
        for first in range(0, len(pieces), _AT_ONCE):
            _fill(file.descriptor, pieces[first : first + _AT_ONCE])
    return {name: array.view(getattr(mx, _WORDS[kinds[name].dtype][0])) for name, array in raw.items()}


def _room(kinds: Mapping[str, _Kind], tokens: int, spare: Arrays) -> tuple[dict[str, Any], int]:
    """Give arrays of integers for so many tokens or more, and for how many: what is spare, or new ones."""
    import mlx.core as mx

    rooms = {array.shape[2] for array in spare.values()}
    room = rooms.pop() if len(rooms) == 1 else 0
    fits = room >= tokens and {name: _kind(array) for name, array in spare.items()} == kinds
    room = room if fits else _rounded(tokens)
    raw: dict[str, Any] = {}
    for name, one in kinds.items():
        words = getattr(mx, _WORDS[one.dtype][1])
        raw[name] = spare[name].view(words) if fits else mx.zeros((1, one.heads, room, one.width), words)
    mx.eval(list(raw.values()))
    return raw, room


def _rounded(tokens: int) -> int:
    return -(-tokens // _GROWS) * _GROWS


def _kind(array: Any) -> _Kind | None:
    words = {name: dtype for dtype, (name, _) in _WORDS.items()}
    one, heads, _, width = array.shape
    dtype = words.get(str(array.dtype).removeprefix("mlx.core."))
    return _Kind(dtype, heads, width) if dtype and one == 1 else None


def _pieces(file: _File, into: Mapping[str, memoryview], room: int, at: int, count: int) -> Iterator[memoryview]:
    """Give where the bytes of a file go in turn, those of tokens beyond `count` nowhere."""
    for name, kind in file.kinds.items():
        place, size, left = into[name], count * kind.step, (file.tokens - count) * kind.step
        for begin in range(at * kind.step, (kind.heads * room + at) * kind.step, max(1, room * kind.step)):
            yield place[begin : begin + size]
            if left:
                yield memoryview(bytearray(left))


def _fill(descriptor: int, pieces: Sequence[memoryview]) -> None:
    """Fill the pieces with the next bytes of a file; ValueError where it ends before."""
    if os.readv(descriptor, pieces) != sum(map(len, pieces)):
        raise ValueError("the file is shorter than it says")


def _open(path: Path, held: ExitStack) -> _File:
    """Open a file and go to its first tensor; what is not as expected raises one of many errors."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    held.callback(os.close, descriptor)
    length = int.from_bytes(os.read(descriptor, _LENGTH), "little")
    entries = json.loads(os.read(descriptor, min(length, _MOST)))
    entries.pop(_ABOUT, None)
    tokens, kinds, end = next(iter(entries.values()))["shape"][2], dict[str, _Kind](), 0
    for name, entry in entries.items():
        one, heads, count, width = entry["shape"]
        kind = _Kind(entry["dtype"], heads, width)
        begin, end = end, end + heads * count * kind.step
        if (one, count, [begin, end]) != (1, tokens, entry["data_offsets"]):
            raise ValueError("not tensors of the same tokens one behind the other")
        kinds[name] = kind
    return _File(descriptor, tokens, kinds)
