"""Exact match of a trained model on fresh samples, by kind of question, with drawn values seen in training or kept.

Answers are read off with the right words before each place, which gives the same exact matches as greedy decoding.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch
from tokenizers import Tokenizer

from tests.nano import folder
from tests.nano.batches import CONTEXT, PADDING, SPARE, batch, row
from tests.nano.model import Shape, Weights, given, hidden, logits
from tests.nano.questions import NONE, Asked
from tests.nano.samples import FULL, HARD, LONG, Level, sample
from tests.nano.tokens import ids

KINDS = ("when", "where", "who", "what", "how many", "how much", NONE)


@dataclass(frozen=True, slots=True)
class Mark:
    """What became of one question: was the span right, the whole reply, and did the model decline."""

    kind: str
    span: bool
    whole: bool
    declined: bool


def report(path: Path, seed: int, say: Callable[[str], None], contexts: int = 150, *, blocks: bool = False) -> None:
    """Say the figures of the model in a folder, which reads in blocks or from the beginning."""
    weights, tokenizer = folder.load(path)
    for name, level in (("up to 4 chunks", HARD), ("long", LONG), ("up to 8 chunks", FULL)):
        for unseen in (False, True):
            rng = Random(f"{seed} {name} {unseen}")
            marks = list(marked(weights, tokenizer, rng, level, unseen, contexts, blocks=blocks))
            say(f"{'kept' if unseen else 'seen'} values, {name}: {summary(marks)}")


def marked(
    weights: Weights,
    tokenizer: Tokenizer,
    rng: Random,
    level: Level,
    unseen: bool,
    contexts: int,
    *,
    blocks: bool = False,
) -> Iterator[Mark]:
    """Mark the questions of so many contexts."""
    while contexts:
        drawn = sample(rng, level, unseen)
        packed = row(tokenizer, drawn, blocks=blocks)
        if not drawn.asked or len(packed.context) > CONTEXT - SPARE:
            continue
        contexts -= 1
        one = batch([packed])
        with torch.no_grad():
            best = logits(weights, hidden(weights, Shape(), *given(one)))[0].argmax(-1).tolist()
        for asked, targets, said in zip(drawn.asked, packed.targets, best, strict=True):
            yield _mark(tokenizer, asked, targets, said)


def summary(marks: list[Mark]) -> str:
    """Return shares of right spans by kind, of right replies, right numbers and declining on one line."""
    by_kind = defaultdict[str, list[Mark]](list)
    for mark in marks:
        by_kind[mark.kind].append(mark)
    kinds = ", ".join(f"{kind} {_share([one.span for one in by_kind[kind]])}" for kind in KINDS)
    told = [mark for mark in marks if mark.kind != NONE]
    cited = _share([mark.whole for mark in told if mark.span])
    wrongly = _share([mark.declined for mark in told])
    spans, wholes = _share([mark.span for mark in marks]), _share([mark.whole for mark in marks])
    return (
        f"spans {spans} of {len(marks)}, whole replies {wholes}, numbers where the span is right {cited}, "
        f"declined though it is said {wrongly}; {kinds}"
    )


def _mark(tokenizer: Tokenizer, asked: Asked, targets: list[int], said: list[int]) -> Mark:
    places = [at for at, target in enumerate(targets) if target != PADDING]
    right = [targets[at] == said[at] for at in places]
    span = len(ids(tokenizer, f" {asked.answer}"))
    declined = said[places[0]] == ids(tokenizer, f" {NONE}")[0]
    kind = asked.kind if asked.cites else NONE
    return Mark(kind, all(right[: span + 1]), all(right), declined)


def _share(right: list[bool]) -> str:
    return f"{sum(right) / len(right):.3f}" if right else "none"
