"""What speaks for each sentence of the sources as an answer.

Compares words, speakers and kinds of spans: knows no model and no corpus beyond the sources it is given.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from engine.ask.about import about, named
from engine.ask.moments import resolve
from engine.ask.occasion import Occasion
from engine.ask.overlap import coverage, idf_of
from engine.ask.question import Question
from engine.ask.sentences import Span, sentences
from engine.ask.spans import Found, Kind, find
from engine.ask.words import words

_TASK = (
    "summarize summarise summary describe discuss discussing discussion explain mention say said tell talk think "
    "thought opinion attitude view conclude conclusion decide decision reason according regarding group team meeting "
    "email mail message subject sent wrote person people phone telephone number address want now currently"
)
_ASIDE = re.compile(
    r"\[|>|(?:re|aw|fwd?|from|to|cc|subject|date|sent):\s|on .{6,80}\bwrote:|.{2,60}\bwrites?:$", re.IGNORECASE
)
_TITLE = re.compile(r"(?:#{1,6} )?[A-Z][^\s\d|]{0,40}(?:\s[^\s\d|]{1,40}){0,7}(?<![.,;:!?…])")
_REQUEST = re.compile(r"\bplease\b|\b(?:could|can|would|will) (?:you|someone|somebody|everyone)\b", re.IGNORECASE)
WISH = re.compile(r"\b(?:wants?|asks?|asked|needs?|expects?|tells?|told|like) (?:me|us) to\b", re.IGNORECASE)
_FIELDS = frozenset(["what", "event", "subject", "title", "invitation"])  # of an invitation: they name what follows
_PLACES = frozenset(["where", "location", "place", "venue", "ort", "lieu"])
TASK_WORDS = frozenset(words(_TASK))  # say what to do with an answer, not what it is about


@dataclass(frozen=True, slots=True)
class Read:
    """One source as it was read, `number` its rank from 0; its text may name speakers at the start of lines."""

    header: str
    text: str
    date: datetime | None
    sender: str
    score: float
    number: int
    recipients: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Weights:
    """What each clue counts for in the choice of a sentence; fitted on public sets, see docs/log.md."""

    overlap: float = 2.0  # share, by idf, of the question's words in the sentence
    source: float = 1.0  # score of its source beside the best source's
    reply: float = 0.6  # share of the question's words in a question that it follows
    question: float = -1.0
    length: float = 0.5  # at 60 words and more
    kind: float = 2.0  # holds a span of the kind asked for
    capital: float = 0.7  # the same for places and persons, which are told by little but a capital
    request: float = 1.5  # asks for something, where the question is what somebody wants of whom it is put by
    day: float = 0.8  # its source is of a day that the question names
    aside: float = -2.0  # in brackets, not spoken; quoted from another mail; a line of its header
    near: float = 0.6  # share of the question's words in the sentence before


@dataclass(frozen=True, slots=True)
class Candidate:
    """One sentence of the source at index `read`; `spans` are offsets in `text` of what the question may ask for."""

    read: int
    place: int  # its number among the sentences of the source
    span: Span
    text: str
    words: frozenset[str]
    speaker: str | None
    spans: tuple[Found, ...]
    day: bool | None = None  # of a day that the question names (True), of another (False), unknown (None)
    about: bool | None = None  # whom the question names (True), somebody else (False), unknown (None)
    fit: float = 3.0  # share, by idf, of the question's words in it, and half of those before it
    score: float = 0.0


def content(question: Question) -> tuple[str, ...]:
    """Give the words of the question that say what it is about."""
    return tuple(word for word in question.content if word not in TASK_WORDS) or question.content


def candidates(
    question: Question, reads: Sequence[Read], kind: Kind | None, when: Occasion, weights: Weights
) -> list[Candidate]:
    """Give every sentence of the sources, scored, in their order."""
    best = max((read.score for read in reads), default=0.0)
    of_kind = weights.capital if kind in ("place", "person") else weights.kind
    found = [_read(question, read, index, kind, when) for index, read in enumerate(reads)]
    names = named(question)
    persons = speaking(names, [one for each in found for one in each]) or names
    found = [[_attributed(one, names, persons) for one in each] for each in found]
    if kind:
        found = [
            [replace(one, words=one.words | _title(question, each, i)) for i, one in enumerate(each)] for each in found
        ]
    idf = idf_of(content(question), [one.words for each in found for one in each])
    scored, wishes = list[Candidate](), WISH.search(question.text) is not None
    for read, each in zip(reads, found, strict=True):
        start, of_day = weights.source * (read.score / best if best > 0 else 0.0), is_of_day(question, read)
        for place, one in enumerate(each):
            before = each[place - 1] if place else None
            fit = (coverage(idf, one.words) + coverage(idf, one.words | before.words if before else one.words)) / 2
            asks = weights.request * (wishes and _REQUEST.search(one.text) is not None and one.about is not False)
            day = weights.day * (of_day or one.day is True)
            score = start + day + asks + of_kind * bool(one.spans) + _clues(one, before, idf, weights)
            scored.append(replace(one, fit=fit, score=score))
    return scored


def _read(question: Question, read: Read, index: int, kind: Kind | None, when: Occasion) -> list[Candidate]:
    found, of_day = list[Candidate](), is_of_day(question, read)
    for place, span in enumerate(sentences(read.text)):
        text = read.text[span.start : span.end]
        parts = find(text, kind) if kind else []
        if kind == "place" and (span.speaker or "").lower() in _PLACES:
            parts = [Found(0, len(text))]
        spans = tuple(
            one for one in parts if kind and _may_answer(text[one.start : one.end], question, read, kind, when)
        )
        speaker = span.speaker or read.sender or None
        day = None if of_day else when.spoken(text, read.date)  # of that day is all that a source of it says
        found.append(Candidate(index, place, span, text, when.told(text, day), speaker, spans, day))
    return found


def speaking(names: frozenset[str], found: Sequence[Candidate]) -> frozenset[str]:
    """Give the names that are speakers here: "Ann" in "What did Ann buy in Oslo?"."""
    speakers = {one.speaker for one in found if one.speaker}
    return names & frozenset(word for speaker in speakers for word in words(speaker))


def _attributed(one: Candidate, names: frozenset[str], persons: frozenset[str]) -> Candidate:
    who = frozenset(words(one.speaker or ""))
    whom = about(one.text, one.words, who, persons) if persons and who else None
    return replace(one, words=one.words | (who & names), about=whom)


def _title(question: Question, each: Sequence[Candidate], place: int) -> frozenset[str]:
    """Give the words of a line that stands as a title above a sentence: "Dress rehearsal" over "Friday, 18:00"."""
    back = 2 if place > 1 and (each[place].span.speaker or "").lower() in _PLACES else 1
    above = each[place - back] if place else None
    if above is None or (above.span.speaker or "what").lower() not in _FIELDS:
        return frozenset()
    if not _TITLE.fullmatch(above.text) or _ASIDE.match(above.text):
        return frozenset()
    # "Dress rehearsal, summer concert" is neither the rehearsal nor the concert.
    return above.words if 2 * len(above.words & set(question.words)) > len(above.words) else frozenset()


def _may_answer(span: str, question: Question, read: Read, kind: Kind, when: Occasion) -> bool:
    """Leave out what only repeats the question, and "last week" or "in March" gone by where it asks how things are."""
    said = words(span)
    if not said or set(said) <= set(question.words):
        return False
    if kind != "date" or read.date is None:
        return True
    if when.words and not is_of_day(question, read) and when.meets(span, read.date) is False:
        return False
    if not question.current or any(map(str.isdigit, span)):
        return True
    days = resolve(span, read.date)
    return days is None or days.last >= read.date.date()


def is_of_day(question: Question, read: Read) -> bool:
    """Tell whether a source is of a day that the question names."""
    return read.date is not None and any(days.holds(read.date.date()) for days in question.dates)


def _clues(one: Candidate, before: Candidate | None, idf: Mapping[str, float], weights: Weights) -> float:
    clues = (
        (weights.overlap, coverage(idf, one.words)),
        (weights.reply, coverage(idf, before.words) if before and before.text.endswith("?") else 0.0),
        (weights.question, one.text.rstrip("\"”')*] ").endswith("?") and not _REQUEST.search(one.text)),
        (weights.length, min(len(one.text.split()), 60) / 60),
        (weights.aside, _ASIDE.match(one.text) is not None),
        (weights.near, coverage(idf, before.words) if before and not before.text.endswith("?") else 0.0),
    )
    return sum(weight * clue for weight, clue in clues)
