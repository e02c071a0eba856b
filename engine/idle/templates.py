"""The forms of somebody's own questions: what stays the same while a name or a title changes, and what may stand there.

"Who is Ann?" and "Who is Bob?" are one form. Knows questions and the chunks that could answer one; asks no model.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from engine.ask.extract import wanted
from engine.ask.keys import normalise
from engine.idle.predict import Prediction
from engine.idle.summarize import correspondents, named
from engine.text.question import understand
from engine.text.spans import Kind, find
from engine.text.words import FUNCTION_WORDS, words
from store.hits import Hit

Slot = Literal["name", "title"]
_ANY_DAY = datetime(2000, 1, 1, tzinfo=UTC)  # the wording alone is read
_LEAST = 2  # different names that a form was asked with
_LONGEST_TITLE = 100
_IN_SIGHT: tuple[Kind, ...] = ("email", "phone", "link", "amount")  # what cannot be answered without such a thing


@dataclass(frozen=True, slots=True)
class QuestionForm:
    """A question with a slot; `asked` are the names it was asked with, `share` how much of all questions it is."""

    before: str
    after: str
    slot: Slot
    asked: frozenset[str]  # normalised
    share: float

    def filled(self, filler: str) -> str:
        """Return the question about something else."""
        return f"{self.before}{filler}{self.after}"


def forms(questions: Sequence[str]) -> list[QuestionForm]:
    """Learn the forms that were asked with several names, the most frequent first."""
    found = defaultdict[tuple[str, str, Slot], list[tuple[str, str, str]]](list)
    for question in questions:
        for before, filler, after, slot in _slots(question):
            found[normalise(before + "x")[:-1], normalise(after), slot].append((before, filler, after))
    learnt = list[QuestionForm]()
    for (_, _, slot), uses in found.items():
        asked = frozenset(normalise(filler) for _, filler, _ in uses)
        if len(asked) >= _LEAST:
            before, _, after = uses[-1]
            learnt.append(QuestionForm(before, after, slot, asked, len(uses) / len(questions)))
    return sorted(learnt, key=lambda form: (-form.share, form.before, form.after))


def fillers(hit: Hit, slot: Slot, names: Sequence[str]) -> list[str]:
    """Return what could stand in a slot by a chunk: its people and those of the names asked about that it holds."""
    if slot == "title":
        title = " ".join(hit.title.split())
        return [title] if 2 < len(title) <= _LONGEST_TITLE and hit.chunk.position == 0 else []
    text = f" {' '.join(words(hit.chunk.text))} "
    known = [name for name in names if f" {' '.join(words(name))} " in text]
    return list(dict.fromkeys([*correspondents(hit), *named(hit), *known]))


def may_answer(form: QuestionForm, filler: str, hit: Hit) -> bool:
    """Return whether a chunk could answer a form about something: it says what else is asked, and has such a thing."""
    kind = wanted(understand(form.filled(filler), _ANY_DAY))
    if kind == "email":
        return _has_address(filler, hit)
    if kind in _IN_SIGHT:
        return kind is not None and _beside(filler, kind, hit.chunk.text)
    return True


def names_of(questions: Sequence[str]) -> list[str]:
    """Return the names that were asked about, each once."""
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
    """Return whether an address in sight is that of a person, by the letters of the name."""
    text = "\n".join([hit.sender, *hit.recipients, hit.chunk.text])
    parts = [word for word in filler.casefold().split() if len(word) > 2]
    addresses = [text[one.start : one.end].partition("@")[0].casefold() for one in find(text, "email")]
    return any(part in address for part in parts for address in addresses)


def _beside(filler: str, kind: Kind, text: str) -> bool:
    place = text.find(filler.split()[-1])
    near = text[max(0, place - 200) : place + 300] if place >= 0 else ""
    return bool(find(near, kind))


SOURCES = ("history/form", "history/where-too")
_FORMS = 20  # that are filled in
_NEWEST = 0.3  # that the newest chunk promises more than the last one


def from_forms(hits: Sequence[Hit], past: Sequence[str]) -> list[Prediction]:
    """Return what the user asked before of something else, asked of chunks, which come newest first."""
    names, found = names_of(past), list[Prediction]()
    learnt = forms(past)[:_FORMS]
    for place, hit in enumerate(hits):
        held = {slot: fillers(hit, slot, names) for slot in dict.fromkeys(form.slot for form in learnt)}
        for form in learnt:
            promise = form.share * (1 - _NEWEST * place / len(hits))
            for rank, filler in enumerate(held[form.slot]):
                if may_answer(form, filler, hit):
                    found.append(Prediction(form.filled(filler), "history", "form", promise / (1 + rank / 10)))
    return _distinct([*found, *_where_too(past)])


def _where_too(past: Sequence[str]) -> Iterator[Prediction]:
    """Yield where something is for each question when it is, and the other way round."""
    turned = {"when is ": "Where is ", "when was ": "Where was ", "where is ": "When is ", "where was ": "When was "}
    for question in reversed(past):
        for opening, other in turned.items():
            if question.casefold().startswith(opening):
                yield Prediction(other + question[len(opening) :], "history", "where-too", 0.2)


def _distinct(found: Sequence[Prediction]) -> list[Prediction]:
    """Return each question once, as the one that promises most, best first."""
    best = dict[str, Prediction]()
    for one in sorted(found, key=lambda each: -each.promise):
        best.setdefault(one.question.casefold(), one)
    return list(best.values())
