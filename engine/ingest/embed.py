"""Embeds the chunks that have no vector yet, newest first, committing as it goes. Knows the embedder by protocol."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from engine.models.types import Embedder
from store.errors import Locked
from store.hits import Vectors
from store.locks import Locks
from store.types import Row
from store.vectors import VectorStore

_ROUND = 1024  # chunks per round: newest first across rounds, sorted by length within one
_COMMIT = 128  # vectors per commit: about 5 s of work on a slow machine
OnVectors = Callable[[Sequence[str], Vectors], None]  # receives chunk ids and their new vectors after each commit
_TIMEOUT_S = 0.2  # how long to wait for readers before dropping tables of former embedders is left to the next run


@dataclass(frozen=True, slots=True)
class Embedded:
    """Progress: vectors computed in this run, and those still missing."""

    done: int
    missing: int


def embed(
    store: VectorStore, embedder: Embedder, locks: Locks, on_vectors: OnVectors = lambda _ids, _vectors: None
) -> Iterator[Embedded]:
    """Embed what is missing, yielding after each commit; yields nothing while another process is embedding."""
    with locks.embedder() as locked:
        if not locked:
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
                on_vectors(ids, vectors)
                count = len(ids)
                done, missing = done + count, missing - count
                yield Embedded(done, max(missing, 0))


def _round(embedder: Embedder, rows: list[Row]) -> Iterator[tuple[list[str], Vectors]]:
    """Yield ids and their vectors, one commit at a time."""
    names, ids, matrices = [row["id"] for row in rows], list[str](), list[Vectors]()
    for indices, vectors in embedder.embed_batches([f"{row['header']}\n{row['text']}" for row in rows]):
        ids += [names[i] for i in indices]
        matrices.append(vectors)
        if len(ids) >= _COMMIT:
            yield ids, np.concatenate(matrices)
            ids, matrices = [], []
    if ids:
        yield ids, np.concatenate(matrices)
