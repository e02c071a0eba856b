"""Questions with windows of text, some of which hold the answer: from public reading sets, and made up. Knows no torch.

An example is one question with all windows that were found for it: an answer has to win against all of them, and
against none.
"""

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from tests.nano.samples import FULL, HARD, LONG, MIDDLE, Sample, sample
from tests.reader.lookalikes import Vocabulary, lookalike

WINDOWS = 8  # of an example
Spans = tuple[tuple[int, int], ...]  # characters


@dataclass(frozen=True, slots=True)
class Window:
    """A text with its header; `answers` are the characters of each place where the answer stands in the text."""

    header: str
    text: str
    answers: Spans = ()


@dataclass(frozen=True, slots=True)
class Example:
    """A question and what was found for it; no window has answers if the question has none."""

    question: str
    windows: tuple[Window, ...]

    @property
    def is_answered(self) -> bool:
        """Return whether any window holds an answer."""
        return any(window.answers for window in self.windows)


@dataclass(frozen=True, slots=True)
class Reading:
    """A line of a reading set: a question about a passage, and the characters of the answer, if it has one."""

    source: str
    question: str
    passage: str
    span: tuple[int, int] | None


def readings(path: Path, leave_out: Sequence[str] = ()) -> list[Reading]:
    """Read a set as JSON lines with source, question, passage and span; sources by their beginnings are left out."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [
        Reading(row["source"], row["question"], row["passage"], tuple(row["span"]) if row["span"] else None)
        for row in rows
        if not row["source"].startswith(tuple(leave_out) or "\0")
    ]


class Public:
    """Draws examples from a reading set: a passage and others like it; one in three asks for what none of them says."""

    def __init__(self, rows: Sequence[Reading], headers: Sequence[str]) -> None:
        self._rows, self._headers, self._words = rows, headers, Vocabulary(row.question for row in rows)
        self._by_word = defaultdict[str, list[int]](list)
        for number, row in enumerate(rows):
            for word in set(self._words.telling(row.passage)):
                self._by_word[word].append(number)

    def draw(self, rng: Random, changed: float = 0.3) -> Example:
        """Return an example; that share of the answered ones is asked in words that make it another question."""
        row = rng.choice(self._rows)
        answer = row.passage[slice(*row.span)] if row.span else ""
        question = lookalike(rng, row.question, row.passage, answer, self._words) if rng.random() < changed else None
        own = Window(self._header(rng), row.passage, (row.span,) if row.span and not question else ())
        others = [Window(self._header(rng), other.passage) for other in self._alike(rng, row, answer)]
        windows = [own, *others]
        rng.shuffle(windows)
        return Example(question or row.question, tuple(windows))

    def _header(self, rng: Random) -> str:
        return rng.choice(self._headers) if self._headers and rng.random() < 0.7 else ""

    def _alike(self, rng: Random, row: Reading, answer: str) -> list[Reading]:
        """Return passages that share a rare word with this one, but not the answer."""
        rare = [word for word in set(self._words.telling(row.passage)) if 1 < len(self._by_word[word]) <= 60]
        found = dict[str, Reading]()
        for _ in range(3 * WINDOWS):
            number = rng.choice(self._by_word[rng.choice(sorted(rare))]) if rare else rng.randrange(len(self._rows))
            other = self._rows[number]
            if other.passage != row.passage and not (answer and answer.lower() in other.passage.lower()):
                found[other.passage] = other
            if len(found) == WINDOWS - 1:
                break
        return list(found.values())


def made(rng: Random, changed: float = 0.25, unseen: bool = False) -> Iterator[Example]:
    """Yield the questions of one made-up context of mail and meetings."""
    drawn = sample(rng, rng.choice((MIDDLE, HARD, LONG, FULL)), unseen)
    words = Vocabulary(asked.text for asked in drawn.asked)
    texts = " ".join(chunk.text for chunk in drawn.chunks)
    for asked in drawn.asked:
        windows = tuple(_windows(drawn, asked.answer if asked.cites else "", asked.cites))
        other = lookalike(rng, asked.text, texts, asked.answer, words) if rng.random() < changed else None
        if other:
            yield Example(other, tuple(replace(window, answers=()) for window in windows))
        elif bool(asked.cites) == any(window.answers for window in windows):  # said in the text, and not by a header
            yield Example(asked.text, windows)


def _windows(drawn: Sample, answer: str, cites: Sequence[int]) -> Iterator[Window]:
    for number, chunk in enumerate(drawn.chunks, 1):
        yield Window(f"{chunk.header}\n", chunk.text, places(chunk.text, answer) if number in cites else ())


def places(text: str, answer: str) -> Spans:
    """Return where an answer stands in a text."""
    if not answer:
        return ()
    starts, at = list[int](), text.find(answer)
    while at >= 0:
        starts.append(at)
        at = text.find(answer, at + len(answer))
    return tuple((start, start + len(answer)) for start in starts)


def headers(rng: Random, count: int) -> list[str]:
    """Return headers of made-up chunks."""
    return [f"{chunk.header}\n" for _ in range(count) for chunk in sample(rng, HARD).chunks]
