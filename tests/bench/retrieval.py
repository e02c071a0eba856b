"""Recall of retrieval on public questions: doc@k, lines@k, sessions@k and all@k, with one index in memory per user.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.retrieval DATA [--sets NAME...] [--off PART...] [--vectors FOLDER]`,
where DATA holds sets of users: questions.jsonl beside docs/ or mail/. `--off plain` is BM25 alone. Chunk vectors are
stored in FOLDER between runs. doc@k: a gold document is among the first k; lines@k: lines of the evidence are; all@k:
all lines of the evidence are, also shown for questions of several hops alone; sessions@k: a gold document is among the
first k documents, each counted once.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any

from engine.models.minilm import MiniLM
from engine.models.types import Embedder
from engine.retrieval.retrieve import RankWeights, join, retrieve
from engine.text.question import understand
from store.types import Scope
from tests.bench.indexed import IndexedUser, load

Listed = tuple[str, int, int]  # path, first and last line
KS = (1, 2, 5, 10)
SETS = ("locomo", "qmsum", "clinton-foia", "enron-annotated")
MULTIPLIERS = ("function", "asking", "names")  # off is 1, not 0
PLAIN = RankWeights(**{field.name: 0.0 for field in fields(RankWeights)} | dict.fromkeys(MULTIPLIERS, 1.0))


def main() -> None:
    """Print the tables."""
    options = arguments()
    embedder = None if "vector" in options.off else MiniLM(workers=options.workers)
    weights = replace(RankWeights(), **{part: float(part in MULTIPLIERS) for part in options.off if part != "plain"})
    weights = PLAIN if "plain" in options.off else weights
    for name in options.sets:
        found = load(options.data, name, embedder, options.vectors)
        rows = [row for user in found for row in measured(user, embedder, weights)]
        for label in ("chunks", "sources"):
            show(f"{name}: {label}", [row[label] for _, row in rows])
        if several := [row["sources"] for kind, row in rows if kind == "multi-hop"]:
            show(f"{name}: multi-hop, sources", several)


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


def has_gold(row: dict[str, Any]) -> bool:
    """Whether a question has gold documents."""
    return bool(row.get("doc_ids") and row.get("evidence_mode") != "predicate" and not row.get("unanswerable"))


def measured(
    user: IndexedUser, embedder: Embedder | None, weights: RankWeights
) -> Iterator[tuple[str, dict[str, dict[str, float]]]]:
    """Yield each question's kind, and its recall for the ranked chunks and for the sources that they are joined to."""
    for row in filter(has_gold, user.rows):
        question = understand(row["question"], datetime.now(UTC))
        vector = embedder.embed_question(question.text) if embedder else None
        found = retrieve(user.bank, vector, question, Scope(), weights)
        ranked = [(user.paths[s.chunk.document][0], s.chunk.first, s.chunk.last) for s in found]
        sources = [(user.paths[one.document][0], *one.lines) for one in join(found, max(KS))]
        chunks = recall(row, ranked[: max(KS)]) | sessions(row, ranked)
        yield row.get("kind", ""), {"chunks": chunks, "sources": recall(row, sources)}


def recall(row: dict[str, Any], listed: Sequence[Listed]) -> dict[str, float]:
    """Return for each k whether a gold document, and lines of the evidence, are among the first k."""
    right = [path in row["doc_ids"] for path, _, _ in listed]
    spans = [(e["doc_id"], *e["lines"]) for e in row.get("evidence", ())]
    exact = [any(path == doc and a <= last and z >= first for doc, a, z in spans) for path, first, last in listed]
    found = {f"doc@{k}": float(any(right[:k])) for k in KS}
    if not spans:
        return found
    held = {
        k: all(any(path == doc and a <= last and z >= first for path, first, last in listed[:k]) for doc, a, z in spans)
        for k in KS
    }
    return found | {f"lines@{k}": float(any(exact[:k])) for k in KS} | {f"all@{k}": float(held[k]) for k in KS}


def sessions(row: dict[str, Any], ranked: Sequence[Listed]) -> dict[str, float]:
    """Return for each k whether a gold document is among the first k documents of the ranked chunks."""
    documents = list(dict.fromkeys(path for path, _, _ in ranked))
    return {f"sessions@{k}": float(any(path in row["doc_ids"] for path in documents[:k])) for k in KS}


def show(label: str, rows: Sequence[dict[str, float]]) -> None:
    """Print the means of one set."""
    names = dict.fromkeys(name for row in rows for name in row)
    means = [f"{name} {fmean(row[name] for row in rows if name in row):.3f}" for name in names]
    print(f"{label:26} n={len(rows):4}  " + "  ".join(means), flush=True)


if __name__ == "__main__":
    main()
