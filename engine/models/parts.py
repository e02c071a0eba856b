"""What mlx-lm's caches keep of a layer, by type: all tokens, the last ones of a window, or one running state.

Behind a segment `settle` brings one to exactly what `put` makes of the files of all segments so far, so that whoever
goes on from there computes the same. MLX is imported inside functions, since BLAS must be there before it.
"""

from collections.abc import Sequence
from typing import Any, Literal

from engine.models.tensors import Arrays, joined, pack, unpack

Kind = Literal["tokens", "window", "state"]
_KINDS: dict[str, Kind] = {
    "KVCache": "tokens",
    "RotatingKVCache": "window",
    "ChunkedKVCache": "window",
    "ArraysCache": "state",
}
_END = "end"  # how many tokens are read behind a segment, where no layer keeps them all


def kind(part: Any) -> Kind | None:
    """Tell what is kept; None for a type that is not known to be whole in that."""
    found = _KINDS.get(type(part).__name__) if type(part).__module__ == "mlx_lm.models.cache" else None
    return None if getattr(part, "keep", 0) else found  # a window that holds on to the first tokens as well


def window(part: Any) -> int:
    """Give how many tokens a layer sees at most."""
    return int(part.max_size if hasattr(part, "max_size") else part.chunk_size)


def settle(part: Any, name: str, count: int, bits: int) -> dict[str, Any]:
    """Bring what has read a segment of `count` tokens to the form that it is loaded in; gives what is kept of them.

    Nothing where all tokens stay as they are: those can be cut at any time.
    """
    import mlx.core as mx

    found = kind(part)
    if found == "state":
        part.cache = [None if array is None else mx.contiguous(array) for array in part.cache]
        return {f"{name}.{slot}": array for slot, array in enumerate(part.cache) if array is not None}
    if part.empty() or (found == "tokens" and not bits):
        return {}
    seen = part.keys_and_values() if found == "tokens" else _in_order(part)
    read = min(count, seen[0].shape[2])
    kept = [pack(f"{name}.{kv}", array[..., -read:, :], bits) for kv, array in zip("kv", seen, strict=True)]
    loaded = [unpack(packed, f"{name}.{kv}") for kv, packed in zip("kv", kept, strict=True)]
    if found == "tokens":
        for array, last in zip((part.keys, part.values), loaded, strict=True):
            array[..., part.offset - read : part.offset, :] = last
        return kept[0] | kept[1]
    before = [array[..., :-read, :] for array in seen]
    _set(part, [joined(both) for both in zip(before, loaded, strict=True)], part.offset)
    return kept[0] | kept[1] | {_END: mx.array([part.offset], mx.int32)}


def put(part: Any, name: str, opened: Sequence[Arrays], lent: int | None = None) -> None:
    """Have an empty one hold what files do, one segment behind the other, of the last `lent` tokens; LookupError."""
    found = kind(part)
    if found == "state":
        slots = [opened[-1].get(f"{name}.{slot}") for slot in range(len(part.cache))]
        if all(array is None for array in slots):
            raise LookupError(name)
        part.cache = slots
        return
    arrays = [[unpack(one, f"{name}.{kv}") for one in opened] for kv in "kv"]
    if found == "window":
        _set(part, [joined(_last(each, window(part))) for each in arrays], int(opened[-1][_END].item()))
        return
    both = [joined([*each[:-1], each[-1][..., :lent, :]]) for each in arrays]
    _set(part, both, both[0].shape[2])


def _in_order(part: Any) -> list[Any]:
    """Give the keys and values that a windowed layer still sees, oldest first."""
    at = getattr(part, "_idx", None)
    seen = list(part.keys_and_values())
    if at is not None and at < seen[0].shape[2]:  # the oldest stands where the next one goes
        seen = [joined([array[..., at:, :], array[..., :at, :]]) for array in seen]
    return [array[..., -window(part) :, :] for array in seen]


def _last(arrays: Sequence[Any], count: int) -> list[Any]:
    """Give the end of what stands one behind the other: no file is read that is not part of it."""
    found: list[Any] = []
    for array in reversed(arrays):
        if count > 0:
            found.insert(0, array[..., -count:, :])
            count -= found[0].shape[2]
    return found


def _set(part: Any, both: Sequence[Any], end: int) -> None:
    """Have a layer hold keys and values that were read up to a token."""
    keys, values = both
    match type(part).__name__:
        case "KVCache":
            part.state = (keys, values, end)
        case "RotatingKVCache":
            part.state = (keys, values, end, 0, part.max_size, keys.shape[2])
        case "ChunkedKVCache":
            part.state = (keys, values, end, part.chunk_size, end - keys.shape[2])
