"""Tensors as differences from an anchor: bounds, exactness, damage."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.bench.delta.codec import Gridded, on_grid, pack, unpack
from tests.bench.sparkv.bitstream import BadBitstream, Chunk32

SHAPE = (2, 40, 8)
SMALL = arrays(np.float32, (2, 5, 3), elements=st.floats(-1e4, 1e4, width=32))
ANY = arrays(np.float32, (2, 5, 3), elements=st.floats(width=32))
BOUNDS = st.floats(1e-6, 1e3)


def normal(seed: int) -> Chunk32:
    made: Chunk32 = np.random.default_rng(seed).normal(size=SHAPE).astype(np.float32)
    return made


def near(anchor: Chunk32, seed: int, apart: float = 0.1) -> Chunk32:
    return (anchor + apart * normal(seed)).astype(np.float32)


@settings(deadline=None)
@given(values=SMALL, anchor=SMALL, bound=BOUNDS)
def test_no_number_is_further_off_than_the_bound(values: Chunk32, anchor: Chunk32, bound: float) -> None:
    found = unpack(pack(on_grid(values, bound), anchor), anchor)
    assert np.abs(found.values.astype(np.float64) - values).max() <= bound


@settings(deadline=None)
@given(values=ANY, anchor=ANY, bound=st.sampled_from((0.0, 1e-300, 1e-3, np.inf)))
def test_whatever_the_numbers_are_the_grid_comes_back_bit_for_bit(
    values: Chunk32, anchor: Chunk32, bound: float
) -> None:
    tensor = on_grid(values, bound)
    assert unpack(pack(tensor, anchor), anchor).values.tobytes() == tensor.values.tobytes()


def test_what_is_decoded_does_not_depend_on_the_anchor() -> None:
    values = normal(0)
    found = [unpack(pack(on_grid(values, 0.01), anchor), anchor) for anchor in (near(values, 1), normal(2))]
    assert found[0].values.tobytes() == found[1].values.tobytes()


def test_another_anchor_adds_no_error() -> None:
    values, first, second = normal(0), normal(1), normal(2)
    once = unpack(pack(on_grid(values, 0.01), first), first)
    again = unpack(pack(once, second), second)
    assert (again.values.tobytes(), again.step) == (once.values.tobytes(), once.step)


def test_an_equal_tensor_takes_no_bytes_and_is_exact() -> None:
    values = normal(0)
    stream = pack(Gridded(values), values)
    assert len(stream) == 17
    assert unpack(stream, values).values.tobytes() == values.tobytes()


def test_a_difference_is_shorter_the_nearer_the_anchor_is() -> None:
    values = normal(0)
    sizes = [len(pack(on_grid(values, 0.01), near(values, 1, apart))) for apart in (0.02, 0.2, 2.0)]
    assert sizes == sorted(sizes)


@settings(deadline=None)
@given(data=st.data(), flip=st.integers(1, 255))
def test_a_damaged_stream_raises_one_error(data: st.DataObject, flip: int) -> None:
    anchor = normal(1)
    stream = bytearray(pack(on_grid(near(anchor, 2), 0.05), anchor))
    stream[data.draw(st.integers(0, len(stream) - 1))] ^= flip
    with pytest.raises(BadBitstream):
        unpack(bytes(stream), anchor)


@settings(deadline=None)
@given(stream=st.binary(max_size=200))
def test_bytes_that_are_no_stream_raise_one_error(stream: bytes) -> None:
    with pytest.raises(BadBitstream):
        unpack(stream, normal(1))


def test_another_anchor_is_found_out() -> None:
    anchor = normal(1)
    stream = pack(on_grid(near(anchor, 2), 0.05), anchor)
    with pytest.raises(BadBitstream):
        unpack(stream, near(anchor, 3))
