"""The sentences of the sources that may answer, scored by words and by the kind of span that is asked for.

The scores choose where no reader does. Knows no corpus beyond the sources that it is given.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import log
from typing import TYPE_CHECKING

from engine.ask.normal_form import plain
from engine.ask.time_constraints import COMING, TimeConstraint, is_of_day
from engine.text.commitments import instruction_end
from engine.text.question import Question
from engine.text.relative_dates import resolve
from engine.text.sentences import Span
from engine.text.spans import Found, Kind, find, time_of
from engine.text.words import words
from engine.types import Passage

if TYPE_CHECKING:
    from engine.models.reader import Mark

ME = frozenset(["i", "me", "my", "mine", "myself", "we", "us", "our", "ours"])
YOU = frozenset(["you", "your", "yours", "yourself"])


def named(question: Question) -> frozenset[str]:
    """Return the words of the names in a question."""
    return frozenset(word for name in question.names for word in words(name))


def share(wanted: Sequence[str], held: frozenset[str]) -> float:
    """Return the share of the wanted words that are among those held."""
    return sum(word in held for word in wanted) / len(wanted) if wanted else 0.0


def idf_of(wanted: Sequence[str], said: Sequence[frozenset[str]]) -> dict[str, float]:
    """Return the inverse frequency of each wanted word over sentences."""
    counts = {word: sum(word in each for each in said) for word in wanted}
    return {word: log(1 + (len(said) - count + 0.5) / (count + 0.5)) for word, count in counts.items()}


def coverage(idf: Mapping[str, float], said: frozenset[str]) -> float:
    """Return the share of the wanted words, by idf, that were said."""
    total = sum(idf.values())
    return sum(value for word, value in idf.items() if word in said) / total if total > 0 else 0.0


_TASK = (
    "summarize summarise summary describe discuss discussing discussion explain mention say said tell talk think "
    "thought opinion attitude view conclude conclusion decide decision reason according regarding group team meeting "
    "email mail message subject sent wrote person people phone telephone number address want now currently moment"
)
_ASIDE = re.compile(
    r"\[|>|(?:re|aw|fwd?|from|to|cc|subject|date|sent):\s|on .{6,80}\bwrote:|.{2,60}\bwrites?:$", re.IGNORECASE
)
# A line between a message and one that it quotes.
_SEPARATOR = re.compile(r"[\W_]*(?:(?:original|forwarded) message|forwarded by\b.*)?[\W_]*", re.IGNORECASE | re.DOTALL)
_REQUEST = re.compile(r"\bplease\b|\b(?:could|can|would|will) (?:you|someone|somebody|everyone)\b", re.IGNORECASE)
WISH = re.compile(r"\b(?:wants?|asks?|asked|needs?|expects?|tells?|told|like) (?:me|us) to\b", re.IGNORECASE)
_MEETING = frozenset(words("meeting"))
TASK_WORDS = frozenset(words(_TASK))  # say what to do with an answer, not what it is about


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
    score: float = 0.0
    written: datetime | None = None  # with its source, or as the message that the source quotes there
    begins: datetime | None = None  # the soonest of what is to come, where the next of something is asked for
    mark: "Mark | None" = None  # of the reader, in the passage

    @property
    def marked(self) -> str:
        """Return what the reader marked in it, else all of it."""
        return self.text[slice(*self.highlight)]

    @property
    def highlight(self) -> tuple[int, int]:
        """Return the offsets in it of what the reader marked, else its own."""
        at = self.span.start
        return (self.mark.start - at, self.mark.end - at) if self.mark else (0, len(self.text))


def content(question: Question) -> tuple[str, ...]:
    """Return the words of the question that say what it is about."""
    empty = TASK_WORDS
    if question.asked in COMING:  # a meeting has a day and a place; what was said at one is another matter
        empty = empty - _MEETING
    return tuple(word for word in question.content if word not in empty) or question.content


def candidates(
    question: Question, reads: Sequence[Passage], kind: Kind | None, when: TimeConstraint
) -> list[Candidate]:
    """Return every sentence of the sources, scored, in their order."""
    names = named(question)
    found = [
        [replace(one, words=one.words | (names & {*words(one.speaker or "")})) for one in own]
        for own in (_read(question, read, i, kind, when) for i, read in enumerate(reads))
    ]
    idf = idf_of(content(question), [one.words for each in found for one in each])
    best, scored = max((read.score for read in reads), default=0.0) or 1.0, list[Candidate]()
    for read, each in zip(reads, found, strict=True):
        for place, one in enumerate(each):
            before = each[place - 1].words if place else frozenset[str]()
            own, near = coverage(idf, one.words), coverage(idf, before)
            of_kind = bool(one.spans) * (_CAPITAL if kind in ("place", "person") else _OF_KIND)
            day = _OF_DAY * (is_of_day(question, one.written) or one.day is True)
            score = _SOURCE * read.score / best + _WORDS * own + _NEAR * near + of_kind + day - asks(one.text)
            scored.append(replace(one, score=score - _ASIDE_LESS * bool(_ASIDE.match(one.text))))
    return scored


# What each sign counts for: the score of the source, words of the question in a sentence and in the one before it, a
# span of the kind asked for (told by little but a capital for places and persons), a day that the question names.
_SOURCE, _WORDS, _NEAR, _OF_KIND, _CAPITAL, _OF_DAY, _ASIDE_LESS = 2.0, 2.0, 0.6, 2.0, 0.7, 0.8, 2.0


def _read(question: Question, read: Passage, index: int, kind: Kind | None, when: TimeConstraint) -> list[Candidate]:
    found, whole = list[Candidate](), read.text
    for place, span in enumerate(read.sentences()):
        span = replace(span, start=span.start + instruction_end(whole[span.start : span.end]))
        text, written = whole[span.start : span.end], read.written_at(span.start)
        if _SEPARATOR.fullmatch(text) or read.is_outranked(span.start):
            continue
        parts = find(text, kind) if kind else []
        spans = tuple(
            one for one in parts if kind and _may_answer(text[one.start : one.end], question, written, kind, when)
        )
        speaker, label = _speaker(read, span)
        soonest = when.soonest(text, written)
        if soonest and kind in ("date", "time"):
            said = soonest.span if kind == "date" else time_of(text, soonest.span)
            spans = (said,) if said else ()
        # All that was written on that day is of it.
        day = None if is_of_day(question, written) else when.spoken(text, written)
        begins = soonest.begins if soonest else None
        told = (when.told(text, day) | frozenset(words(label)), speaker, spans, day)
        found.append(Candidate(index, place, span, text, *told, begins=begins, written=written))
    return found


def _speaker(read: Passage, span: Span) -> tuple[str | None, str]:
    """Return who says a sentence; and the name in front of it, where that only says so.

    In a mail anybody can write "Ann:" in front of a line, and what it quotes or forwards is not its sender's.
    """
    if read.is_meeting:
        return span.speaker or (None if read.recipients else read.sender) or None, ""
    author, label = read.author_at(span.start), span.speaker or ""
    is_own = not label or set(words(label)) <= set(words(author))
    return (author or None, "") if is_own else (None, label)


def speaking(names: frozenset[str], found: Sequence[Candidate]) -> frozenset[str]:
    """Return the names in a question that also speak in the candidates, such as "Ann" in "What did Ann buy?"."""
    speakers = {one.speaker for one in found if one.speaker}
    return names & frozenset(word for speaker in speakers for word in words(speaker))


def _may_answer(span: str, question: Question, written: datetime | None, kind: Kind, when: TimeConstraint) -> bool:
    """Leave out what only repeats the question, and "last week" or "in March" gone by where it asks how things are."""
    said = words(span)
    if not said or set(said) <= set(question.words):
        return False
    if kind != "date" or written is None:
        return True
    if when.words and not is_of_day(question, written) and when.meets(span, written) is False:
        return False
    if not question.current or any(map(str.isdigit, span)):
        return True
    days = resolve(span, written)
    return days is None or days.last >= written.date()


def asks(text: str) -> bool:
    """Return whether a sentence asks, and does not ask somebody to do something."""
    return text.rstrip("\"”')*] ").endswith("?") and not _REQUEST.search(text)


_WORDING: tuple[tuple[Kind, str], ...] = (
    ("email", r"e-?mail address(?:es)?|address\w* .*\be-?mail"),
    (
        "phone",
        r"(?:what(?:['’]s| is| are| was)?|which|find|give me)(?: [\w'’.]+){0,4}"
        r" (?:phone|telephone|fax|cell|mobile|pager|dial-?in) (?:numbers?|no)|numbers? to (?:call|join|dial)"
        r"|(?:his|her|their) (?:\w+ )?(?:phone|telephone|fax|cell|mobile)",
    ),
    ("duration", r"how long(?! ago)|how many (?:\w+ )?(?:minutes|hours|days|weeks|months|years)"),
    ("date", r"what(?:['’]s| is| was) (?:[\w'’.-]+ ){1,5}date(?= ?\?|$)"),
    (
        "link",
        r"url|hyperlink|(?:what(?:['’]s| is| was| are)?|which|where is|find|give me|send me)"
        r"(?: (?!(?:for|of|on|to|in|at)\b)[\w'’.]+){0,4} (?:links?|web ?sites?|web page|web address)",
    ),
)
_KINDS = tuple((kind, re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE)) for kind, pattern in _WORDING)
# In a plain form, what somebody has: "what is Ann's email", "the phone of Ann"; but not "the subject of Ann's email".
_OWNED = (
    r"what(?:['’]s| is| was| be)(?: (?!(?:of|in|from|to|about|on|for|with|than|wrong)\b)\S+)*"
    r" (?:\S+['’]s?|my|his|her|their|our) {0}\W*\Z"
    r"|what(?:['’]s| is| be) (?:the )?{0} of\b(?!.*\b(?:about|from)\b)|how .*\b(?:reach|contact) .*\bby {0}\W*\Z"
)
_NOUNS: tuple[tuple[Kind, str], ...] = (("email", "email"), ("phone", "(?:phone|mobile|cell)(?: number)?"))
_CONTACTS = tuple((kind, re.compile(_OWNED.format(noun), re.IGNORECASE)) for kind, noun in _NOUNS)
_DEFINITION = re.compile(r"\s*[Ww]ho(?:['’]s| is| are| was| were)\s+[A-Z][\w.,'’ -]*\?*\s*$")


def wanted(question: Question) -> Kind | None:
    """Return which kind of span a question asks for, if any."""
    for kind, pattern in _KINDS:
        if pattern.search(question.text):
            return kind
    form = plain(question.text)
    if contact := next((kind for kind, pattern in _CONTACTS if pattern.match(form)), None):
        return contact
    asked = question.asked
    if asked == "yes/no" or asked == "other" or (asked == "person" and _DEFINITION.match(question.text)):
        return None
    return asked
