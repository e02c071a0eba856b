"""KV of ordinary adapters shared below the border: that of layers they leave alone, and the hidden state behind.

mlx-lm adapts the last 16 layers by default. What the others compute of a prefix is the base's, bit for bit: it is
stored once, and another adapter restores it and computes from the border on. Run `python -m tests.bench.delta.border
[--model 135M|0.5B] [--layers N] [--tokens N...] [--rounds N]`; the weights are random, all ways take turns, and every
tensor and logit is compared with `==`.
"""

from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np

from engine.models import kv_cache
from engine.models.adapters import Adapter, wear
from engine.models.kv_cache import Cache
from engine.models.mlx import Mlx
from engine.models.types import Ids
from store.kv_files import borders
from tests.bench.kv_reuse import loaded, prompt, turns
from tests.engine.models.adapter_kit import make_adapter
from tests.engine.models.shapes import REAL

ADAPTED = 16  # last layers, mlx-lm's default
HIDDEN = "hidden"


@dataclass(frozen=True, slots=True)
class Border:
    """A model whose first `lower` layers no adapter acts on."""

    model: Mlx
    lower: int

    def read(self, ids: Sequence[int], file: Path) -> None:
        """Compute the layers below the border with the base model, and store their tensors and the hidden state."""
        import mlx.core as mx

        wear(self.model.model, self.model.adapter, None)
        cache, inner = self.model.begin(), self.model.model.model
        states = [self._run(inner.embed_tokens(mx.array([part])), cache, 0, self.lower) for part in self._parts(ids)]
        arrays = {HIDDEN: mx.concatenate(states, axis=1)}
        for number, layer in enumerate(cache[: self.lower]):
            arrays |= {f"{number}.{kv}": array for kv, array in zip("kv", layer.keys_and_values(), strict=True)}
        mx.save_safetensors(str(file), {name: mx.contiguous(array) for name, array in arrays.items()})

    def restore(self, ids: Sequence[int], file: Path, adapter: Adapter) -> Cache:
        """Return an adapter's cache: restored below the border, computed above it."""
        import mlx.core as mx

        wear(self.model.model, self.model.adapter, adapter)
        cache, arrays, at = self.model.begin(), mx.load(str(file)), 0
        assert isinstance(arrays, dict), "not a set of tensors"
        for number, layer in enumerate(cache[: self.lower]):
            layer.state = (arrays[f"{number}.k"], arrays[f"{number}.v"], len(ids))
        for part in self._parts(ids):
            self._run(arrays[HIDDEN][:, at : at + len(part)], cache, self.lower, len(cache))
            at += len(part)
        return cache

    def cold(self, ids: Sequence[int], adapter: Adapter) -> Cache:
        """Return the cache of an adapter's own pass."""
        model = replace(self.model, wears=adapter)
        cache = model.begin()
        model.prefill(cache, ids)
        return cache

    def _parts(self, ids: Sequence[int]) -> list[list[int]]:
        return [list(ids[start:end]) for start, end in pairwise((0, *borders(len(ids), self.model.sub_step)))]

    def _run(self, hidden: Any, cache: Cache, first: int, end: int) -> Any:
        """Run some layers, as mlx-lm's models of the llama family do, and evaluate their caches."""
        import mlx.core as mx
        from mlx_lm.models.base import create_attention_mask

        mask = create_attention_mask(hidden, cache[first])
        for layer, own in zip(self.model.model.model.layers[first:end], cache[first:end], strict=True):
            hidden = layer(hidden, mask, cache=own)
        mx.eval([hidden, *(layer.state for layer in cache[first:end])])
        mx.clear_cache()
        return hidden


def equal(model: Mlx, one: Cache, other: Cache, last: Ids) -> bool:
    """Return whether two caches are equal, and the logits behind them."""
    both = [[layer.keys_and_values() for layer in cache] for cache in (one, other)]
    arrays = [[np.array(array) for pair in found for array in pair] for found in both]
    same = all(np.array_equal(a, b) for a, b in zip(*arrays, strict=True))
    return same and np.array_equal(model.logits(one, last), model.logits(other, last))


def measured(border: Border, adapters: Sequence[Adapter], tokens: int, rounds: int, folder: Path) -> str:
    """Return a row: milliseconds of both ways and bytes, after comparing each adapter's tensors."""
    *context, last = prompt(tokens)
    ids, file = [id for segment in context for id in segment], folder / f"{tokens}.safetensors"
    border.read(ids, file)
    same = [
        equal(replace(border.model, wears=one), border.restore(ids, file, one), border.cold(ids, one), last)
        for one in adapters
    ]
    one = adapters[0]
    ways: dict[str, Callable[[], object]] = {
        "cold": partial(border.cold, ids, one),
        "border": partial(border.restore, ids, file, one),
    }
    times = turns(ways, rounds, process_time)
    cold, shared = (median(times[name]) for name in ways)
    whole = sum(array.nbytes for layer in border.cold(ids, one) for array in layer.keys_and_values())
    return (
        f"{tokens} tokens: cold {cold:,.0f} ms, from the border {shared:,.0f} ({shared / cold:.2f}); "
        f"{file.stat().st_size / whole:.2f} of a tree's bytes; {sum(same)} of {len(same)} adapters equal, n = {rounds}"
    )


def main() -> None:
    """Measure and print."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=tuple(REAL), default="135M")
    parser.add_argument("--layers", type=int, default=ADAPTED)
    parser.add_argument("--tokens", type=int, nargs="+", default=(650, 2000))
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with TemporaryDirectory(prefix="pkb-border-") as name:
        folder = Path(name)
        model = loaded(folder, options.model)
        made = partial(make_adapter, folder / options.model, layers=options.layers)
        adapters = [made(folder / f"adapter{seed}", seed=seed) for seed in (3, 4)]
        border = Border(model, len(kv_cache.begin(model.model)) - options.layers)
        for tokens in options.tokens:
            print(measured(border, adapters, tokens, options.rounds, folder), flush=True)


if __name__ == "__main__":
    main()
