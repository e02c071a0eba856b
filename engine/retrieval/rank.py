"""Scores of a pool of candidates, each scaled to about 0..1 over the pool, weighted and added; then neighbours help.

Plain values in, plain values out: knows no bank, no model, no file. `Weights` switches every part off.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise

from engine.text.dates import Days

_REACH = 8  # words: two words further apart are not near


@dataclass(frozen=True, slots=True)
class RankWeights:
    """What each part counts for; fitted on public sets, see docs/log.md.

    The first four multiply what function words, words of asking, those of names and those by which days may be named
    count in BM25 (1: as others); the rest is added to BM25 scaled to 1.
    """

    function: float = 0.2
    asking: float = 0.3
    names: float = 2.0
    days: float = 0.5
    vector: float = 0.6
    proximity: float = 0.5
    sequence: float = 0.4
    title: float = 0.5  # a quoted subject means that mail, whose replies hold the same words and more
    date: float = 0.3
    recent: float = 0.2
    neighbour: float = 0.2
    coming: float = 0.4  # names a day to come, where the next of something is asked for; no public set asks so


@dataclass(frozen=True, slots=True)
class RankRow:
    """One candidate: `where` holds the places of each question word in it; `cosine` is None if it is unknown.

    `titled` tells whether the question quotes the whole title of its document.
    """

    document: str
    position: int
    where: Mapping[str, Sequence[int]]
    cosine: float | None
    day: date | None = None
    titled: bool = False


@dataclass(frozen=True, slots=True)
class QueryFeatures:
    """What rows are compared with: the question's content words in order, the days it names, and if news count most.

    `every` holds its function words too, in order: they tell "he is set for" from "set a time for".
    """

    words: Sequence[str]
    days: Sequence[Days] = ()
    newest: bool = False
    every: Sequence[str] = ()


def scores(
    rows: Sequence[RankRow], bm25: Sequence[float], asked: QueryFeatures, idf: Mapping[str, float], weights: RankWeights
) -> list[float]:
    """Score a pool, row by row."""
    parts = (
        (1.0, of_best(bm25)),
        (weights.vector, spread([row.cosine for row in rows])),
        (weights.proximity, proximity(rows, asked.words, idf)),
        (weights.sequence, sequence(rows, asked.every, idf)),
        (weights.title, [float(row.titled) for row in rows]),
        (weights.date, dated(rows, asked.days)),
        (weights.recent, recent(rows) if asked.newest else [0.0] * len(rows)),
    )
    own = [sum(weight * part[i] for weight, part in parts) for i in range(len(rows))]
    return with_neighbours(rows, own, weights.neighbour)


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


def proximity(rows: Sequence[RankRow], question: Sequence[str], idf: Mapping[str, float]) -> list[float]:
    """Return share, by idf, of the question's neighbouring words that stand near in each row, the nearer the more."""
    return _shares(rows, question, idf, _closeness)


def sequence(rows: Sequence[RankRow], question: Sequence[str], idf: Mapping[str, float]) -> list[float]:
    """Return the share, by idf, of the question's neighbouring words that stand side by side, in order, in each row."""
    return _shares(rows, question, idf, _in_order)


def _shares(
    rows: Sequence[RankRow],
    question: Sequence[str],
    idf: Mapping[str, float],
    meeting: Callable[[Sequence[int], Sequence[int]], float],
) -> list[float]:
    """Weigh how the places of each pair of neighbouring words meet (0..1) by the pair's idf."""
    pairs = {pair: idf[pair[0]] + idf[pair[1]] for pair in pairwise(question)}
    total = sum(pairs.values())
    if total <= 0:
        return [0.0] * len(rows)
    places = [{word: row.where.get(word, ()) for word in question} for row in rows]
    return [sum(value * meeting(at[a], at[b]) for (a, b), value in pairs.items()) / total for at in places]


def _closeness(one: Sequence[int], other: Sequence[int]) -> float:
    apart = [abs(a - b) for a in one for b in other]
    return max(0.0, 1 - (min(apart) - 1) / _REACH) if apart else 0.0


def _in_order(one: Sequence[int], other: Sequence[int]) -> float:
    return float(any(place + 1 in other for place in one))


def dated(rows: Sequence[RankRow], days: Sequence[Days]) -> list[float]:
    """Return 1 to rows whose document is from a day that the question names."""
    return [float(row.day is not None and any(each.holds(row.day) for each in days)) for row in rows]


def recent(rows: Sequence[RankRow]) -> list[float]:
    """Return each dated row the share of the pool's days that are not after its own; all 0 where they are all one."""
    days = sorted({row.day for row in rows if row.day is not None})
    place = {day: number / (len(days) - 1) for number, day in enumerate(days)} if len(days) > 1 else {}
    return [place.get(row.day, 0.0) if row.day else 0.0 for row in rows]


def with_neighbours(rows: Sequence[RankRow], own: Sequence[float], share: float) -> list[float]:
    """Add a share of the better neighbour's score to each row's own."""
    at = {(row.document, row.position): score for row, score in zip(rows, own, strict=True)}
    beside = [max(at.get((row.document, row.position + step), 0.0) for step in (-1, 1)) for row in rows]
    return [score + share * near for score, near in zip(own, beside, strict=True)]
