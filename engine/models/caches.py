"""The one module that touches mlx-lm's caches: what a model has read, given out as plain tensors and put back.

It knows no prompts and no files but safetensors. MLX is imported inside functions, since BLAS must be there before it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.models import parts, straight
from engine.models.protocols import Unreadable
from engine.models.tensors import Arrays, files, tensor
from store.kv_files import Tensor

Cache = list[Any]  # one of mlx-lm's caches a layer
Fleeting = Mapping[str, Any]  # arrays of a segment that its cache does not hold on to
_MOST_SPARE = 256 << 20  # bytes that lie idle between two questions, at most


@dataclass(slots=True)
class Spare:
    """Memory for the next cache, of one that nobody needs any more or cleared ahead; mutable. One thread's."""

    arrays: Arrays = field(default_factory=dict)

    def take(self) -> Arrays:
        """Give what there is, which is the taker's from then on."""
        taken, self.arrays = self.arrays, {}
        return taken


@dataclass(frozen=True, slots=True)
class Form:
    """How what a model reads is kept: the `name` of the form, empty where it cannot be, and that `said` in words."""

    name: str
    said: str

    @property
    def lends(self) -> bool:
        """Tell whether a segment's first tokens can be used without the rest: every layer keeps each as it is."""
        return self.name == "tokens"


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
    return max((int(part.offset) for _, part in _parts(cache) if hasattr(part, "offset")), default=0)


def take_back(cache: Cache, count: int) -> None:
    """Have a cache of keys and values of every token forget the last ones that it read."""
    for layer in cache if count else ():
        layer.trim(count)


def sliceable(cache: Cache) -> bool:
    """Tell whether a cache is keys and values of every token, and nothing else."""
    from mlx_lm.models.cache import KVCache

    return all(type(layer) is KVCache for layer in cache)


def form(cache: Cache, bits: int = 0) -> Form:
    """Tell how what is read into an empty cache is kept: its layers say so, each by its type."""
    kinds = [(parts.kind(part), part) for _, part in _parts(cache)]
    if strange := sorted({type(part).__name__ for kind, part in kinds if kind is None}):
        return Form("", f"KV cache not stored: {' and '.join(strange)} cannot be restored")
    found = Counter(kind for kind, _ in kinds)
    widths = {parts.window(part) for kind, part in kinds if kind == "window"}
    said = [
        "KV cache stored per message",
        f"the last {' or '.join(map(str, sorted(widths)))} tokens in {found['window']} of {len(kinds)} layers",
        f"the recurrent state of {found['state']} of {len(kinds)} layers after each",
        f"in {bits} bits",
    ]
    told = [words for words, there in zip(said, (True, found["window"], found["state"], bits), strict=True) if there]
    name = "-".join(kind for kind in ("window", "state") if found[kind]) or "tokens"
    return Form(f"{name}-{bits}" if bits else name, ", ".join(told))


def settle(cache: Cache, count: int, bits: int = 0) -> Fleeting:
    """Bring a cache that has read a segment of `count` tokens to exactly what `restore` would give.

    Gives the arrays that are to be kept and that the cache will not have any more, or not as they are kept.
    """
    import mlx.core as mx

    found: dict[str, Any] = {}
    for name, part in _parts(cache):
        found |= parts.settle(part, name, count, bits)
    if found:
        mx.eval(list(found.values()))
        compute(cache)
    return found


def cut(cache: Cache, start: int, stop: int, fleeting: Fleeting | None = None) -> list[Tensor]:
    """Copy what is kept of a segment: keys and values, (1, heads, tokens, width), and what was fleeting."""
    found = dict(fleeting or {})
    for name, part in _parts(cache):
        if parts.kind(part) == "tokens" and not part.empty() and f"{name}.k" not in found:
            both = zip("kv", part.keys_and_values(), strict=True)
            found |= {f"{name}.{kv}": array[..., start:stop, :] for kv, array in both}
    return [tensor(name, array) for name, array in found.items()]


def restore(cache: Cache, paths: Sequence[Path], lent: int | None = None, spare: Spare | None = None) -> Cache:
    """Have an empty cache read what the files hold, one behind the other, of the last `lent` tokens.

    Unreadable where a file is gone, or holds something else. Arrays are read in the thread that asks. With `spare` no
    array stands between a file and the cache, which works for tensors that are kept as they are.
    """
    try:
        if spare is not None and sliceable(cache):
            return _hold(cache, *straight.read(paths, lent, spare.take()))
        opened = files(paths)
        for name, part in _parts(cache):
            parts.put(part, name, opened, lent)
        compute(cache)
    except (RuntimeError, ValueError, LookupError) as error:
        raise Unreadable(type(error).__name__) from error
    return cache


def release(cache: Cache, spare: Spare) -> None:
    """Empty a cache that nobody reads any more; its memory is spare where it is keys and values of every token."""
    import mlx.core as mx

    arrays = _arrays(cache)
    cache.clear()
    mx.eval(list(arrays.values()))
    if arrays and _size(arrays) <= _MOST_SPARE:
        spare.arrays = arrays


def expect(cache: Cache, tokens: int, spare: Spare) -> None:
    """Clear memory for so many tokens of what a cache holds, where that is keys and values of every token."""
    arrays = _arrays(cache)
    if arrays and _size(arrays) * tokens <= _MOST_SPARE * arrays["0.k"].shape[2]:
        spare.arrays = straight.clear(arrays, tokens)


def _arrays(cache: Cache) -> Arrays:
    """Give the arrays of a cache of keys and values of every token by name; none of another, or an empty one."""
    if not cache or not sliceable(cache) or any(layer.empty() for layer in cache):
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
        parts.put(part, name, [{f"{name}.{kv}": array for kv, array in zip("kv", both, strict=True)}])
    compute(cache)
    return cache


def _parts(cache: Cache) -> Iterator[tuple[str, Any]]:
    """Give the caches of a cache by name, those of a layer that has more than one each by its own."""
    for number, part in enumerate(part for layer in cache for part in getattr(layer, "caches", (layer,))):
        yield str(number), part
