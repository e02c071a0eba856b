"""A model's KV cache as plain tensors: sliced by segment, packed, read from files and restored.

The only module that touches mlx-lm's cache classes. Knows safetensors files; no prompts and no store. MLX is imported
inside functions, because BLAS must be loaded before it.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal

from engine.models.types import UnreadableCache
from store.kv_files import Tensor

Arrays = Mapping[str, Any]  # by name
DTYPES = {
    "float32": ("F32", ""), "float16": ("F16", "uint16"), "bfloat16": ("BF16", "uint16"),
    "int32": ("I32", ""), "uint32": ("U32", ""), "int8": ("I8", ""),
}  # fmt: skip
GROUP = 32  # values of a token that share a scale
_SCALES, _INT8_MAX = ".scales", 127


def tensor(name: str, array: Any) -> Tensor:
    """Copy an array's bytes out of MLX."""
    import mlx.core as mx

    dtype, same_width = DTYPES[str(array.dtype).removeprefix("mlx.core.")]
    copy = mx.contiguous(array)
    raw: Any = copy.view(getattr(mx, same_width)) if same_width else copy  # which its stub has no buffer for
    return Tensor(name, dtype, tuple(array.shape), memoryview(raw) if array.size else b"")


def files(paths: Sequence[Path]) -> list[Arrays]:
    """Map the arrays of files, read when first evaluated and by that thread; UnreadableCache."""
    import mlx.core as mx

    try:
        opened: list[Any] = [mx.load(str(path)) for path in paths]
    except (RuntimeError, ValueError) as error:
        raise UnreadableCache(type(error).__name__) from error
    return opened


def pack(name: str, array: Any, bits: int) -> dict[str, Any]:
    """Return keys or values, (1, heads, tokens, width), as they are stored: as they are, or in eight bits with scales.

    No two tokens or heads share a scale, so that the stored form of one does not depend on the others.
    """
    import mlx.core as mx

    *shape, width = array.shape
    if not bits or not width:
        return {name: mx.contiguous(array)}
    rows = array.reshape(*shape, *_groups(width)).astype(mx.float32)
    scales = (mx.abs(rows).max(axis=-1) / _INT8_MAX).astype(array.dtype)
    scales = mx.where(scales == 0, 1, scales)  # all zeros, or too small for a half-precision scale
    steps = mx.clip(mx.round(rows / scales[..., None].astype(mx.float32)), -_INT8_MAX, _INT8_MAX)
    return {name: steps.astype(mx.int8).reshape(array.shape), name + _SCALES: scales}


def unpack(found: Arrays, name: str) -> Any:
    """Return the keys or values that `pack` stored, in the dtype of their scales; LookupError where there are none."""
    array, scales = found[name], found.get(name + _SCALES)
    if scales is None:
        return array
    rows = array.reshape(*scales.shape, -1).astype(scales.dtype) * scales[..., None]
    return rows.reshape(array.shape)


def concatenated(parts: Iterable[Any]) -> Any:
    """Concatenate keys or values along the tokens."""
    import mlx.core as mx

    found = list(parts)
    return found[0] if len(found) == 1 else mx.concatenate(found, axis=2)


