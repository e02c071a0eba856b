"""Keys and values read straight into a cache: what mx.load and a join would give, or Unreadable."""

import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.models.kv_cache import Arrays, RangeReader, UnreadableCache, tensor
from store.kv_files import Header, write
from tests.effort import examples

KEY = b"0" * 16
NAMES = ("0.k", "0.v", "1.k", "1.v")


def kept(path: Path, tokens: int, dtype: str = "float32", heads: int = 2, width: int = 8, seed: int = 0) -> Path:
    """Write a file of random keys and values."""
    import mlx.core as mx

    mx.random.seed(seed)
    arrays = {name: mx.random.normal((1, heads, tokens, width)).astype(getattr(mx, dtype)) for name in NAMES}
    write(path, Header(KEY, KEY, KEY, KEY, (1,)), [tensor(name, array) for name, array in arrays.items()])
    return path


def read(paths: Sequence[Path], shared: int | None = None, *, in_place: bool = True) -> tuple[Arrays, int]:
    with closing(RangeReader(paths, shared, in_place=in_place)) as reader:
        reader.read_all()
        return reader.take(), reader.starts[-1]


def joined(paths: Sequence[Path], shared: int | None) -> dict[str, Any]:
    """Load files and join what they hold."""
    import mlx.core as mx

    loaded: list[Any] = [mx.load(str(path)) for path in paths]
    last = len(loaded) - 1
    return {
        name: mx.concatenate(
            [one[name][..., : shared if at == last else None, :] for at, one in enumerate(loaded)], axis=2
        )
        for name in NAMES
    }


@examples(40)
@given(
    st.lists(st.integers(1, 300), min_size=1, max_size=4),
    st.none() | st.integers(1, 300),
    st.sampled_from(["float32", "float16", "bfloat16"]),
    st.booleans(),
)
def test_what_is_read_is_what_the_files_hold(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], shared: int | None, dtype: str, in_place: bool
) -> None:
    import mlx.core as mx

    folder = tmp_path_factory.mktemp("files")
    paths = [kept(folder / f"{at}.safetensors", count, dtype, seed=at) for at, count in enumerate(counts)]
    found, count = read(paths, shared, in_place=in_place)
    wanted = joined(paths, shared)
    assert count == sum(counts[:-1]) + min(counts[-1], shared or counts[-1])
    for name in NAMES:
        assert found[name].dtype == wanted[name].dtype
        assert mx.array_equal(found[name][..., :count, :], wanted[name])
        assert found[name].shape[2] > count  # room for a question


@pytest.mark.parametrize("other", [{"heads": 1}, {"width": 4}, {"dtype": "float16"}])
def test_files_of_other_tensors_are_not_joined(tmp_path: Path, other: dict[str, Any]) -> None:
    paths = [kept(tmp_path / "a.safetensors", 5), kept(tmp_path / "b.safetensors", 5, **other)]
    with pytest.raises(UnreadableCache):
        read(paths)


@examples(200)
@given(st.data())
def test_a_damaged_file_is_unreadable_or_read_but_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = kept(tmp_path_factory.mktemp("files") / "a.safetensors", 3)
    text = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        text = text[: data.draw(st.integers(0, len(text) - 1))]
    else:
        text[data.draw(st.integers(0, min(len(text), 1200) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(text)
    try:
        _, count = read([path])
    except UnreadableCache:
        return
    assert count == 3


def test_a_file_that_is_gone_or_a_link_is_unreadable(tmp_path: Path) -> None:
    path, link = kept(tmp_path / "a.safetensors", 3), tmp_path / "b.safetensors"
    link.symlink_to(path)
    for wrong in (tmp_path / "none.safetensors", link, tmp_path):
        with pytest.raises(UnreadableCache):
            read([wrong])


@pytest.mark.parametrize("missing", [1, 7, 8 * 4, 2 * 3 * 8 * 4, 4 * 2 * 3 * 8 * 4])
def test_a_file_that_has_become_shorter_is_unreadable(tmp_path: Path, missing: int) -> None:
    """By a byte, by less than a number, a row, a tensor, or all of them."""
    first, second = kept(tmp_path / "a.safetensors", 3), kept(tmp_path / "b.safetensors", 3)
    os.truncate(second, second.stat().st_size - missing)
    for paths in ([second], [first, second], [second, first]):
        with pytest.raises(UnreadableCache):
            read(paths)


def descriptors() -> int:
    """Count the descriptors of this process."""
    return len(list(Path("/dev/fd").iterdir()))


def test_no_file_stays_open(tmp_path: Path) -> None:
    good, short = kept(tmp_path / "a.safetensors", 3), kept(tmp_path / "b.safetensors", 3)
    os.truncate(short, short.stat().st_size - 1)
    read([good])
    before = descriptors()
    read([good, good])
    for paths in ([good, short], [good, tmp_path / "none.safetensors"]):
        with pytest.raises(UnreadableCache):
            read(paths)
    assert descriptors() == before
