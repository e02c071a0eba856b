"""Scores of a pool of candidates, each scaled to about 0..1 over the pool, weighted and added; then neighbours help.

Plain values in, plain values out: knows no bank, no model, no file. `Weights` switches every part off by 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Weights:
    """What each part counts for, beside BM25 with 1; fitted on public sets, see docs/log.md."""

    function: float = 0.2  # of a function word in BM25, beside a content word
    vector: float = 0.8
    names: float = 0.4
    proximity: float = 0.3
    neighbour: float = 0.2
    document: float = 0.2


@dataclass(frozen=True, slots=True)
class Row:
    """One candidate: `where` holds the places of each question word in it; `cosine` is None where it is unknown."""

    document: str
    position: int
    where: Mapping[str, Sequence[int]]
    cosine: float | None


def scores(
    rows: Sequence[Row],
    bm25: Sequence[float],
    question: Sequence[str],
    names: Sequence[str],
    idf: Mapping[str, float],
    weights: Weights,
) -> list[float]:
    """Score a pool; `question` holds its content words in order, `names` the words of its names."""
    parts = (
        (1.0, of_best(bm25)),
        (weights.vector, spread([row.cosine for row in rows])),
        (weights.names, coverage(rows, names, idf)),
        (weights.proximity, proximity(rows, question, idf)),
    )
    own = [sum(weight * part[i] for weight, part in parts) for i in range(len(rows))]
    return with_company(rows, own, weights.neighbour, weights.document)


def of_best(values: Sequence[float]) -> list[float]:
    """Divide by the greatest value; all 0 where that is not positive."""
    best = max(values, default=0.0)
    return [value / best for value in values] if best > 0 else [0.0] * len(values)


def spread(values: Sequence[float | None]) -> list[float]:
    """Scale known values to 0..1 over the pool; unknown ones get their mean, and all 0 where none differs."""
    known = [value for value in values if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    if high <= low:
        return [0.0] * len(values)
    mean = sum(known) / len(known)
    return [((mean if value is None else value) - low) / (high - low) for value in values]


def coverage(rows: Sequence[Row], wanted: Sequence[str], idf: Mapping[str, float]) -> list[float]:
    """Give the share of the wanted words, by idf, that each row holds."""
    total = sum(idf[word] for word in wanted)
    if total <= 0:
        return [0.0] * len(rows)
    return [sum(idf[word] for word in wanted if word in row.where) / total for row in rows]


def proximity(rows: Sequence[Row], question: Sequence[str], idf: Mapping[str, float], reach: int = 4) -> list[float]:
    """Give the share, by idf, of the question's neighbouring words that stand within `reach` words in each row."""
    pairs = {pair: idf[pair[0]] + idf[pair[1]] for pair in pairwise(question)}
    total = sum(pairs.values())
    if total <= 0:
        return [0.0] * len(rows)
    return [sum(value for pair, value in pairs.items() if _meet(row, *pair, reach)) / total for row in rows]


def _meet(row: Row, one: str, other: str, reach: int) -> bool:
    return any(abs(a - b) <= reach for a in row.where.get(one, ()) for b in row.where.get(other, ()))


def with_company(rows: Sequence[Row], own: Sequence[float], neighbour: float, document: float) -> list[float]:
    """Add a share of the better neighbour's score, and of the best score in the document, to each row's own."""
    at = {(row.document, row.position): score for row, score in zip(rows, own, strict=True)}
    best: dict[str, float] = {}
    for row, score in zip(rows, own, strict=True):
        best[row.document] = max(score, best.get(row.document, 0.0))
    beside = [max(at.get((row.document, row.position + step), 0.0) for step in (-1, 1)) for row in rows]
    return [
        score + neighbour * near + document * best[row.document]
        for row, score, near in zip(rows, own, beside, strict=True)
    ]
