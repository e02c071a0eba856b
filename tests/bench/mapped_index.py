"""The mapped index: the time of retrieval, and what the index costs to build, store and map.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.mapped_index [--chunks N...] [--questions N]`. Chunks are made of
words drawn by Zipf's law, questions of eight words of one chunk; vectors have a spectrum like MiniLM's. Processor
milliseconds stand beside those of the clock, which other programs prolong.
"""

import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import numpy as np

from engine.retrieval.retrieve import RankWeights, retrieve
from engine.text.question import Question, understand
from store.checksums import settle_place
from store.database import Ledger, open_ledger
from store.documents import Knowledge, VectorStore
from store.home import Home
from store.mapped_index import MappedIndex
from store.search import Reader
from store.tables import Tables
from store.types import Chunk, Document, IndexedDocument, Scope, Vectors

WIDTH, VOCABULARY, WORDS, CHUNKS = 384, 60_000, 100, 3  # of a vector; words in all, of a chunk; chunks of a document
_AT_ONCE, _SENDERS, _DECAY = 1_500, 500, 1.05
_NOW = datetime(2024, 6, 1, tzinfo=UTC)
_SCOPES = (Scope(), Scope(since=_NOW.date() - timedelta(days=90)), Scope(sender="person 7"))


@dataclass(frozen=True, slots=True)
class Opened:
    """A home of made-up chunks, its texts and vectors."""

    home: Home
    ledger: Ledger
    tables: Tables
    texts: Sequence[str]
    vectors: Vectors


