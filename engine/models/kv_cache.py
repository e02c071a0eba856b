"""A model's KV cache as plain tensors: sliced by segment, packed, read from files and restored, its keys moved.

The only module that uses mlx-lm's cache classes. Knows safetensors files, of which it reads ranges of tokens directly
into the buffers of a cache; no prompts and no store. MLX is imported at first use, because BLAS must be loaded before
it. Keys are moved by the layer's own rope, in fp32: a plain one rotates each pair of a key's values by position times a
fixed angle, so rotations add up. Whether a model has one, and no other positional encoding, is tested on the model
itself, not inferred from its name.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from engine.models.lookup import read_header
from engine.models.runtime import mx
from store.kv_files import WIDTHS, BadNode, Tensor, opened

Arrays = Mapping[str, Any]  # by name


class UnreadableCache(Exception):
    """Stored tensors cannot be restored: missing, damaged, or another model's."""


# Each safetensors dtype in MLX, and the integers of its width, because the buffer protocol lacks bfloat16.
MLX_DTYPES = {
    "F32": ("float32", "uint32"), "F16": ("float16", "uint16"), "BF16": ("bfloat16", "uint16"),
    "I32": ("int32", "uint32"), "U32": ("uint32", "uint32"), "I8": ("int8", "uint8"),
}  # fmt: skip
_GROWTH, _HEADROOM = 256, 64  # tokens: the step by which mlx-lm grows a cache; space for a question


@dataclass(frozen=True, slots=True)
class _Layout:
    """The layout of the tensors of one name: safetensors dtype, heads, and values of a token and head."""

    dtype: str
    heads: int
    width: int

    @property
    def step(self) -> int:
        """Return the bytes of one token and head."""
        return self.width * WIDTHS[self.dtype]


@dataclass(frozen=True, slots=True)
class _File:
    """An open file, positioned at its first tensor; tensors are (1, heads, tokens, width), contiguous and in order."""

    descriptor: int
    begin: int  # of the first tensor
    tokens: int
    kinds: Mapping[str, _Layout]


def _buffers(kinds: Mapping[str, _Layout], capacity: int, *, in_place: bool) -> dict[str, Any]:
    """Return integer arrays of MLX, or of numpy, for so many tokens."""
    shapes = {name: (1, layout.heads, capacity, layout.width) for name, layout in kinds.items()}
    integers = {name: MLX_DTYPES[layout.dtype][1] for name, layout in kinds.items()}
    if not in_place:
        return {name: np.zeros(shape, integers[name]) for name, shape in shapes.items()}
    raw = {name: mx.zeros(shape, getattr(mx, integers[name])) for name, shape in shapes.items()}
    mx.eval(list(raw.values()))
    return raw


def _open(path: Path, stack: ExitStack) -> _File:
    """Open a file and parse its header; a malformed one raises any of `_MALFORMED`."""
    file = stack.enter_context(opened(path))
    entries = read_header(file)
    entries.pop("__metadata__", None)
    tokens, kinds, end = next(iter(entries.values()))["shape"][2], dict[str, _Layout](), 0
    for name, entry in entries.items():
        one, heads, count, width = entry["shape"]
        kind = _Layout(entry["dtype"], heads, width)
        begin, end = end, end + heads * count * kind.step
        if (one, count, [begin, end]) != (1, tokens, entry["data_offsets"]):
            raise ValueError("the tensors are not contiguous or not of the same tokens")
        kinds[name] = kind
    return _File(file.fileno(), file.tell(), tokens, kinds)


# What a malformed file raises.
_MALFORMED = (BadNode, OSError, ValueError, TypeError, LookupError, AttributeError)
ReadAt = Callable[[int, Sequence[memoryview], int], int]  # as os.preadv: a descriptor, buffers, an offset


