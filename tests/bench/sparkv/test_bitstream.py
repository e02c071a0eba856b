"""The bitstream of keys and values: exact decoding, error bounds, damage."""

import struct
from contextlib import suppress
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from tests.bench.sparkv.bitstream import LEVELS, BadBitstream, Chunk32, Level, decode, encode, quantized

SHAPE = (2, 40, 8)
FINITE = st.floats(-1e4, 1e4, width=32)
CHUNKS = arrays(np.float32, array_shapes(min_dims=3, max_dims=3, max_side=9), elements=FINITE)
BOUNDS = st.floats(1e-6, 1e3)


def normal(seed: int = 0) -> Chunk32:
    rng = np.random.default_rng(seed)
    chunk: Chunk32 = (rng.normal(size=SHAPE) * rng.uniform(0.1, 5, size=(2, 1, 8)) + 1).astype(np.float32)
    return chunk


def shape(chunk: Chunk32) -> tuple[int, int, int]:
    heads, tokens, width = chunk.shape
    return heads, tokens, width


@settings(deadline=None)
@given(chunk=CHUNKS, bound=BOUNDS)
def test_no_element_is_further_off_than_the_bound(chunk: Chunk32, bound: float) -> None:
    found = decode(encode(chunk, bound), shape(chunk))
    assert np.abs(found.astype(np.float64) - chunk.astype(np.float64)).max() <= bound


@settings(deadline=None)
@given(chunk=CHUNKS, bound=BOUNDS)
def test_decoding_gives_exactly_the_quantized_chunk(chunk: Chunk32, bound: float) -> None:
    assert decode(encode(chunk, bound), shape(chunk)).tobytes() == quantized(chunk, bound).tobytes()


@settings(deadline=None)
@given(
    chunk=arrays(np.float32, (2, 3, 4), elements=st.floats(width=32)), bound=st.sampled_from((0.0, 1e-300, 0.1, np.inf))
)
def test_extremes_are_stored_as_they_are(chunk: Chunk32, bound: float) -> None:
    found = decode(encode(chunk, bound), shape(chunk))
    if bound != 0.1 or not np.abs(chunk).max() < 100:
        assert found.tobytes() == chunk.tobytes()


@settings(deadline=None)
@given(data=st.data(), flip=st.integers(1, 255))
def test_a_damaged_stream_raises_one_error(data: st.DataObject, flip: int) -> None:
    stream = bytearray(encode(normal(), 0.05))
    stream[data.draw(st.integers(0, len(stream) - 1))] ^= flip
    with pytest.raises(BadBitstream):
        decode(bytes(stream), SHAPE)


@settings(deadline=None)
@given(data=st.data(), flip=st.integers(1, 255))
def test_a_forged_stream_raises_one_error_or_is_a_chunk(data: st.DataObject, flip: int) -> None:
    stream = bytearray(encode(normal(), 0.05)[:-4])
    stream[data.draw(st.integers(0, len(stream) - 1))] ^= flip
    if data.draw(st.booleans()):
        del stream[data.draw(st.integers(0, len(stream))) :]
    with suppress(BadBitstream):
        assert decode(bytes(stream) + struct.pack("<I", crc32(stream)), SHAPE).shape == SHAPE


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_raise_one_error(stream: bytes) -> None:
    with pytest.raises(BadBitstream):
        decode(stream, SHAPE)


def test_a_stream_of_another_shape_is_refused() -> None:
    with pytest.raises(BadBitstream):
        decode(encode(normal(), 0.05), (2, 8, 40))


def test_coarser_levels_take_fewer_bytes() -> None:
    chunk = normal()
    sizes = [len(encode(chunk, level.share(0, 4, "k") * float(chunk.std()))) for level in LEVELS]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] < chunk.nbytes / 2


def test_the_bound_grows_with_the_layer() -> None:
    level = Level(0.1, 0.2, deepest=3.0)
    assert [level.share(layer, 3, "k") for layer in range(3)] == pytest.approx([0.1, 0.2, 0.3])
    assert level.share(0, 1, "v") == 0.2
