"""The one module that touches mlx-lm's caches: what a model has read, given out as plain tensors and put back.

It knows no prompts and no files but safetensors. MLX is imported inside functions, since BLAS must be there before it.
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
        raise UnreadableCache(type(error).__name__) from error
    return opened


def pack(name: str, array: Any, bits: int) -> dict[str, Any]:
    """Return what is kept of the keys or values of some tokens, (1, heads, tokens, width): in eight bits if told to.

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
    """Return the keys or values that `pack` made this of, in the width of their scales; LookupError where none are."""
    array, scales = found[name], found.get(name + _SCALES)
    if scales is None:
        return array
    rows = array.reshape(*scales.shape, -1).astype(scales.dtype) * scales[..., None]
    return rows.reshape(array.shape)


def joined(parts: Iterable[Any]) -> Any:
    """Return keys or values one behind the other."""
    import mlx.core as mx

    found = list(parts)
    return found[0] if len(found) == 1 else mx.concatenate(found, axis=2)


def _groups(width: int) -> tuple[int, int]:
    """Return how the numbers of a token and head are put into groups: how many, and of how many each."""
    return (width // GROUP, GROUP) if width % GROUP == 0 else (1, width)


Kind = Literal["tokens", "window", "state"]
_KINDS: dict[str, Kind] = {
    "KVCache": "tokens",
    "RotatingKVCache": "window",
    "ChunkedKVCache": "window",
    "ArraysCache": "state",
}
_END = "end"  # how many tokens are read behind a segment, where no layer keeps them all


def kind(part: Any) -> Kind | None:
    """Return what is kept; None for a type that is not known to be whole in that."""
    found = _KINDS.get(type(part).__name__) if type(part).__module__ == "mlx_lm.models.cache" else None
    return None if getattr(part, "keep", 0) else found  # a window that holds on to the first tokens as well


def window(part: Any) -> int:
    """Return how many tokens a layer sees at most."""
    return int(part.max_size if hasattr(part, "max_size") else part.chunk_size)


def settle_layer(part: Any, name: str, count: int, bits: int) -> dict[str, Any]:
    """Bring what has read a segment of `count` tokens to the form that it is loaded in; returns what is kept of them.

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


def put(part: Any, name: str, opened: Sequence[Arrays], shared: int | None = None) -> None:
    """Have an empty one hold what files do, one segment behind the other, of the last `shared` tokens; LookupError."""
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
    both = [joined([*each[:-1], each[-1][..., :shared, :]]) for each in arrays]
    _set(part, both, both[0].shape[2])


def _in_order(part: Any) -> list[Any]:
    """Return the keys and values that a windowed layer still sees, oldest first."""
    at = getattr(part, "_idx", None)
    seen = list(part.keys_and_values())
    if at is not None and at < seen[0].shape[2]:  # the oldest stands where the next one goes
        seen = [joined([array[..., at:, :], array[..., :at, :]]) for array in seen]
    return [array[..., -window(part) :, :] for array in seen]


def _last(arrays: Sequence[Any], count: int) -> list[Any]:
    """Return the end of what stands one behind the other: no file is read that is not part of it."""
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


# What a width is to MLX, and to us while it is bytes: of one of them the buffer protocol knows nothing.
_WORDS = {"F32": ("float32", "uint32"), "F16": ("float16", "uint16"), "BF16": ("bfloat16", "uint16")}
_BYTES = {"F32": 4, "F16": 2, "BF16": 2}
_ABOUT = "__metadata__"
_LENGTH = 8  # bytes of the header's length, little-endian, which stand before it
_MOST_FILES = 4 << 20  # bytes of a header
_GROWS, _SPARE = 256, 64  # tokens: a cache is copied to grow by so many; a question is seldom longer
_AT_ONCE = 1024  # pieces to a call of the system, which takes no more


@dataclass(frozen=True, slots=True)
class _Kind:
    """What the tensors of one name have in common: width in safetensors' words, heads, and numbers of a token."""

    dtype: str
    heads: int
    width: int

    @property
    def step(self) -> int:
        """Return the bytes of a token of one head."""
        return self.width * _BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class _File:
    """An open file, at its first tensor: (1, heads, tokens, width) each, one behind the other in this order."""

    descriptor: int
    tokens: int
    kinds: Mapping[str, _Kind]


def read(paths: Sequence[Path], shared: int | None = None, spare: Arrays | None = None) -> tuple[Arrays, int]:
    """Return the tensors of the files joined, of the last one only `shared` tokens, and their tokens; UnreadableCache.

    Behind them there is room for more: (1, heads, at least so many tokens, width). They may lie in `spare` afterwards,
    which nobody else may read then.
    """
    with ExitStack() as held:
        try:
            files = [_open(path, held) for path in paths]
            if any(file.kinds != files[0].kinds for file in files):
                raise ValueError("other tensors")
            counts = [file.tokens for file in files]
            if shared is not None:
                counts[-1] = min(shared, counts[-1])
            return _joined(files, counts, spare or {}), sum(counts)
        except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
            raise UnreadableCache(type(error).__name__) from error


def clear(like: Arrays, tokens: int) -> Arrays:
    """Return arrays like these, of keys and values, with room for so many tokens and a question behind them."""
    import mlx.core as mx

    room = _rounded(tokens + _SPARE)
    found = {name: mx.zeros((*array.shape[:2], room, array.shape[3]), array.dtype) for name, array in like.items()}
    mx.eval(list(found.values()))
    return found


def _joined(files: Sequence[_File], counts: Sequence[int], spare: Arrays) -> Arrays:
    import mlx.core as mx

    kinds = files[0].kinds
    raw, room = _room(kinds, sum(counts) + _SPARE, spare)
    into = {name: memoryview(array).cast("B") if array.size else memoryview(b"") for name, array in raw.items()}
    for file, at, count in zip(files, accumulate(counts, initial=0), counts, strict=False):
        pieces = list(_pieces(file, into, room, at, count))
        for first in range(0, len(pieces), _AT_ONCE):
            _fill(file.descriptor, pieces[first : first + _AT_ONCE])
    return {name: array.view(getattr(mx, _WORDS[kinds[name].dtype][0])) for name, array in raw.items()}


def _room(kinds: Mapping[str, _Kind], tokens: int, spare: Arrays) -> tuple[dict[str, Any], int]:
    """Return arrays of integers for so many tokens or more, and for how many: what is spare, or new ones."""
    import mlx.core as mx

    rooms = {array.shape[2] for array in spare.values()}
    room = rooms.pop() if len(rooms) == 1 else 0
    fits = room >= tokens and {name: _kind(array) for name, array in spare.items()} == kinds
    room = room if fits else _rounded(tokens)
    raw: dict[str, Any] = {}
    for name, one in kinds.items():
        words = getattr(mx, _WORDS[one.dtype][1])
        raw[name] = spare[name].view(words) if fits else mx.zeros((1, one.heads, room, one.width), words)
    mx.eval(list(raw.values()))
    return raw, room


def _rounded(tokens: int) -> int:
    return -(-tokens // _GROWS) * _GROWS


def _kind(array: Any) -> _Kind | None:
    words = {name: dtype for dtype, (name, _) in _WORDS.items()}
    one, heads, _, width = array.shape
    dtype = words.get(str(array.dtype).removeprefix("mlx.core."))
    return _Kind(dtype, heads, width) if dtype and one == 1 else None


def _pieces(file: _File, into: Mapping[str, memoryview], room: int, at: int, count: int) -> Iterator[memoryview]:
    """Yield where the bytes of a file go in turn, those of tokens beyond `count` nowhere."""
    for name, kind in file.kinds.items():
        place, size, left = into[name], count * kind.step, (file.tokens - count) * kind.step
        for begin in range(at * kind.step, (kind.heads * room + at) * kind.step, max(1, room * kind.step)):
            yield place[begin : begin + size]
            if left:
                yield memoryview(bytearray(left))


def _fill(descriptor: int, pieces: Sequence[memoryview]) -> None:
    """Fill the pieces with the next bytes of a file; ValueError where it ends before."""
    if os.readv(descriptor, pieces) != sum(map(len, pieces)):
        raise ValueError("the file is shorter than it says")


def _open(path: Path, held: ExitStack) -> _File:
    """Open a file and go to its first tensor; what is not as expected raises one of many errors."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    held.callback(os.close, descriptor)
    length = int.from_bytes(os.read(descriptor, _LENGTH), "little")
    entries = json.loads(os.read(descriptor, min(length, _MOST_FILES)))
    entries.pop(_ABOUT, None)
    tokens, kinds, end = next(iter(entries.values()))["shape"][2], dict[str, _Kind](), 0
    for name, entry in entries.items():
        one, heads, count, width = entry["shape"]
        kind = _Kind(entry["dtype"], heads, width)
        begin, end = end, end + heads * count * kind.step
        if (one, count, [begin, end]) != (1, tokens, entry["data_offsets"]):
            raise ValueError("not tensors of the same tokens one behind the other")
        kinds[name] = kind
    return _File(descriptor, tokens, kinds)


Cache = list[Any]  # one of mlx-lm's caches a layer
Transient = Mapping[str, Any]  # arrays of a segment that its cache does not hold on to
_MOST_SPARE = 256 << 20  # bytes that lie idle between two questions, at most


@dataclass(slots=True)
class SpareBuffers:
    """Memory for the next cache, of one that nobody needs any more or cleared ahead; mutable. One thread's."""

    arrays: Arrays = field(default_factory=dict)

    def take(self) -> Arrays:
        """Return what there is, which is the taker's from then on."""
        taken, self.arrays = self.arrays, {}
        return taken


@dataclass(frozen=True, slots=True)
class CacheForm:
    """How what a model reads is kept: the `name` of the form, empty where it cannot be, and that `said` in words."""

    name: str
    said: str

    @property
    def shares_prefix(self) -> bool:
        """Return whether a segment's first tokens can be used without the rest: every layer keeps each as it is."""
        return self.name == "tokens"


def begin(model: Any) -> Cache:
    """Return an empty cache."""
    from mlx_lm.models.cache import make_prompt_cache

    cache: Cache = make_prompt_cache(model)
    return cache


def compute(cache: Cache) -> None:
    """Have all that is in a cache computed, and no logits, which nobody asked for."""
    import mlx.core as mx

    mx.eval([layer.state for layer in cache])
    mx.clear_cache()


def length(cache: Cache) -> int:
    """Return how many tokens a cache has read; 0 for a model that keeps no count, and so has no end either."""
    return max((int(part.offset) for _, part in _parts(cache) if hasattr(part, "offset")), default=0)


def trim(cache: Cache, count: int) -> None:
    """Have a cache of keys and values of every token forget the last ones that it read."""
    for layer in cache if count else ():
        layer.trim(count)


def is_sliceable(cache: Cache) -> bool:
    """Return whether a cache is keys and values of every token, and nothing else."""
    from mlx_lm.models.cache import KVCache

    return all(type(layer) is KVCache for layer in cache)


def form(cache: Cache, bits: int = 0) -> CacheForm:
    """Return how what is read into an empty cache is kept: its layers say so, each by its type."""
    kinds = [(kind(part), part) for _, part in _parts(cache)]
    if strange := sorted({type(part).__name__ for kind, part in kinds if kind is None}):
        return CacheForm("", f"KV cache not stored: {' and '.join(strange)} cannot be restored")
    found = Counter(kind for kind, _ in kinds)
    widths = {window(part) for kind, part in kinds if kind == "window"}
    said = [
        "KV cache stored per message",
        f"the last {' or '.join(map(str, sorted(widths)))} tokens in {found['window']} of {len(kinds)} layers",
        f"the recurrent state of {found['state']} of {len(kinds)} layers after each",
        f"in {bits} bits",
    ]
    told = [words for words, there in zip(said, (True, found["window"], found["state"], bits), strict=True) if there]
    name = "-".join(kind for kind in ("window", "state") if found[kind]) or "tokens"
    return CacheForm(f"{name}-{bits}" if bits else name, ", ".join(told))


def settle(cache: Cache, count: int, bits: int = 0) -> Transient:
    """Bring a cache that has read a segment of `count` tokens to exactly what `restore` would give.

    Gives the arrays that are to be kept and that the cache will not have any more, or not as they are kept.
    """
    import mlx.core as mx

    found: dict[str, Any] = {}
    for name, part in _parts(cache):
        found |= settle_layer(part, name, count, bits)
    if found:
        mx.eval(list(found.values()))
        compute(cache)
    return found


def cut(cache: Cache, start: int, stop: int, transient: Transient | None = None) -> list[Tensor]:
    """Copy what is kept of a segment: keys and values, (1, heads, tokens, width), and what was fleeting."""
    found = dict(transient or {})
    for name, part in _parts(cache):
        if kind(part) == "tokens" and not part.empty() and f"{name}.k" not in found:
            both = zip("kv", part.keys_and_values(), strict=True)
            found |= {f"{name}.{kv}": array[..., start:stop, :] for kv, array in both}
    return [tensor(name, array) for name, array in found.items()]


def restore(cache: Cache, paths: Sequence[Path], shared: int | None = None, spare: SpareBuffers | None = None) -> Cache:
    """Have an empty cache read what the files hold, one behind the other, of the last `shared` tokens.

    Unreadable where a file is gone, or holds something else. Arrays are read in the thread that asks. With `spare` no
    array stands between a file and the cache, which works for tensors that are kept as they are.
    """
    try:
        if spare is not None and is_sliceable(cache):
            return _hold(cache, *read(paths, shared, spare.take()))
        opened = files(paths)
        for name, part in _parts(cache):
            put(part, name, opened, shared)
        compute(cache)
    except (RuntimeError, ValueError, LookupError) as error:
        raise UnreadableCache(type(error).__name__) from error
    return cache


def release(cache: Cache, spare: SpareBuffers) -> None:
    """Empty a cache that nobody reads any more; its memory is spare where it is keys and values of every token."""
    import mlx.core as mx

    arrays = _arrays(cache)
    cache.clear()
    mx.eval(list(arrays.values()))
    if arrays and _size(arrays) <= _MOST_SPARE:
        spare.arrays = arrays


def expect(cache: Cache, tokens: int, spare: SpareBuffers) -> None:
    """Clear memory for so many tokens of what a cache holds, where that is keys and values of every token."""
    arrays = _arrays(cache)
    if arrays and _size(arrays) * tokens <= _MOST_SPARE * arrays["0.k"].shape[2]:
        spare.arrays = clear(arrays, tokens)


def _arrays(cache: Cache) -> Arrays:
    """Return the arrays of a cache of keys and values of every token by name; none of another, or an empty one."""
    if not cache or not is_sliceable(cache) or any(layer.empty() for layer in cache):
        return {}
    both = [(number, zip("kv", (layer.keys, layer.values), strict=True)) for number, layer in enumerate(cache)]
    return {f"{number}.{kv}": array for number, pair in both for kv, array in pair}


def _size(arrays: Arrays) -> int:
    return sum(array.nbytes for array in arrays.values())


def _hold(cache: Cache, found: Arrays, count: int) -> Cache:
    """Have an empty cache of keys and values of every token hold so many tokens of arrays that have room for more."""
    for number, layer in enumerate(cache):
        layer.state = (found[f"{number}.k"], found[f"{number}.v"], count)
    return cache


def fill(cache: Cache, layers: Sequence[tuple[Any, Any]]) -> Cache:
    """Have an empty cache of keys and values of every token hold these, layer by layer."""
    for (name, part), both in zip(_parts(cache), layers, strict=True):
        put(part, name, [{f"{name}.{kv}": array for kv, array in zip("kv", both, strict=True)}])
    compute(cache)
    return cache


def _parts(cache: Cache) -> Iterator[tuple[str, Any]]:
    """Yield the caches of a cache by name, those of a layer that has more than one each by its own."""
    for number, part in enumerate(part for layer in cache for part in getattr(layer, "caches", (layer,))):
        yield str(number), part
