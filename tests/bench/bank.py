"""Search tables in an object store against local ones: milliseconds by the clock, by turns, and requests.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.bank [--chunks N] [--rounds N]`, after `make test-bank`. The server
runs on this machine: another one adds the time of a round trip to each request.
"""

import os
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from engine.retrieval.retrieve import RankWeights, retrieve
from store.documents import Knowledge
from store.mapped_index import MappedIndex
from store.search import Reader
from store.types import Document, IndexedDocument, Scope
from tests import s3
from tests.bench.mapped_index import Opened, _question, filled

_BUCKET = "bench"


def main() -> None:
    """Print a line for each operation: local, in the store, and the requests of that."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch, "log")
        with s3.serving(log) as server:
            os.environ |= s3.environment(server.endpoint)
            server.create(_BUCKET)
            homes = [filled(Path(scratch, name), options.chunks, place) for name, place in _PLACES.items()]
            times, sent = dict[str, list[list[float]]](), dict[str, int]()
            for number in range(options.rounds + 1):  # the first opens files
                for one, home in enumerate(homes):
                    for label, run in _runs(home, number):
                        before, began = _requests(log), time.perf_counter()
                        run()
                        spent = 1000 * (time.perf_counter() - began)
                        sent[label] = _requests(log) - before
                        if number:
                            times.setdefault(label, [[], []])[one].append(spent)
    print(f"{options.chunks} chunks, {options.rounds} rounds, milliseconds p50 (p95): local, in the store, requests")
    for label, each in times.items():
        (low, high), (far, farther) = (np.percentile(one, (50, 95)) for one in each)
        print(f"{label:32} {low:8.1f} ({high:.1f}) {far:8.1f} ({farther:.1f}) {sent[label]:4}")


_PLACES = {"local": "", "store": f"s3://{_BUCKET}/pkb"}


def _requests(log: Path) -> int:
    return log.read_bytes().count(b" HTTP/1.1")


def _runs(opened: Opened, number: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield what is measured, in the order in which it happens."""
    index = MappedIndex(opened.home, opened.ledger, lambda: opened.tables)
    reader = Reader(opened.ledger, lambda: opened.tables, index)
    asked, vector = _question(opened, np.random.default_rng(number))
    index.update()
    yield "retrieve", lambda: retrieve(reader, vector, asked, Scope(), RankWeights())
    yield "text of a document", lambda: reader.documents([f"{number:032x}"])
    name = f"{number + opened.home.data.stat().st_ino:032x}"
    new = IndexedDocument(Document(name, "mail", "new", "", (), None, None, "", ()), (), (), ("Mail",))
    yield "commit of a document", lambda: Knowledge(opened.ledger, lambda: opened.tables).commit([new], lambda: None)
    yield "retrieve after a commit", lambda: retrieve(reader, vector, asked, Scope(), RankWeights())
    if not number:
        yield "rewriting all tables", Knowledge(opened.ledger, lambda: opened.tables).compact


if __name__ == "__main__":
    main()
