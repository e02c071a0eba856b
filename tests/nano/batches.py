"""Packs contexts with all their questions; each question will see its context and itself alone.

So a context is read once for many answers, and each reads as if it had been asked by itself. Knows no torch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from tests.nano.samples import BARE, EASY, FULL, HARD, LONG, MIDDLE, Level, Sample, sample
from tests.nano.tokens import block_ids, context_ids, end_of, ids

Ints = NDArray[np.int64]
CONTEXT = 1536  # what the model is to hold: prompt and answer
SPARE = 256  # of it, for question and answer; pkb keeps as much
PADDING = -1


@dataclass(frozen=True, slots=True)
class Row:
    """The ids of a context, those of each question with its answer, and the targets of the latter (or PADDING).

    `cut` has the block and the place of each token of a context that is read in blocks.
    """

    context: list[int]
    said: list[list[int]]
    targets: list[list[int]]
    cut: list[tuple[int, int]] | None = None

    @property
    def weight(self) -> int:
        """Return the number of tokens, with padding."""
        return len(self.context) + len(self.said) * max(map(len, self.said))


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows padded to one shape: context (rows, length), lengths (rows,), said and targets (rows, questions, length).

    `cut` (rows, length, 2) has blocks and places where contexts are read in blocks.
    """

    context: Ints
    lengths: Ints
    said: Ints
    targets: Ints
    cut: Ints | None = None

    @property
    def tokens(self) -> int:
        """Return the number of tokens, padding and all."""
        return self.context.size + self.said.size


def row(tokenizer: Tokenizer, drawn: Sample, *, blocks: bool = False) -> Row:
    """Pack one sample, to be read in blocks or from its beginning."""
    end, said, targets = end_of(tokenizer), list[list[int]](), list[list[int]]()
    for asked in drawn.asked:
        question, reply = ids(tokenizer, drawn.question(asked)), [*ids(tokenizer, asked.reply), end]
        said.append(question + reply[:-1])
        targets.append([PADDING] * (len(question) - 1) + reply)
    if not blocks:
        return Row(context_ids(tokenizer, drawn), said, targets)
    cut = block_ids(tokenizer, drawn)
    return Row([one for block in cut for one in block], said, targets, places(cut))


def places(cut: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Return the number of its block and the place at which it is computed for each token: behind the first block."""
    behind = [0, *(len(cut[0]) for _ in cut[1:])]
    return [(number, behind[number] + at) for number, block in enumerate(cut) for at in range(len(block))]


def batch(rows: Sequence[Row]) -> Batch:
    """Pad rows to one shape."""
    length = max(len(one.context) for one in rows)
    many = max(len(one.said) for one in rows)
    longest = max(len(said) for one in rows for said in one.said)
    context = np.zeros((len(rows), length), np.int64)
    said = np.zeros((len(rows), many, longest), np.int64)
    targets = np.full((len(rows), many, longest), PADDING, np.int64)
    cut = np.zeros((len(rows), length, 2), np.int64)
    for at, one in enumerate(rows):
        context[at, : len(one.context)] = one.context
        cut[at, : len(one.context)] = one.cut or 0
        for number, (words, wanted) in enumerate(zip(one.said, one.targets, strict=True)):
            said[at, number, : len(words)] = words
            targets[at, number, : len(words)] = wanted
    return Batch(context, np.array([len(one.context) for one in rows]), said, targets, cut if rows[0].cut else None)


def level(rng: Random, done: float) -> Level:
    """Choose how hard a context is, by the share of the curriculum that is done: short ones first, some to the end."""
    if done < 0.08:
        shares = (0.9, 0.1, 0.0, 0.0, 0.0, 0.0)
    elif done < 0.14:
        shares = (0.1, 0.8, 0.1, 0.0, 0.0, 0.0)
    elif done < 0.24:
        shares = (0.0, 0.1, 0.55, 0.25, 0.1, 0.0)
    elif done < 0.5:
        shares = (0.0, 0.05, 0.35, 0.4, 0.2, 0.0)
    else:
        shares = (0.0, 0.02, 0.14, 0.5, 0.2, 0.14)
    return rng.choices((BARE, EASY, MIDDLE, HARD, LONG, FULL), shares)[0]


def rows(tokenizer: Tokenizer, rng: Random, done: float, *, blocks: bool = False) -> Iterator[Row]:
    """Yield packed rows of random samples that fit the context."""
    while True:
        drawn = sample(rng, level(rng, done))
        packed = row(tokenizer, drawn, blocks=blocks)
        if drawn.asked and len(packed.context) <= CONTEXT - SPARE:
            yield packed


def batches(
    tokenizer: Tokenizer, rng: Random, done: float, tokens: int, ahead: int = 160, *, blocks: bool = False
) -> list[Batch]:
    """Draw some rows, sort them by length and cut them into batches of about so many tokens, in random order."""
    source = rows(tokenizer, rng, done, blocks=blocks)
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
    """Return random ids as a context and the same again as what is said: what copying is learnt from."""
    half = rng.choice((24, 32, 48, 64))
    drawn = np.random.default_rng(rng.getrandbits(32)).integers(1, size, (max(1, tokens // (2 * half)), half))
    lengths = np.full(len(drawn), half)
    return Batch(drawn, lengths, drawn[:, None, :-1], drawn[:, None, 1:])