def main() -> None:
    """Print a line for each number of chunks, and one for each kind of search in it."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, nargs="+", default=(1_000, 10_000, 100_000))
    parser.add_argument("--questions", type=int, default=40)
    options = parser.parse_args()
    for count in options.chunks:
        with tempfile.TemporaryDirectory() as scratch:
            for line in measured(filled(Path(scratch), count), options.questions):
                print(line, flush=True)


def filled(folder: Path, count: int, place: str = "") -> Opened:
    """Make a home of so many chunks, with vectors, whose tables may be in an object store."""
    home, random = Home(folder / "data", folder / "cache", folder / "config.toml"), np.random.default_rng(count)
    home.create()
    ledger = open_ledger(home.ledger, create=True)
    settle_place(ledger, place)
    tables = Tables(home.tables, ledger)
    entries, vectors = list(_entries(count, random)), _vectors(count, random)
    _fill(ledger, tables, entries, vectors)
    return Opened(home, ledger, tables, [text for entry in entries for text in entry.tokens], vectors)


def _fill(ledger: Ledger, tables: Tables, entries: Sequence[IndexedDocument], vectors: Vectors) -> None:
    knowledge, store = Knowledge(ledger, lambda: tables), VectorStore(ledger, tables)
    for start in range(0, len(entries), _AT_ONCE):
        knowledge.commit(entries[start : start + _AT_ONCE], lambda: None)
    store.use("made up")
    ids = [chunk.id for entry in entries for chunk in entry.chunks]
    for start in range(0, len(ids), 4 * _AT_ONCE):
        store.put(ids[start : start + 4 * _AT_ONCE], vectors[start : start + 4 * _AT_ONCE])
    knowledge.compact()


def _entries(count: int, random: np.random.Generator) -> Iterator[IndexedDocument]:
    odds = 1 / np.arange(10, VOCABULARY + 10)
    drawn = random.choice(VOCABULARY, (count, WORDS), p=odds / odds.sum())
    texts = [" ".join(map(_word, row)) for row in drawn.tolist()]
    for number, first in enumerate(range(0, count, CHUNKS)):
        name, own = f"{number:032x}", texts[first : first + CHUNKS]
        about = (f"Person {number % _SENDERS} <p{number % _SENDERS}@example.org>", ("me@example.org",))
        day = _NOW - timedelta(hours=number % 20_000)
        document = Document(name, "mail", f"subject {number}", *about, day, None, "\n".join(own), ())
        chunks = tuple(Chunk(f"{name}/{place}", name, place, "", text, 1, 1) for place, text in enumerate(own))
        yield IndexedDocument(document, chunks, tuple(own), ("Mail",))


def _word(number: int) -> str:
    return f"{'bcdfghjklm'[number % 10]}{'aeiou'[number % 5]}{number // 10:x}"


def _vectors(count: int, random: np.random.Generator) -> Vectors:
    spread = np.sqrt(np.arange(1, WIDTH + 1) ** -_DECAY)
    turned, _ = np.linalg.qr(random.standard_normal((WIDTH, WIDTH)))
    made: Vectors = ((random.standard_normal((count, WIDTH)) * spread) @ turned).astype(np.float32)
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    return made


def measured(opened: Opened, questions: int) -> Iterator[str]:
    """Yield what the index costs, then the times of searches."""
    tables, index = (lambda: opened.tables), MappedIndex(opened.home, opened.ledger, lambda: opened.tables)
    built, count = _seconds(index.update), len(opened.texts)
    size = sum(path.stat().st_size for path in opened.home.index.iterdir())
    index = MappedIndex(opened.home, opened.ledger, tables)
    mapped = _seconds(index.view)
    reader, random = Reader(opened.ledger, tables, index), np.random.default_rng(1)
    times = dict[str, list[tuple[float, float]]]()
    for one in range(questions + 1):
        for label, run in _runs(reader, *_question(opened, random)):
            began, busy = time.perf_counter(), time.process_time()
            run()
            if one:  # the first opens files
                spent = time.perf_counter() - began, time.process_time() - busy
                times.setdefault(label, []).append((1000 * spent[0], 1000 * spent[1]))
    yield (
        f"{count} chunks: built in {built:.1f} s of processor, opened in {1000 * mapped:.1f} ms, "
        f"{size / 2**20:.0f} MB of files, {_resident(opened.home.index) / 2**20:.0f} MB of them in memory"
    )
    for label, several in times.items():
        (low, busy), (high, _) = np.percentile(several, (50, 95), axis=0)
        yield f"  {label:14} p50 {low:6.1f} ms  p95 {high:6.1f} ms  processor {busy:6.1f} ms  n={len(several)}"

    Knowledge(opened.ledger, tables).commit((), lambda: None, removes=[f"{0:032x}"])
    yield f"  a question after one document was removed: {1000 * _seconds(index.view):.0f} ms of processor more"
    erased = _seconds(partial(index.update, erase=True))
    yield f"  the update after it, which leaves nothing of that: {erased:.1f} s of processor"


def _seconds(run: Callable[[], object]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def _runs(reader: Reader, asked: Question, vector: Vectors) -> Iterator[tuple[str, Callable[[], object]]]:
    for scope, label in zip(_SCOPES, ("retrieve", "retrieve since", "retrieve from"), strict=True):
        yield label, partial(retrieve, reader, vector, asked, scope, RankWeights())
    yield "by words", partial(reader.by_words, asked.content, Scope(), 100)
    yield "by vector", partial(reader.by_vector, vector, Scope(), 50)


def _question(opened: Opened, random: np.random.Generator) -> tuple[Question, Vectors]:
    """Return a question of eight words of a chunk, and a vector near its own."""
    place = int(random.integers(len(opened.texts)))
    words = random.choice(opened.texts[place].split(" "), 8, replace=False)
    near = opened.vectors[place] + 0.6 * opened.vectors[int(random.integers(len(opened.texts)))]
    return understand(f"when is {' '.join(words)}?", _NOW), (near / np.linalg.norm(near)).astype(np.float32)


def _resident(folder: Path) -> int:
    """Return the bytes of the files of a folder that are in this process's memory; 0 where the system does not say."""
    smaps, found, inside = Path("/proc/self/smaps"), 0, False
    for line in smaps.read_text().splitlines() if smaps.exists() else ():
        if "-" in line.split(" ", 1)[0]:
            inside = str(folder) in line
        elif inside and line.startswith("Rss:"):
            found += 1024 * int(line.split()[1])
    return found


if __name__ == "__main__":
    main()
