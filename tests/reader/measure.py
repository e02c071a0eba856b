"""Measures a reader on questions that it has not learnt from: spans found, and answers told from none."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from engine.models.minilm import Mark, SpanReader
from tests.bench.metrics import terms
from tests.reader.examples import Example, Public, made

COUNT = 300  # examples of each kind


def measured(weights: Path, public: Public | None, count: int = COUNT) -> dict[str, str]:
    """Return for each kind of example the F1 of the best span, and the area under the curve of its margin."""
    reader, found = SpanReader(weights=weights), dict[str, str]()
    for name, examples in (("made", _made(Random(0))), ("public", _public(Random(0), public))):
        scores = [_score(reader, one) for _, one in zip(range(count), examples, strict=False)]
        right = [f1 for f1, _ in scores if f1 is not None]
        if right:
            told = [margin for f1, margin in scores if f1 is not None]
            curve = auc(told, [margin for f1, margin in scores if f1 is None])
            found[name] = f"n {len(right)}, F1 {sum(right) / len(right):.3f}, answers told from none {curve:.3f}"
    return found


def _made(rng: Random) -> Iterator[Example]:
    while True:
        yield from made(rng, unseen=True)


def _public(rng: Random, public: Public | None) -> Iterator[Example]:
    while public:
        yield public.draw(rng)


def _score(reader: SpanReader, example: Example) -> tuple[float | None, float]:
    """Return the F1 of the best span, None if there is no answer, and its margin."""
    read = reader.read(example.question, [(one.header, one.text) for one in example.windows])
    marks = [
        (mark, window.text)
        for window, found in zip(example.windows, read, strict=True)
        for scored in found
        if (mark := scored.best(0, len(window.text)))
    ]
    best, text = max(marks, key=lambda one: one[0].score, default=(Mark(0, 0, -99.0, 0.0, 0.0), ""))
    golds = [one.text[start:end] for one in example.windows for start, end in one.answers]
    return max((f1(text[best.start : best.end], gold) for gold in golds), default=None), best.margin


def f1(said: str, gold: str) -> float:
    """Return the F1 of the words of two answers."""
    one, other = terms(said), terms(gold)
    both = (Counter(one) & Counter(other)).total()
    return 2 * both / (len(one) + len(other)) if both else 0.0


def auc(right: Sequence[float], wrong: Sequence[float]) -> float:
    """Return how often a right one scores more than a wrong one."""
    pairs = [(one > other) + (one == other) / 2 for one in right for other in wrong]
    return sum(pairs) / len(pairs) if pairs else 0.0
