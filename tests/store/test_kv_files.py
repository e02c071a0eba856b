"""A node's file: exact, readable by MLX, and refused whenever it is not what was written."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.home import identity
from store.kv_files import BadNode, Header, Tensor, decode, encode, size_of, verify, write
from tests.store.kv_kit import tensors

HEADER = Header(b"r" * 16, b"k" * 16, b"p" * 16, b"a" * 16, (5, 0, 2**32 - 1))


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """Return a sound file."""
    path = tmp_path / "node.safetensors"
    write(path, HEADER, tensors(4096))
    return path


def refused(path: Path) -> None:
    with pytest.raises(BadNode):
        verify(path)


def put(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
        file.write(data)


def with_header(path: Path, change: Callable[[dict[str, str]], object]) -> None:
    """Write a file's header anew with changed metadata, the payloads behind it as they were."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    entries = json.loads(data[8 : 8 + length])
    change(entries["__metadata__"])
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])


def test_what_is_written_is_read_back(node: Path) -> None:
    header = verify(node)
    assert (header.root, header.key, header.parent, header.path, header.ids) == (
        HEADER.root, HEADER.key, HEADER.parent, HEADER.path, HEADER.ids,
    )  # fmt: skip
    assert [payload.name for payload in header.payloads] == ["0.k", "0.v", "1.k", "1.v"]


def test_only_its_owner_may_read_a_file(node: Path) -> None:
    assert node.stat().st_mode & 0o777 == 0o600


def test_nothing_but_the_file_is_left_behind(node: Path) -> None:
    assert list(node.parent.iterdir()) == [node]


def test_what_an_earlier_writer_left_half_done_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "node.part").write_bytes(b"half")
    write(tmp_path / "node.safetensors", HEADER, tensors(64))
    assert [path.name for path in tmp_path.iterdir()] == ["node.safetensors"]


@pytest.mark.parametrize("size", [16, 1000, 5000])
def test_the_size_is_known_before_writing(tmp_path: Path, size: int) -> None:
    path, parts = tmp_path / "node.safetensors", tensors(size)
    write(path, HEADER, parts)
    assert path.stat().st_size == size_of(HEADER, parts)


@pytest.mark.parametrize(
    ("name", "dtype"), [("F32", mx.float32), ("F16", mx.float16), ("BF16", mx.bfloat16), ("U32", mx.uint32)]
)
def test_mlx_loads_exactly_what_was_written(tmp_path: Path, name: str, dtype: mx.Dtype) -> None:
    whole = (mx.random.normal((1, 3, 40, 8), key=mx.random.key(1)) * 100).astype(dtype)
    part: Any = mx.contiguous(whole[:, :, 7:29])  # its type does not say that it is a buffer
    mx.eval(part)
    path = tmp_path / "node.safetensors"
    write(path, HEADER, [Tensor("0.k", name, part.shape, memoryview(part))])
    loaded = mx.load(str(path))
    assert isinstance(loaded, dict)
    assert (loaded["0.k"].dtype, loaded["0.k"].shape) == (dtype, (1, 3, 22, 8))
    assert np.array_equal(np.array(loaded["0.k"].view(mx.uint8)), np.array(part.view(mx.uint8)))


def test_a_missing_file_is_missing(tmp_path: Path) -> None:
    refused(tmp_path / "none.safetensors")


def test_a_file_cut_anywhere_is_refused(node: Path) -> None:
    data = node.read_bytes()
    for length in (0, 7, 8, 100, 500, len(data) - 1):
        node.write_bytes(data[:length])
        refused(node)


def test_a_file_with_more_behind_it_is_refused(node: Path) -> None:
    node.write_bytes(node.read_bytes() + b"\0")
    refused(node)


def test_a_flipped_bit_in_a_payload_is_found(node: Path) -> None:
    put(node, -1, bytes([node.read_bytes()[-1] ^ 1]))
    refused(node)


def test_another_programs_safetensors_are_foreign(tmp_path: Path) -> None:
    path = tmp_path / "node.safetensors"
    mx.save_safetensors(str(path), {"0.k": mx.zeros((2, 2))}, {"format": "pt"})
    refused(path)


