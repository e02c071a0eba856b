"""Groups texts into batches of similar length, and puts their vectors back in order. Knows no tokenizer, no model."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from store.hits import Vectors

WINDOW = 256  # texts sorted by length together, so that the caller's order is roughly preserved

Tokens = list[list[int]]


def batches(
    texts: Sequence[str], tokens: Callable[[list[str]], Tokens], budget: int
) -> Iterator[tuple[list[int], Tokens]]:
    """Yield (indices into texts, their token ids), at most `budget` tokens or one text at a time."""
    for first in range(0, len(texts), WINDOW):
        found = tokens(list(texts[first : first + WINDOW]))
        for indices in pack([len(ids) for ids in found], budget):
            yield [first + i for i in indices], [found[i] for i in indices]


def pack(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Yield the indices, shortest first, in groups of at most `budget` tokens or one text."""
    group: list[int] = []
    total = 0
    for i in sorted(range(len(lengths)), key=lengths.__getitem__):
        if group and total + lengths[i] > budget:
            yield group
            group, total = [], 0
        group.append(i)
        total += lengths[i]
    if group:
        yield group


def in_order(count: int, width: int, found: Iterable[tuple[list[int], Vectors]]) -> Vectors:
    """Return the rows of all batches in the order of their texts: (count, width)."""
    rows = np.empty((count, width), np.float32)
    for indices, vectors in found:
        rows[indices] = vectors
    return rows