class RangeReader:
    """Reads ranges of tokens of files, one per segment, into buffers for a cache of them all; UnreadableCache.

    `read` may run in another thread: it uses no MLX.
    """

    def __init__(
        self, paths: Sequence[Path], shared: int | None = None, read_at: ReadAt = os.preadv, *, in_place: bool = False
    ) -> None:
        """Open files, of the last only `shared` tokens; unless they are read `in_place`, `take` copies."""
        self._read_at, self._stack = read_at, ExitStack()
        try:
            self._files = [_open(path, self._stack) for path in paths]
            if any(file.kinds != self._files[0].kinds for file in self._files):
                raise ValueError("the files hold different tensors")
            counts = [file.tokens for file in self._files]
            if shared is not None:
                counts[-1] = min(shared, counts[-1])
            self.kinds = self._files[0].kinds
            self._capacity = -(-(sum(counts) + _HEADROOM) // _GROWTH) * _GROWTH
            self._raw = _buffers(self.kinds, self._capacity, in_place=in_place)
        except _MALFORMED as error:
            self.close()
            raise UnreadableCache(type(error).__name__) from error
        self.starts = list(accumulate(counts, initial=0))  # of each file in the arrays, and their end
        self._into = {
            name: memoryview(array).cast("B") if array.size else memoryview(b"") for name, array in self._raw.items()
        }

    def read_all(self) -> None:
        """Read all tokens; UnreadableCache."""
        for number, (start, stop) in enumerate(pairwise(self.starts)):
            self.read(number, 0, stop - start)

    def read(self, number: int, start: int, stop: int) -> None:
        """Read the tokens of one file from `start` to `stop`; UnreadableCache."""
        file, runs = self._files[number], list(self._runs(number, start, stop))
        whole = stop - start == file.tokens
        size = 1024 if whole else 1  # IOV_MAX: the runs of all tokens of a file follow each other
        try:
            for first in range(0, len(runs), size):
                buffers = [buffer for _, buffer in runs[first : first + size]]
                if self._read_at(file.descriptor, buffers, runs[first][0]) != sum(map(len, buffers)):
                    raise ValueError("the file is shorter than its header says")
        except (OSError, ValueError) as error:
            raise UnreadableCache(type(error).__name__) from error

    def _runs(self, number: int, start: int, stop: int) -> Iterator[tuple[int, memoryview]]:
        file, at = self._files[number], self._files[number].begin
        for name, kind in file.kinds.items():
            for head in range(kind.heads if kind.step else 0):
                place = (head * self._capacity + self.starts[number] + start) * kind.step
                yield at + start * kind.step, self._into[name][place : place + (stop - start) * kind.step]
                at += file.tokens * kind.step

    def take(self) -> Arrays:
        """Return the arrays, which the reader gives up; tokens that were not read have any values."""
        raw, self._raw = self._raw, {}
        self._into = {}  # as long as a buffer is in use, MLX copies an array that changes
        arrays = {name: mx.array(one) if isinstance(one, np.ndarray) else one for name, one in raw.items()}
        return {name: arrays[name].view(getattr(mx, MLX_DTYPES[kind.dtype][0])) for name, kind in self.kinds.items()}

    def close(self) -> None:
        """Close the files."""
        self._stack.close()


GROUP = 32  # values of a token that share a scale
_SCALES, _INT8_MAX = ".scales", 127


def tensor(name: str, array: Any) -> Tensor:
    """Copy an array's bytes out of MLX."""
    own = str(array.dtype).removeprefix("mlx.core.")
    dtype, integers = next((dtype, there[1]) for dtype, there in MLX_DTYPES.items() if there[0] == own)
    raw: Any = mx.contiguous(array).view(getattr(mx, integers))  # no buffer in MLX's stubs
    return Tensor(name, dtype, tuple(array.shape), memoryview(raw) if array.size else b"")


def array(tensor: Tensor) -> Any:
    """Copy a stored tensor into an array."""
    name, integers = MLX_DTYPES[tensor.dtype]
    return mx.array(np.frombuffer(tensor.buffer, integers).reshape(tensor.shape)).view(getattr(mx, name))


def pack(name: str, array: Any, bits: int) -> dict[str, Any]:
    """Return keys or values, (1, heads, tokens, width), in stored form: unchanged, or in 8 bits with scales."""
    *shape, width = array.shape
    if not bits or not width:
        return {name: mx.contiguous(array)}
    # Each token and head has its own scales, so that its stored form does not depend on the others.
    rows = array.reshape(*shape, -1, width if width % GROUP else GROUP).astype(mx.float32)
    scales = (mx.abs(rows).max(axis=-1) / _INT8_MAX).astype(array.dtype)
    scales = mx.where(scales == 0, 1, scales)  # all zeros, or too small for a half-precision scale
    steps = mx.clip(mx.round(rows / scales[..., None].astype(mx.float32)), -_INT8_MAX, _INT8_MAX)
    return {name: steps.astype(mx.int8).reshape(array.shape), name + _SCALES: scales}


def unpack(found: Arrays, name: str) -> Any:
    """Return the keys or values that `pack` stored, in the dtype of their scales; LookupError if there are none."""
    array, scales = found[name], found.get(name + _SCALES)
    if scales is None:
        return array
    rows = array.reshape(*scales.shape, -1).astype(scales.dtype) * scales[..., None]
    return rows.reshape(array.shape)


def concatenated(parts: Iterable[Any]) -> Any:
    """Concatenate keys or values along the tokens."""
    found = list(parts)
    return found[0] if len(found) == 1 else mx.concatenate(found, axis=2)


Kind = Literal["tokens", "window", "state"]
_KINDS: dict[str, Kind] = {"KVCache": "tokens", "RotatingKVCache": "window", "ArraysCache": "state"}
_END = "end"  # position after a segment, which a window's length does not give


def kind(part: Any) -> Kind | None:
    """Return the kind of a layer's cache; None for a type that cannot be restored."""
    found = _KINDS.get(type(part).__name__) if type(part).__module__ == "mlx_lm.models.cache" else None
    return None if getattr(part, "keep", 0) else found  # a window with attention sinks


def normalize_layer(part: Any, name: str, count: int, bits: int) -> dict[str, Any]:
    """Bring a layer that has just prefilled `count` tokens to the form that `restore_layer` returns.

    Returns the arrays to store; none for a layer that holds every token unchanged, which can be cut at any time.
    """
    found = kind(part)
    if found == "state":
        part.cache = [None if array is None else mx.contiguous(array) for array in part.cache]
        return {f"{name}.{slot}": array for slot, array in enumerate(part.cache) if array is not None}
    if part.empty() or (found == "tokens" and not bits):
        return {}
    cached = list(part.keys_and_values())
    if found == "window":  # a ring buffer
        cached = [part._temporal_order(array)[..., -part.max_size :, :] for array in (part.keys, part.values)]
    new = min(count, cached[0].shape[2])
    packed = [pack(f"{name}.{kv}", array[..., -new:, :], bits) for kv, array in zip("kv", cached, strict=True)]
    restored = [unpack(arrays, f"{name}.{kv}") for kv, arrays in zip("kv", packed, strict=True)]
    if found == "tokens":
        for array, last in zip((part.keys, part.values), restored, strict=True):
            array[..., part.offset - new : part.offset, :] = last
        return packed[0] | packed[1]
    before = [array[..., :-new, :] for array in cached]
    _set_state(part, [concatenated(both) for both in zip(before, restored, strict=True)], part.offset)
    return packed[0] | packed[1] | {_END: mx.array([part.offset], mx.int32)}


def restore_layer(part: Any, name: str, opened: Sequence[Arrays]) -> None:
    """Fill an empty layer from files, one per segment; LookupError."""
    found = kind(part)
    if found == "state":
        slots = [opened[-1].get(f"{name}.{slot}") for slot in range(len(part.cache))]
        if all(array is None for array in slots):
            raise LookupError(name)
        part.cache = slots
        return
    arrays = [[unpack(one, f"{name}.{kv}") for one in opened] for kv in "kv"]
    if found == "window":
        _set_state(part, [concatenated(_tail(each, part.max_size)) for each in arrays], int(opened[-1][_END].item()))
        return
    both = [concatenated(each) for each in arrays]
    _set_state(part, both, both[0].shape[2])


def _tail(arrays: Sequence[Any], count: int) -> list[Any]:
    """Return the last `count` tokens of a sequence of arrays, without reading files that hold none of them."""
    found: list[Any] = []
    for array in reversed(arrays):
        if count > 0:
            found.insert(0, array[..., -count:, :])
            count -= found[0].shape[2]
    return found


def _set_state(part: Any, both: Sequence[Any], end: int) -> None:
    """Set a layer's keys and values; `end` is the position after the last token."""
    keys, values = both
    rotating = (0, part.max_size, keys.shape[2]) if kind(part) == "window" else ()
    part.state = (keys, values, end, *rotating)


Cache = list[Any]  # one of mlx-lm's caches per layer
Captured = Mapping[str, Any]  # arrays of a segment to store that its cache overwrites, or holds in another form


@dataclass(frozen=True, slots=True)
class CacheForm:
    """How a model's KV cache is stored: `name` is empty if it cannot be, and `description` is for users.

    A prefix of a stored segment can be reused only if it is "tokens": every layer caches every token unchanged.
    """

    name: str
    description: str


def begin(model: Any) -> Cache:
    """Return an empty cache."""
    from mlx_lm.models.cache import make_prompt_cache

    cache: Cache = make_prompt_cache(model)
    return cache


def compute(cache: Cache) -> None:
    """Evaluate the arrays of a cache, but no logits."""
    mx.eval([layer.state for layer in cache])
    mx.clear_cache()


def length(cache: Cache) -> int:
    """Return the number of tokens in a cache; 0 for a recurrent model, whose context is unlimited."""
    return max((int(part.offset) for _, part in _parts(cache) if hasattr(part, "offset")), default=0)


def is_sliceable(cache: Cache) -> bool:
    """Return whether a cache holds keys and values of every token, and nothing else."""
    return all(kind(layer) == "tokens" for layer in cache)


def form(cache: Cache, bits: int = 0) -> CacheForm:
    """Return how a cache, which may be empty, is stored."""
    kinds = {(kind(part), type(part).__name__) for _, part in _parts(cache)}
    if unsupported := sorted(name for found, name in kinds if found is None):
        return CacheForm("", f"KV cache not stored: {' and '.join(unsupported)} cannot be restored")
    found = {one for one, _ in kinds}
    name = "-".join(one for one in ("window", "state") if one in found)
    name = name or ("steps" if bits else "tokens")  # rounded after each sub-step
    stored = "KV cache stored per message"
    return CacheForm(f"{name}-{bits}", f"{stored}, in {bits} bits") if bits else CacheForm(name, stored)


def normalize(cache: Cache, count: int, bits: int = 0) -> Captured:
    """Bring a cache that prefilled `count` tokens to what `restore` returns; returns what cannot be cut of it later."""
    found: dict[str, Any] = {}
    for name, part in _parts(cache):
        found |= normalize_layer(part, name, count, bits)
    if found:
        mx.eval(list(found.values()))
        compute(cache)
    return found


def cut(cache: Cache, start: int, stop: int, captured: Captured | None = None) -> list[Tensor]:
    """Copy the tensors of a segment to store: keys and values, (1, heads, tokens, width), and captured arrays."""
    found = dict(captured or {})
    found |= {name: array for name, array in _tokens(cache, start, stop).items() if name not in found}
    return [tensor(name, array) for name, array in found.items()]


def restore(cache: Cache, paths: Sequence[Path]) -> Cache:
    """Fill an empty cache from files, one a segment; returns it. UnreadableCache if one is missing or does not fit."""
    try:
        opened: list[Any] = [mx.load(str(path)) for path in paths]  # read by the thread that evaluates them
        for name, part in _parts(cache):
            restore_layer(part, name, opened)
        compute(cache)
    except (RuntimeError, ValueError, LookupError) as error:
        raise UnreadableCache(type(error).__name__) from error
    return cache


def join(cache: Cache, reader: RangeReader) -> Cache:
    """Append the tokens that a reader has read to a sliceable cache of those before them; UnreadableCache."""
    computed, taken = length(cache), reader.take()
    try:
        arrays = {name: unpack(taken, name) for name in taken if not name.endswith(_SCALES)}
        for name, array in _tokens(cache, 0, computed).items():
            arrays[name][..., :computed, :] = array
        _set_arrays(cache, arrays, reader.starts[-1])
        compute(cache)
    except (RuntimeError, ValueError, LookupError) as error:
        raise UnreadableCache(type(error).__name__) from error
    return cache


def append(cache: Cache, parts: Sequence[Sequence[Tensor]]) -> list[Captured]:
    """Append segments as stored to a sliceable cache, returning what `normalize` returns of each; UnreadableCache."""
    try:
        found = [{one.name: array(one) for one in tensors} for tensors in parts]
        front = _tokens(cache, 0, length(cache))
        names = [f"{number}.{kv}" for number in range(len(cache)) for kv in "kv"]
        every = [front, *found] if front else found
        both = {name: concatenated(unpack(one, name) for one in every) for name in names}
        _set_arrays(cache, both, both[names[0]].shape[2])
        compute(cache)
    except (RuntimeError, ValueError, LookupError) as error:
        raise UnreadableCache(type(error).__name__) from error
    return [one if len(one) > len(names) else {} for one in found]


def _tokens(cache: Cache, start: int, stop: int) -> Arrays:
    """Return the keys and values of some tokens by name, of layers that hold every token and are not empty."""
    parts = [(name, part) for name, part in _parts(cache) if kind(part) == "tokens" and not part.empty()]
    both = [(name, zip("kv", part.keys_and_values(), strict=True)) for name, part in parts]
    return {f"{name}.{kv}": array[..., start:stop, :] for name, pair in both for kv, array in pair}


def _set_arrays(cache: Cache, found: Arrays, count: int) -> None:
    for number, layer in enumerate(cache):
        layer.state = (found[f"{number}.k"], found[f"{number}.v"], count)


def extend(cache: Cache, layers: Sequence[tuple[Any, Any]]) -> Cache:
    """Append keys and values to a sliceable cache, layer by layer; returns it."""
    for layer, (keys, values) in zip(cache, layers, strict=True):
        layer.update_and_fetch(keys, values)
    compute(cache)
    return cache


def take(cache: Cache, start: int, stop: int) -> Arrays:
    """Copy the keys and values of some tokens out of a sliceable cache."""
    found = {name: mx.contiguous(array) for name, array in _tokens(cache, start, stop).items()}
    mx.eval(list(found.values()))
    return found


def _parts(cache: Cache) -> Iterator[tuple[str, Any]]:
    """Yield the layers of a cache by name; a layer with several caches counts as several."""
    for number, part in enumerate(part for layer in cache for part in getattr(layer, "caches", (layer,))):
        yield str(number), part


_NAMES = ("rope", "rotary_emb")  # of the rope in an attention, as mlx-lm's models call it
_OFFSETS = (1, 7, 130, 1900)  # positions at which ropes are tested
_TOLERANCE = 2e-3  # between two ways to the same position: fp32 angles are rounded at large ones


Rope = Callable[..., Any]  # rotates keys by their positions, counted from an `offset`
Ropes = tuple[Rope, ...]  # of each layer


class FixedKeys(Exception):
    """A model's keys cannot be moved; the message, the end of a sentence, says why."""


def rotated(rope: Rope, keys: Any, by: int) -> Any:
    """Rotate keys, (1, heads, tokens, width), by a number of positions."""
    # Each is passed as a one-token text, because a rope counts tokens.
    wide = keys.transpose(2, 1, 0, 3).astype(mx.float32)
    return rope(wide, offset=by).transpose(2, 1, 0, 3).astype(keys.dtype)


def ropes(model: Any, cache: Sequence[Any], context: int = _OFFSETS[-1]) -> Ropes:
    """Return the ropes of a model, given an empty cache of it; FixedKeys if its keys cannot be moved."""
    if not is_sliceable(list(cache)):
        raise FixedKeys("it does not keep the keys and values of every token")
    if len(model.layers) != len(cache):
        raise FixedKeys("its layers share their keys")
    found = list[Rope]()
    for layer in model.layers:
        named = [module for name, module in layer.named_modules() if name.rpartition(".")[2].endswith(_NAMES)]
        if len(named) != 1 or not callable(named[0]):
            raise FixedKeys("it has more than one rope" if named else "its layers have no rope")
        found += named
    model(mx.array([[1, 1, 1]]), cache=list(cache))  # one token three times, lazily: only the first layer is read
    for rope, layer in zip(found, cache, strict=True):
        _try(rope, layer.keys_and_values()[0].shape[-1], [at for at in _OFFSETS if at < context])
    # The first layer's keys of one token at three positions must differ by rotation alone.
    keys, values = cache[0].keys_and_values()
    moved = mx.concatenate([rotated(found[0], keys[..., :1, :], by) for by in range(3)], axis=2)
    if not _alike(moved, keys) or not _alike(mx.broadcast_to(values[..., :1, :], values.shape), values):
        raise FixedKeys("its keys depend on the position by more than a rotation")
    return tuple(found)


def _try(rope: Rope, width: int, offsets: Sequence[int]) -> None:
    """Check that rotating in two steps equals rotating at once."""
    keys = mx.random.normal((1, 1, 1, width), key=mx.random.key(0))
    if not _alike(rope(keys, offset=0), keys):
        raise FixedKeys("its rope scales keys")
    for by in offsets:
        if not _alike(rotated(rope, rope(keys, offset=3), by), rope(keys, offset=by + 3)):
            raise FixedKeys("its rope's angles depend on the position")


def _alike(one: Any, other: Any) -> bool:
    tolerance = _TOLERANCE + 2 * float(mx.finfo(other.dtype).eps)  # one more rounding to the width of the keys
    apart = mx.abs(one.astype(mx.float32) - other.astype(mx.float32)).max()
    return bool((apart <= tolerance * mx.maximum(mx.abs(other).max(), 1e-6)).item())
