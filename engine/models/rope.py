"""Moves cached keys to other positions by rotating them with the layer's own rope, in fp32. Knows no prompts.

A plain rope rotates each pair of a key's values by position times a fixed angle, so rotations add up. Whether a model
has one, and no other positional encoding, is tested on the model itself, not inferred from its name.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.models.kv_cache import begin, is_sliceable
from store.errors import PkbError

if TYPE_CHECKING:
    from engine.models.mlx import Mlx


_NAMES = ("rope", "rotary_emb")  # of the rope in an attention, as mlx-lm's models call it
_OFFSETS = (1, 7, 130, 1900)  # positions at which ropes are tested
_TOLERANCE = 2e-3  # between two ways to the same position: fp32 angles are rounded at large ones


Rope = Callable[..., Any]  # rotates keys by their positions, counted from an `offset`


class Fixed(Exception):
    """A model's keys cannot be moved; the message, the end of a sentence, says why."""


@dataclass(frozen=True, slots=True)
class Ropes:
    """The rope of each layer; layers with equal ropes are grouped, because rotating their keys together is faster."""

    layers: tuple[Rope, ...]
    equal: tuple[tuple[int, ...], ...]

    def move(self, keys: Sequence[Any], by: int) -> list[Any]:
        """Return the keys of all layers, (1, heads, tokens, width), at positions higher by so many."""
        import mlx.core as mx

        found = list(keys)
        for same in self.equal if by else ():
            heads = [keys[number].shape[1] for number in same]
            moved = rotated(self.layers[same[0]], mx.concatenate([keys[number] for number in same], axis=1), by)
            for number, one in zip(same, mx.split(moved, list(accumulate(heads))[:-1], axis=1), strict=True):
                found[number] = one
        return found


def rotated(rope: Rope, keys: Any, by: int) -> Any:
    """Rotate keys by a number of positions; each is passed as a one-token text, because a rope counts tokens."""
    import mlx.core as mx

    wide = keys.transpose(2, 1, 0, 3).astype(mx.float32)
    return rope(wide, offset=by).transpose(2, 1, 0, 3).astype(keys.dtype)


def movable(model: "Mlx") -> Ropes:
    """Return the ropes of a model; PkbError if it does not support block mode."""
    try:
        return ropes(model.model, model.begin(), model.context)
    except Fixed as why:
        raise PkbError(f"{model.name} cannot reuse blocks: {why}", "pkb config set kv.reuse prefix") from None


def why_fixed(folder: Path) -> str:
    """Return why the model in a folder does not support block mode, as the end of a sentence; empty if it does."""
    from engine.models.load import LOAD_ERRORS
    from engine.models.mlx import open_lazily

    try:
        model = open_lazily(folder)
        ropes(model, begin(model), _OFFSETS[-1])
    except Fixed as why:
        return str(why)
    except LOAD_ERRORS:
        return "cannot be loaded"
    return ""


def ropes(model: Any, cache: Sequence[Any], context: int) -> Ropes:
    """Return the ropes of a model, given an empty cache of it; Fixed if its keys cannot be moved.

    Reads only the weights of the first layer.
    """
    if not is_sliceable(list(cache)):
        raise Fixed("it does not keep the keys and values of every token")
    if len(model.layers) != len(cache):
        raise Fixed("its layers share their keys")
    import mlx.core as mx

    found, same = tuple(map(_rope, model.layers)), dict[bytes, list[int]]()
    model(mx.array([[1, 1, 1]]), cache=list(cache))  # one token three times; evaluated lazily
    for number, (rope, layer) in enumerate(zip(found, cache, strict=True)):
        width = layer.keys_and_values()[0].shape[-1]
        same.setdefault(_try(rope, width, [at for at in _OFFSETS if at < context]), []).append(number)
    _try_keys(cache[0], found[0])
    return Ropes(found, tuple(map(tuple, same.values())))


def _rope(layer: Any) -> Rope:
    named = [module for name, module in layer.named_modules() if name.rpartition(".")[2].endswith(_NAMES)]
    if len(named) != 1 or not callable(named[0]):
        raise Fixed("it has more than one rope" if named else "its layers have no rope")
    rope: Rope = named[0]
    return rope


def _try(rope: Rope, width: int, offsets: Sequence[int]) -> bytes:
    """Check that rotating in two steps equals rotating at once; returns bytes that equal ropes share."""
    import mlx.core as mx

    keys = mx.random.normal((1, 1, 1, width), key=mx.random.key(0))
    if not _alike(rope(keys, offset=0), keys):
        raise Fixed("its rope scales keys")
    at_once = [rope(keys, offset=by + 3) for by in offsets]
    for by, other in zip(offsets, at_once, strict=True):
        if not _alike(rotated(rope, rope(keys, offset=3), by), other):
            raise Fixed("its rope's angles depend on the position")
    return b"".join(bytes(memoryview(other)) for other in at_once)


def _try_keys(layer: Any, rope: Rope) -> None:
    """Check that the first layer's keys of one token at three positions differ by rotation alone."""
    import mlx.core as mx

    keys, values = layer.keys_and_values()
    moved = mx.concatenate([rotated(rope, keys[..., :1, :], by) for by in range(3)], axis=2)
    if not _alike(moved, keys) or not _alike(mx.broadcast_to(values[..., :1, :], values.shape), values):
        raise Fixed("its keys depend on the position by more than a rotation")


def _alike(one: Any, other: Any) -> bool:
    import mlx.core as mx

    tolerance = _TOLERANCE + 2 * float(mx.finfo(other.dtype).eps)  # one more rounding to the width of the keys
    apart = mx.abs(one.astype(mx.float32) - other.astype(mx.float32)).max()
    return bool((apart <= tolerance * mx.maximum(mx.abs(other).max(), 1e-6)).item())
