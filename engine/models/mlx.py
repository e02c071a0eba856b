"""A language model on MLX, of any architecture that mlx-lm knows: reads segments into a cache and goes on greedily.

With the modules of caches and attention, the only one that imports mlx_lm. It knows no prompts, and no small file of a
model's folder. MLX is imported inside functions, because BLAS must be there before it.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.models import cpu, kv_cache
from engine.models.kv_cache import Cache, CacheForm, SpareBuffers, Transient
from engine.models.runtime import Device, device
from engine.models.tokens import Spelling, Tokens, first_line
from engine.models.types import Drafter, Frame, Meter, Size
from store.kv_files import Tensor
from store.kv_tree import borders

Step = Callable[[Any], Any]  # ids (rows,) -> the likeliest id behind each (rows,), which is computed meanwhile


def goes_on(
    first: Any, step: Step, undo: Callable[[int], None], room: int, drafts: Drafter | None
) -> Generator[int, None, None]:
    """Yield at most `room` ids, of which `first`, (1,), is the first; `undo` takes back that many rows of a step.

    While nothing can be guessed, a token is not waited for before the next one is begun. What is guessed depends on
    the texts of `drafts` and on the answer; so the steps, and their rounding, do as well, and on nothing that is kept.
    """
    import mlx.core as mx

    waited, is_known, left = first, False, room
    try:
        while left > 0:
            left -= 1
            if left and drafts and (is_known or drafts.next()):
                id = int(waited.item())
                drafts.add(id)
                yield id
                guess = drafts.next()[: left - 1]
                best = step(mx.array([id, *guess]))
                right = drafts.judge(guess, best.tolist()) if guess else 0
                undo(len(guess) - right)
                for one in guess[:right]:
                    drafts.add(one)
                    drafts.right += 1
                    yield one
                waited, is_known, left = best[right : right + 1], bool(guess), left - right
            else:
                shown = waited
                if left:
                    waited, is_known = step(shown), False
                id = int(shown.item())
                if drafts:
                    drafts.add(id)
                yield id
    finally:
        mx.eval(waited)


# Tokens read at a time, counted from a segment's start: what is computed of a token must not depend on how much of its
# segment was there already, and another number of rows is multiplied by another kernel.
SUB_STEP: Mapping[Device, int] = {"cpu": 128, "metal": 512, "cuda": 512}


def _nothing() -> None:
    """Let nobody in between."""


@dataclass(frozen=True, slots=True, eq=False)
class Mlx:
    """A loaded model. `one_line` says that its answers end with their line, since it knows no other end.

    With `bits` it goes on from what it has read as it would be loaded from so many bits, whether it was or not.
    `yield_point` is called before each sub-step and each step of writing; it may have another prompt read, or raise.
    """

    name: str
    context: int
    frame: Frame
    sub_step: int
    stops: frozenset[int]
    one_line: bool
    vocabulary: Tokens = field(repr=False)
    model: Any = field(repr=False)
    bits: int = 0
    meter: Meter = field(default_factory=Meter, repr=False)
    spare: SpareBuffers = field(default_factory=SpareBuffers, repr=False)
    yield_point: Callable[[], None] = field(default=_nothing, repr=False)

    def tokens(self, text: str) -> list[int]:
        """Return the ids of a text; what looks like a special token in it is text like any other."""
        return self.vocabulary.text(text)

    @property
    def dtype(self) -> str:
        """Name the width that it computes in."""
        from mlx.core import floating, issubdtype
        from mlx.utils import tree_flatten

        arrays = dict(tree_flatten(self.model.parameters())).values()
        return next(str(array.dtype) for array in arrays if issubdtype(array.dtype, floating))

    def begin(self) -> Cache:
        """Return an empty cache."""
        return kv_cache.begin(self.model)

    def prefill(self, cache: Cache, ids: Sequence[int]) -> Transient:
        """Read one whole segment into the cache, a sub-step at a time; an interrupt takes effect between two.

        Gives what is to be kept of it and that the cache does not hold on to.
        """
        import mlx.core as mx

        assert kv_cache.length(cache) + len(ids) <= self.context, "the prompt is longer than the model's context"
        for start, end in pairwise((0, *borders(len(ids), self.sub_step))):
            self._rows(cache, mx.array(list(ids[start:end])))
            kv_cache.compute(cache)
        return kv_cache.settle(cache, len(ids), self.bits) if ids else {}

    def decode(
        self, cache: Cache, ids: Sequence[int], most: int, drafts: Drafter | None = None
    ) -> Generator[str, None, None]:
        """Read the last segment and yield the text of each further token, which may be empty, up to a stop.

        The cache then holds the segment and those tokens that were read to find the next. Where guesses cannot be taken
        back from it, `drafts` are not asked for any.
        """
        if drafts and kv_cache.is_sliceable(cache):
            drafts.end = self._end
        else:
            drafts = None
        pieces = self._write(cache, ids, most, drafts)
        return first_line(pieces) if self.one_line else pieces

    @property
    def size(self) -> Size:
        """Return what its work is reckoned by; of a model that does not say its widths, attention is left out."""
        from mlx_lm.utils import get_total_parameters

        args = self.model.args
        width, heads = getattr(args, "hidden_size", 0), getattr(args, "num_attention_heads", 1)
        table = getattr(args, "vocab_size", 0) * width
        tables = 1 if getattr(args, "tie_word_embeddings", True) else 2  # what looks tokens up multiplies nothing
        attended = heads * (getattr(args, "head_dim", None) or width // heads)
        return Size(get_total_parameters(self.model) - tables * table, table, len(self.model.layers), attended)

    @property
    def form(self) -> CacheForm:
        """Return how what it reads can be kept."""
        return kv_cache.form(self.begin(), self.bits)

    def cut(self, cache: Cache, start: int, stop: int, transient: Transient | None = None) -> list[Tensor]:
        """Copy what is kept of a segment: keys and values, (1, heads, tokens, width), and what was fleeting."""
        return kv_cache.cut(cache, start, stop, transient)

    def restore(self, paths: Sequence[Path], shared: int | None = None) -> Cache:
        """Return a cache that has read these files in turn, of the last one only `shared` tokens; UnreadableCache.

        Arrays are read in the thread that asks.
        """
        # Whether MLX's memory is written to by writing to its buffer was not tried where that is another device's.
        direct = not self.bits and device() != "cuda"
        return kv_cache.restore(self.begin(), paths, shared, self.spare if direct else None)

    def release(self, cache: Cache) -> None:
        """Empty a cache that nobody reads any more: the next one may be read into its memory."""
        kv_cache.release(cache, self.spare)

    def expect(self, cache: Cache, tokens: int) -> None:
        """Have memory ready for so many tokens of what a cache holds; done ahead, it need not be waited for."""
        if not self.bits and device() != "cuda":
            kv_cache.expect(cache, tokens, self.spare)

    def logits(self, cache: Cache, ids: Sequence[int]) -> NDArray[np.float32]:
        """Read the last segment and give the logits of what follows: (vocabulary,)."""
        import mlx.core as mx

        return np.array(self._last(cache, ids)[0, -1].astype(mx.float32))

    def _write(self, cache: Cache, ids: Sequence[int], most: int, drafts: Drafter | None) -> Generator[str, None, None]:
        spelling, step = Spelling(self.vocabulary), partial(self._step, cache)
        first = self._likeliest(cache, self._last(cache, ids)[:, -1:])
        room = min(most, self.context - kv_cache.length(cache))
        with closing(goes_on(first, step, partial(self._undo, cache), room, drafts)) as written:
            for id in written:
                if id in self.stops:
                    return
                yield spelling.add(id)

    @property
    def _end(self) -> tuple[int, ...]:
        """Return what ends an answer: its line, or the stop that ends a turn, where there is more than one."""
        if self.one_line:
            return tuple(self.tokens("\n"))
        return tuple(id for id in (*self.frame.closing, *sorted(self.stops)) if id in self.stops)[:1]

    def _step(self, cache: Cache, ids: Any) -> Any:
        return self._likeliest(cache, self._rows(cache, ids, written=True))

    def _undo(self, cache: Cache, count: int) -> None:
        self.meter.take_back(count)
        kv_cache.trim(cache, count)

    def _likeliest(self, cache: Cache, logits: Any) -> Any:
        """Begin to compute the ids that come next: (rows,) of (1, rows, vocabulary), which the cache has read."""
        import mlx.core as mx

        begin: Any = mx.async_eval  # which its stub has no types for
        ids = mx.argmax(logits[0], axis=-1)
        begin(ids)
        return ids

    def _last(self, cache: Cache, ids: Sequence[int]) -> Any:
        import mlx.core as mx

        assert ids, "the last segment of a prompt is empty"
        begun = (0, *borders(len(ids), self.sub_step))[-2]
        self.prefill(cache, ids[:begun])
        return self._rows(cache, mx.array(list(ids[begun:])))

    def _rows(self, cache: Cache, ids: Any, *, written: bool = False) -> Any:
        self.meter.count(len(ids), kv_cache.length(cache), written=written)
        self.yield_point()
        return self.model(ids[None], cache=cache)


def weights(folder: Path, device: Device) -> Any:
    """Load a language model."""
    from mlx_lm.utils import load_model

    return _widened(load_model(folder, lazy=True)[0], device)


def unread(folder: Path) -> Any:
    """Open a language model of which nothing is read before it is asked for."""
    from mlx_lm.utils import load_model

    return load_model(folder, lazy=True)[0]


def qwen3_layers(folder: Path, device: Device) -> Any:
    """Load a Qwen3 without its head: token ids to hidden states, (texts, tokens, width) after the final norm.

    An embedder's weights may have no head, and bare names of layers, whatever its config says.
    """
    from mlx_lm.models.qwen3 import Model, ModelArgs
    from mlx_lm.utils import load_model

    def named(arrays: Mapping[str, Any]) -> dict[str, Any]:
        kept = {name: array for name, array in arrays.items() if not name.startswith("lm_head.")}
        return {f"model.{name.removeprefix('model.')}": array for name, array in kept.items()}

    headless = type("Headless", (Model,), {"sanitize": staticmethod(named)})
    tied = {"tie_word_embeddings": True}  # then it makes no head
    model, _ = load_model(folder, lazy=True, model_config=tied, get_model_classes=lambda config: (headless, ModelArgs))
    return _widened(model, device).model


def _widened(model: Any, device: Device) -> Any:
    import mlx.core as mx
    from mlx.utils import tree_flatten
    from mlx_lm.utils import dequantize_model

    if device == "cpu":  # no other width is fast there
        model.set_dtype(mx.float32)
        dequantize_model(model)
        model.set_dtype(mx.float32)
        cpu.patch_attention(model)
    for array in dict(tree_flatten(model.parameters())).values():
        mx.eval(array)  # one by one, so that only one is held in two widths
    return model
