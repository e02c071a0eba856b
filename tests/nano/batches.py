"""Packs contexts with all their questions; each question will see its context and itself alone.

So a context is read once for many answers, and each reads as if it had been asked by itself. Knows no torch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from tests.nano.samples import BARE, EASY, HARD, LONG, MIDDLE, Level, Sample, sample
from tests.nano.tokens import context_ids, end_of, ids

Ints = NDArray[np.int64]
CONTEXT = 640  # what the model is to hold: prompt and answer
SPARE = 75  # of it, for question and answer
PADDING = -1


@dataclass(frozen=True, slots=True)
class Row:
    """The ids of a context, those of each question with its answer, and the targets of the latter (or PADDING)."""

    context: list[int]
    said: list[list[int]]
    targets: list[list[int]]

    @property
    def weight(self) -> int:
        """Give the number of tokens, with padding."""
        return len(self.context) + len(self.said) * max(map(len, self.said))


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows padded to one shape: context (rows, length), lengths (rows,), said and targets (rows, questions, length)."""

    context: Ints
    lengths: Ints
    said: Ints
    targets: Ints

    @property
    def tokens(self) -> int:
        """Give the number of tokens, padding and all."""
        return self.context.size + self.said.size


def row(tokenizer: Tokenizer, drawn: Sample) -> Row:
    """Pack one sample."""
    end, said, targets = end_of(tokenizer), list[list[int]](), list[list[int]]()
    for asked in drawn.asked:
        question, reply = ids(tokenizer, drawn.question(asked)), [*ids(tokenizer, asked.reply), end]
        said.append(question + reply[:-1])
        targets.append([PADDING] * (len(question) - 1) + reply)
    return Row(context_ids(tokenizer, drawn), said, targets)


def batch(rows: Sequence[Row]) -> Batch:
    """Pad rows to one shape."""
    length = max(len(one.context) for one in rows)
    many = max(len(one.said) for one in rows)
    longest = max(len(said) for one in rows for said in one.said)
    context = np.zeros((len(rows), length), np.int64)
    said = np.zeros((len(rows), many, longest), np.int64)
    targets = np.full((len(rows), many, longest), PADDING, np.int64)
    for at, one in enumerate(rows):
        context[at, : len(one.context)] = one.context
        for number, (words, wanted) in enumerate(zip(one.said, one.targets, strict=True)):
            said[at, number, : len(words)] = words
            targets[at, number, : len(words)] = wanted
    return Batch(context, np.array([len(one.context) for one in rows]), said, targets)


def level(rng: Random, done: float) -> Level:
    """Choose how hard a context is, by the share of the curriculum that is done: short ones first, some to the end."""
    if done < 0.08:
        shares = (0.9, 0.1, 0.0, 0.0, 0.0)
    elif done < 0.14:
        shares = (0.1, 0.8, 0.1, 0.0, 0.0)
    elif done < 0.24:
        shares = (0.0, 0.1, 0.55, 0.25, 0.1)
    elif done < 0.5:
        shares = (0.0, 0.05, 0.35, 0.4, 0.2)
    else:
        shares = (0.0, 0.02, 0.15, 0.43, 0.4)
    return rng.choices((BARE, EASY, MIDDLE, HARD, LONG), shares)[0]


def rows(tokenizer: Tokenizer, rng: Random, done: float) -> Iterator[Row]:
    """Give packed rows of random samples that fit the context."""
    while True:
        drawn = sample(rng, level(rng, done))
        packed = row(tokenizer, drawn)
        if drawn.asked and len(packed.context) <= CONTEXT - SPARE:
            yield packed


def batches(tokenizer: Tokenizer, rng: Random, done: float, tokens: int, ahead: int = 160) -> list[Batch]:
    """Draw some rows, sort them by length and cut them into batches of about so many tokens, in random order."""
    source = rows(tokenizer, rng, done)
    ahead = ahead if done < 0.14 else ahead // 6
    drawn = sorted((next(source) for _ in range(ahead)), key=lambda one: one.weight)
    groups = list[list[Row]]()
    for one in drawn:
        if groups and (len(groups[-1]) + 1) * one.weight <= tokens:
            groups[-1].append(one)
        else:
            groups.append([one])
    rng.shuffle(groups)
    return [batch(group) for group in groups]


def repetition(rng: Random, size: int, tokens: int) -> Batch:
    """Give random ids as a context and the same again as what is said: what copying is learnt from."""
    half = rng.choice((24, 32, 48, 64))
    drawn = np.random.default_rng(rng.getrandbits(32)).integers(1, size, (max(1, tokens // (2 * half)), half))
    lengths = np.full(len(drawn), half)
    return Batch(drawn, lengths, drawn[:, None, :-1], drawn[:, None, 1:])
