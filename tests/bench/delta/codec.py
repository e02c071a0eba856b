"""A tensor as its difference from another adapter's: both rounded to one grid, the integers apart entropy coded.

The grid is the tensor's own, so that what is decoded does not depend on the anchor: another one may take its place
without a further error. A tensor that equals the anchor's bit for bit takes no bytes and is decoded exactly. Knows
arrays: no models, trees or files.
"""

import struct
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from tests.bench.sparkv.bitstream import BadBitstream, Chunk32, Shape, decode, encode

_SAME, _CODED, _RAW = 0, 1, 2
_HEAD = struct.Struct("<BdI")  # form, step of the grid, CRC32 of the decoded tensor
_SUM = struct.Struct("<I")  # CRC32 of the header
_SHRINK = 1 - 2**-8  # of a step, so that the bound also holds once a value is rounded to fp32
_UNIT = 0.5 / (1 - 2**-8)  # the bound at which integers are coded as they are
_LARGEST = 1 << 22  # of an integer: floats hold it exactly


@dataclass(frozen=True, slots=True)
class Gridded:
    """A tensor, (heads, tokens, width), and the step of its grid; without one it is exact."""

    values: Chunk32
    step: float = 0.0

    @property
    def shape(self) -> Shape:
        """Return heads, tokens and width."""
        heads, tokens, width = self.values.shape
        return heads, tokens, width


def on_grid(values: Chunk32, bound: float) -> Gridded:
    """Return a tensor rounded to a grid, no number further off than `bound`; exact where that is too fine."""
    step = 2.0 * bound * _SHRINK
    if step < np.finfo(np.float32).tiny or not np.isfinite(step) or not _fits(values, step):
        return Gridded(values)
    return Gridded(_values(_integers(values, step), step), step)


def pack(tensor: Gridded, anchor: Chunk32) -> bytes:
    """Return a tensor's bytes beside its anchor; those of the whole tensor where the difference is too wide."""
    if tensor.values.tobytes() == anchor.tobytes():
        return _head(_SAME, tensor)
    if tensor.step and _fits(anchor, tensor.step):
        apart = _integers(tensor.values, tensor.step) - _integers(anchor, tensor.step)
        return _head(_CODED, tensor) + encode(apart.astype(np.float32), _UNIT)
    return _head(_RAW, tensor) + np.ascontiguousarray(tensor.values, "<f4").tobytes()


def unpack(stream: bytes, anchor: Chunk32) -> Gridded:
    """Return the tensor that was packed beside this anchor; BadBitstream for a damaged stream or another anchor."""
    head, body = stream[: _HEAD.size], stream[_HEAD.size + _SUM.size :]
    if stream[_HEAD.size : _HEAD.size + _SUM.size] != _SUM.pack(crc32(head)):
        raise BadBitstream("its header is damaged")
    form, step, crc = _HEAD.unpack(head)
    values = _decoded(form, step, body, anchor)
    if crc32(values.tobytes()) != crc:
        raise BadBitstream("it is damaged, or belongs to another anchor")
    return Gridded(values, step)


def _head(form: int, tensor: Gridded) -> bytes:
    head = _HEAD.pack(form, tensor.step, crc32(tensor.values.tobytes()))
    return head + _SUM.pack(crc32(head))


def _decoded(form: int, step: float, body: bytes, anchor: Chunk32) -> Chunk32:
    if form == _SAME and not body:
        return np.ascontiguousarray(anchor)
    if form == _RAW:
        if len(body) != 4 * anchor.size:
            raise BadBitstream("it is shorter or longer than its shape")
        return np.frombuffer(body, "<f4").reshape(anchor.shape).astype(np.float32)
    if form != _CODED or not step or not _fits(anchor, step):
        raise BadBitstream("it belongs to another anchor")
    heads, tokens, width = anchor.shape
    apart = np.rint(decode(body, (heads, tokens, width))).astype(np.int64)
    return _values(apart + _integers(anchor, step), step)


def _fits(values: Chunk32, step: float) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.all(np.abs(values.astype(np.float64) / step) < _LARGEST))


def _integers(values: Chunk32, step: float) -> NDArray[np.int64]:
    return np.rint(values.astype(np.float64) / step).astype(np.int64)


def _values(integers: NDArray[np.int64], step: float) -> Chunk32:
    return np.ascontiguousarray((integers * step).astype(np.float32))
