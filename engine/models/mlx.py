"""A language model on MLX, of any architecture of mlx-lm: prefill by segment, greedy decoding, speculative drafts.

Knows no prompts, and only the weights in a model's folder. MLX is imported at first use, because BLAS must be loaded
before it.
"""

import os
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.models import kv_cache, runtime
from engine.models.adapters import Adapter, AttachedAdapter, wear
from engine.models.kv_cache import Cache, Captured, RangeReader, ReadAt
from engine.models.runtime import Device, device, mx
from engine.models.types import Drafter, Frame, Tokens, spelled
from store.kv_files import borders

Step = Callable[[Any], Any]  # ids (rows,) -> the likeliest next id after each (rows,), evaluated asynchronously


def decode_ids(
    first: Any, step: Step, undo: Callable[[int], None], most: int, drafts: Drafter | None
) -> Generator[int, None, None]:
    """Yield at most `most` ids, beginning with `first`, (1,); `undo` removes that many rows of a step from the cache.

    Without a draft, the next step starts before the token of the last one is read. Drafts depend only on their texts
    and the answer, never on the cache; so do the steps, and thus the rounding of the logits.
    """
    pending, is_known, left = first, False, most
    try:
        while left > 0:
            left -= 1
            if left and drafts and (is_known or drafts.next()):
                id = int(pending.item())
                drafts.add(id)
                yield id
                guess = drafts.next()[: left - 1]
                best = step(mx.array([id, *guess]))
                right = drafts.judge(guess, best.tolist()) if guess else 0
                undo(len(guess) - right)
                for id in guess[:right]:
                    drafts.add(id)
                    drafts.right += 1
                    yield id
                pending, is_known, left = best[right : right + 1], bool(guess), left - right
            else:
                current = pending
                if left:
                    pending, is_known = step(current), False
                id = int(current.item())
                if drafts:
                    drafts.add(id)
                yield id
    finally:
        mx.eval(pending)


# Tokens of a prefill step, counted from a segment's start: MLX chooses its kernels by the number of rows, and a token's
# keys and values must not depend on how much of its segment was cached. For a GPU it is measured.
SUB_STEP = 128


