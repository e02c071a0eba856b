"""Ways to the first token of one prompt: computed, from the KV store, from memory, and by mlx-lm's prompt cache file.

A prompt's context is all of its segments but the last, the question. `drop` and `settle` decide whether files are read
from memory or from the disk. Prints nothing.
"""

import gc
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from engine.llm.prefill import Ids, KvBinding, PromptReader, keep, prefill
from engine.models.mlx import Mlx
from engine.types import Trace
from store.database import Ledger, open_ledger
from store.kv_budget import KvLimits, scores
from store.kv_store import KvStore
from store.kv_tree import TreeRoot, root_of
from tests.store.kv_kit import WEIGHTS


@dataclass(frozen=True, slots=True)
class First:
    """Seconds until the first token of an answer: of it matching, loading, and reading what was not loaded."""

    total: float
    match: float = 0.0
    load: float = 0.0
    reused: int = 0
    kept: float = 0.0  # keeping it, after the first token

    @property
    def rest(self) -> float:
        """Return the seconds that went neither into matching nor into loading."""
        return self.total - self.match - self.load


def drop(paths: Iterable[Path]) -> None:
    """Have the system forget what it remembers of files, so that they are read from the disk."""
    for path in paths:
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def timed(work: Callable[[], Any]) -> First:
    """Time some work as if it ended with a first token."""
    begun = perf_counter()
    work()
    return First(perf_counter() - begun)


def afresh() -> None:
    """Have MLX let go of memory that what ran before has left, or who loads next pays for that."""
    import mlx.core as mx

    gc.collect()
    mx.clear_cache()


def settle(paths: Iterable[Path]) -> None:
    """Have files on disk: what is not cannot be dropped from memory."""
    for path in paths:
        with path.open("rb") as file:
            os.fsync(file.fileno())


ROOM = 1 << 40


@dataclass
class Desk:
    """A model, a prompt, and a folder where its context is kept in every form: nodes, one file, mlx-lm's file."""

    model: Mlx
    folder: Path
    segments: Sequence[Ids]
    root: TreeRoot = field(default_factory=lambda: root_of({"model": "bench"}))

    def __post_init__(self) -> None:
        import mlx.core as mx
        from mlx_lm.models.cache import save_prompt_cache

        self.folder.mkdir(parents=True)
        self.ledger: Ledger = open_ledger(self.folder / "ledger.db", create=True)
        limits = KvLimits(ROOM, ROOM)
        self.store = KvStore(
            self.ledger, self.folder / "kv", limits=limits, score=scores(WEIGHTS)["value"],
            sub_step=self.model.sub_step, now=lambda: 1e9,
        )  # fmt: skip
        self.kept = KvBinding(self.store, self.root, self.model)
        *self.context, self.question = self.segments
        with ExitStack() as held:
            read = prefill(PromptReader(self.model, self.kept), self.context, Trace(), held)
            keep(self.kept, self.context, read)
        self.natural = read.cache
        with self.store.match(self.root, self.context) as match:
            self.paths = [self.store.path_of(node) for node in match.nodes]
        self.theirs, self.whole = self.folder / "theirs.safetensors", self.folder / "whole.safetensors"
        save_prompt_cache(str(self.theirs), self.natural)
        arrays = [array for layer in self.natural for array in layer.keys_and_values()]
        mx.save_safetensors(str(self.whole), {str(n): mx.contiguous(array) for n, array in enumerate(arrays)})
        settle([self.theirs, self.whole])

    def computed(self, segments: Sequence[Ids] = ()) -> First:
        """Compute everything, of this prompt or another."""
        return self._ask(PromptReader(self.model), segments or self.segments)

    def reused(self, segments: Sequence[Ids] = ()) -> First:
        """Ask with the context kept, this prompt or another that begins alike."""
        return self._ask(PromptReader(self.model, self.kept), segments or self.segments)

    def keeping(self, root: TreeRoot) -> First:
        """Compute everything, with a store that has none of it and keeps it after the first token."""
        found = self._ask(
            PromptReader(self.model, KvBinding(self.store, root, self.model)), self.segments, then_keep=True
        )
        with self.store.match(root, self.context[:1]) as match:
            self.store.forget([node.key for node in match.nodes])
        return found

    def alone(self) -> First:
        """Read the question behind a context that is in memory."""
        import mlx.core as mx

        cache = self.model.begin()
        for layer, other in zip(cache, self.natural, strict=True):
            keys, values, length = other.state
            layer.state = (keys * 1, values * 1, length)  # a copy: what two caches hold is copied when one goes on
        mx.eval([layer.state for layer in cache])
        begun = perf_counter()
        next(self.model.decode(cache, self.question, 1))
        return First(perf_counter() - begun)

    def by_mlx_lm(self) -> First:
        """Load mlx-lm's own file of the context, and read the question with the same decoder."""
        from mlx_lm.models.cache import load_prompt_cache

        begun = perf_counter()
        cache = load_prompt_cache(str(self.theirs))
        next(self.model.decode(cache, self.question, 1))
        return First(perf_counter() - begun)

    def restored(self) -> First:
        """Put the nodes' files into a cache, and read no question."""
        begun = perf_counter()
        cache = self.model.restore(self.paths)
        found = First(perf_counter() - begun)
        self.model.release(cache)  # as behind every answer
        return found

    def read(self, paths: Iterable[Path]) -> First:
        """Read the bytes of files."""
        import mlx.core as mx

        return timed(lambda: mx.eval([mx.load(str(path)) for path in paths]))

    def close(self) -> None:
        """Let go of the store."""
        self.store.close()
        self.ledger.close()

    def _ask(self, reading: PromptReader, segments: Sequence[Ids], *, then_keep: bool = False) -> First:
        *context, question = segments
        with ExitStack() as held:
            trace, begun = Trace(), perf_counter()
            read = prefill(reading, context, trace, held)
            next(reading.model.decode(read.cache, question, 1))
            total, ms = perf_counter() - begun, trace.ms()
            begun = perf_counter()
            if then_keep and reading.kept:
                keep(reading.kept, context, read)
            spent = perf_counter() - begun
            if reading.kept:
                self.model.release(read.cache)
        return First(total, ms.get("match", 0.0) / 1e3, ms.get("load", 0.0) / 1e3, sum(read.reused), spent)
