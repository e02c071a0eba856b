"""What pkb asks of a model; nothing here knows how one computes."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]


class Embedder(Protocol):
    """Turns text into unit vectors; equal fingerprints mean interchangeable vectors."""

    @property
    def fingerprint(self) -> str:
        """Name the weights, tokenizer and pooling by digest."""
        ...

    @property
    def width(self) -> int:
        """Give the number of dimensions."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Give one unit row per text, in order: (len(texts), width) float32."""
        ...

    def embed_batches(self, texts: Sequence[str]) -> Iterator[tuple[list[int], Vectors]]:
        """Yield (indices into texts, their rows) in batches of similar length, so that a caller can save as it goes."""
        ...
