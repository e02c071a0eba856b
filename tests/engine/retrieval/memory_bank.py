"""A knowledge bank in memory: brute-force search over chunks of any documents."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Self

import numpy as np

from engine.text.people import index_words
from store.search import Reader
from store.types import Chunk, Document, Hit, Scope, Totals, Vectors, replace


class MemoryBank(Reader):
    """Every hit in a list; words score by BM25, vectors by dot product."""

    def __init__(self, hits: Sequence[Hit]) -> None:
        self.hits = list(hits)
        self.tokens = [hit.tokens.split(" ") for hit in self.hits]
        self.counts = [Counter(tokens) for tokens in self.tokens]
        self.held = Counter(word for count in self.counts for word in count)
        self.mean = sum(map(len, self.tokens)) / len(self.tokens) if self.tokens else 0.0
        self.places = {(hit.chunk.document, hit.chunk.position): hit for hit in self.hits}
        self.postings: dict[str, list[int]] = {}
        for place, count in enumerate(self.counts):
            for word in count:
                self.postings.setdefault(word, []).append(place)
        self.embedded = [place for place, hit in enumerate(self.hits) if hit.vector is not None]
        rows = [vector for hit in self.hits if (vector := hit.vector) is not None]
        self.matrix: Vectors = np.array(rows, dtype=np.float32)

    def score(self, place: int, words: Sequence[str]) -> float:
        """Score one chunk with BM25 (k1 1.5, b 0.75) over the whole bank."""
        total, length = 0.0, 1.5 * (0.25 + 0.75 * len(self.tokens[place]) / self.mean)
        for word in words:
            count, held = self.counts[place][word], self.held[word]
            idf = log(1 + (len(self.hits) - held + 0.5) / (held + 0.5))
            total += idf * count * 2.5 / (count + length)
        return total

    def snapshot(self) -> Self:
        """Return itself."""
        return self

    def by_words(self, words: Sequence[str], scope: Scope, limit: int) -> list[Hit]:
        """Score all that holds a word."""
        places = sorted({place for word in words for place in self.postings.get(word, ())})
        within = [place for place in places if _within(self.hits[place], scope)]
        best = sorted(within, key=lambda place: -self.score(place, words))[:limit]
        return [self.hits[place] for place in best]

    def by_vector(self, vector: Vectors, scope: Scope, limit: int) -> list[Hit]:
        """Score all that has a vector."""
        if not self.embedded:
            return []
        order = np.argsort(-(self.matrix @ vector), kind="stable")
        found = [self.hits[self.embedded[place]] for place in order]
        return [hit for hit in found if _within(hit, scope)][:limit]

    def frequencies(self, words: Sequence[str]) -> Mapping[str, int]:
        """Count chunks."""
        return {word: self.held[word] for word in words if word in self.held}

    def totals(self) -> Totals:
        """Count chunks and vectors."""
        return Totals(len(self.hits), self.mean, len(self.embedded))


@dataclass(frozen=True, slots=True)
class Item:
    """One document's chunks."""

    document: Document
    chunks: tuple[Chunk, ...]


def hits(items: Sequence[Item]) -> list[Hit]:
    """Make the hits of a bank, without vectors."""
    return [_hit(item.document, chunk) for item in items for chunk in item.chunks]


def embedded(found: Sequence[Hit], vectors: Vectors) -> list[Hit]:
    """Return each hit its row."""
    return [replace(hit, vector=row) for hit, row in zip(found, vectors, strict=True)]


def _hit(document: Document, chunk: Chunk) -> Hit:
    tokens = " ".join(index_words(chunk, document.sender, document.recipients, document.date))
    return Hit(chunk, tokens, None, document.date, document.sender, document.recipients, document.title)


def _within(hit: Hit, scope: Scope) -> bool:
    """Return whether a hit lies in the scope; what has no date is outside any limit of time."""
    wanted = (scope.sender or "").casefold(), (scope.recipient or "").casefold()
    people = hit.sender.casefold(), " ".join(hit.recipients).casefold()
    if any(want not in have for want, have in zip(wanted, people, strict=True)):
        return False
    if scope.collection is not None:
        return False  # nothing here belongs to one
    if hit.date is None:
        return scope.since is None and scope.until is None
    return (scope.since is None or scope.since <= hit.date.date()) and (
        scope.until is None or hit.date.date() < scope.until
    )
