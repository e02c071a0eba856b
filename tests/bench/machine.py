"""The machine and its versions, for reports; no host names, no paths."""

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from engine.models import runtime

PACKAGES = ("mlx", "mlx-lm", "numpy", "lancedb", "tokenizers", "scipy-openblas32", "pkb")


def described() -> dict[str, str]:
    """Return what this machine is, in words; loads the BLAS."""
    runtime.load_blas()
    arithmetic = runtime.arithmetic()
    blas = f"{arithmetic['blas']}, {arithmetic['threads']} threads" if arithmetic["blas"] else "MLX's own"
    return {
        "processor": processor(),
        "cores": f"{psutil.cpu_count(logical=False) or '?'}, {os.cpu_count()} threads",
        "memory": f"{psutil.virtual_memory().total / 2**30:.1f} GiB",
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "Python": platform.python_version(),
        "device": arithmetic["device"],
        "BLAS": blas,
        "packages": ", ".join(f"{name} {found}" for name in PACKAGES if (found := _version(name))),
    }


def processor() -> str:
    """Name the processor as the system does."""
    if sys.platform == "darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout.strip() or platform.machine()
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text("utf-8").splitlines() if listed.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
