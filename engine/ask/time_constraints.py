"""Time constraints: whether a sentence speaks of the days that a question asks about, or of the next of something.

Knows questions and texts; no sources.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time

from engine.text.dates import WEEKDAYS, Days
from engine.text.question import NEXT, Question
from engine.text.relative_dates import resolve
from engine.text.spans import MONTH, WEEKDAY, WHICH, Found, Kind, clock_time, find, time_of
from engine.text.words import FUNCTION_WORDS, words

_SOME_DAY = rf"(?:\d|{MONTH}|{WEEKDAY}|{WHICH}\b|today|tonight|tomorrow|yesterday)"
_NEXT = re.compile(r"\b(?:next|upcoming|coming)\b", re.IGNORECASE)  # in a text
COMING = ("date", "time", "place")  # what is asked for of an occasion that is the next
# From Monday to Friday, Monday-Friday: days of every week.
_WEEKLY = re.compile(rf"{WEEKDAY}\s*(?:to|through|until|till|-|–)\s*{WEEKDAY}", re.IGNORECASE)
# What is asked about lies on one side of the day that the question names.
_BOUNDED = re.compile(
    rf"\b(?:after|before|since|until|till)\s+(?:\w+\s+){{0,4}}?{_SOME_DAY}|\b(?:from|by)\s+{_SOME_DAY}", re.IGNORECASE
)
_CALLED_OFF = re.compile(
    r"\b(?:cancel(?:l?ed|ling|s)?|called off|postponed|abgesagt|annul(?:é|ée|lé))\b", re.IGNORECASE
)
_MOVED = re.compile(
    r"\b(?:mov|chang|shift|reschedul|postpon|put|brought|goe)\w*\b.{0,60}?\b(?:to|until)\s", re.IGNORECASE
)
_ENDS = re.compile(r"\b(?:until|till|to|by|through|before)\s+\Z", re.IGNORECASE)  # a day to which something goes on
_WEEKLY_DAY = re.compile(r"\b(mon|tues|wednes|thurs|fri|satur|sun)days\b", re.IGNORECASE)
_CAPITAL = re.compile(rf"(?!{MONTH}|(?:in|during|since|until|by|of)\b)(?-i:[A-Z])[\w.'’-]*\s+\Z", re.IGNORECASE)
_DIGIT = re.compile(r"\d")


@dataclass(frozen=True, slots=True)
class TimeConstraint:
    """The days that a question is about, the words by which it names them, and what else it is about.

    `claimed` are words of a date that is to be confirmed: another date tells as much about it.
    """

    days: tuple[Days, ...]
    words: frozenset[str]
    about: frozenset[str]
    claimed: frozenset[str] = frozenset()
    coming: bool = False  # the next of something
    clock: datetime | None = None  # local; what begins before is no longer the next

    def spoken(self, text: str, written: datetime | None) -> bool | None:
        """Return whether a text speaks of these days (True) or of others alone (False); None if it is not known."""
        if not self.words or written is None:
            return None
        met = [self._met(text, one, written) for one in find(text, "date")]
        if any(met):
            return True
        return None if False not in met or _WEEKLY.search(text) else False

    def _met(self, text: str, span: Found, written: datetime) -> bool | None:
        """Return the same of one date in a text, whose time of day may have passed."""
        return self.meets(text[span.start : span.end], written) and not self._has_begun(text, span, written)

    def _has_begun(self, text: str, span: Found, written: datetime) -> bool:
        begins = _begins(text, span, written)
        return bool(self.clock and begins and begins.time() != time.min and begins < self.clock)

    def soonest(self, text: str, written: datetime | None) -> "Occurrence | None":
        """Return the first of the occurrences in a text that are to come; None if it names none, or calls it off."""
        if not self.coming or written is None or _CALLED_OFF.search(text):
            return None
        spans = [
            one for one in find(text, "date") if self._met(text, one, written) and not _ENDS.search(text[: one.start])
        ]
        moved = _MOVED.search(text)
        spans = [one for one in spans if moved is None or one.start >= moved.end()] or spans
        found = [Occurrence(begins, one) for one in spans if (begins := _begins(text, one, written))]
        return min(found, key=lambda one: one.begins, default=None)

    def meets(self, span: str, written: datetime) -> bool | None:
        """Return whether a date in a text of that time may be of these days; None if it is wider or not clear."""
        if days := _WEEKLY_DAY.findall(span):
            return self._recurs([WEEKDAYS.index(f"{day.lower()}day") for day in days])
        pairs = [(asked, said) for said in _meant(span, written) for asked in self.days]
        if any(asked.holds(said.first) and asked.holds(said.last) for asked, said in pairs):
            return True
        return False if pairs and not any(_meet(*pair) for pair in pairs) else None

    def _recurs(self, weekdays: Sequence[int]) -> bool | None:
        """Return whether one of these days, of every week, is among the days; None if they are more than a week.

        What is so every week is no news of a day that is asked about as such.
        """
        if any(asked.yearly or (asked.last - asked.first).days > 6 for asked in self.days):
            return None
        return bool(self.about) and any(
            (day - asked.first.weekday()) % 7 <= (asked.last - asked.first).days
            for asked in self.days
            for day in weekdays
        )

    def told(self, text: str, spoken: bool | None) -> frozenset[str]:
        """Return words of a text, these days named in it as the question does, or not named if it spoke of others."""
        said = frozenset(words(text))
        if self.claimed:
            said = said | self.claimed if find(text, "date") else said - self.claimed
        if spoken is False or (self.coming and not self._is_next(text)):
            return said - self.words
        return said | self.words if spoken and not self.coming else said

    def _is_next(self, text: str) -> bool:
        """Whether a text speaks of the next of what was asked: neither of the next week nor of another matter."""
        rest = _undated(text)
        behind = (rest[one.end() : one.end() + 60].split()[:3] for one in _NEXT.finditer(rest))
        return any(self.about.intersection(words(" ".join(each))) for each in behind)


@dataclass(frozen=True, slots=True)
class Occurrence:
    """When something takes place, in local time (midnight where only the day is known), and where a text says so."""

    begins: datetime
    span: Found


def _begins(text: str, span: Found, written: datetime) -> datetime | None:
    """Return when what a text dates begins; a day without a time begins at midnight."""
    days = resolve(text[span.start : span.end], written)
    if days is None:
        return None
    said = time_of(text, span)
    return datetime.combine(days.first, (clock_time(text[said.start : said.end]) if said else None) or time.min)


NONE = TimeConstraint((), frozenset(), frozenset())


def time_constraint(question: Question, kind: Kind | None, since: date | None = None) -> TimeConstraint:
    """Return the days that a question names; for the next of something, all from the day on that asks, or `since`."""
    if question.dates:
        return NONE if _BOUNDED.search(question.text) else _named(question)
    coming = NEXT.search(question.text) if (kind or question.asked) in COMING else None
    if coming is None:
        return NONE
    named = frozenset(words(coming.group().split()[-1]))
    days, clock = Days(since or question.day, date.max), None
    if question.clock and since is None:
        clock = question.clock.replace(tzinfo=None)
    return TimeConstraint((days,), named, frozenset(question.content) - named, coming=True, clock=clock)


def _named(question: Question) -> TimeConstraint:
    """Return the days that a question names; "is the fair on 22 June?" claims one, "is it tomorrow?" asks about one."""
    stretches = [question.text[one.start : one.end] for one in find(question.text, "date") if _is_time(question, one)]
    claims = [question.asked == "yes/no" and _DIGIT.search(one) is not None for one in stretches]
    named, claimed = (
        frozenset(word for one, each in zip(stretches, claims, strict=True) if each is claim for word in words(one))
        - FUNCTION_WORDS
        for claim in (False, True)
    )
    return TimeConstraint(question.dates, named, frozenset(question.content) - named - claimed, claimed)


def _is_time(question: Question, span: Found) -> bool:
    """Tell a date from a part of a name: of a quoted title, or the number behind "Kite 2077"."""
    text = question.text[span.start : span.end]
    named = text.isdecimal() and _CAPITAL.search(question.text[max(0, span.start - 40) : span.start])
    return not named and not any(text in one for one in question.quoted)


def _undated(text: str) -> str:
    """Leave out dates: the next week is not the next of anything else."""
    found = find(text, "date")
    starts, ends = [0, *(one.end for one in found)], [*(one.start for one in found), len(text)]
    return " ".join(text[start:end] for start, end in zip(starts, ends, strict=True))


def _meant(span: str, written: datetime) -> Iterator[Days]:
    """Yield what a date may mean: a bare weekday may be the last or the next."""
    for past in (False, True):
        if days := resolve(span, written, past):
            yield days


def _meet(asked: Days, said: Days) -> bool:
    """Return whether two intervals share a day."""
    alike = replace(said, yearly=asked.yearly)
    return asked.holds(said.first) or asked.holds(said.last) or alike.holds(asked.first)


def is_of_day(question: Question, written: datetime | None) -> bool:
    """Return whether a text written then is of a day that the question names."""
    return written is not None and any(days.holds(written.date()) for days in question.dates)
