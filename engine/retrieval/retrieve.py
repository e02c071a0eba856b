"""Retrieval: candidates by full text and by vector, scored together and joined into passages, best first.

It knows the index by its reader, not LanceDB or files, and is the only importer of rank_bm25.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import pairwise

from rank_bm25 import BM25Okapi

from engine.text.dates import Days
from engine.text.question import ASKING_WORDS, Question
from engine.text.words import FUNCTION_WORDS, words
from engine.types import Passage
from store.search import Reader
from store.types import Hit, Scope, Vectors, names_person, replace, turns

_BY_WORDS, _BY_VECTOR = 100, 50  # candidates
JOINED = 3  # chunks that may join into one source
_AWAITED = 30  # best chunks that are looked at for days to come
_FLOOR = 0.2  # cosine below which a chunk without a word of the question is off topic
_REACH = 8  # words: two words further apart are not near
Places = Sequence[Mapping[str, Sequence[int]]]  # of the words of a question, in each of some texts
Pool = Sequence[tuple[Hit, float | None]]  # hits with their cosines, None if they are unknown


@dataclass(frozen=True, slots=True)
class RankWeights:
    """The weight of each part of a score, fitted on public data sets (docs/log/retrieval.md).

    The first four multiply the BM25 weight of function words, question words, names and words for days (1: unchanged).
    The others are added to the BM25 score, which is scaled to 1.
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
    coming: float = 0.4  # names a coming day, for questions about the next occurrence; no public set has those


FOREIGN = RankWeights(vector=3.0)  # for languages of which the embedder knows the words


def scores(
    pool: Pool, where: Places, bm25: Sequence[float], asked: Question, idf: Mapping[str, float], weights: RankWeights
) -> list[float]:
    """Score a pool, hit by hit."""
    hits, cosines = [hit for hit, _ in pool], [cosine for _, cosine in pool]
    written = [hit.written or hit.date for hit in hits]  # an undated quote is no newer than its mail
    days = [moment and moment.date() for moment in written]
    quoted = [found for phrase in asked.quoted if (found := words(phrase))]  # marks alone quote no title
    parts = (
        (1.0, of_best(bm25)),
        (weights.vector, spread(cosines)),
        (weights.proximity, proximity(where, asked.content, idf)),
        # Its function words count here: they tell "he is set for" from "set a time for".
        (weights.sequence, sequence(where, asked.words, idf)),
        (weights.title, [float(bool(quoted) and words(hit.title) in quoted) for hit in hits]),
        (weights.date, dated(days, asked.dates)),
        (weights.recent, recent(days) if asked.current else [0.0] * len(hits)),
    )
    own = zip(*([weight * value for value in part] for weight, part in parts), strict=True)
    return with_neighbours(hits, [*map(sum, own)], weights.neighbour)


def of_best(values: Sequence[float]) -> list[float]:
    """Divide by the greatest value; all 0 if that is not positive."""
    best = max(values, default=0.0)
    return [value / best for value in values] if best > 0 else [0.0] * len(values)


