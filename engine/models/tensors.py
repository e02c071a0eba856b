"""MLX's arrays as the tensors of a file: as they are, or in eight bits with a scale for each few numbers, and back.

Knows no caches. MLX is imported inside functions, since BLAS must be there before it.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.models.protocols import Unreadable
from store.kv_files import Tensor

Arrays = Mapping[str, Any]  # by name
WORDS = {
    "float32": ("F32", ""), "float16": ("F16", "uint16"), "bfloat16": ("BF16", "uint16"),
    "int32": ("I32", ""), "uint32": ("U32", ""), "int8": ("I8", ""),
}  # fmt: skip
GROUP = 32  # numbers of a token that share a scale
_SCALES, _MOST = ".scales", 127


def tensor(name: str, array: Any) -> Tensor:
    """Copy an array's bytes out of MLX."""
    import mlx.core as mx

    dtype, same_width = WORDS[str(array.dtype).removeprefix("mlx.core.")]
    copy = mx.contiguous(array)
    raw: Any = copy.view(getattr(mx, same_width)) if same_width else copy  # which its stub has no buffer for
    return Tensor(name, dtype, tuple(array.shape), memoryview(raw) if array.size else b"")


def files(paths: Sequence[Path]) -> list[Arrays]:
    """Open files, whose arrays are read when they are computed with, in the thread that does so; Unreadable."""
    import mlx.core as mx

    try:
        opened: list[Any] = [mx.load(str(path)) for path in paths]
    except (RuntimeError, ValueError) as error:
        raise Unreadable(type(error).__name__) from error
    return opened


def pack(name: str, array: Any, bits: int) -> dict[str, Any]:
    """Give what is kept of the keys or values of some tokens, (1, heads, tokens, width): in eight bits if told to.

    No number shares its scale with another token's or head's, so that what is kept of one does not depend on others.
    """
    import mlx.core as mx

    *shape, width = array.shape
    if not bits or not width:
        return {name: mx.contiguous(array)}
    rows = array.reshape(*shape, *_groups(width)).astype(mx.float32)
    scales = (mx.abs(rows).max(axis=-1) / _MOST).astype(array.dtype)
    scales = mx.where(scales == 0, 1, scales)  # of nothing but noughts, or what is too small for a narrow number
    steps = mx.clip(mx.round(rows / scales[..., None].astype(mx.float32)), -_MOST, _MOST)
    return {name: steps.astype(mx.int8).reshape(array.shape), name + _SCALES: scales}


def unpack(found: Arrays, name: str) -> Any:
    """Give the keys or values that `pack` made this of, in the width of their scales; LookupError where none are."""
    array, scales = found[name], found.get(name + _SCALES)
    if scales is None:
        return array
    rows = array.reshape(*scales.shape, -1).astype(scales.dtype) * scales[..., None]
    return rows.reshape(array.shape)


def joined(parts: Iterable[Any]) -> Any:
    """Give keys or values one behind the other."""
    import mlx.core as mx

    found = list(parts)
    return found[0] if len(found) == 1 else mx.concatenate(found, axis=2)


def _groups(width: int) -> tuple[int, int]:
    """Give how the numbers of a token and head are put into groups: how many, and of how many each."""
    return (width // GROUP, GROUP) if width % GROUP == 0 else (1, width)