def _groups(width: int) -> tuple[int, int]:
    """Return into how many groups the values of a token and head are divided, and the size of each."""
    return (width // GROUP, GROUP) if width % GROUP == 0 else (1, width)


Kind = Literal["tokens", "window", "state"]
_KINDS: dict[str, Kind] = {
    "KVCache": "tokens",
    "RotatingKVCache": "window",
    "ChunkedKVCache": "window",
    "ArraysCache": "state",
}
_END = "end"  # tokens in the cache after a segment, which a window's own length does not tell


def kind(part: Any) -> Kind | None:
    """Return what a layer's cache holds; None for a type that could not be restored from that alone."""
    found = _KINDS.get(type(part).__name__) if type(part).__module__ == "mlx_lm.models.cache" else None
    return None if getattr(part, "keep", 0) else found  # a window with attention sinks


def window(part: Any) -> int:
    """Return the length of a layer's attention window in tokens."""
    return int(part.max_size if hasattr(part, "max_size") else part.chunk_size)


def normalize_layer(part: Any, name: str, count: int, bits: int) -> dict[str, Any]:
    """Bring a layer that has just read `count` tokens to the form it would be restored in; returns what to store.

    Empty where the layer keeps every token as it is: those can be cut at any time.
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
    _set_state(part, [concatenated(both) for both in zip(before, loaded, strict=True)], part.offset)
    return kept[0] | kept[1] | {_END: mx.array([part.offset], mx.int32)}


def restore_layer(part: Any, name: str, opened: Sequence[Arrays], shared: int | None = None) -> None:
    """Fill an empty layer from files, one a segment, of the last one only `shared` tokens; LookupError."""
    found = kind(part)
    if found == "state":
        slots = [opened[-1].get(f"{name}.{slot}") for slot in range(len(part.cache))]
        if all(array is None for array in slots):
            raise LookupError(name)
        part.cache = slots
        return
    arrays = [[unpack(one, f"{name}.{kv}") for one in opened] for kv in "kv"]
    if found == "window":
        _set_state(part, [concatenated(_tail(each, window(part))) for each in arrays], int(opened[-1][_END].item()))
        return
    both = [concatenated([*each[:-1], each[-1][..., :shared, :]]) for each in arrays]
    _set_state(part, both, both[0].shape[2])


def _in_order(part: Any) -> list[Any]:
    """Return the keys and values inside a layer's window, oldest first."""
    at = getattr(part, "_idx", None)
    seen = list(part.keys_and_values())
    if at is not None and at < seen[0].shape[2]:  # a ring buffer: the next token overwrites the oldest
        seen = [concatenated([array[..., at:, :], array[..., :at, :]]) for array in seen]
    return [array[..., -window(part) :, :] for array in seen]


def _tail(arrays: Sequence[Any], count: int) -> list[Any]:
    """Return the last `count` tokens of a sequence of arrays; a file that holds none of them is not read."""
    found: list[Any] = []
    for array in reversed(arrays):
        if count > 0:
            found.insert(0, array[..., -count:, :])
            count -= found[0].shape[2]
    return found


def _set_state(part: Any, both: Sequence[Any], end: int) -> None:
    """Set a layer's keys and values, of which the last token stands before position `end`."""
    keys, values = both
    match type(part).__name__:
        case "KVCache":
            part.state = (keys, values, end)
        case "RotatingKVCache":
            part.state = (keys, values, end, 0, part.max_size, keys.shape[2])
        case "ChunkedKVCache":
            part.state = (keys, values, end, part.chunk_size, end - keys.shape[2])


# Each safetensors dtype in MLX, and the integers of its width: the buffer protocol does not know bfloat16.
_MLX_DTYPES = {"F32": ("float32", "uint32"), "F16": ("float16", "uint16"), "BF16": ("bfloat16", "uint16")}
_BYTES = {"F32": 4, "F16": 2, "BF16": 2}
_METADATA = "__metadata__"
_LENGTH = 8  # bytes of the header's length, little-endian, before the header
_MAX_HEADER = 4 << 20  # bytes
_GROWTH, _HEADROOM = 256, 64  # tokens: the step by which mlx-lm grows a cache; room for a question
_MAX_BUFFERS = 1024  # buffers a readv call takes (IOV_MAX)


@dataclass(frozen=True, slots=True)
class _Layout:
    """What the tensors of one name have in common: safetensors dtype, heads, and values of a token and head."""

    dtype: str
    heads: int
    width: int

    @property
    def step(self) -> int:
        """Return the bytes of one token and head."""
        return self.width * _BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class _File:
    """An open file, positioned at its first tensor; tensors are (1, heads, tokens, width), contiguous, in order."""

    descriptor: int
    tokens: int
    kinds: Mapping[str, _Layout]


def read(paths: Sequence[Path], shared: int | None = None, reuse: Arrays | None = None) -> tuple[Arrays, int]:
    """Read the tensors of files end to end, of the last one only `shared` tokens; returns arrays and token count.

    The arrays have room for more tokens behind those, and take over the memory of `reuse`. UnreadableCache where a file
    does not fit.
    """
    with ExitStack() as held:
        try:
            files = [_open(path, held) for path in paths]
            if any(file.kinds != files[0].kinds for file in files):
                raise ValueError("other tensors")
            counts = [file.tokens for file in files]
            if shared is not None:
                counts[-1] = min(shared, counts[-1])
            return _read_joined(files, counts, reuse or {}), sum(counts)
        except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
            raise UnreadableCache(type(error).__name__) from error


def allocate(like: Arrays, tokens: int) -> Arrays:
    """Allocate arrays like these, with room for so many tokens and a question."""
    import mlx.core as mx

    room = _round_up(tokens + _HEADROOM)
    found = {name: mx.zeros((*array.shape[:2], room, array.shape[3]), array.dtype) for name, array in like.items()}
    mx.eval(list(found.values()))
    return found


def _read_joined(files: Sequence[_File], counts: Sequence[int], reuse: Arrays) -> Arrays:
    import mlx.core as mx

    kinds = files[0].kinds
    raw, room = _buffers(kinds, sum(counts) + _HEADROOM, reuse)
    into = {name: memoryview(array).cast("B") if array.size else memoryview(b"") for name, array in raw.items()}
    for file, at, count in zip(files, accumulate(counts, initial=0), counts, strict=False):
        pieces = list(_pieces(file, into, room, at, count))
        for first in range(0, len(pieces), _MAX_BUFFERS):
            _fill(file.descriptor, pieces[first : first + _MAX_BUFFERS])
    return {name: array.view(getattr(mx, _MLX_DTYPES[kinds[name].dtype][0])) for name, array in raw.items()}


def _buffers(kinds: Mapping[str, _Layout], tokens: int, reuse: Arrays) -> tuple[dict[str, Any], int]:
    """Return integer arrays for at least so many tokens, reused or new, and the tokens they have room for."""
    import mlx.core as mx

    rooms = {array.shape[2] for array in reuse.values()}
    room = rooms.pop() if len(rooms) == 1 else 0
    fits = room >= tokens and {name: _layout_of(array) for name, array in reuse.items()} == kinds
    room = room if fits else _round_up(tokens)
    raw: dict[str, Any] = {}
    for name, one in kinds.items():
        words = getattr(mx, _MLX_DTYPES[one.dtype][1])
        raw[name] = reuse[name].view(words) if fits else mx.zeros((1, one.heads, room, one.width), words)
    mx.eval(list(raw.values()))
    return raw, room


def _round_up(tokens: int) -> int:
    return -(-tokens // _GROWTH) * _GROWTH


def _layout_of(array: Any) -> _Layout | None:
    words = {name: dtype for dtype, (name, _) in _MLX_DTYPES.items()}
    one, heads, _, width = array.shape
    dtype = words.get(str(array.dtype).removeprefix("mlx.core."))
    return _Layout(dtype, heads, width) if dtype and one == 1 else None


def _pieces(file: _File, into: Mapping[str, memoryview], room: int, at: int, count: int) -> Iterator[memoryview]:
    """Yield the destination of each run of a file's bytes; tokens beyond `count` go to scratch buffers."""
    for name, kind in file.kinds.items():
        place, size, left = into[name], count * kind.step, (file.tokens - count) * kind.step
        for begin in range(at * kind.step, (kind.heads * room + at) * kind.step, max(1, room * kind.step)):
            yield place[begin : begin + size]
            if left:
                yield memoryview(bytearray(left))


def _fill(descriptor: int, pieces: Sequence[memoryview]) -> None:
    """Fill buffers with the next bytes of a file; ValueError where it is shorter."""
    if os.readv(descriptor, pieces) != sum(map(len, pieces)):
        raise ValueError("the file is shorter than it says")


def _open(path: Path, held: ExitStack) -> _File:
    """Open a file and parse its header; a malformed one raises any of the errors that `read` catches."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    held.callback(os.close, descriptor)
    length = int.from_bytes(os.read(descriptor, _LENGTH), "little")
    entries = json.loads(os.read(descriptor, min(length, _MAX_HEADER)))
    entries.pop(_METADATA, None)
    tokens, kinds, end = next(iter(entries.values()))["shape"][2], dict[str, _Layout](), 0
    for name, entry in entries.items():
        one, heads, count, width = entry["shape"]
        kind = _Layout(entry["dtype"], heads, width)
        begin, end = end, end + heads * count * kind.step
        if (one, count, [begin, end]) != (1, tokens, entry["data_offsets"]):
            raise ValueError("not tensors of the same tokens one behind the other")
        kinds[name] = kind
    return _File(descriptor, tokens, kinds)


Cache = list[Any]  # one of mlx-lm's caches a layer
Captured = Mapping[str, Any]  # arrays to store of a segment that its cache will overwrite, or holds in another form
_MAX_POOLED = 256 << 20  # bytes that a process holds between two questions


@dataclass(slots=True)
class BufferPool:
    """Buffers for the next cache, of a released one or preallocated; mutable, for one thread."""

    arrays: Arrays = field(default_factory=dict)

    def pop(self) -> Arrays:
        """Return the buffers, and forget them: they are the caller's now."""
        taken, self.arrays = self.arrays, {}
        return taken


@dataclass(frozen=True, slots=True)
class CacheForm:
    """How a model's KV cache is stored: the `name` of the form, empty where it cannot be, and a description."""

    name: str
    description: str

    @property
    def shares_prefix(self) -> bool:
        """Return whether a prefix of a stored segment can be reused: every layer caches each token as it is."""
        return self.name == "tokens"


def begin(model: Any) -> Cache:
    """Return an empty cache."""
    from mlx_lm.models.cache import make_prompt_cache

    cache: Cache = make_prompt_cache(model)
    return cache


def compute(cache: Cache) -> None:
    """Evaluate the arrays of a cache, and no logits."""
    import mlx.core as mx

    mx.eval([layer.state for layer in cache])
    mx.clear_cache()


def length(cache: Cache) -> int:
    """Return the number of tokens in a cache; 0 for a recurrent model, whose context is unlimited."""
    return max((int(part.offset) for _, part in _parts(cache) if hasattr(part, "offset")), default=0)


def trim(cache: Cache, count: int) -> None:
    """Remove the last tokens of a cache that holds keys and values of every token."""
    for layer in cache if count else ():
        layer.trim(count)


def is_sliceable(cache: Cache) -> bool:
    """Return whether a cache holds keys and values of every token, and nothing else."""
    from mlx_lm.models.cache import KVCache

    return all(type(layer) is KVCache for layer in cache)


def form(cache: Cache, bits: int = 0) -> CacheForm:
    """Return how a cache is stored, by the types of its layers; it may be empty."""
    kinds = [(kind(part), part) for _, part in _parts(cache)]
    if strange := sorted({type(part).__name__ for kind, part in kinds if kind is None}):
        return CacheForm("", f"KV cache not stored: {' and '.join(strange)} cannot be restored")
    found = Counter(kind for kind, _ in kinds)
    widths = {window(part) for kind, part in kinds if kind == "window"}
    parts = [
        "KV cache stored per message",
        f"the last {' or '.join(map(str, sorted(widths)))} tokens in {found['window']} of {len(kinds)} layers",
        f"the recurrent state of {found['state']} of {len(kinds)} layers after each",
        f"in {bits} bits",
    ]
    used = [words for words, there in zip(parts, (True, found["window"], found["state"], bits), strict=True) if there]
    name = "-".join(kind for kind in ("window", "state") if found[kind]) or "tokens"
    return CacheForm(f"{name}-{bits}" if bits else name, ", ".join(used))


def normalize(cache: Cache, count: int, bits: int = 0) -> Captured:
    """Bring a cache that has just read a segment of `count` tokens to exactly what `restore` would return.

    Returns the arrays to store that cannot be cut from the cache later.
    """
    import mlx.core as mx

    found: dict[str, Any] = {}
    for name, part in _parts(cache):
        found |= normalize_layer(part, name, count, bits)
    if found:
        mx.eval(list(found.values()))
        compute(cache)
    return found


def cut(cache: Cache, start: int, stop: int, captured: Captured | None = None) -> list[Tensor]:
    """Copy the tensors to store of a segment: keys and values, (1, heads, tokens, width), and the captured ones."""
    found = dict(captured or {})
    for name, part in _parts(cache):
        if kind(part) == "tokens" and not part.empty() and f"{name}.k" not in found:
            both = zip("kv", part.keys_and_values(), strict=True)
            found |= {f"{name}.{kv}": array[..., start:stop, :] for kv, array in both}
    return [tensor(name, array) for name, array in found.items()]


def restore(cache: Cache, paths: Sequence[Path], shared: int | None = None, pool: BufferPool | None = None) -> Cache:
    """Fill an empty cache from files, one a segment, of the last one only `shared` tokens; returns it.

    UnreadableCache where a file is gone or does not fit. Arrays are read in the calling thread. With a pool, files are
    read straight into the cache's buffers, which works for tensors stored as they are.
    """
    try:
        if pool is not None and is_sliceable(cache):
            return _set_arrays(cache, *read(paths, shared, pool.pop()))
        opened = files(paths)
        for name, part in _parts(cache):
            restore_layer(part, name, opened, shared)
        compute(cache)
    except (RuntimeError, ValueError, LookupError) as error:
        raise UnreadableCache(type(error).__name__) from error
    return cache


def release(cache: Cache, pool: BufferPool) -> None:
    """Empty a cache that is no longer used; the buffers of a sliceable one go to the pool."""
    import mlx.core as mx

    arrays = _arrays(cache)
    cache.clear()
    mx.eval(list(arrays.values()))
    if arrays and _size(arrays) <= _MAX_POOLED:
        pool.arrays = arrays


def preallocate(cache: Cache, tokens: int, pool: BufferPool) -> None:
    """Put buffers for so many tokens into the pool, shaped like those of a cache, if that is sliceable."""
    arrays = _arrays(cache)
    if arrays and _size(arrays) * tokens <= _MAX_POOLED * arrays["0.k"].shape[2]:
        pool.arrays = allocate(arrays, tokens)


def _arrays(cache: Cache) -> Arrays:
    """Return the arrays of a sliceable cache by name; none of another, or of an empty one."""
    if not cache or not is_sliceable(cache) or any(layer.empty() for layer in cache):
        return {}
    both = [(number, zip("kv", (layer.keys, layer.values), strict=True)) for number, layer in enumerate(cache)]
    return {f"{number}.{kv}": array for number, pair in both for kv, array in pair}


def _size(arrays: Arrays) -> int:
    return sum(array.nbytes for array in arrays.values())


def _set_arrays(cache: Cache, found: Arrays, count: int) -> Cache:
    """Set the arrays of an empty, sliceable cache, of which the first `count` tokens are in use."""
    for number, layer in enumerate(cache):
        layer.state = (found[f"{number}.k"], found[f"{number}.v"], count)
    return cache


def fill(cache: Cache, layers: Sequence[tuple[Any, Any]]) -> Cache:
    """Set the keys and values of an empty, sliceable cache, layer by layer."""
    for (name, part), both in zip(_parts(cache), layers, strict=True):
        restore_layer(part, name, [{f"{name}.{kv}": array for kv, array in zip("kv", both, strict=True)}])
    compute(cache)
    return cache


def _parts(cache: Cache) -> Iterator[tuple[str, Any]]:
    """Yield the layers of a cache by name; a layer with several caches counts as several."""
    for number, part in enumerate(part for layer in cache for part in getattr(layer, "caches", (layer,))):
        yield str(number), part
