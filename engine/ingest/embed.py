"""Vectors for the chunks that have none, newest first, saved as they come. Knows the embedder by its protocol."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from engine.models.protocols import Embedder
from store.errors import Locked
from store.locks import Locks
from store.tables import Row
from store.vectors import VectorStore

_ROUND = 1024  # chunks taken up together: sorted by length inside a round, newest first across rounds
_SAVED = 128  # vectors in one commit: about 5 s of work on a slow machine
_PATIENCE_S = 0.2  # for readers, before the tables of former embedders are left for the next run


@dataclass(frozen=True, slots=True)
class Embedded:
    """How far the vectors are: those made in this run, and those still missing."""

    done: int
    missing: int


def embed(store: VectorStore, embedder: Embedder, locks: Locks) -> Iterator[Embedded]:
    """Fill in missing vectors, yielding after each commit; yields nothing where another process is at it."""
    with locks.embedder() as mine:
        if not mine:
            return
        with locks.writer():
            store.use(embedder.fingerprint)
        if store.former:
            with suppress(Locked), locks.alone(_PATIENCE_S):  # else next time
                store.drop_former()
        done, missing = 0, store.missing
        while rows := store.wanted(_ROUND):
            for count in _round(store, embedder, locks, rows):
                done, missing = done + count, missing - count
                yield Embedded(done, max(missing, 0))


def _round(store: VectorStore, embedder: Embedder, locks: Locks, rows: list[Row]) -> Iterator[int]:
    ids, waiting, matrices = [row["id"] for row in rows], [], []
    for indices, vectors in embedder.embed_batches([f"{row['header']}\n{row['text']}" for row in rows]):
        waiting += [ids[i] for i in indices]
        matrices.append(vectors)
        if len(waiting) >= _SAVED:
            yield _save(store, locks, waiting, matrices)
            waiting, matrices = [], []
    if waiting:
        yield _save(store, locks, waiting, matrices)


def _save(store: VectorStore, locks: Locks, ids: list[str], matrices: "list[np.ndarray]") -> int:
    with locks.writer():
        store.put(ids, np.concatenate(matrices))
    return len(ids)
