"""The device, BLAS library, threads, memory limit and temporary files of MLX. Knows no model.

Call private_tmp and load_blas in this order before `import mlx.core`, which links to the BLAS then loaded.
"""

import gc
import os
import platform
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache as once
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from struct import pack
from typing import TYPE_CHECKING, Any, Literal

from engine.models.lookup import HALF, SINGLE, WEIGHTS, bits, package_folders, read_config
from store.database import Ledger
from store.errors import NoModel, UsageError


class _AtFirstUse:
    """MLX, imported when something of it is first used."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module("mlx.core"), name)


if TYPE_CHECKING:
    from ctypes import _NamedFuncPointer

    import mlx.core

    mx = mlx.core
else:
    mx = _AtFirstUse()  # after load_blas, whenever the modules that use it are imported


PRODUCTS = ("cblas_sgemm", "cblas_dgemm", "cblas_cgemm")  # what MLX multiplies matrices with
PREFIX = "scipy_"  # before every symbol of the wheel's library
WHEEL = "scipy_openblas32"  # its import name; 32 is the width of its integers, which is what MLX passes


def wheel_library() -> str:
    """Return the path of the library in the installed wheel; empty if it is not installed."""
    return next((str(folder / "lib" / "libscipy_openblas.so") for folder in package_folders(WHEEL)), "")


def _publish(functions: "Mapping[str, _NamedFuncPointer]") -> None:
    """Make functions known to the dynamic linker by the names that MLX looks up.

    The library itself stays private: its other names would replace those inside numpy's copy of another version. A
    library of these names alone, made in memory, gives them their addresses, so that no file is changed or stored.
    """
    import ctypes

    addresses = {name: ctypes.cast(it, ctypes.c_void_p).value or 0 for name, it in functions.items()}
    with Path("/proc/self/exe").open("rb") as file:
        header = file.read(_HEADER)
    with os.fdopen(os.memfd_create("cblas"), "wb", buffering=0) as image:
        image.write(symbol_library(header, addresses))
        ctypes.CDLL(f"/proc/self/fd/{image.fileno()}", mode=ctypes.RTLD_GLOBAL)


_HEADER, _SEGMENT, _ENTRY, _SYMBOL = 64, 56, 16, 24  # bytes of the structures of a 64-bit ELF file
_LOAD, _DYNAMIC, _STACK = 1, 2, 0x6474E551  # kinds of segments
_HASHES, _NAMES, _SYMBOLS, _NAMES_SIZE, _SYMBOL_SIZE = 4, 5, 6, 10, 11  # entries of the dynamic section
_WRITABLE, _PAGE = 6, 1 << 16  # readable too; the largest page of any machine
_SHARED, _FUNCTION, _ABSOLUTE = 3, 0x12, 0xFFF1  # a library; a global function; an address that does not move with it


def symbol_library(header: bytes, addresses: Mapping[str, int]) -> bytes:
    """Return an ELF library that holds nothing but functions at given addresses of this process.

    `header` is that of any program of this machine, for its architecture; OSError unless it is 64-bit little-endian.
    """
    if header[:6] != b"\x7fELF\2\1":
        raise OSError("not a 64-bit little-endian ELF library")
    names, symbols = b"\0", bytes(_SYMBOL)
    for name, address in addresses.items():
        symbols += pack("<IBBHQQ", len(names), _FUNCTION, 0, _ABSOLUTE, address, 0)
        names += name.encode("ascii") + b"\0"
    count = len(addresses)
    hashes = pack(f"<{count + 4}I", 1, count + 1, count, 0, *range(count))  # one bucket: last to first
    dynamic = _HEADER + 3 * _SEGMENT
    tables = dynamic + 6 * _ENTRY
    at_hashes, at_names = tables + len(symbols), tables + len(symbols) + len(hashes)
    size = at_names + len(names)
    segments = ((_LOAD, 0, size, _PAGE), (_DYNAMIC, dynamic, tables - dynamic, 8), (_STACK, 0, 0, 8))
    entries = (_HASHES, at_hashes, _NAMES, at_names, _SYMBOLS, tables, _NAMES_SIZE, len(names), _SYMBOL_SIZE, _SYMBOL)
    return b"".join((
        header[:16], pack("<H", _SHARED), header[18:20], pack("<I3Q", 1, 0, _HEADER, 0),
        header[48:52], pack("<6H", _HEADER, _SEGMENT, 3, 0, 0, 0),
        *(pack("<2I6Q", kind, _WRITABLE, at, at, at, length, length, align) for kind, at, length, align in segments),
        pack("<12Q", *entries, 0, 0), symbols, hashes, names,
    ))  # fmt: skip


Device = Literal["metal", "cuda", "cpu"]

THREADS_VARIABLE = "PKB_THREADS"
GPUS = (Path("/dev/nvidiactl"), Path("/dev/dxg"))  # drivers of Linux, and of Linux inside Windows
_NVIDIA = ("nvidia-cublas", "nvidia-cudnn", "nvidia-cuda-nvrtc")  # distributions


def private_tmp(cache: Path) -> Path:
    """Put temporary files, including the code that MLX compiles for a GPU of NVIDIA, into a private folder."""
    folder = cache / "tmp"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    os.environ["TMPDIR"] = str(folder)
    return folder


NO_BACKEND = "MLX has no backend here, so no language model can run"


def has_backend() -> bool:
    """Return whether MLX is installed with a backend, which on Linux an extra of pkb brings."""
    return any(next((folder / "lib").glob("libmlx.*"), None) for folder in package_folders("mlx"))


def require_backend() -> None:
    """Raise NoModel, with the command that installs it, unless MLX has a backend."""
    if not has_backend():
        raise NoModel(NO_BACKEND, install_command())


def install_command(*extras: str) -> str:
    """Return the command that installs MLX's backend and `extras` and keeps the extras already installed."""
    import json
    from importlib.metadata import distribution
    from shlex import quote
    from urllib.parse import unquote, urlsplit

    # Reinstalling pkb by uv or pipx would remove an extra that is not named and all that was added since.
    origin = json.loads(distribution("pkb").read_text("direct_url.json") or "{}")
    checkout = unquote(urlsplit(origin.get("url", "")).path) or "."
    backend = ["cpu"] if sys.platform == "linux" and not _cuda_wheels() else []  # the same files as of CUDA's
    wanted = quote(checkout + (f"[{','.join((*backend, *extras))}]" if backend or extras else ""))
    if origin.get("dir_info", {}).get("editable"):
        wanted = f"-e {wanted}"
    if find_spec("pip") is None:  # as in the environments of uv; those of pipx share one
        return f"uv pip install --python {quote(sys.executable)} {wanted}"
    return f"{quote(sys.executable)} -m pip install {wanted}"


