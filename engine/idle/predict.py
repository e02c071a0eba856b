"""What may be asked next (PerCache 4.1.2): from abstracts and from the questions so far, by a language model.

A function of what is known at that time alone; asks a model through a function, and keeps nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from engine.ask.keys import normalise
from engine.idle.abstracts import Write
from engine.idle.questions import parse
from engine.text.label import one_line
from prompts import prompt
from store.summaries import Abstract

_LINE = 300  # characters of a question that is shown to a model


@dataclass(frozen=True, slots=True)
class Prediction:
    """A question that may be asked, which view and which way of predicting it came from, and its promise, 0 to 1."""

    question: str
    view: str  # "abstracts" or "history"
    way: str  # "model", "form" or "where-too"
    promise: float = 0.5

    @property
    def source(self) -> str:
        """Name the predictor, as it is counted and paid by."""
        return f"{self.view}/{self.way}"


def choose(abstracts: Sequence[Abstract], most: int, tokens: Callable[[str], int]) -> list[Abstract]:
    """Choose the newest abstracts and the least asked-about, by turns, within so many tokens; oldest first."""
    newest = sorted(abstracts, key=lambda one: one.age, reverse=True)
    least = sorted(newest, key=lambda one: one.asked + one.drawn)
    chosen, left = list[Abstract](), most
    for one in dict.fromkeys(each for pair in zip_longest(newest, least) for each in pair if each):
        size = tokens(one.text + "\n")
        if size > left:
            break
        chosen.append(one)
        left -= size
    return sorted(chosen, key=lambda one: one.age)


def from_abstracts(abstracts: Sequence[Abstract], kind: str, stride: int, write: Write) -> list[Prediction]:
    """Let a model predict `stride` questions about somebody's `kind` from what sums it up."""
    shown = [one_line(one.text, 4 * _LINE) for one in abstracts]
    return _predicted("abstracts", shown, kind, stride, write)


def from_history(questions: Sequence[str], kind: str, stride: int, write: Write) -> list[Prediction]:
    """Let a model predict `stride` questions about somebody's `kind` from those asked so far, oldest first."""
    return _predicted("history", [one_line(one, _LINE) for one in questions], kind, stride, write)


def pick(
    found: Iterable[Prediction],
    shares: Mapping[str, int],
    known: Iterable[str],
    near: Callable[[str], bool] | None = None,
) -> list[Prediction]:
    """Take of each source the best of its share, leaving out what is known or near to it; what is not used goes on.

    What one source cannot fill, the others do, but none that has no share.
    """
    ordered = sorted((one for one in found if shares.get(one.source)), key=lambda one: -one.promise)
    seen, left, total = set(map(normalise, known)), Counter(shares), sum(shares.values())
    taken, spare = list[Prediction](), list[Prediction]()
    for one in ordered:
        if left[one.source] < 1:
            spare.append(one)
        elif _is_fresh(one.question, seen, near):
            left[one.source] -= 1
            taken.append(one)
    for one in spare:
        if len(taken) >= total:
            break
        if _is_fresh(one.question, seen, near):
            taken.append(one)
    return taken


def _predicted(view: str, shown: Sequence[str], kind: str, stride: int, write: Write) -> list[Prediction]:
    if not shown or stride < 1:
        return []
    system, _, cue = prompt(f"predict_{view}").rpartition("\n")
    system = system.replace("{kind}", kind).replace("{count}", str(stride))
    written = write([system + "\n", *(f"- {one}\n" for one in shown), cue])
    asked = set(map(normalise, shown))
    found = [one for one in parse(written, 4 * stride) if normalise(one) not in asked]
    return [Prediction(one, view, "model") for one in found[:stride]]


def _is_fresh(question: str, seen: set[str], near: Callable[[str], bool] | None) -> bool:
    """Tell whether a question is new, and count it as seen; what is dear to look at is looked at last."""
    compared = normalise(question)
    if not compared or compared in seen:
        return False
    seen.add(compared)
    return not (near and near(question))
