"""A user of a public set as an index in memory, for measurements of retrieval, quotes and paraphrases."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from engine.ingest.chunking import chunk
from engine.ingest.files import read
from engine.ingest.scan import ignorable
from engine.ingest.types import ParseLimits
from engine.models.types import Embedder
from store.types import Vectors
from tests.bench.corpus import folders, rows
from tests.bench.metrics import Score, terms
from tests.engine.retrieval.memory_bank import Item, MemoryBank, embedded, hits


@dataclass(frozen=True, slots=True)
class IndexedUser:
    """One user's index, the paths of each document, and the rows of questions.jsonl."""

    corpus: str
    bank: MemoryBank
    paths: dict[str, list[str]]
    rows: tuple[dict[str, Any], ...]


def load(
    data: Path, corpus: str, embedder: Embedder | None = None, vectors: Path | None = None
) -> Iterator[IndexedUser]:
    """Yield the users of a set; chunk vectors are stored in a folder between runs, if one is given."""
    for file in sorted((data / corpus).rglob("questions.jsonl")):
        items, paths = list[Item](), dict[str, list[str]]()
        for path in sorted(path for folder in folders(file.parent) for path in folder.rglob("*") if path.is_file()):
            found = [] if ignorable(path) else read(path, ParseLimits())
            for document in (reading.document for reading in found):
                if document is not None:
                    if document.id not in paths:
                        items.append(Item(document, tuple(chunk(document, document.passages))))
                    paths.setdefault(document.id, []).append(path.relative_to(file.parent).as_posix())
        held = hits(items)
        if embedder is not None:
            held = embedded(
                held, stored_vectors([f"{hit.chunk.header}\n{hit.chunk.text}" for hit in held], embedder, vectors)
            )
        yield IndexedUser(corpus, MemoryBank(held), paths, tuple(rows(file)))


def stored_vectors(texts: Sequence[str], embedder: Embedder, folder: Path | None) -> Vectors:
    """Embed texts, or load their vectors where they were stored."""
    if folder is None:
        return embedder.embed(texts)
    digest = blake2b("\0".join((embedder.fingerprint, *texts)).encode("utf-8", "replace"), digest_size=12).hexdigest()
    file = folder / f"{digest}.npy"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        np.save(file, embedder.embed(texts))
    vectors: Vectors = np.load(file)
    return vectors


def golds(row: dict[str, Any]) -> frozenset[tuple[str, ...]]:
    """Return the words of each gold answer of a row."""
    given = (row["answer"], *row.get("answers", ()), *row.get("aliases", ()))
    return frozenset(map(terms, given)) - {()}


def best(score: Score, answer: str, row: dict[str, Any]) -> float:
    """Return the score of an answer against the nearest gold answer."""
    return max((score(terms(answer), gold) for gold in golds(row)), default=0.0)
