"""The runtime settings, each in a process of its own: what is loaded first decides what a process computes with."""

import ctypes
import json
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.app import THREADS
from engine.models import runtime

START = "import json, os, sys; from pathlib import Path; from engine.models import runtime; cache = Path(sys.argv[1]);"


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
    if not run("print(json.dumps(runtime.load_blas()))", cache):
        pytest.skip("no fast BLAS for MLX on this machine, or none needed")
    return cache


def test_importing_the_module_imports_neither_numpy_nor_mlx(tmp_path: Path) -> None:
    assert run("print(json.dumps([m for m in ('numpy', 'mlx.core', 'ctypes') if m in sys.modules]))", tmp_path) == []


def test_asking_for_the_device_does_not_import_mlx(tmp_path: Path) -> None:
    assert run("runtime.device(); print(json.dumps('mlx.core' in sys.modules))", tmp_path) is False


def test_mlx_multiplies_with_the_blas_that_was_loaded_before_it(fast: Path) -> None:
    code = """
name = runtime.load_blas()
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
runtime.load_blas()
import mlx.core as mx, numpy as np
a, b = np.random.default_rng(1).standard_normal((2, 70, 70)).astype(np.float32)
found = np.array(mx.array(a) @ mx.array(b))
print(json.dumps(float(np.abs(found - a.astype(float) @ b.astype(float)).max())))
"""
    assert run(code, fast) < 1e-4


def test_the_arithmetic_names_the_number_of_threads(fast: Path) -> None:
    code = "runtime.load_blas(); print(json.dumps(runtime.arithmetic()))"
    one, two = (run(code, fast, **dict.fromkeys(THREADS, count)) for count in ("1", "2"))
    assert one | {"threads": "2"} == two | {"threads": "2"}
    assert one["threads"] == "1"
    if (os.cpu_count() or 1) > 1:
        assert two["threads"] == "2"


def test_the_arithmetic_of_a_processor_names_no_gpu(fast: Path) -> None:
    found = run("print(json.dumps(runtime.arithmetic()))", fast)
    assert found["device"] != "cpu" or not {"architecture", "software"} & found.keys()


def test_a_gpu_is_named_by_its_architecture_and_the_software_that_its_kernels_come_from() -> None:
    info = {"architecture": "applegpu_g16s", "device_name": "Apple M4 Max", "memory_size": 1 << 36}
    expected = {"architecture": "applegpu_g16s", "software": "macOS 26.2"}
    assert runtime.gpu_parts(info, "macOS 26.2") == expected
    assert runtime.gpu_parts({}, "macOS 26.2")["architecture"] == ""  # a version of MLX that does not tell


def test_a_blas_that_came_after_mlx_is_not_named(tmp_path: Path) -> None:
    assert run("import mlx.core; print(json.dumps(runtime.load_blas()))", tmp_path) is None


def test_the_blas_is_named_after_mlx_is_imported_too(fast: Path) -> None:
    code = """
name = runtime.load_blas()
import mlx.core
print(json.dumps([name, runtime.load_blas(), runtime.arithmetic()["blas"]]))
"""
    name, *later = run(code, fast)
    assert later == [name, name]


def test_of_the_blas_only_the_products_are_visible_to_other_libraries(fast: Path) -> None:
    code = """
runtime.load_blas()
import ctypes
mine = ctypes.CDLL(runtime.wheel_library())
names = [*runtime.PRODUCTS, "scipy_cblas_sgemm", "gotoblas", "sgemm_thread_nn"]
print(json.dumps([name for name in names if hasattr(ctypes.CDLL(None), name)]))
"""
    assert run(code, fast) == list(runtime.PRODUCTS)


def test_loading_a_blas_writes_no_file(fast: Path) -> None:
    run("print(json.dumps(runtime.load_blas()))", fast)
    assert list(fast.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="the dynamic linker of Linux")
@given(
    names=st.dictionaries(st.from_regex(r"[a-z_][a-z0-9_]{0,40}", fullmatch=True), st.integers(1, 2**63), max_size=9)
)
def test_the_linker_finds_every_symbol_at_its_address_and_no_other(names: dict[str, int]) -> None:
    with Path(sys.executable).resolve().open("rb") as file, tempfile.NamedTemporaryFile() as library:
        library.write(runtime.symbol_library(file.read(64), names))
        library.flush()
        opened = ctypes.CDLL(library.name, mode=ctypes.RTLD_LOCAL)
        found = {name: ctypes.cast(opened[name], ctypes.c_void_p).value for name in names}
        assert found == names
        assert not hasattr(opened, "".join(names) + "_another")


def test_no_symbols_are_made_for_a_machine_of_another_kind() -> None:
    for header in (b"", b"\x7fELF\1\1" + bytes(58), b"\x7fELF\2\2" + bytes(58)):
        with pytest.raises(OSError, match="not a 64-bit little-endian ELF library"):
            runtime.symbol_library(header, {"cblas_sgemm": 1})


def test_temporary_files_are_private_and_a_processor_compiles_nothing(tmp_path: Path) -> None:
    code = """
from engine.models.load import load
from tests.engine.models.shapes import KINDS, make
model = load(make(cache / "llama", KINDS["llama"]), name="llama", cache=cache, memory_share=0.9)
model.logits(model.begin(), [1, 2, 3])
print(json.dumps([os.environ["TMPDIR"], len(list(cache.rglob("*.so")))]))
"""
    folder, compiled = run(code, tmp_path)
    assert stat.S_IMODE(Path(folder).stat().st_mode) == 0o700
    assert compiled == 0
