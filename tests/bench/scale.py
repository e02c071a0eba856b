"""Retrieval over 100,000 chunks: memory and time of a fresh process, and whether it finds what brute force finds.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.scale [CHUNKS]`. The words are invented, as
frequent as words are (Zipf); vectors are random ones around a thousand centres: embedding this much takes an hour.
"""

import json
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter

import numpy as np

from cli.session import Session
from engine.ask.question import understand
from engine.ask.retrieve import Retrieval, bm25, inverse_frequencies, retrieve
from engine.ask.words import words
from store.entry import Entry
from store.hits import Vectors
from store.reading import Reader
from store.records import Chunk, Document, Scope
from store.vectors import VectorStore
from tests.bench.homes import opened

WIDTH, CENTRES, VOCABULARY, PER_DOCUMENT = 384, 1000, 60_000, 4
QUESTIONS, CHECKED = 200, 20
NOW = datetime(2024, 6, 19, tzinfo=UTC)
CHINESE = "下周三的排练改到圣布兰诺大厅，晚上七点半开始，请带上乐谱。"


class Fixed:
    """An embedder whose vectors are near one of the centres, chosen by the text."""

    fingerprint, width = "scale", WIDTH

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Give one unit row per text."""
        seeds = [sum(map(ord, text)) for text in texts]
        return unit(centres()[[seed % CENTRES for seed in seeds]] + noise(len(texts), seeds[0]))

    def embed_batches(self, texts: Sequence[str]) -> Iterator[tuple[list[int], Vectors]]:
        """Yield everything at once."""
        yield list(range(len(texts))), self.embed(texts)


def main() -> None:
    """Build a home, then measure in a fresh process."""
    if sys.argv[1:2] == ["measure"]:
        measure(Path(sys.argv[2]))
        return
    count = int(sys.argv[1]) if sys.argv[1:] else 100_000
    with tempfile.TemporaryDirectory() as folder:
        began = perf_counter()
        build(Path(folder), count)
        print(f"built {count} chunks in {perf_counter() - began:.0f} s")
        subprocess.run([sys.executable, "-m", "tests.bench.scale", "measure", folder], check=True)


def build(folder: Path, count: int) -> None:
    """Commit documents of invented words, one of them in Chinese, and a vector for every chunk."""
    session, random_ = opened(folder), random.Random(1)
    vocabulary = [
        "".join(random_.choices("abcdefghijklmnoprstuvwz", k=random_.randint(3, 10))) for _ in range(VOCABULARY)
    ]
    weights = [1 / (rank + 10) for rank in range(VOCABULARY)]
    batch: list[Entry] = []
    for number in range(count // PER_DOCUMENT):
        texts = [" ".join(random_.choices(vocabulary, weights, k=100)) for _ in range(PER_DOCUMENT)]
        batch.append(entry(number, [CHINESE, *texts[1:]] if number == count // 8 else texts))
        if len(batch) == 1000:
            session.knowledge.commit(batch, lambda: None)
            batch = []
    if batch:
        session.knowledge.commit(batch, lambda: None)
    fill(session.vectors)
    session.knowledge.compact()
    (folder / "vocabulary.json").write_text(json.dumps(vocabulary))
    session.ledger.close()


def entry(number: int, texts: list[str]) -> Entry:
    """Make one document of some chunks."""
    date = datetime(2020, 1, 1, tzinfo=UTC) + timedelta(hours=number)
    name = f"{number:032x}"
    document = Document(name, "mail", f"note {number}", "Ann <ann@example.org>", (), date, None, (), "", False, "", ())
    chunks = tuple(Chunk(f"{name}-{i}", name, i, "", text, i + 1, i + 1) for i, text in enumerate(texts))
    return Entry(document, chunks, tuple(" ".join(words(text)) for text in texts), ("Mail",))


def fill(store: VectorStore) -> None:
    """Give every chunk a vector."""
    store.use(Fixed.fingerprint)
    while rows := store.wanted(5000):
        store.put([row["id"] for row in rows], Fixed().embed([row["text"] for row in rows]))


def measure(folder: Path) -> None:
    """Ask questions of a few words and take times, memory, and what brute force says."""
    session, random_ = opened(folder), random.Random(2)
    vocabulary = json.loads((folder / "vocabulary.json").read_text())
    asked = [" ".join(random_.choices(vocabulary[:20_000], k=random_.randint(3, 8))) for _ in range(QUESTIONS)]
    times = [timed(session.reader, text) for text in asked]
    warm = sorted(times[20:])
    p50, p95 = warm[len(warm) // 2], warm[int(len(warm) * 0.95)]
    print(f"first {times[0]:.0f} ms; warm p50 {p50:.1f}, p95 {p95:.1f} ms; peak memory {peak_megabytes():.0f} MB")
    question = understand("排练改到哪个大厅？", NOW)
    found = retrieve(session.reader, None, question, Scope(), 5, Retrieval()).sources
    print("a Chinese question finds its mail:", bool(found) and found[0].chunks[0].text == CHINESE)
    same = [agrees(session, text) for text in asked[:CHECKED]]
    print(f"the ten best by words are those of brute force over every chunk: {sum(same)} of {len(same)} questions")


def timed(reader: Reader, text: str) -> float:
    """Give the milliseconds of one retrieval."""
    vector = Fixed().embed([text])[0]
    began = perf_counter()
    retrieve(reader, vector, understand(text, NOW), Scope(), 5, Retrieval())
    return 1000 * (perf_counter() - began)


def peak_megabytes() -> float:
    """Give the most memory this process has held; what the system tells of a child starts with its parent's."""
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) / 1e3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def agrees(session: Session, text: str) -> bool:
    """Compare BM25 over the candidates with BM25 over every chunk that holds any word of the question."""
    question, reader = understand(text, NOW), session.reader
    totals = reader.totals()
    idf = inverse_frequencies(reader.frequencies(question.words), totals.chunks, question.words)
    holding = session.tables.select("chunks", "true", ["id", "words"])
    every = {row["id"]: row["words"].split(" ") for row in holding}
    few = {hit.chunk.id: hit.tokens.split(" ") for hit in reader.by_words(question.content, Scope(), 200)}
    return best(few, idf, totals.mean_words) == best(every, idf, totals.mean_words)


def best(chunks: dict[str, list[str]], idf: dict[str, float], mean_words: float) -> list[float]:
    """Give the ten best scores, rounded; ids would differ among equal ones."""
    return [round(score, 6) for score in sorted(bm25(list(chunks.values()), idf, mean_words), reverse=True)[:10]]


def centres() -> Vectors:
    """Give the same unit vectors at every call."""
    return unit(np.random.default_rng(0).normal(size=(CENTRES, WIDTH)).astype(np.float32))


def noise(count: int, seed: int) -> Vectors:
    """Give small vectors."""
    return np.random.default_rng(seed).normal(size=(count, WIDTH)).astype(np.float32) * np.float32(0.03)


def unit(rows: Vectors) -> Vectors:
    """Give rows of length one."""
    lengths: Vectors = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / lengths


if __name__ == "__main__":
    main()
