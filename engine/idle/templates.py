"""Predictions from the forms of past questions: a form is a question with a slot for a name or a title.

"Who is Ann?" and "Who is Bob?" have one form. Slots are filled from chunks that could answer the question; no model.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from engine.ask.extract import wanted
from engine.ask.keys import normalise
from engine.idle.predict import Prediction
from engine.idle.summarize import correspondents, named
from engine.idle.types import check_time
from engine.text.question import understand
from engine.text.spans import Kind, find
from engine.text.words import FUNCTION_WORDS, words
from store.hits import Hit

Slot = Literal["name", "title"]
_ANY_DAY = datetime(2000, 1, 1, tzinfo=UTC)  # dates do not matter here
_LEAST = 2  # different names that a form was asked with
_LONGEST_TITLE = 100
_LITERAL: tuple[Kind, ...] = ("email", "phone", "link", "amount", "money")  # answers that the text must hold literally


@dataclass(frozen=True, slots=True)
class QuestionForm:
    """A question with a slot; `asked` are the fillers it was asked with, `share` its part of all questions."""

    before: str
    after: str
    slot: Slot
    asked: frozenset[str]  # normalised
    share: float

    def filled(self, filler: str) -> str:
        """Return the question with this filler."""
        return f"{self.before}{filler}{self.after}"


def forms(questions: Sequence[str]) -> list[QuestionForm]:
    """Return the forms that were asked with several fillers, the most frequent first."""
    found = defaultdict[tuple[str, str, Slot], list[tuple[str, str, str]]](list)
    for question in questions:
        for before, filler, after, slot in _slots(question):
            found[normalise(before + "x")[:-1], normalise(after), slot].append((before, filler, after))
    learned = list[QuestionForm]()
    for (_, _, slot), uses in found.items():
        asked = frozenset(normalise(filler) for _, filler, _ in uses)
        if len(asked) >= _LEAST:
            before, _, after = uses[-1]
            learned.append(QuestionForm(before, after, slot, asked, len(uses) / len(questions)))
    return sorted(learned, key=lambda form: (-form.share, form.before, form.after))


def fillers(hit: Hit, slot: Slot, names: Sequence[str]) -> list[str]:
    """Return the fillers that a chunk offers: its title, or its people and names of past questions that it mentions."""
    if slot == "title":
        title = " ".join(hit.title.split())
        return [title] if 2 < len(title) <= _LONGEST_TITLE and hit.chunk.position == 0 else []
    text = f" {' '.join(words(hit.chunk.text))} "
    known = [name for name in names if f" {' '.join(words(name))} " in text]
    return list(dict.fromkeys([*correspondents(hit), *named(hit), *known]))


def may_answer(form: QuestionForm, filler: str, hit: Hit) -> bool:
    """Return whether a chunk could answer a filled form: it holds what the form asks for, such as a phone number."""
    kind = wanted(understand(form.filled(filler), _ANY_DAY))
    if kind == "email":
        return _has_address(filler, hit)
    if kind in _LITERAL:
        return kind is not None and _is_near(filler, kind, hit.chunk.text)
    return True


def names_of(questions: Sequence[str]) -> list[str]:
    """Return the names in questions, each once."""
    return list(dict.fromkeys(name for one in questions for name in understand(one, _ANY_DAY).names))


def _slots(question: str) -> Iterator[tuple[str, str, str, Slot]]:
    understood = understand(question, _ANY_DAY)
    for name in understood.names:
        start = question.find(name)
        if start < 0:
            continue
        before, after = question[:start], question[start + len(name) :]
        slot: Slot = "title" if name in understood.quoted else "name"
        if set(words(before + " " + after)) - FUNCTION_WORDS or slot == "name":
            yield before, name, after, slot


def _has_address(filler: str, hit: Hit) -> bool:
    """Return whether a chunk holds an address of a person: one with a part of the name in it."""
    text = "\n".join([hit.sender, *hit.recipients, hit.chunk.text])
    parts = [word for word in filler.casefold().split() if len(word) > 2]
    addresses = [text[one.start : one.end].partition("@")[0].casefold() for one in find(text, "email")]
    return any(part in address for part in parts for address in addresses)


def _is_near(filler: str, kind: Kind, text: str) -> bool:
    at = text.find(filler.split()[-1])
    window = text[max(0, at - 200) : at + 300] if at >= 0 else ""
    return bool(find(window, kind))


SOURCES = ("history/form", "history/where-too")
_FORMS = 20  # that are filled in
_RECENCY = 0.3  # share of the probability that the last chunk lacks against the newest


def from_forms(
    hits: Sequence[Hit], past: Sequence[str], is_over: Callable[[], bool] = lambda: False
) -> list[Prediction]:
    """Return past questions filled in with something else from chunks, which come newest first.

    OutOfTime before a chunk once `is_over`.
    """
    names, found = names_of(past), list[Prediction]()
    learned = forms(past)[:_FORMS]
    for place, hit in enumerate(hits):
        check_time(is_over)
        fillers_of = {slot: fillers(hit, slot, names) for slot in dict.fromkeys(form.slot for form in learned)}
        for form in learned:
            probability = form.share * (1 - _RECENCY * place / len(hits))
            for rank, filler in enumerate(fillers_of[form.slot]):
                if may_answer(form, filler, hit):
                    question, chance = form.filled(filler), probability / (1 + rank / 10)
                    found.append(Prediction(question, "history", "form", chance, (hit.chunk.id,)))
    return _distinct([*found, *_where_too(past)])


def _where_too(past: Sequence[str]) -> Iterator[Prediction]:
    """Yield a question where something is for each that asked when it is, and the other way round."""
    swapped = {"when is ": "Where is ", "when was ": "Where was ", "where is ": "When is ", "where was ": "When was "}
    for question in reversed(past):
        for opening, other in swapped.items():
            if question.casefold().startswith(opening):
                yield Prediction(other + question[len(opening) :], "history", "where-too", 0.2)


def _distinct(found: Sequence[Prediction]) -> list[Prediction]:
    """Return each question once, the most probable first."""
    best = dict[str, Prediction]()
    for one in sorted(found, key=lambda each: -each.probability):
        best.setdefault(one.question.casefold(), one)
    return list(best.values())
