"""Recall of retrieval on public questions: doc@k and lines@k, with one index in memory per user.

Run `python -m tests.bench.retrieval DATA [--sets NAME...] [--off PART...] [--vectors FOLDER]` with
OPENBLAS_NUM_THREADS=1, where DATA holds sets of users: questions.jsonl beside docs/ or mail/. `--off plain` is BM25
alone. Chunk vectors are kept in FOLDER between runs.
"""

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from engine.ingest.chunking import chunk, embedded_text
from engine.ingest.files import read
from engine.ingest.types import ParseLimits
from engine.models.minilm import MiniLM
from engine.models.types import Embedder
from engine.retrieval.rank import RankWeights
from engine.retrieval.retrieve import RetrievalLimits, retrieve
from engine.text.question import understand
from engine.types import Passage
from store.hits import Vectors
from store.types import Chunk, Scope
from tests.engine.retrieval.memory_bank import Item, MemoryBank, embedded, hits

Listed = tuple[str, int, int]  # path, first and last line
KS = (1, 2, 5, 10)
SETS = ("locomo", "qmsum", "clinton-foia", "enron-annotated")
MULTIPLIERS = ("function", "asking", "names")  # off is 1, not 0
PLAIN = RankWeights(**{field.name: 0.0 for field in fields(RankWeights)} | dict.fromkeys(MULTIPLIERS, 1.0))


@dataclass(frozen=True, slots=True)
class User:
    """One user's bank, the paths of each document, and the questions."""

    bank: MemoryBank
    paths: dict[str, list[str]]
    questions: tuple[dict[str, Any], ...]


def main() -> None:
    """Print the tables."""
    options = arguments()
    embedder = None if "vector" in options.off else MiniLM(workers=options.workers)
    weights = replace(RankWeights(), **{part: float(part in MULTIPLIERS) for part in options.off if part != "plain"})
    settings = RetrievalLimits(weights=PLAIN if "plain" in options.off else weights)
    for name in options.sets:
        files = sorted((options.data / name).rglob("questions.jsonl"))
        rows = [row for file in files for row in measured(load(file, embedder, options.vectors), embedder, settings)]
        for label in ("chunks", "sources", "listed"):
            show(f"{name}: {label}", [row[label] for row in rows])


def arguments() -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument(
        "--off", nargs="+", default=(), choices=[field.name for field in fields(RankWeights)] + ["plain"]
    )
    parser.add_argument("--vectors", type=Path)
    parser.add_argument("--workers", type=int, default=1)
    return parser.parse_args()


def load(file: Path, embedder: Embedder | None, vectors: Path | None) -> User:
    """Read one user's documents and questions; a document may stand in several files."""
    items, paths = list[Item](), dict[str, list[str]]()
    for path in sorted(path for name in ("docs", "mail") for path in (file.parent / name).rglob("*") if path.is_file()):
        for document in (reading.document for reading in read(path, None, ParseLimits())):
            if document is None:
                continue
            if document.id not in paths:
                items.append(Item(document, tuple(chunk(document, document.passages))))
            paths.setdefault(document.id, []).append(path.relative_to(file.parent).as_posix())
    found = hits(items)
    if embedder is not None:
        found = embedded(found, kept([hit.chunk for hit in found], embedder, vectors))
    rows = [json.loads(line) for line in file.read_text("utf-8").split("\n") if line.strip()]
    return User(MemoryBank(found), paths, tuple(row for row in rows if counts(row)))


def counts(row: dict[str, Any]) -> bool:
    """Leave out what has no gold document, a gold known to be wrong, or no meaning without the document in view."""
    asked = row.get("standalone", True) and row.get("doc_ids") and row.get("evidence_mode") != "predicate"
    return bool(asked and not row.get("unanswerable") and not row.get("gold_error"))


def kept(chunks: Sequence[Chunk], embedder: Embedder, folder: Path | None) -> Vectors:
    """Embed the chunks, or take their vectors from the folder where they were left."""
    texts = [embedded_text(chunk) for chunk in chunks]
    if folder is None:
        return embedder.embed(texts)
    digest = blake2b("\0".join((embedder.fingerprint, *texts)).encode("utf-8", "replace"), digest_size=12).hexdigest()
    file = folder / f"{digest}.npy"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        np.save(file, embedder.embed(texts))
    vectors: Vectors = np.load(file)
    return vectors


def measured(user: User, embedder: Embedder | None, settings: RetrievalLimits) -> Iterator[dict[str, dict[str, float]]]:
    """Yield the marks of each question three times.

    For the chunks as ranked, for the sources they were joined to (a document known by its first path), and for these
    sources with their other paths, and the copies folded into them, listed behind each.
    """
    for row in user.questions:
        question = understand(row["question"], datetime.now(UTC))
        vector = embedder.embed_question(question.text) if embedder else None
        found = retrieve(user.bank, vector, question, Scope(), max(KS), settings)
        chunks = [(user.paths[s.chunk.document][0], s.chunk.first, s.chunk.last) for s in found.ranked[: max(KS)]]
        sources = [(user.paths[one.document][0], *one.lines) for one in found.passages]
        listed = [place for one in found.passages for place in places(user, one)]
        yield {"chunks": marks(row, chunks), "sources": marks(row, sources), "listed": marks(row, listed)}


def places(user: User, passage: Passage) -> list[Listed]:
    """Return every place where the text of a passage stands."""
    parts = [(passage.document, *passage.lines)]
    parts += [(copy.chunk.document, copy.chunk.first, copy.chunk.last) for copy in passage.copies]
    return [(path, first, last) for document, first, last in parts for path in user.paths[document]]


def marks(row: dict[str, Any], listed: Sequence[Listed]) -> dict[str, float]:
    """Tell for each k whether a gold document, and lines of the evidence, are among the first k."""
    right = [path in row["doc_ids"] for path, _, _ in listed]
    spans = [(e["doc_id"], *e["lines"]) for e in row.get("evidence", ())]
    exact = [any(path == doc and a <= last and z >= first for doc, a, z in spans) for path, first, last in listed]
    found = {f"doc@{k}": float(any(right[:k])) for k in KS}
    return found | ({f"lines@{k}": float(any(exact[:k])) for k in KS} if spans else {})


def show(label: str, rows: Sequence[dict[str, float]]) -> None:
    """Print the means of one set."""
    names = dict.fromkeys(name for row in rows for name in row)
    backend = [f"{name} {fmean(row[name] for row in rows if name in row):.3f}" for name in names]
    print(f"{label:26} n={len(rows):4}  " + "  ".join(backend), flush=True)


if __name__ == "__main__":
    main()
