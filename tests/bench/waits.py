"""How long questions take while another process stores, embeds, updates the index and compacts.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.waits [--chunks N] [--messages N]`. One process asks all the time,
another adds messages and their vectors as fast as it can, in the steps of `pkb ingest`; both as in
tests.bench.mapped_index. What a question waits for is what it takes beyond the median before.
"""

import multiprocessing
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from engine.retrieval.retrieve import RankWeights, retrieve
from engine.text.question import Question
from store.database import open_ledger
from store.documents import Knowledge, VectorStore
from store.home import Home
from store.locks import Locks
from store.mapped_index import MappedIndex
from store.search import Reader
from store.tables import Tables
from store.types import IndexedDocument, Scope, Vectors
from tests.bench.mapped_index import CHUNKS, _entries, _question, _vectors, filled

_COMMIT, _PUT, _PAUSE_S = 2_000, 128, 0.03  # messages; vectors; between questions


def main() -> None:
    """Print the quantiles of questions before the other process writes, and while it does."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--messages", type=int, default=4_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        opened = filled(Path(scratch), options.chunks)
        index, random = MappedIndex(opened.home, opened.ledger, lambda: opened.tables), np.random.default_rng(1)
        index.update()
        reader = Reader(opened.ledger, lambda: opened.tables, index)
        questions = [_question(opened, random) for _ in range(60)]
        asks = [partial(_ask, Locks(opened.home.locks), reader, *one) for one in questions]
        ways, began = multiprocessing.get_context("spawn"), time.perf_counter()
        begins = ways.Event()
        writer = ways.Process(target=write, args=(opened.home, options.messages, begins))
        writer.start()
        for label, goes_on in (("before", lambda: time.perf_counter() - began < 30), ("meanwhile", writer.is_alive)):
            if label == "meanwhile":
                begins.set()
            times = [*_asked(asks, goes_on)]
            for name, values in zip(("clock", "processor"), np.array(times).T, strict=True):
                shown = " ".join(f"{one:6.0f}" for one in np.percentile(values, (50, 95, 99, 100)))
                print(f"{label:10} {name:10} p50 p95 p99 most {shown} ms  n={len(times)}", flush=True)


def _ask(locks: Locks, reader: Reader, asked: Question, vector: Vectors) -> None:
    with locks.reader():
        retrieve(reader, vector, asked, Scope(), RankWeights())


def _asked(asks: Sequence[Callable[[], None]], goes_on: Callable[[], bool]) -> Iterator[tuple[float, float]]:
    number = 0
    while goes_on():
        clock, busy = time.perf_counter(), time.process_time()
        asks[number % len(asks)]()
        yield 1000 * (time.perf_counter() - clock), 1000 * (time.process_time() - busy)
        number += 1
        time.sleep(_PAUSE_S)


def write(home: Home, messages: int, begins: Event) -> None:
    """Add messages and their vectors, then compact the tables and remove some messages."""
    ledger, random = open_ledger(home.ledger), np.random.default_rng(7)
    tables, locks = Tables(home.tables, ledger), Locks(home.locks)
    index = MappedIndex(home, ledger, lambda: tables)
    knowledge = Knowledge(ledger, lambda: tables, publishing=index.publishing)
    store, entries = VectorStore(ledger, tables), [*map(_renamed, _entries(CHUNKS * messages, random))]
    vectors = iter(np.array_split(_vectors(CHUNKS * messages, random), max(1, CHUNKS * messages // _PUT)))
    begins.wait()
    for start in range(0, messages, _COMMIT):
        some = entries[start : start + _COMMIT]
        with locks.writer():
            knowledge.commit(some, lambda: None)
        ids = [chunk.id for entry in some for chunk in entry.chunks]
        with locks.sole("embedder"):
            while ids:
                own = next(vectors)
                with locks.writer():
                    store.put(ids[: len(own)], own[: len(ids)], shows=False)
                    ids = ids[len(own) :]
                    if index.is_behind():
                        index.update()
            with locks.writer():
                index.update()
    with locks.rewriter():
        knowledge.compact(locks.alone)
    with locks.writer():
        knowledge.commit((), lambda: None, removes=[entry.document.id for entry in entries[:50]])
        index.update()


def _renamed(entry: IndexedDocument) -> IndexedDocument:
    """Return a message under an id that no other of the home has."""
    name = f"f{entry.document.id[1:]}"
    chunks = tuple(replace(one, id=f"{name}/{one.position}", document=name) for one in entry.chunks)
    return IndexedDocument(replace(entry.document, id=name), chunks, entry.tokens, ())


if __name__ == "__main__":
    main()
