"""Vectors for the chunks that have none, newest first, saved as they come. Knows the embedder by its protocol."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from engine.models.types import Embedder
from store.errors import Locked
from store.hits import Vectors
from store.locks import Locks
from store.tables import Row
from store.vectors import VectorStore

_ROUND = 1024  # chunks taken up together: sorted by length inside a round, newest first across rounds
_SAVED = 128  # vectors in one commit: about 5 s of work on a slow machine
Meet = Callable[[Sequence[str], Vectors], None]  # is shown new vectors, with the chunks that they are of
_TIMEOUT_S = 0.2  # for readers, before the tables of former embedders are left for the next run


@dataclass(frozen=True, slots=True)
class Embedded:
    """How far the vectors are: those made in this run, and those still missing."""

    done: int
    missing: int


def _nobody(_ids: Sequence[str], _vectors: Vectors) -> None:
    """Show new vectors to nobody."""


def embed(store: VectorStore, embedder: Embedder, locks: Locks, meet: Meet = _nobody) -> Iterator[Embedded]:
    """Fill in missing vectors, yielding after each commit; yields nothing where another process is at it."""
    with locks.embedder() as mine:
        if not mine:
            return
        with locks.writer():
            store.use(embedder.fingerprint)
        if store.former:
            with suppress(Locked), locks.exclusive(_TIMEOUT_S):  # else next time
                store.drop_former()
        done, missing = 0, store.missing
        while rows := store.wanted(_ROUND):
            for ids, vectors in _round(embedder, rows):
                with locks.writer():
                    store.put(ids, vectors)
                meet(ids, vectors)
                count = len(ids)
                done, missing = done + count, missing - count
                yield Embedded(done, max(missing, 0))


def _round(embedder: Embedder, rows: list[Row]) -> Iterator[tuple[list[str], Vectors]]:
    """Yield ids and their vectors, as many as are saved at a time."""
    names, ids, matrices = [row["id"] for row in rows], list[str](), list[Vectors]()
    for indices, vectors in embedder.embed_batches([f"{row['header']}\n{row['text']}" for row in rows]):
        ids += [names[i] for i in indices]
        matrices.append(vectors)
        if len(ids) >= _SAVED:
            yield ids, np.concatenate(matrices)
            ids, matrices = [], []
    if ids:
        yield ids, np.concatenate(matrices)
