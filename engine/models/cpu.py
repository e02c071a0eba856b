"""Attention on a CPU with numpy's softmax: MLX computes exponentials one by one there, most of attention's time.

Replaces the attention function of mlx-lm's models, and falls back to it for what it does not support. MLX is imported
inside functions, because BLAS must be loaded before it.
"""

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

_NAME = "scaled_dot_product_attention"
_BLOCK = 1 << 18  # scores per pass: they fit in a core's L2 cache


def patch_attention(model: Any) -> None:
    """Replace a loaded model's attention function by `attend` in all modules of its layers."""
    for name in {type(part).__module__ for part in model.modules()}:
        if name.startswith("mlx_lm.models.") and hasattr(sys.modules[name], _NAME):
            setattr(sys.modules[name], _NAME, attend)


def attend(queries: Any, keys: Any, values: Any, cache: Any, scale: float, mask: Any, sinks: Any = None) -> Any:
    """Return softmax(queries keys^T scale + mask) values: (batch, heads, rows, width), of (batch, groups, seen, width).

    A single row goes to mlx-lm: it is fast, and must stay asynchronous in decoding.
    """
    import mlx.core as mx
    from mlx_lm.models import base

    batch, heads, rows, width = queries.shape
    groups, seen = keys.shape[1:3]
    plain = sinks is None and not hasattr(cache, "bits") and queries.dtype == keys.dtype == mx.float32
    if rows == 1 or not plain or not _is_common(mask):
        return base.scaled_dot_product_attention(queries, keys, values, cache, scale, mask, sinks)
    grouped = (queries * scale).reshape(batch, groups, -1, width)
    scores = grouped @ keys.swapaxes(-1, -2)
    mx.eval(scores)
    raw: Floats = np.array(scores, copy=False)
    _hide(raw.reshape(-1, rows, seen), mask)
    sums = _exponentials(raw.reshape(-1, seen))
    found = (scores @ values) / mx.array(sums.reshape(batch, groups, -1, 1))
    return found.reshape(batch, heads, rows, -1)


def _is_common(mask: Any) -> bool:
    """Return whether a mask is absent, causal, or shared by all heads and prompts."""
    return mask is None or isinstance(mask, str) or all(size == 1 for size in mask.shape[:-2])


def _hide(scores: Floats, mask: Any) -> None:
    """Set masked scores, (heads, rows, seen), to minus infinity."""
    rows, seen = scores.shape[1:]
    if isinstance(mask, str):
        np.copyto(scores[..., seen - rows :], -np.inf, where=np.triu(np.ones((rows, rows), bool), 1))
    elif mask is not None:
        given = np.array(mask).reshape(-1, seen)
        if given.dtype == bool:
            np.copyto(scores, -np.inf, where=~given)
        else:
            scores += given


def _exponentials(scores: Floats) -> Floats:
    """Turn rows of scores into exponentials, the largest 1, in place; returns their sums, (rows,)."""
    sums, step = np.empty(len(scores), np.float32), max(1, _BLOCK // scores.shape[1])
    for at in range(0, len(scores), step):
        block = scores[at : at + step]
        block -= block.max(axis=1, keepdims=True)
        np.exp(block, out=block)
        block.sum(axis=1, out=sums[at : at + step])
    return sums
