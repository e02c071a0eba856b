"""What the knowledge bank gives to retrieval. Apart from records.py, since it needs numpy."""

from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from store.types import Chunk

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Hit:
    """One candidate: a chunk, what is stored beside it, and what is known of its document.

    `tokens` are `words(header + newline + text)` joined by single spaces; `vector` is a unit row, None until embedded.
    """

    chunk: Chunk
    tokens: str
    vector: Vectors | None
    date: datetime | None  # aware
    sender: str
    recipients: tuple[str, ...]
    title: str


@dataclass(frozen=True, slots=True)
class Totals:
    """What the whole bank holds: chunks, their mean number of words, and how many of them have a vector."""

    chunks: int
    mean_words: float
    embedded: int