@dataclass(frozen=True, slots=True, eq=False)
class Mlx:
    """A loaded model.

    With `bits`, it always decodes from a cache quantized to that many bits, restored or not. `yield_point` is called
    before each step of prefill and decoding; it may run another prompt, or raise. The adapter of its `role` acts on the
    last segment of a prompt and on what is generated, and on nothing else. The user's adapter, which it `wears`, takes
    its place; an ordinary one acts on all segments.
    """

    name: str
    context: int
    frame: Frame
    sub_step: int
    stops: frozenset[int]
    vocabulary: Tokens = field(repr=False)
    model: Any = field(repr=False)
    adapter: AttachedAdapter = field(default_factory=AttachedAdapter, repr=False)
    role: Adapter | None = None
    wears: Adapter | None = None
    bits: int = 0
    yield_point: Callable[[], None] = field(default=lambda: None, repr=False)

    def tokens(self, text: str) -> list[int]:
        """Return the token ids of a text; special tokens in it are plain text."""
        return self.vocabulary.text(text)

    @property
    def has_roles(self) -> bool:
        """Return whether a role adapter acts on the last segment of prompts."""
        return self.role is not None and not self.kv_adapter

    @property
    def kv_adapter(self) -> str:
        """Return the digest of the adapter that its KV tensors depend on, empty for the base model's."""
        return self.wears.digest if self.wears and not self.wears.activated else ""

    @property
    def dtype(self) -> str:
        """Return the dtype that it computes in."""
        from mlx.utils import tree_flatten

        arrays = dict(tree_flatten(self.model.parameters())).values()
        return next(str(array.dtype) for array in arrays if mx.issubdtype(array.dtype, mx.floating))

    def begin(self) -> Cache:
        """Return an empty cache."""
        return kv_cache.begin(self.model)

    def prefill(self, cache: Cache, ids: Sequence[int], *, adapted: bool = False) -> Captured:
        """Prefill one whole segment, a sub-step at a time; an interrupt takes effect between two of them."""
        assert kv_cache.length(cache) + len(ids) <= self.context, "the prompt is longer than the model's context"
        captured, by_step = list[Captured](), kv_cache.is_sliceable(cache)
        for start, end in pairwise((0, *borders(len(ids), self.sub_step))):
            self._rows(cache, mx.array(list(ids[start:end])), adapted=adapted)
            kv_cache.compute(cache)
            if by_step:  # so that a step can be computed behind loaded ones
                captured.append(kv_cache.normalize(cache, end - start, self.bits))
        if ids and not by_step:
            return kv_cache.normalize(cache, len(ids), self.bits)
        names = captured[0] if captured else ()
        return {name: kv_cache.concatenated(one[name] for one in captured) for name in names}

    def decode(
        self, cache: Cache, ids: Sequence[int], most: int, drafts: Drafter | None = None
    ) -> Generator[str, None, None]:
        """Prefill the last segment and yield each token's text; uses `drafts` if the cache can drop rejected tokens."""
        from mlx_lm.models.cache import trim_prompt_cache

        drafts = drafts if kv_cache.is_sliceable(cache) else None
        if drafts:  # the stop token that ends a turn
            drafts.end = tuple(id for id in (*self.frame.closing, *sorted(self.stops)) if id in self.stops)[:1]

        def step(ids: Any) -> Any:
            return self._likeliest(cache, self._rows(cache, ids, adapted=True))

        first = self._likeliest(cache, self._last(cache, ids)[:, -1:])
        most = min(most, self.context - kv_cache.length(cache))
        with closing(decode_ids(first, step, partial(trim_prompt_cache, cache), most, drafts)) as generated:
            yield from spelled(self.vocabulary, takewhile(lambda id: id not in self.stops, generated))

    def restore(self, paths: Sequence[Path], shared: int | None = None) -> Cache:
        """Return a cache restored from files, one per segment, of the last only `shared` tokens; UnreadableCache."""
        cache = self.begin()
        if not self.reads_ranges:
            return kv_cache.restore(cache, paths)
        with closing(self.ranges(paths, shared, os.preadv)) as reader:
            reader.read_all()
            return kv_cache.join(cache, reader)

    @property
    def reads_ranges(self) -> bool:
        """Return whether parts of stored segments can be loaded beside computing others."""
        return kv_cache.is_sliceable(self.begin())

    def ranges(self, paths: Sequence[Path], shared: int | None, read_at: ReadAt) -> RangeReader:
        """Return a reader of files, one per segment, of the last only `shared` tokens; UnreadableCache."""
        in_place = not self.bits and device() != "cuda"  # as they are, and only tested with host memory
        return RangeReader(paths, shared, read_at, in_place=in_place)

    def logits(self, cache: Cache, ids: Sequence[int]) -> NDArray[np.float32]:
        """Prefill the last segment and return the logits of the next token: (vocabulary,)."""
        return np.array(self._last(cache, ids)[0, -1].astype(mx.float32))

    def _likeliest(self, cache: Cache, logits: Any) -> Any:
        """Start computing the likeliest next ids: (rows,) from logits (1, rows, vocabulary)."""
        async_eval: Any = mx.async_eval  # has no types in MLX's stubs
        ids = mx.argmax(logits[0], axis=-1)
        async_eval(ids)
        return ids

    def _last(self, cache: Cache, ids: Sequence[int]) -> Any:
        assert ids, "the last segment of a prompt is empty"
        last = (0, *borders(len(ids), self.sub_step))[-2]
        self.prefill(cache, ids[:last], adapted=True)
        return self._rows(cache, mx.array(list(ids[last:])), adapted=True)

    def _rows(self, cache: Cache, ids: Any, *, adapted: bool = False) -> Any:
        self.yield_point()  # before adapters are changed: it may run another prompt
        wear(self.model, self.adapter, self.wears or self.role)
        self.adapter.acts = adapted
        return self.model(ids[None], cache=cache)


