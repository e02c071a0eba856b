"""What a pronoun may mean: the persons, things, places and times of the questions and answers before it.

The nearest is taken: of one turn the answer before the question, and what the question names first.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime

from engine.ask.phrases import (
    DETERMINER,
    PREPOSITION,
    asks_for_subject,
    bare,
    dated,
    noun_of,
    phrases,
    take_apart,
    topic,
)
from engine.ask.question import Question, understand

BACK = 3  # turns
_MEASURES = frozenset(("time", "day", "date", "week", "month", "year", "hour", "kind", "sort", "type", "number", "way"))
_TOGETHER = re.compile(r"\b[A-Z]\w+(?:, [A-Z]\w+)*,? and [A-Z]\w+")


@dataclass(frozen=True, slots=True)
class Turn:
    """A question that stands alone and its answer; `focus` is what was asked for, in few words, empty if not known."""

    asked: str
    answer: str | None = None
    focus: str = ""

    @property
    def question(self) -> Question:
        """Give the question understood; on which day does not matter to its names and kind."""
        return understand(self.asked, datetime(2000, 1, 1))

    @property
    def kind(self) -> str:
        """Give what was asked for: a date, a person."""
        return self.question.asked

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Give where the question's names stand."""
        found = ((self.asked.find(name), name) for name in self.question.names)
        return sorted((start, start + len(name)) for start, name in found if start >= 0)

    @property
    def named(self) -> str:
        """Give the name that was the answer."""
        return self.focus if self.kind == "person" and self.focus[:1].isupper() else ""

    @property
    def people(self) -> list[str]:
        """Give who may be meant, the likeliest first: names that no place or day is told by."""
        free = [
            self.asked[start:end]
            for start, end in self.spans
            if not re.search(r"\b(?:in|at|from|near|on|to) $", self.asked[:start], re.IGNORECASE)
        ]
        return [re.sub(r"['’]s$", "", name) for name in (self.named, *free) if name]

    @property
    def _chosen(self) -> str:
        """Give what a question for one of a kind asked for: The Anchor, or else the hotel, of "which hotel"."""
        parts = take_apart(self.asked)
        noun = noun_of(parts.asking) if parts and re.match("which|what", parts.asking, re.IGNORECASE) else ""
        if not noun or noun.endswith("s") or noun.split()[-1] in _MEASURES:
            return ""
        return self.focus if self.focus[:1].isupper() else f"the {noun}"

    @property
    def things(self) -> list[str]:
        """Give what may be meant, the likeliest first."""
        line, parts = bare(self.asked), take_apart(self.asked)
        found = [self._chosen, topic(self.asked), *(line[start:end] for start, end in phrases(line))]
        if parts and (noun := noun_of(parts.asking)):
            ways = re.search(rf" {PREPOSITION} .*", f" {parts.rest}") if asks_for_subject(parts) else None
            found.append((noun if noun.endswith("s") else f"the {noun}") + (ways[0] if ways else ""))
        return [one for one in found if one]


def person(turns: Sequence[Turn]) -> str:
    """Give who is meant by he or she; empty where nobody was named."""
    return next((name for turn in _back(turns) for name in turn.people), "")


def plural(turns: Sequence[Turn]) -> str:
    """Give who or what is meant by they: several people, things in the plural, a group by its name."""
    for turn in _back(turns):
        named = turn.people[1:] if turn.named else turn.people
        others = [name for name in turn.question.names if name not in turn.people]
        many = [one for one in turn.things if re.search(r"[^s]s$", _head(one))]
        if _TOGETHER.search(turn.focus) or (turn.focus[:1].isupper() and turn.kind == "other"):
            return turn.focus
        if len(named) > 1 or many:
            return " and ".join(named) if len(named) > 1 else many[-1]
        if named and others:
            return others[0]
    return person(turns[-1:]) or thing(turns)


def thing(turns: Sequence[Turn]) -> str:
    """Give what is meant by it."""
    for turn in _back(turns):
        if turn.things:
            return turn.things[0]
        if turn.focus and turn.kind == "other":
            return turn.focus if re.match(rf"{DETERMINER} |[A-Z]", turn.focus) else f"the {turn.focus}"
        parts = take_apart(turn.asked)
        if parts and parts.rest in turn.question.names and not parts.asking.lower().startswith("who"):
            return parts.rest
    return ""


def place(turn: Turn) -> str:
    """Give what is meant by there, with its preposition."""
    if turn.kind == "place" and turn.focus:
        return turn.focus if re.match(rf"{PREPOSITION} ", turn.focus, re.IGNORECASE) else f"at {turn.focus}"
    for start, end in turn.spans:
        if found := re.search(r"\b(?:in|at|near) $", turn.asked[:start], re.IGNORECASE):
            return turn.asked[found.start() : end]
    return f"at {turn.things[0]}" if turn.things else ""


def time(turn: Turn, today: date) -> str:
    """Give what is meant by then, with its preposition."""
    if turn.kind in ("date", "time") and turn.focus:
        led = re.match(rf"(?:{PREPOSITION}|last|next|this) ", turn.focus, re.IGNORECASE)
        return turn.focus if led else f"{'on' if turn.kind == 'date' else 'at'} {turn.focus}"
    found = dated(turn.asked, today)
    return turn.asked[slice(*found)] if found else ""


def _head(phrase: str) -> str:
    """Give the noun of a phrase."""
    return re.split(rf" {PREPOSITION}\b", phrase, maxsplit=1, flags=re.IGNORECASE)[0].split(" ")[-1]


def _back(turns: Sequence[Turn]) -> list[Turn]:
    return list(reversed(turns))[:BACK]
