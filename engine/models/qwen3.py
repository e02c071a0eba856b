"""The embedder Qwen3-Embedding on mlx-lm: tokens, batches, and the last hidden state of each text. Knows no documents.

The model is loaded, and MLX imported, with the first text.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from engine.models import runtime
from engine.models.lookup import InstalledModel, architecture, find, fingerprint
from engine.models.tokens import TokenIds, Tokens, batches, in_order
from store.errors import NoModel, PkbError, UsageError
from store.hits import Vectors

ARCHITECTURE = "qwen3"
FALLBACK = "pkb config set embed.model minilm"
TASK = "Given a question about somebody's own mail and meetings, retrieve the passages that answer it"
END_TOKEN = "<|endoftext|>"  # its hidden state is the embedding
MAX_TOKENS = 512  # of one text, including its end; the rest is ignored
POOLING = "last-unit-512-v1"  # raised when the same text would get another vector
BATCH: Mapping[runtime.Device, int] = {"cpu": 512, "metal": 8192, "cuda": 16384}  # tokens


def find_model(name: str, environ: Mapping[str, str]) -> InstalledModel:
    """Find an embedder by name or folder; NoModel if it is missing or incomplete, UsageError if it is no Qwen3."""
    try:
        found = find(name, None, environ)
    except NoModel as error:
        raise NoModel(error.message, error.next_step if "pull" in (error.next_step or "") else FALLBACK) from None
    if (kind := architecture(found.config)) != ARCHITECTURE:
        raise UsageError(f"{name} cannot embed: its architecture is {kind or 'unknown'}, not {ARCHITECTURE}", FALLBACK)
    return found


class Qwen3:
    """The embedder; `cache` is the home's cache folder, and `notes` a folder that caches the digest of the weights."""

    def __init__(self, local: InstalledModel, *, cache: Path, notes: Path, threads: int, memory_share: float) -> None:
        self._local, self._cache, self._notes = local, cache, notes
        self._threads, self._share = threads, memory_share

    @cached_property
    def fingerprint(self) -> str:
        """Name the weights, tokenizer and pooling by digest."""
        return f"{ARCHITECTURE}:{fingerprint(self._local, self._notes)}:{POOLING}"

    @cached_property
    def width(self) -> int:
        """Return the number of dimensions."""
        return int(self._local.config["hidden_size"])

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit row per text, in order; tokens of a text after the 511th are ignored."""
        return in_order(len(texts), self.width, self.embed_batches(texts))

    def embed_question(self, text: str) -> Vectors:
        """Return the unit row of a question, which the model reads after an instruction: (width,)."""
        row: Vectors = self.embed([f"Instruct: {TASK}\nQuery:{text}"])[0]
        return row

    def knows(self, word: str) -> bool:
        """Return whether a word is one of its vocabulary, and not a chain of pieces that says little."""
        return len(self._loaded.vocabulary.text(f" {word}")) == 1

    def embed_batches(self, texts: Sequence[str]) -> Iterator[tuple[list[int], Vectors]]:
        """Yield (indices into texts, their rows), a batch of similar length at a time."""
        for indices, tokens in batches(texts, self._loaded.tokens, BATCH[runtime.device()]):
            yield indices, self._loaded.rows(tokens)

    @cached_property
    def _loaded(self) -> "_Loaded":
        from engine.models.load import load_parts
        from engine.models.mlx import qwen3_layers

        local = self._local
        tokenizer, layers = load_parts(
            local.folder,
            qwen3_layers,
            name=local.name,
            cache=self._cache,
            threads=self._threads,
            memory_share=self._share,
        )
        vocabulary, end = Tokens(tokenizer), tokenizer.token_to_id(END_TOKEN)
        closing = vocabulary.closing() or ((end,) if end is not None else ())
        if not closing:
            raise PkbError(f"{local.name} cannot embed: its tokenizer has no {END_TOKEN}", FALLBACK)
        return _Loaded(vocabulary, vocabulary.opening(), closing, layers)


@dataclass(frozen=True, slots=True)
class _Loaded:
    """The loaded model, and the token ids before and after each text."""

    vocabulary: "Tokens"
    opening: tuple[int, ...]
    closing: tuple[int, ...]
    layers: Any

    def tokens(self, texts: Sequence[str]) -> TokenIds:
        limit = MAX_TOKENS - len(self.opening) - len(self.closing)
        return [[*self.opening, *self.vocabulary.text(text)[:limit], *self.closing] for text in texts]

    def rows(self, batch: TokenIds) -> Vectors:
        """Return a unit vector for each text; attention is causal, so padding on the right has no effect."""
        import mlx.core as mx

        ids = np.zeros((len(batch), max(map(len, batch))), np.int32)
        for row, tokens in zip(ids, batch, strict=True):
            row[: len(tokens)] = tokens
        last = mx.array([len(tokens) - 1 for tokens in batch])
        states = self.layers(mx.array(ids))[mx.arange(len(batch)), last].astype(mx.float32)
        rows: Vectors = np.array(states / mx.linalg.norm(states, axis=1, keepdims=True))
        return rows