def _cuda_wheels() -> bool:
    return any(next(folder.parent.glob("mlx_cuda*.dist-info"), None) for folder in package_folders("mlx"))


@once
def device() -> Device:
    """Return the device that MLX computes on, without importing it."""
    if sys.platform == "darwin":
        return "metal" if platform.machine() == "arm64" else "cpu"
    return "cuda" if _cuda_wheels() and any(gpu.exists() for gpu in GPUS) else "cpu"


_loaded: list[tuple[str, int]] = []  # name and threads of a BLAS; at most one: MLX links to it for good


def load_blas(count: int | None = None) -> str | None:
    """Load a fast BLAS for MLX and return its name; None if there is none, or MLX is imported already or needs none.

    Its name has version and kernel, which affect rounding as the number of threads does. `count` is this number, by
    default the environment's; it applies to this library only, not to another copy of it in the process.
    """
    path = wheel_library()
    if path and not _loaded and device() == "cpu" and "mlx.core" not in sys.modules:
        import ctypes  # not needed for an exact hit

        with suppress(OSError, AttributeError):  # this machine does not allow it
            library = ctypes.CDLL(path)
            _publish({name: library[PREFIX + name] for name in PRODUCTS})
            if count:
                library[f"{PREFIX}openblas_set_num_threads"](count)
            config = library[f"{PREFIX}openblas_get_config"]
            config.restype = ctypes.c_char_p
            _loaded.append((config().decode(), library[f"{PREFIX}openblas_get_num_threads"]()))
    return _loaded[0][0] if _loaded else None


