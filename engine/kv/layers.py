"""Keys and values of some tokens in the form that they are kept in: taken from a cache or from files, moved and joined.

Knows no prompts and no nodes.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.kv.rotate import Ropes
from engine.models.caches import Cache
from engine.models.protocols import Unreadable
from engine.models.tensors import Arrays, files, joined, tensor, unpack
from store.kv_files import Tensor

Layers = list[tuple[Any, Any]]  # keys and values of each layer, each (1, heads, tokens, width)


def take(cache: Cache, start: int, stop: int) -> Arrays:
    """Copy the keys and values of some tokens out of a cache that is nothing else."""
    import mlx.core as mx

    found = {
        f"{number}.{kv}": mx.contiguous(array[..., start:stop, :])
        for number, layer in enumerate(cache)
        for kv, array in zip("kv", layer.keys_and_values(), strict=True)
    }
    mx.eval(list(found.values()))
    return found


def load(paths: Sequence[Path], count: int) -> list[Arrays]:
    """Read what files hold of so many layers, in the thread that asks; Unreadable where that is not there."""
    import mlx.core as mx

    opened, wanted = files(paths), {f"{number}.{kv}" for number in range(count) for kv in "kv"}
    if any(not wanted <= one.keys() for one in opened):
        raise Unreadable("LookupError")
    try:
        mx.eval([list(one.values()) for one in opened])
    except RuntimeError as error:
        raise Unreadable(type(error).__name__) from error
    return opened


def tensors(arrays: Arrays) -> list[Tensor]:
    """Give what a file is made of."""
    return [tensor(name, array) for name, array in arrays.items()]


def assemble(parts: Sequence[Arrays], moves: Sequence[int], ropes: Ropes) -> Layers:
    """Join parts one behind the other, the keys of each moved on by so many places."""
    keys = list[list[Any]]()
    for part, by in zip(parts, moves, strict=True):
        keys.append(ropes.move([unpack(part, f"{number}.k") for number in range(len(ropes.layers))], by))
    return [
        (joined(one[number] for one in keys), joined(unpack(part, f"{number}.v") for part in parts))
        for number in range(len(ropes.layers))
    ]
