"""The one module that touches mlx-lm's caches: what a model has read, given out as plain tensors and put back.

It knows no prompts and no files but safetensors. MLX is imported inside functions, since BLAS must be there before it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.models.protocols import Unreadable
from store.kv_files import Tensor

Cache = list[Any]  # one of mlx-lm's caches a layer
WORDS = {"float32": ("F32", ""), "float16": ("F16", "uint16"), "bfloat16": ("BF16", "uint16")}  # safetensors' own


def begin(model: Any) -> Cache:
    """Give an empty cache."""
    from mlx_lm.models.cache import make_prompt_cache

    cache: Cache = make_prompt_cache(model)
    return cache


def compute(cache: Cache) -> None:
    """Have all that is in a cache computed, and no logits, which nobody asked for."""
    import mlx.core as mx

    mx.eval([layer.state for layer in cache])
    mx.clear_cache()


def length(cache: Cache) -> int:
    """Give how many tokens a cache has read; 0 for a model that keeps no count, and so has no end either."""
    layers = [part for layer in cache for part in getattr(layer, "caches", (layer,))]
    return max((int(layer.offset) for layer in layers if hasattr(layer, "offset")), default=0)


def sliceable(cache: Cache) -> bool:
    """Tell whether a cache is keys and values of every token, so that some of it can be kept and put back."""
    from mlx_lm.models.cache import KVCache

    return all(type(layer) is KVCache for layer in cache)


def cut(cache: Cache, start: int, stop: int) -> list[Tensor]:
    """Copy the keys and values of some tokens: a tensor a layer and kind, (1, heads, tokens, width)."""
    return [
        _tensor(f"{number}.{kind}", array[..., start:stop, :])
        for number, layer in enumerate(cache)
        for kind, array in zip("kv", layer.keys_and_values(), strict=True)
    ]


def restore(cache: Cache, paths: Sequence[Path], lent: int | None = None) -> Cache:
    """Have an empty cache read what the files hold, one behind the other, of the last `lent` tokens.

    Unreadable where a file is gone, or holds something else. Arrays are read in the thread that asks.
    """
    import mlx.core as mx

    try:
        parts: list[Any] = [mx.load(str(path)) for path in paths]
        for number, layer in enumerate(cache):
            found = [[part[f"{number}.{kind}"] for part in parts] for kind in "kv"]
            cut = [[*each[:-1], each[-1][..., :lent, :]] for each in found]
            keys, values = (each[0] if len(each) == 1 else mx.concatenate(each, axis=2) for each in cut)
            layer.state = (keys, values, keys.shape[2])
        mx.eval([layer.state for layer in cache])
    except (RuntimeError, ValueError, LookupError) as error:
        raise Unreadable(type(error).__name__) from error
    return cache


def _tensor(name: str, array: Any) -> Tensor:
    """Copy an array's bytes out of MLX."""
    import mlx.core as mx

    dtype, same_width = WORDS[str(array.dtype).removeprefix("mlx.core.")]
    copy = mx.contiguous(array)
    raw: Any = copy.view(getattr(mx, same_width)) if same_width else copy  # which its stub has no buffer for
    return Tensor(name, dtype, tuple(array.shape), memoryview(raw))