def threads_of(ledger: Ledger | None) -> int:
    """Return the number of threads for language models, fixed per home because it affects rounding; UsageError.

    A new home gets PKB_THREADS, by default half of the cores: BLAS threads wait for each other, so one busy core slows
    all of them down (ten times, on two busy cores).
    """
    stored = ledger.get("threads") if ledger else None
    wanted = stored or os.environ.get(THREADS_VARIABLE) or "0"
    if not wanted.isdecimal():
        raise UsageError(f"{THREADS_VARIABLE} must be a number of threads, not {wanted}", f"unset {THREADS_VARIABLE}")
    return int(wanted) or max(1, (os.cpu_count() or 1) // 2)


def arithmetic() -> dict[str, str]:
    """Return everything that affects the rounding of a result: tensors are bit-identical only if it is equal."""
    from importlib.metadata import version

    blas, threads = _loaded[0] if _loaded else ("", "")
    gpu, on = dict[str, str](), device()
    if on != "cpu":
        gpu = gpu_parts(mx.device_info(), libraries() if on == "cuda" else f"macOS {platform.mac_ver()[0]}")
    return gpu | {
        "device": on,
        "machine": platform.machine(),
        "blas": blas,
        "threads": str(threads),
        "mlx": version("mlx"),
        "softmax": f"numpy {version('numpy')}, not compiled" if on == "cpu" else "",
    }


def gpu_parts(info: Mapping[str, Any], software: str) -> dict[str, str]:
    """Return what a GPU's kernels are chosen by: its architecture, and the version of macOS or NVIDIA's libraries."""
    return {"architecture": str(info.get("architecture", "")), "software": software}


def libraries() -> str:
    """Return the versions of NVIDIA's libraries that MLX multiplies matrices with and compiles by."""
    from importlib.metadata import distributions

    found = {str(one.name): one.version for one in distributions()}
    return ", ".join(f"{name} {found[name]}" for name in sorted(found) if name.startswith(_NVIDIA))


OVERHEAD = 300_000_000  # bytes besides the weights: libraries, tokenizer, KV cache of one prompt
BUFFERS = 256 << 20  # bytes of freed arrays that MLX reuses


def total() -> int:
    """Return this machine's memory in bytes."""
    import psutil

    return int(psutil.virtual_memory().total)


def needed(weights: int, stored: int | None, device: Device) -> int:
    """Return the bytes of loaded weights, from their bytes on disk and bits per weight (None: half precision)."""
    loaded = weights * SINGLE // (stored or HALF) if device == "cpu" else weights
    return loaded + OVERHEAD


def needed_by(folder: Path, device: Device) -> int:
    """Return the bytes that the model in a folder needs when loaded; NoModel if its config cannot be read."""
    return needed(sum(path.stat().st_size for path in folder.glob(WEIGHTS)), bits(read_config(folder)), device)


def limit(share: float) -> None:
    """Limit MLX to a share of this machine's memory; on Metal, keep its buffers from being paged out."""
    mx.set_memory_limit(int(total() * share))
    mx.set_cache_limit(BUFFERS)
    if working_set := mx.device_info().get("max_recommended_working_set_size"):
        mx.set_wired_limit(int(working_set))


def resident() -> int:
    """Return the resident memory of this process in bytes."""
    import psutil

    return int(psutil.Process().memory_info().rss)


def release() -> None:
    """Free the memory of unused arrays, and give back to the system what is free."""
    gc.collect()
    if sys.platform == "linux":
        import ctypes

        with suppress(AttributeError):  # another C library than glibc
            ctypes.CDLL(None).malloc_trim(0)
    if "mlx.core" in sys.modules:
        mx.clear_cache()