@pytest.mark.parametrize(
    "data",
    [
        b"\xff" * 8, b"\xff\xff\xff\x00\0\0\0\0" + b"{}", b"\x02\0\0\0\0\0\0\0[]", b"\x02\0\0\0\0\0\0\0{}",
        b"\x04\0\0\0\0\0\0\0null", (200_000).to_bytes(8, "little") + b"[" * 200_000, b"\x03\0\0\0\0\0\0\0\xff{}",
    ],
    ids=["huge", "large", "list", "empty", "null", "deep", "not text"],
)  # fmt: skip
def test_a_file_that_is_no_node_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "node.safetensors"
    path.write_bytes(data)
    refused(path)


@pytest.mark.parametrize(
    "make", [os.mkdir, os.mkfifo, lambda path: path.symlink_to("/etc/hostname")], ids=["folder", "pipe", "link"]
)
def test_what_is_no_file_is_foreign_and_nobody_waits_for_it(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "node.safetensors")
    refused(tmp_path / "node.safetensors")


def test_a_header_written_anew_as_it_was_is_sound(node: Path) -> None:
    with_header(node, lambda about: None)
    assert verify(node).key == HEADER.key


def test_a_file_of_another_version_is_refused(node: Path) -> None:
    with_header(node, lambda about: about.update(version="2"))
    refused(node)


@pytest.mark.parametrize("name", ["root", "key", "parent", "path", "ids", "crc", "sum"])
def test_a_header_in_which_anything_was_changed_is_refused(node: Path, name: str) -> None:
    with_header(node, lambda about: about.update({name: _other_digit(about[name])}))
    refused(node)


def _other_digit(text: str) -> str:
    """Change the first digit of a text, for another of as many characters."""
    at = next(i for i, character in enumerate(text) if character.isdigit())
    return text[:at] + str(9 - int(text[at])) + text[at + 1 :]


@given(st.data())
@settings(deadline=None)
def test_a_header_with_a_flipped_bit_is_refused(data: st.DataObject) -> None:
    text = bytearray(encode(HEADER, ()))
    bit = data.draw(st.integers(0, 8 * len(text) - 1))
    text[bit // 8] ^= 1 << bit % 8
    with pytest.raises(BadNode):
        decode(bytes(text))


@given(st.binary(max_size=60))
@settings(deadline=None)
def test_no_bytes_raise_anything_but_a_bad_node(text: bytes) -> None:
    with pytest.raises(BadNode):
        decode(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-4, 99) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["dtype", "shape", "crc"]), inner),
    max_leaves=6,
)


@given(
    st.dictionaries(st.sampled_from(["dtype", "shape", "data_offsets"]), JSON),
    st.dictionaries(st.sampled_from(["crc", "ids", "key"]), JSON),
)
@settings(deadline=None)
def test_no_json_raises_anything_but_a_bad_node(entry: dict[str, object], about: dict[str, object]) -> None:
    text = json.loads(encode(HEADER, ()))
    text["__metadata__"] |= about
    with pytest.raises(BadNode):
        decode(json.dumps(text | {"0.k": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]} | entry}).encode())


@given(st.lists(st.integers(0, 2**32 - 1), max_size=9), st.binary(min_size=16, max_size=16))
@settings(deadline=None)
def test_every_header_comes_back(ids: list[int], key: bytes) -> None:
    header = Header(key, key[::-1], b"p" * 16, b"a" * 16, tuple(ids))
    assert decode(encode(header, ())) == header


def test_writing_over_a_file_changes_its_identity(node: Path) -> None:
    before, times = identity(node), node.stat()
    put(node, -1, b"x")
    os.utime(node, ns=(times.st_atime_ns, times.st_mtime_ns))
    after = identity(node)
    assert before is not None
    assert after is not None
    assert (before.size, before.mtime_ns, before == after) == (after.size, after.mtime_ns, False)


def test_a_link_has_no_identity(node: Path) -> None:
    link = node.with_name("link")
    link.symlink_to(node)
    assert identity(link) is None
