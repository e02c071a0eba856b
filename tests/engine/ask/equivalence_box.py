"""Fixtures of the cache-equivalence tests: a store of one model's KV cache, prompts, and events that hit the store."""

import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.kv.costs import MeasuredCosts
from engine.kv.restore import KvBinding, Prefilled, PromptReader, keep, prefill
from engine.models import kv_cache
from engine.models.mlx import Mlx
from engine.types import Trace
from store.database import Ledger, open_ledger
from store.kv_files import Tensor, root_of, verify, write
from store.kv_store import KvStore, scores
from store.types import replace
from tests.store.kv_kit import HALF_LIFE_S, PLENTY

SUB_STEP = 64
ROOT = root_of({"model": "test", "adapter": ""})
Ids = tuple[int, ...]
Logits = NDArray[np.float32]


@dataclass
class Box:
    """A store of one model's tensors, opened again as often as wanted."""

    folder: Path
    model: Mlx
    budget: int = PLENTY

    def __post_init__(self) -> None:
        self.open()

    def open(self) -> None:
        """Open it, as a new process would."""
        form = kv_cache.form(self.model.begin(), self.model.bits).name
        self.ledger: Ledger = open_ledger(self.folder / "ledger.db", create=True)
        self.store = KvStore(
            self.ledger,
            self.folder / "kv",
            budget=self.budget,
            daily=PLENTY,
            score=scores(HALF_LIFE_S)["lfu"],
            sub_step=self.model.sub_step if form == "tokens" else sys.maxsize,
            now=lambda: 1e6,
        )
        self.store.collect()

    def close(self) -> None:
        """Close it."""
        self.ledger.close()

    def read(self, segments: Sequence[Ids], *, kept: bool = True) -> tuple[Prefilled, Logits]:
        """Read a prompt through the store and keep what was computed; returns the logits behind its last segment."""
        store = KvBinding(self.store, ROOT, self.model, MeasuredCosts(self.ledger, "made"))
        read = prefill(PromptReader(self.model, store), segments[:-1], Trace())
        found = self.model.logits(read.cache, segments[-1])
        if kept:
            keep(store, segments[:-1], read)
        return read, found

    def files(self) -> list[Path]:
        """Return the files of nodes."""
        return sorted((self.folder / "kv").rglob("*.safetensors"))


def cold(model: Mlx, segments: Sequence[Ids]) -> Logits:
    """Read a prompt without any store; returns the logits behind its last segment."""
    read = prefill(PromptReader(model), segments[:-1], Trace())
    return model.logits(read.cache, segments[-1])


def some(model: Mlx, seed: int, length: int) -> Ids:
    """Return a segment of random tokens."""
    vocabulary = 256 if model.name == "stories260K" else 512
    rng = Random(seed)
    return tuple(rng.randrange(4, vocabulary) for _ in range(length))


def decoded(model: Mlx, cache: Any, last: Ids, steps: int = 64) -> tuple[Logits, list[int]]:
    """Go on greedily; returns all logits, (steps, vocabulary), and the tokens."""
    rows, tokens = [model.logits(cache, last)], list[int]()
    for _ in range(steps - 1):
        tokens.append(int(rows[-1].argmax()))
        rows.append(model.logits(cache, tokens[-1:]))
    return np.array(rows), tokens


def decode_after_computed_and_loaded(box: Box, segments: Sequence[Ids]) -> tuple[list[int], tuple[int, ...]]:
    """Assert that 64 decoding steps give equal logits after both prefixes; return the tokens and what was loaded."""
    model = box.model
    computed = prefill(PromptReader(model), segments[:-1], Trace())
    loaded = prefill(
        PromptReader(model, KvBinding(box.store, ROOT, model, MeasuredCosts(box.ledger, "root"))),
        segments[:-1],
        Trace(),
    )
    logits, tokens = decoded(model, computed.cache, segments[-1])
    others, again = decoded(model, loaded.cache, segments[-1])
    assert np.array_equal(logits, others)
    assert tokens == again
    return tokens, loaded.reused


def read_amid_events(box: Box, rng: Random, prompts: Iterable[Sequence[Ids]]) -> None:
    """Assert that every prompt gives the logits of a cold one, while events hit the store; then close and remove it."""
    for segments in prompts:
        _, found = box.read(segments, kept=rng.random() < 0.8)
        assert np.array_equal(found, cold(box.model, segments))
        rng.choice(EVENTS)(box, rng)
    box.close()
    shutil.rmtree(box.folder)


def rewrite(box: Box, change: Callable[[bytes], bytes]) -> None:
    """Change the largest tensor of the only node, and write its file again, well-formed."""
    (path,) = box.files()
    header = verify(path)
    data = path.read_bytes()[-header.payload_bytes :]
    tensors = [Tensor(p.name, p.dtype, p.shape, data[p.begin : p.end]) for p in header.payloads]
    largest = max(tensors, key=lambda tensor: len(tensor.buffer))
    write(path, header, [replace(one, buffer=change(bytes(one.buffer))) if one is largest else one for one in tensors])


def nothing(box: Box, rng: Random) -> None:
    """Leave the store as it is."""


def evict(box: Box, rng: Random) -> None:
    """Reduce the budget."""
    box.store.shrink(sum(path.stat().st_size for path in box.files()) * rng.randint(0, 9) // 10)


def reopen(box: Box, rng: Random) -> None:
    """Be another process."""
    box.close()
    box.open()


def flip(box: Box, rng: Random) -> None:
    """Flip a bit of a file."""
    if files := box.files():
        path = rng.choice(files)
        if data := bytearray(path.read_bytes()):  # a torn one may be empty
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            path.write_bytes(data)


def tear(box: Box, rng: Random) -> None:
    """Cut a file short."""
    if files := box.files():
        path = rng.choice(files)
        path.write_bytes(path.read_bytes()[: rng.randrange(max(1, path.stat().st_size))])


def lose(box: Box, rng: Random) -> None:
    """Remove a file."""
    if files := box.files():
        rng.choice(files).unlink()


def swap(box: Box, rng: Random) -> None:
    """Put one node's file in the place of another's."""
    if files := box.files():
        one, other = rng.choice(files), rng.choice(files)
        one.write_bytes(other.read_bytes())


EVENTS: tuple[Callable[[Box, Random], None], ...] = (nothing, nothing, evict, reopen, flip, tear, lose, swap)
