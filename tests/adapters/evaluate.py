"""What a trained adapter says, by greedy decoding, on passages kept for evaluation and on values never drawn."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

import torch

from engine.text.words import words
from tests.adapters import made, reading
from tests.adapters.base import Base, Factors, Past
from tests.adapters.rows import Framed
from tests.adapters.tasks import NOT_FOUND, Example, Task
from tests.adapters.train import ALPHA


@dataclass(frozen=True, slots=True)
class Mark:
    """One task, and what was said."""

    task: Task
    said: str


def report(base: Base, factors: Factors, framed: Framed, passages: reading.ReadingSet, say: Callable[[str], None],
           seed: int = 1, count: int = 60) -> None:  # fmt: skip
    """Say the figures of an adapter."""
    rng = Random(seed)
    kinds: tuple[tuple[str, Callable[[], Example]], ...] = (
        ("reading", lambda: reading.example(rng, passages)),
        ("made up", lambda: made.example(rng, reading.distractors(rng, passages, 4), unseen=True)),
        ("abstracts", lambda: made.abstracts(rng, unseen=True)),
        ("follow-ups", lambda: made.follow_ups(rng, unseen=True)),
    )
    for name, draw in kinds:
        marks = [mark for _ in range(count) for mark in marked(base, factors, framed, draw())]
        say(f"{name}: {summary(marks)}")
        for mark in marks[:: max(1, len(marks) // 6)]:
            say(f"    {mark.task.role}: {mark.task.reply!r} said {mark.said!r}")


def marked(base: Base, factors: Factors, framed: Framed, example: Example) -> Iterator[Mark]:
    """Answer all tasks of an example."""
    row = framed.row(example)
    if not framed.fits(row):
        return
    past = base.read(torch.tensor(row.context))
    kept = [task for task in example.tasks if framed.row(Example(example.chunks, (task,))).said]
    for task, said, targets in zip(kept, row.said, row.targets, strict=True):
        request = said[: len(said) - sum(target >= 0 for target in targets) + 1]
        yield Mark(task, decode(base, factors, framed, past, request))


def decode(base: Base, factors: Factors, framed: Framed, past: Past, request: list[int], most: int = 64) -> str:
    """Return the reply to a request."""
    said: list[int] = []
    for _ in range(most):
        with torch.no_grad():
            states = base.hidden([request + said], past, factors, ALPHA)
            best = int(base.logits(states[-1]).argmax())
        if best == framed.end:
            break
        said.append(best)
    return str(framed.tokenizer.decode(said))


def summary(marks: list[Mark]) -> str:
    """Return the figures of each role on one line."""
    by_role = defaultdict[str, list[Mark]](list)
    for mark in marks:
        by_role[mark.task.role].append(mark)
    return "; ".join(f"{role} (n {len(own)}) {_figures(role, own)}" for role, own in by_role.items())


def _figures(role: str, marks: list[Mark]) -> str:
    exact = _share([mark.said.strip() == mark.task.reply for mark in marks])
    if role != "answer":
        return f"exact {exact}, F1 {_mean([_f1(mark) for mark in marks])}"
    told = [mark for mark in marks if mark.task.reply != NOT_FOUND]
    none = [mark for mark in marks if mark.task.reply == NOT_FOUND]
    right = [mark for mark in told if _f1(mark) > 0.5]
    numbers = _share([_number(mark.said) == _number(mark.task.reply) for mark in right])
    return (
        f"exact {_share([mark.said.strip() == mark.task.reply for mark in told])}, F1 {_mean(map(_f1, told))}, "
        f"right number {numbers}, declined {_share([_declined(one) for one in none])} of {len(none)}, "
        f"wrongly {_share([_declined(one) for one in told])}"
    )


def _declined(mark: Mark) -> bool:
    return mark.said.strip().lower().startswith(NOT_FOUND)


def _number(said: str) -> str:
    return said.rpartition("[")[2]


def _f1(mark: Mark) -> float:
    gold, said = (words(text.partition("[")[0]) for text in (mark.task.reply, mark.said))
    common = len(set(gold) & set(said))
    return 2 * common / (len(set(gold)) + len(set(said))) if gold and said else 0.0


def _share(found: list[bool]) -> str:
    return f"{sum(found) / len(found):.3f}" if found else "none"


def _mean(found: "Iterator[float] | list[float] | map[float]") -> str:
    each = list(found)
    return f"{sum(each) / len(each):.3f}" if each else "none"