def open_lazily(folder: Path) -> Any:
    """Open a language model without reading its weights."""
    from mlx_lm.utils import load_model

    return load_model(folder, lazy=True)[0]


def shapes(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the shape of each array, by name, of the model that a config describes; NoModel without MLX.

    What mlx-lm raises for a config of no model is among `LOAD_ERRORS`.
    """
    runtime.require_backend()
    runtime.load_blas()
    from mlx.utils import tree_flatten

    made = import_module(f"mlx_lm.models.{config['model_type']}")
    model = made.Model(made.ModelArgs.from_dict(config))  # of arrays that are not computed
    return {name: array.shape for name, array in dict(tree_flatten(model.parameters())).items()}


def open_headless(folder: Path) -> Any:
    """Open a Qwen3 without its head; its `model` returns hidden states, (texts, tokens, width) after the final norm."""
    from mlx_lm.models.qwen3 import Model, ModelArgs
    from mlx_lm.utils import load_model

    # An embedder's weights may lack a head, and the prefix of layer names, whatever its config says.
    def sanitize(arrays: Mapping[str, Any]) -> dict[str, Any]:
        layers = {name: array for name, array in arrays.items() if not name.startswith("lm_head.")}
        return {f"model.{name.removeprefix('model.')}": array for name, array in layers.items()}

    headless = type("Headless", (Model,), {"sanitize": staticmethod(sanitize)})
    tied = {"tie_word_embeddings": True}  # then mlx-lm creates no head
    return load_model(folder, lazy=True, model_config=tied, get_model_classes=lambda config: (headless, ModelArgs))[0]


def evaluate(model: Any, device: Device) -> Any:
    """Read the weights of a model that was opened lazily, in the width that is fast there; returns it."""
    from mlx.utils import tree_flatten
    from mlx_lm.utils import dequantize_model

    if device == "cpu":  # only fp32 is fast there
        mx.disable_compile()  # by the C++ compiler of the system, which takes seconds and gains nothing
        model.set_dtype(mx.float32)
        dequantize_model(model)
        model.set_dtype(mx.float32)
        # The attention function of all modules of its layers.
        for name in {type(part).__module__ for part in model.modules()}:
            if name.startswith("mlx_lm.models.") and hasattr(sys.modules[name], ATTENTION):
                setattr(sys.modules[name], ATTENTION, attend)
    for array in dict(tree_flatten(model.parameters())).values():
        mx.eval(array)  # one by one, so that at most one is in memory in two widths
    return model


Floats = NDArray[np.float32]

ATTENTION = "scaled_dot_product_attention"  # of mlx-lm, as its modules of models name it
_BLOCK = 1 << 18  # scores per pass: they fit in a core's L2 cache


def attend(queries: Any, keys: Any, values: Any, cache: Any, scale: float, mask: Any, sinks: Any = None) -> Any:
    """Return softmax(queries keys^T scale + mask) values: (batch, heads, rows, width), of (batch, groups, seen, width).

    A single row goes to mlx-lm: it is fast, and must stay asynchronous in decoding.
    """
    from mlx_lm.models import base

    batch, heads, rows, width = queries.shape
    groups, seen = keys.shape[1:3]
    plain = sinks is None and not hasattr(cache, "bits") and queries.dtype == keys.dtype == mx.float32
    is_common = mask is None or isinstance(mask, str) or all(size == 1 for size in mask.shape[:-2])  # to all heads
    if rows == 1 or not plain or not is_common:
        return base.scaled_dot_product_attention(queries, keys, values, cache, scale, mask, sinks)
    grouped = (queries * scale).reshape(batch, groups, -1, width)
    scores = grouped @ keys.swapaxes(-1, -2)
    mx.eval(scores)
    raw: Floats = np.array(scores, copy=False)
    _hide(raw.reshape(-1, rows, seen), mask)
    sums = _exponentials(raw.reshape(-1, seen))
    found = (scores @ values) / mx.array(sums.reshape(batch, groups, -1, 1))
    return found.reshape(batch, heads, rows, -1)


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
