"""The memory that a language model needs, and may use, on this machine. Reads no weights.

On a CPU, weights are converted to fp32, the only dtype that is fast there: 4-bit weights grow eightfold.
"""

import gc
import sys
from pathlib import Path

from engine.models.lookup import WEIGHTS, bits, read_config
from engine.models.runtime import Device
from store.errors import PkbError

OVERHEAD = 300_000_000  # bytes besides the weights: libraries, tokenizer, KV cache of one prompt
BUFFERS = 256 << 20  # bytes of freed arrays that MLX reuses
SINGLE, HALF = 32, 16  # bits of a weight


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
    config = read_config(folder)
    return needed(sum(path.stat().st_size for path in folder.glob(WEIGHTS)), bits(config), device)


def require_fit(folder: Path, name: str, device: Device, share: float) -> None:
    """Raise PkbError if a model needs more than a share of this machine's memory."""
    required, allowed = needed_by(folder, device), int(total() * share)
    if required > allowed:
        raise PkbError(
            f"{name} needs {required / 1e9:.1f} GB of memory; model.memory_share allows {allowed / 1e9:.1f} GB",
            "pkb model list",
        )


def limit(share: float) -> None:
    """Limit MLX to a share of this machine's memory; on Metal, keep its buffers from being paged out."""
    import mlx.core as mx

    mx.set_memory_limit(int(total() * share))
    mx.set_cache_limit(BUFFERS)
    if working_set := mx.device_info().get("max_recommended_working_set_size"):
        mx.set_wired_limit(int(working_set))


def resident() -> int:
    """Return the resident memory of this process in bytes."""
    import psutil

    return int(psutil.Process().memory_info().rss)


def release() -> None:
    """Free the memory of unused arrays."""
    gc.collect()
    if "mlx.core" in sys.modules:
        import mlx.core as mx

        mx.clear_cache()