def spread(values: Sequence[float | None]) -> list[float]:
    """Scale known values to 0..1 over the pool; unknown ones get their mean, and all 0 if none differs."""
    known = [value for value in values if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    if high <= low:
        return [0.0] * len(values)
    mean = sum(known) / len(known)
    return [((mean if value is None else value) - low) / (high - low) for value in values]


def proximity(where: Places, question: Sequence[str], idf: Mapping[str, float]) -> list[float]:
    """Return the share, by idf, of the question's neighbouring words near in each text, the nearer the more."""

    def nearness(one: Sequence[int], other: Sequence[int]) -> float:
        return max(0.0, 1 - (min(abs(a - b) for a in one for b in other) - 1) / _REACH)

    return _shares(where, question, idf, nearness)


def sequence(where: Places, question: Sequence[str], idf: Mapping[str, float]) -> list[float]:
    """Return the share, by idf, of the question's neighbouring words that are adjacent, in order, in each text."""
    return _shares(where, question, idf, lambda one, other: float(any(place + 1 in other for place in one)))


def _shares(
    where: Places, question: Sequence[str], idf: Mapping[str, float], meeting: Callable[..., float]
) -> list[float]:
    """Weigh how the places of each pair of neighbouring words meet (0..1) by the pair's idf."""
    pairs = {pair: idf[pair[0]] + idf[pair[1]] for pair in pairwise(question)}
    total = sum(pairs.values())
    if total <= 0:
        return [0.0] * len(where)
    found = [0.0] * len(where)
    for (a, b), value in pairs.items():
        for number, places in enumerate(where):
            if a in places and b in places:
                found[number] += value * meeting(places[a], places[b])
    return [value / total for value in found]


def dated(written: Sequence[date | None], days: Sequence[Days]) -> list[float]:
    """Return 1 to texts that are from a day that the question names."""
    return [float(day is not None and any(each.holds(day) for each in days)) for day in written]


def recent(written: Sequence[date | None]) -> list[float]:
    """Return each dated text the share of the pool's days that are not after its own; all 0 if they are all one."""
    days = sorted({day for day in written if day is not None})
    place = {day: number / (len(days) - 1) for number, day in enumerate(days)} if len(days) > 1 else {}
    return [place.get(day, 0.0) if day else 0.0 for day in written]


def with_neighbours(hits: Sequence[Hit], own: Sequence[float], share: float) -> list[float]:
    """Add a share of the better neighbour's score to each hit's own."""
    places = [(hit.chunk.document, hit.chunk.position) for hit in hits]
    at = dict(zip(places, own, strict=True))
    beside = [max(at.get((document, place - 1), 0.0), at.get((document, place + 1), 0.0)) for document, place in places]
    return [score + share * near for score, near in zip(own, beside, strict=True)]


def fold(ranked: Sequence[Hit]) -> list[tuple[Hit, list[Hit]]]:
    """Keep the best of hits with the same text, white space apart, each with those that were folded into it."""
    begun = Counter(beginnings := [tuple(hit.chunk.text.split(None, 4)[:4]) for hit in ranked])  # quick to tell apart
    best = dict[str, tuple[Hit, list[Hit]]]()
    for hit, beginning in zip(ranked, beginnings, strict=True):
        text = " ".join(hit.chunk.text.split()) if begun[beginning] > 1 else hit.chunk.id
        first, copies = best.setdefault(text, (hit, []))
        if first is not hit:
            copies.append(hit)
    return list(best.values())


def join(ranked: Sequence[Hit], k: int, most: int = JOINED) -> list[Passage]:
    """Make the first k passages, best first, each of at most `most` neighbouring hits.

    A hit beside one already taken joins its passage, which keeps its rank, so that later hits can still come in.
    """
    groups: list[list[Hit]] = []
    copies: dict[str, list[Hit]] = {}
    for hit, same in fold(ranked):
        beside = {(hit.chunk.document, hit.chunk.position + step) for step in (-1, 1)}
        able = (one for one in groups if any((it.chunk.document, it.chunk.position) in beside for it in one))
        group = next((one for one in able if len(one) < most), None)
        if group is None and len(groups) == k:
            break
        if group is None:
            groups.append(group := [])
        group.append(hit)
        copies[hit.chunk.id] = same
    ordered = [sorted(group, key=lambda hit: hit.chunk.position) for group in groups]
    return [Passage(tuple(hits), tuple(copy for hit in hits for copy in copies[hit.chunk.id])) for hits in ordered]


def retrieve(bank: Reader, vector: Vectors | None, question: Question, scope: Scope, weights: RankWeights) -> list[Hit]:
    """Return the hits that fit a question and its unit vector, best first."""
    bank = bank.snapshot()
    pool, totals = candidates(bank, vector, question, scope), bank.totals()
    counted = (*question.words, *question.day_words)
    frequencies = bank.frequencies(counted)
    idf = {word: totals.inverse_frequency(frequencies.get(word, 0)) for word in counted}
    names = {word for name in question.names for word in words(name)}  # which may hold a word of asking
    factors = dict.fromkeys(ASKING_WORDS, weights.asking) | dict.fromkeys(names, weights.names)
    factors |= dict.fromkeys(FUNCTION_WORDS, weights.function) | dict.fromkeys(question.day_words, weights.days)
    weighted = {word: value * factors.get(word, 1.0) for word, value in idf.items()}
    where, lengths = places_of([hit.tokens for hit, _ in pool], idf), [hit.tokens.count(" ") + 1 for hit, _ in pool]
    values = scores(pool, where, bm25(where, lengths, weighted, totals.mean_words), question, idf, weights)
    ranked = sorted((hit.scored(value) for (hit, _), value in zip(pool, values, strict=True)), key=_first)
    return _awaited(ranked, question, weights) if question.coming or question.gone else ranked


def candidates(bank: Reader, vector: Vectors | None, question: Question, scope: Scope) -> Pool:
    """Return the pool, each hit with its cosine where it has one: by words first, then what only the vectors found."""
    hits = bank.by_words((*question.content, *question.day_words), scope, _BY_WORDS)
    held = {hit.chunk.id for hit in hits}
    near = [] if vector is None else bank.by_vector(vector, scope, _BY_VECTOR)
    pool = {hit.chunk.id: hit for hit in (*hits, *near)}.values()
    known = [(hit, None if vector is None or hit.vector is None else float(hit.vector @ vector)) for hit in pool]
    found = [(hit, cosine) for hit, cosine in known if hit.chunk.id in held or (cosine or 0.0) >= _FLOOR]
    if not scope.sender:
        return found
    return [(own, cosine) for hit, cosine in found if (own := _own_turns(hit, scope.sender))]


def _own_turns(hit: Hit, sender: str) -> Hit | None:
    """Return a hit with nothing but the turns of a sender, None if a transcript has none."""
    if not hit.is_meeting:
        return hit
    text, found = hit.chunk.text, turns(hit.chunk.text, frozenset(hit.recipients))
    own = "\n".join(text[one.start : one.end] for one in found if one.speaker and names_person(one.speaker, sender))
    tokens = " ".join(words(f"{hit.chunk.header}\n{own}"))
    return replace(hit, chunk=replace(hit.chunk, text=own), tokens=tokens) if own else None


def places_of(texts: Sequence[str], wanted: Iterable[str]) -> list[dict[str, list[int]]]:
    """Return the places of each of the wanted words in each text that has it; texts are words joined by spaces."""
    pattern, found = re.compile(f" ({'|'.join(map(re.escape, wanted)) or '$a'})(?= )"), list[dict[str, list[int]]]()
    for text in texts:
        padded, where, place, last = f" {text} ", dict[str, list[int]](), 0, 0
        for match in pattern.finditer(padded):  # faster by far than to split each text
            place += padded.count(" ", last, last := match.start())
            where.setdefault(match[1], []).append(place)
        found.append(where)
    return found


def bm25(where: Places, lengths: Sequence[int], idf: Mapping[str, float], mean_words: float) -> list[float]:
    """Score texts with BM25 (k1 1.5, b 0.75) under the idf and mean length of the whole bank, not of the pool.

    A text is given by the places of the question's words in it, and by its number of words.
    """
    held = [[word for word, places in each.items() if word in idf for _ in places] for each in where]
    if not any(held):
        return [0.0] * len(held)
    model = BM25Okapi(held)  # of the question's words only; then lengths, mean and idf are put right
    model.doc_len, model.avgdl, model.idf = list(lengths), max(1.0, mean_words), dict(idf)
    return [float(score) for score in model.get_scores(list(idf))]


def _awaited(ranked: Sequence[Hit], question: Question, weights: RankWeights) -> list[Hit]:
    """Lift, of the best chunks, those of the subject that name a time on the side asked for, the nearest most."""
    best, rest = ranked[:_AWAITED], ranked[_AWAITED:]
    starts = [_nearest_start(one, question) for one in best]
    order = sorted({start for start in starts if start}, reverse=question.gone)
    subject = question.subject
    about = [len(subject.intersection(one.tokens.split(" "))) / (len(subject) or 1) for one in best]
    lifts = [
        weights.coming * share * (2 - order.index(start) / len(order)) if start else 0.0
        for start, share in zip(starts, about, strict=True)
    ]
    lifted = [one.scored(one.score + lift) for one, lift in zip(best, lifts, strict=True)]
    return sorted([*lifted, *rest], key=_first)


def _nearest_start(hit: Hit, question: Question) -> datetime | None:
    """Return the first coming time that a chunk names, else an event's last past one; None if it names none."""
    from engine.text.relative_dates import event_times, next_start  # few questions need its slow patterns

    if hit.chunk.role != "event":
        return next_start(hit.chunk.text, hit.written, question.now) if question.coming else None
    times = event_times(hit.chunk.text, question.now)
    begins = [one.begins for one in times if one.is_coming(question.now) is question.coming]
    return (min if question.coming else max)(begins, default=None)


def _first(hit: Hit) -> tuple[float, str]:
    return -hit.score, hit.chunk.id  # so that ranks depend on the bank alone
