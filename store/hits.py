"""Search results, as retrieval receives them. Apart from store.types, since they need numpy."""

import re
from dataclasses import dataclass, field
from datetime import datetime
from math import log

import numpy as np
from numpy.typing import NDArray

from store.types import Chunk, turns

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk that a search found, with the metadata of its document, and its score once it is ranked.

    `tokens` are `words(header + newline + text)` joined by single spaces; `vector` is a unit row, None until embedded.
    """

    chunk: Chunk
    tokens: str
    vector: Vectors | None = field(repr=False, compare=False)
    date: datetime | None  # aware, in its writer's zone; not later than its document was first seen
    sender: str
    recipients: tuple[str, ...]
    title: str
    score: float = 0.0
    claimed: datetime | None = None  # the date that its document gives itself, where `date` is not that

    def scored(self, score: float) -> "Hit":
        """Return the hit with a score; several times as fast as `replace`, which ranking calls for a whole pool."""
        about = (self.date, self.sender, self.recipients, self.title)
        return Hit(self.chunk, self.tokens, self.vector, *about, score, self.claimed)

    @property
    def written(self) -> datetime | None:
        """Return when its text was written: with its document, unless it is quoted or forwarded."""
        return self.chunk.written if self.is_quoted else self.date

    @property
    def is_meeting(self) -> bool:
        """Return whether its document is a transcript."""
        return self.chunk.header.startswith("Meeting: ")

    @property
    def is_quoted(self) -> bool:
        """Return whether its text is that of another message, which its document quotes or forwards."""
        return self.chunk.role in ("quote", "forward")

    @property
    def author(self) -> str:
        """Return who wrote its text: the sender; of a quoted or forwarded text, whom that names, empty for nobody."""
        return self.chunk.author if self.is_quoted else self.sender

    def speaker_of(self, quote: str) -> str | None:
        """Return the speaker of a quoted part of a transcript; None for mail, or if the speaker is unknown.

        The speaker is unknown if two people say the same words.
        """
        if not self.is_meeting:
            return None
        text, found = self.chunk.text, turns(self.chunk.text, frozenset(self.recipients))
        whole = [match.start() for match in re.finditer(rf"(?<!\S){re.escape(quote)}(?!\S)", text)]
        before = [[turn for turn in found if turn.start <= place] for place in whole or [text.find(quote)]]
        speakers = {each[-1].speaker if each else None for each in before}
        return speakers.pop() if len(speakers) == 1 else None


@dataclass(frozen=True, slots=True)
class Totals:
    """Totals of the whole index: chunks, their mean number of words, and how many of them have a vector."""

    chunks: int
    mean_words: float
    embedded: int

    def inverse_frequency(self, count: int) -> float:
        """Return the inverse chunk frequency of a word that `count` chunks contain, as in BM25; never negative."""
        count = min(count, self.chunks)  # another process may have removed chunks in between
        return log(1 + (self.chunks - count + 0.5) / (count + 0.5))
