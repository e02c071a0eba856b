"""Search results, as retrieval receives them. Apart from store.types, since they need numpy."""

from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from store.types import Chunk

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk that a search found, with the metadata of its document, and its score once it is ranked.

    `tokens` are `words(header + newline + text)` joined by single spaces; `vector` is a unit row, None until embedded.
    """

    chunk: Chunk
    tokens: str
    vector: Vectors | None = field(repr=False, compare=False)
    date: datetime | None  # aware, in its writer's zone
    sender: str
    recipients: tuple[str, ...]
    title: str
    score: float = 0.0

    @property
    def written(self) -> datetime | None:
        """Return when its text was written: with its document, unless it is quoted or forwarded."""
        return self.chunk.written if self.chunk.role in ("quote", "forward") else self.date


@dataclass(frozen=True, slots=True)
class Totals:
    """Totals of the whole index: chunks, their mean number of words, and how many of them have a vector."""

    chunks: int
    mean_words: float
    embedded: int
