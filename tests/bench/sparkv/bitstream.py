"""Keys or values as a short bitstream: quantized to an error bound, each channel centred, then entropy coded.

A chunk is what one layer holds for some heads and tokens, (heads, tokens, width). Each channel, a head's place in its
width, is coded by the normal distribution whose spread is next to its own. Knows arrays: no models, links or files.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import erf, sqrt
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

Chunk32 = NDArray[np.float32]
Shape = tuple[int, int, int]  # heads, tokens, width


class BadBitstream(Exception):
    """Bytes that are not the bitstream of a chunk of the expected shape."""


@dataclass(frozen=True, slots=True)
class Level:
    """How large errors may be, as shares of a chunk's standard deviation: of keys, of values, in the lowest layer.

    The bound grows with the layer to `deepest` times as much: errors in low layers spread through those above.
    """

    keys: float
    values: float
    deepest: float = 2.0

    def share(self, layer: int, layers: int, kv: str) -> float:
        """Return the bound of keys ("k") or values ("v") of a layer, as a share of their standard deviation."""
        growth = 1 + (self.deepest - 1) * layer / max(1, layers - 1)
        return (self.keys if kv == "k" else self.values) * growth


LEVELS = (Level(0.01, 0.01), Level(0.03, 0.03), Level(0.1, 0.1), Level(0.25, 0.25))  # finest first

_MAGIC, _RAW, _CODED = b"KVB1", 0, 1
_HEAD = struct.Struct("<4sB3IdI")  # magic, form, shape, step, CRC32 of the quantized values
_SUM = struct.Struct("<I")  # CRC32 of all before it, at the end; of two streams, the length of the first
_LARGEST = 1 << 14  # of a quantized value: a chunk with larger ones is stored as it is
_SHRINK = 1 - 2**-8  # of a step, so that the bound also holds once the value is rounded to fp32
_STEPS = 2  # classes of spread for each doubling
_LOWEST, _CLASSES = -4 * _STEPS, 21 * _STEPS  # the class of the smallest spread; number of classes
_SCALE = 1 << 20  # of probabilities


def encode(chunk: Chunk32, bound: float) -> bytes:
    """Return the bitstream of a chunk with errors of at most `bound`; 0, or a chunk with extremes: without errors."""
    step = 2.0 * bound * _SHRINK
    values = _quantized(chunk, step)
    if values is None:
        return _sealed(_HEAD.pack(_MAGIC, _RAW, *chunk.shape, 0.0, 0) + np.ascontiguousarray(chunk, "<f4").tobytes())
    means = np.rint(values.mean(axis=0)).astype("<i2")
    apart = values - means
    spreads = np.sqrt(np.square(apart, dtype=np.float64).mean(axis=0))
    classes = np.rint(np.log2(np.maximum(spreads, 2.0**-8)) * _STEPS).astype(np.int64) - _LOWEST
    classes = np.clip(classes, 0, _CLASSES - 1).astype(np.uint8)
    head = _HEAD.pack(_MAGIC, _CODED, *chunk.shape, step, crc32(values.astype("<i2").tobytes()))
    return _sealed(head + means.tobytes() + classes.tobytes() + _coded(apart, classes))


def decode(stream: bytes, shape: Shape) -> Chunk32:
    """Return the chunk of a bitstream; BadBitstream."""
    body = stream[: -_SUM.size]
    if len(body) < _HEAD.size or _SUM.pack(crc32(body)) != stream[-_SUM.size :]:
        raise BadBitstream("its checksum is wrong")
    magic, form, *found, step, crc = _HEAD.unpack_from(body)
    if (magic, tuple(found)) != (_MAGIC, shape):
        raise BadBitstream("it is not a chunk of this shape")
    rest = body[_HEAD.size :]
    if form == _RAW:
        return _raw(rest, shape)
    values = _values(rest, shape)
    if form != _CODED or not np.isfinite(step) or crc32(values.astype("<i2").tobytes()) != crc:
        raise BadBitstream("its values are not those that were encoded")
    return _chunk(values, step, shape)


def encode_both(keys: Chunk32, values: Chunk32, level: Level, layer: int, layers: int) -> bytes:
    """Return the keys and values of one layer as one stream."""
    first, second = (
        encode(chunk, level.share(layer, layers, kv) * float(chunk.std()))
        for kv, chunk in zip("kv", (keys, values), strict=True)
    )
    return _SUM.pack(len(first)) + first + second


def decode_both(stream: bytes, keys: Shape, values: Shape) -> tuple[Chunk32, Chunk32]:
    """Return the keys and values of a stream; BadBitstream."""
    if len(stream) < _SUM.size:
        raise BadBitstream("it is shorter than its shape")
    border = _SUM.size + _SUM.unpack_from(stream)[0]
    return decode(stream[_SUM.size : border], keys), decode(stream[border:], values)


def quantized(chunk: Chunk32, bound: float) -> Chunk32:
    """Return the chunk that decoding its bitstream gives."""
    step = 2.0 * bound * _SHRINK
    values = _quantized(chunk, step)
    heads, tokens, width = chunk.shape
    return chunk if values is None else _chunk(values, step, (heads, tokens, width))


def _quantized(chunk: Chunk32, step: float) -> NDArray[np.int32] | None:
    """Return a chunk in steps, (tokens, channels); None if it is too small, too wide, or not finite."""
    if not chunk.size or step < np.finfo(np.float32).tiny or not np.isfinite(step):
        return None
    steps = np.rint(chunk.transpose(1, 0, 2).reshape(chunk.shape[1], -1).astype(np.float64) / step)
    return steps.astype(np.int32) if bool(np.all(np.abs(steps) < _LARGEST)) else None


def _chunk(values: NDArray[np.int32], step: float, shape: Shape) -> Chunk32:
    heads, tokens, width = shape
    wide = (values * np.float64(step)).astype(np.float32).reshape(tokens, heads, width)
    return np.ascontiguousarray(wide.transpose(1, 0, 2))


def _sealed(body: bytes) -> bytes:
    return body + _SUM.pack(crc32(body))


def _raw(rest: bytes, shape: Shape) -> Chunk32:
    found = np.frombuffer(rest, "<f4") if len(rest) % 4 == 0 else np.empty(0, np.float32)
    if found.size != np.prod(shape):
        raise BadBitstream("it is shorter or longer than its shape")
    return found.reshape(shape).astype(np.float32)


def _coded(apart: NDArray[np.int32], classes: NDArray[np.uint8]) -> bytes:
    """Return the largest value of each class, then the words of the entropy coder."""
    import constriction

    coder, limits = constriction.stream.queue.RangeEncoder(), bytearray()
    for number in np.unique(classes):
        values = np.ascontiguousarray(apart[:, classes == number])
        limit = _rounded(int(np.abs(values).max()))
        limits += limit.to_bytes(2, "little")
        coder.encode((values + limit).reshape(-1).astype(np.int32), _model(int(number), limit))
    words: NDArray[np.uint32] = coder.get_compressed()
    return bytes(limits) + words.astype("<u4").tobytes()


def _values(rest: bytes, shape: Shape) -> NDArray[np.int32]:
    """Return a chunk in steps, (tokens, channels), from what follows its header."""
    import constriction

    heads, tokens, width = shape
    channels = heads * width
    if len(rest) < 3 * channels:
        raise BadBitstream("it is shorter than its shape")
    means = np.frombuffer(rest[: 2 * channels], "<i2")
    classes = np.frombuffer(rest[2 * channels : 3 * channels], np.uint8)
    present = np.unique(classes)
    limits = rest[3 * channels : 3 * channels + 2 * len(present)]
    words = rest[3 * channels + len(limits) :]
    if len(limits) < 2 * len(present) or len(words) % 4 or not (classes < _CLASSES).all():
        raise BadBitstream("it is shorter than its shape")
    coder = constriction.stream.queue.RangeDecoder(np.frombuffer(words, "<u4").astype(np.uint32))
    found = np.empty((tokens, channels), np.int32)
    for number, limit in zip(present, _limits(limits), strict=True):
        columns = np.flatnonzero(classes == number)
        try:
            symbols: Any = coder.decode(_model(int(number), limit), tokens * len(columns))
        except (AssertionError, ValueError) as error:
            raise BadBitstream("its entropy code is damaged") from error
        found[:, columns] = symbols.reshape(tokens, -1) - limit
    found += means
    return found


def _limits(stored: bytes) -> Iterator[int]:
    for place in range(0, len(stored), 2):
        limit = int.from_bytes(stored[place : place + 2], "little")
        if limit != _rounded(limit) or limit > 4 * _LARGEST:
            raise BadBitstream("a limit is not one of the coder's")
        yield limit


def _rounded(limit: int) -> int:
    """Return the next of the limits that are used, three for each doubling at most, so that models are shared."""
    above = 1
    while above < limit:
        above *= 2
    return next(one for one in (above * 5 // 8, above * 3 // 4, above) if one >= max(1, limit))


@lru_cache(maxsize=1024)
def _model(number: int, limit: int) -> Any:
    """Return the normal distribution of a class over the integers up to a limit, in probabilities that are integers."""
    import constriction

    spread = 2.0 ** ((number + _LOWEST) / _STEPS)
    below = [0.5 * (1 + erf((edge - 0.5) / (spread * sqrt(2)))) for edge in range(-limit, limit + 2)]
    return constriction.stream.model.Categorical(np.rint(np.diff(below) * _SCALE) + 1, perfect=False, lazy=False)
