"""Examples as arrays of token ids: what the reader sees, and where the answer stands. Knows no torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.models.minilm import HEADER, MOST, QUESTION, SPAN, WINDOW
from engine.text.words import sentences
from tests.reader.examples import Example, Window

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Row:
    """One window: its ids, where its text begins, and the first and last token of answers and their sentences."""

    ids: list[int]
    text: int
    answers: list[tuple[int, int]]
    sentences: list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows padded to one length: ids, and per token whether it is of the window, starts, ends or bears an answer.

    All are (rows, tokens); `lengths` are those of rows, `groups` the number of the example of each row.
    """

    ids: Ints
    second: NDArray[np.bool_]
    starts: NDArray[np.bool_]
    ends: NDArray[np.bool_]
    bears: NDArray[np.bool_]
    lengths: Ints
    groups: Ints


def rows(tokenizer: "Tokenizer", example: Example) -> list[Row]:
    """Return the windows of an example, each cut to what the reader takes, with the answer inside."""
    first, *asked, last = tokenizer.encode(example.question).ids
    opening = [first, *asked[:QUESTION], last]
    return [_row(tokenizer, opening, window) for window in example.windows]


def _row(tokenizer: "Tokenizer", opening: Sequence[int], window: Window) -> Row:
    header = tokenizer.encode(window.header, add_special_tokens=False).ids[:HEADER] if window.header else []
    body = tokenizer.encode(window.text, add_special_tokens=False)
    room = min(WINDOW, MOST - len(opening) - 1) - len(header)
    answers = [found for span in window.answers if (found := _tokens(body.offsets, span))]
    cut = _cut(len(body.ids), room, answers[0] if answers else None)
    at = len(opening) + len(header) - cut
    inside = [(one, other) for one, other in answers if cut <= one and other < cut + room and other - one < SPAN]
    held = [_tokens(body.offsets, _sentence(window.text, body.offsets[one][0])) for one, _ in inside]
    ids = [*opening, *header, *body.ids[cut : cut + room], opening[-1]]
    borders = [(max(one, cut) + at, min(other, cut + room - 1) + at) for one, other in filter(None, held)]
    return Row(ids, len(opening), [(one + at, other + at) for one, other in inside], borders)


def _cut(length: int, room: int, answer: tuple[int, int] | None) -> int:
    """Return the first token of a text that is shown, so that an answer stands in the middle if it can."""
    middle = sum(answer) // 2 if answer else 0
    return max(0, min(length - room, middle - room // 2))


def _tokens(offsets: Sequence[tuple[int, int]], span: tuple[int, int]) -> tuple[int, int] | None:
    """Return the first and the last token of a span of characters."""
    inside = [number for number, (start, end) in enumerate(offsets) if start < span[1] and end > span[0]]
    return (inside[0], inside[-1]) if inside else None


def _sentence(text: str, at: int) -> tuple[int, int]:
    return next(((one.start, one.end) for one in sentences(text) if one.start <= at < one.end), (at, at + 1))


def batch(examples: Sequence[Sequence[Row]]) -> Batch:
    """Pad the rows of some examples to one length."""
    every = [(number, row) for number, found in enumerate(examples) for row in found]
    shape = len(every), max(len(row.ids) for _, row in every)
    ids, flags = np.zeros(shape, np.int64), np.zeros((4, *shape), np.bool_)
    second, starts, ends, bears = flags
    for place, (_, row) in enumerate(every):
        ids[place, : len(row.ids)] = row.ids
        second[place, row.text : len(row.ids) - 1] = True
        for one, other in row.answers:
            starts[place, one] = ends[place, other] = True
        for one, other in row.sentences:
            bears[place, one : other + 1] = True
    lengths = np.array([len(row.ids) for _, row in every])
    return Batch(ids, second, starts, ends, bears, lengths, np.array([number for number, _ in every]))
