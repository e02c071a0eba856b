"""Tensor files are mapped as they were written, broken ones are refused, and digests are remembered."""

import os
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save, save_file

from engine.models.lookup import digest
from engine.models.minilm import open_tensors
from store.errors import PkbError

SHAPES = st.lists(st.integers(0, 4), max_size=3)
REUSE = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(
    st.dictionaries(st.text("abc.", min_size=1), SHAPES, min_size=1, max_size=4), st.sampled_from(["f4", "f2", "i8"])
)
@REUSE
def test_tensors_come_back_as_they_were_saved(tmp_path: Path, shapes: dict[str, list[int]], dtype: str) -> None:
    tensors = {
        name: np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype) for name, shape in shapes.items()
    }
    save_file(tensors, tmp_path / "x.safetensors")
    found = open_tensors(tmp_path / "x.safetensors")
    assert found.keys() == tensors.keys()
    assert all(np.array_equal(found[name], tensors[name]) and found[name].dtype == dtype for name in tensors)


@given(st.binary(max_size=200))
@REUSE
def test_bytes_that_are_no_tensor_file_are_refused_or_hold_nothing(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(data)
    with suppress(PkbError):  # any other error fails the test
        assert open_tensors(path) == {}


@given(st.integers(0, 95))
@REUSE
def test_a_cut_file_is_refused(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(save({"a": np.ones((2, 3), np.float32)})[:kept])
    with pytest.raises(PkbError):
        open_tensors(path)


def test_mapped_tensors_cannot_be_written(tmp_path: Path) -> None:
    save_file({"a": np.ones(3, np.float32)}, tmp_path / "x.safetensors")
    with pytest.raises(ValueError, match="read-only"):
        open_tensors(tmp_path / "x.safetensors")["a"][0] = 2


def test_a_changed_file_has_another_digest(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"one")
    before = digest(path, tmp_path / "notes")
    path.write_bytes(b"other")
    assert digest(path, tmp_path / "notes") != before


def test_a_file_that_was_changed_and_given_its_old_time_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"one")
    stat = path.stat()
    before = digest(path, tmp_path / "notes")
    path.write_bytes(b"two")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert digest(path, tmp_path / "notes") == digest(path) != before


def test_an_untouched_file_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"one")
    before = digest(path, tmp_path / "notes")
    monkeypatch.setattr("engine.models.lookup.file_digest", lambda *_: pytest.fail("read again"))
    assert digest(path, tmp_path / "notes") == before
