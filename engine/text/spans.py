"""Spans of a text that may answer a question of one type: a date, a place, a person, a number.

Pattern-based, English first. A span may be wrong, so callers show it with its sentence.
"""

import csv
import re
from collections.abc import Iterable, Sequence
from datetime import time
from functools import lru_cache
from itertools import pairwise, takewhile
from typing import Literal

from msgspec import Struct

from engine.text.dates import NEAR_DAY
from engine.text.words import Span
from prompts import prompt, word_patterns

Kind = Literal["date", "time", "duration", "place", "person", "number", "amount", "email", "phone", "link"]
LONGEST = 2000  # characters of a text that are searched

_LISTED = word_patterns("languages")
MONTH = rf"(?:{_LISTED['month']})\b\.?"
WEEKDAY = r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)days?|(?:mon|tues?|wed|thu(?:rs?)?|fri|sat|sun)\b\.?)"
_AHEAD = re.sub(r"\?P<\w+>", "?:", _LISTED["ahead"])
_FOREIGN_DAY, FOREIGN_PART = _LISTED["weekday"], _LISTED["part"]
_NAMED = rf"(?:{_FOREIGN_DAY}|{_LISTED['unit']})"
_FOREIGN_NEXT = rf"(?:{_LISTED['before']})\s+{_NAMED}\b|{_NAMED}\s+(?:{_LISTED['behind']})\b"
_WORD = f"(?:{_LISTED['count']})"
_WORDS = rf"{_WORD}(?:[\s-]{_WORD}){{0,3}}"
VAGUE = r"(?:an?\s+few|an?\s+couple(?:\s+of)?|several|many|some)"
COUNT = rf"(?:{VAGUE}|half\s+an?|an?|\d{{1,4}}|{_WORDS})"
UNIT = r"(?:second|minute|min|hour|hr|day|night|week|weekend|fortnight|month|quarter|semester|year|decade)s?\b"
SEASON = r"(?:spring|summer|autumn|fall|winter)"
PART = r"(?:morning|afternoon|evening|night)"
WHICH = r"(?:this\s+past|last|past|previous|this|next|coming|following)"
ORDINALS = _LISTED["ordinal"].split("|")
_ORDINAL = rf"(?:{'|'.join(ORDINALS)}|thirtieth|(?:twenty|thirty)[\s-](?:{'|'.join(ORDINALS[:9])}))"
# The weekday before a date: "next Tuesday, 13 February", "Thu 16 May", "Saturday the 22nd".
LEAD = rf"(?:(?:{WHICH}\s+)?(?:{WEEKDAY}|{_FOREIGN_DAY}),?\s+(?:(?:the|den|der|le)\s+)?)"
_DAY_NO, _MONTH_NO = r"(?:0?[1-9]|[12]\d|3[01])", r"(?:0?[1-9]|1[0-2])"
_DATE = (
    rf"{LEAD}?(?:\d{{4}}-\d\d-\d\d|\d{{1,2}}(?:st|nd|rd|th|\.)?\s+(?:of\s+)?{MONTH}(?:,?\s+\d{{4}})?"
    rf"|{_ORDINAL}\s+of\s+{MONTH}|{MONTH}\s+(?:the\s+)?(?:\d{{1,2}}(?:st|nd|rd|th)?(?![\d:])|{_ORDINAL})(?:,?\s+\d{{4}})?)"
    rf"|{LEAD}(?:\d{{1,2}}(?:st|nd|rd|th)|{_ORDINAL})\b"
    rf"|{MONTH},?\s+(?:of\s+)?\d{{4}}"
    rf"|(?:{_DAY_NO}/\d{{1,2}}|\d{{1,2}}/{_DAY_NO})(?:/(?:\d{{4}}|\d\d))?(?![\w%])"
    rf"|{_DAY_NO}\.{_MONTH_NO}\.(?:\d{{4}}|\d\d)?(?![\w%])|(?<=\b(?:am|on|by)\s){_DAY_NO}\.{_MONTH_NO}(?![\w%])"
    rf"|{WEEKDAY}(?:,\s+{WEEKDAY})*,?\s+(?:and|or)\s+{WEEKDAY}"
    rf"|the\s+day\s+(?:before\s+yesterday|after\s+tomorrow)|(?:{NEAR_DAY})\b(?:\s+(?:{PART}|{FOREIGN_PART}))?"
    rf"|{COUNT}\s+{UNIT}\s+(?:ago|back|later|from\s+now)|(?:in|within)\s+{COUNT}\s+{UNIT}"
    rf"|(?:(?:early|late|mid|end\s+of|beginning\s+of)[\s-]+)?{WHICH}\s+(?:(?:few|couple\s+of|{_WORD}|\d{{1,4}})\s+)?"
    rf"(?:{UNIT}|{WEEKDAY}|{PART}|{SEASON}|{MONTH})(?:\s+{PART})?"
    rf"|(?<=\bin\s)(?:(?:early|late|mid)[\s-]+)?{MONTH}|(?<=\bsince\s){MONTH}|(?<=\buntil\s){MONTH}|(?<=\bby\s){MONTH}"
    rf"|(?:{_FOREIGN_NEXT})(?:\s+(?:am\s+)?{_FOREIGN_DAY}\b)?|{WEEKDAY}(?:\s+{PART})?"
    rf"|{_FOREIGN_DAY}\b(?:\s+(?:{FOREIGN_PART}|(?:(?:de\sla|на|der)\s+)?(?:{_FOREIGN_NEXT})))?|(?<=\bon\s)the\s+(?:\d{{1,2}}(?:st|nd|rd|th)|{_ORDINAL})\b|(?:(?:the|in)\s+)?{SEASON}(?:\s+of)?\s+\d{{4}}|(?:19|20)\d\d(?![\w:-])"
)
_HOUR = rf"(?:\d{{1,2}}(?:[:.]\d\d)?|{_WORD})"
_CLOCK = (
    r"(?:(?<!\d)\d{3,4}(?=\s?[ap]m)|\d{1,2}(?:[:.]\d\d){0,2})\s*(?:[ap]\.?m\b\.?|o['’]clock|uhr\b|h\b)"
    r"|(?<![\d:.])\d{1,2}:\d\d(?::\d\d)?(?![\d:])"
    rf"|\bnoon\b|\bmidnight\b|(?<=\bat\s)(?:{_WORD}|\d{{1,2}})(?!\s*[\w%])|(?<=\baround\s)\d{{1,2}}(?!\s*[\w%,.:/-])|{_WORD}\s+o['’]clock"
)
_CAPITAL = r"[^\W\d_a-zß-ÿ][\w'’&-]*"
_SAINT = r"(?:(?:Mt|St|Ste|Ft|Pt)\.\s)"
_NAME = (
    rf"{_SAINT}{{0,2}}{_CAPITAL}(?:\s(?:{_SAINT}?{_CAPITAL}|[A-Z]\.|(?:de|von|van|der|la|of|the|and|&)\s{_CAPITAL}))*"
)
_FULL_NAME = rf"{_CAPITAL}(?:\s(?:{_CAPITAL}|[A-Z]\.|&\s{_CAPITAL}|(?:de|von|van|der|la)\s{_CAPITAL}))*"
_ROOM = (
    r"(?i:room|suite|floor|building|hall|gate)\s+[A-Z]?\d[\w-]*|\b[A-Z]{2,4}\s?\d{3,5}[a-z]?\b"
    r"|\b(?i:(?:the )?\d{1,3}(?:st|nd|rd|th)\s+floor\b)"
)
_STREET = rf"\d{{1,5}}\s(?:{_CAPITAL}\s){{1,4}}(?:St|Street|Ave|Avenue|Rd|Road|Blvd|Lane|Drive|Way|Plaza|Square)\b\.?"
_BUILDING = rf"(?:{_LISTED['building']})\b"
_CALENDAR = rf"(?i:{MONTH}|{WEEKDAY}|{SEASON}\b|{_FOREIGN_DAY}|{NEAR_DAY}|{_ORDINAL}\b)"
_SOMEWHERE = "|".join(
    rf"(?<=\b{word}\s)(?:the\s)?(?!{_CALENDAR}){_NAME}(?:\s(?:conference\s|meeting\s)?{_BUILDING})?"
    for word in ("in", "at", "to", "from", "near", "visit", "visited", "into")
)
_THERE = (
    r"(?:in|at|into|to|near|by|under|behind)\s(?:an?|the|my|our|his|her|your|their)\s(?!new\b|next\b|last\b|first\b"
    rf"|(?i:{UNIT}|{PART}\b|{_ORDINAL}\b|{SEASON}\b|event|end|beginning|way|time|same|moment)\b)[a-z-]+"
)
_MONEY = r"(?:[$€£¥]|\b(?:usd|eur|gbp|us\$))\s?\d[\d,.]{0,15}\s?(?:k\b|m\b|bn\b|million|billion|thousand)?"
_UNITS = r"(?:%|(?:percent|dollars?|euros?|pounds?|cents?|bucks|usd|eur|gbp|chf|kg|km|miles?|mwh?|mmbtu|bcf|hours?)\b)"
_ANY_CASE = frozenset[Kind](("date", "time", "duration", "number", "amount", "link"))
_FINDERS: dict[Kind, str] = {
    "date": rf"{_LISTED['date']}|\b(?:{_AHEAD}|{_DATE})",
    "time": f"{_LISTED['time']}|{_CLOCK}",
    "duration": rf"(?:(?:about|nearly|almost|over)\s)?\b{COUNT}[\s-]+(?:more\s)?{UNIT}|since\s\d{{4}}\b",
    "place": f"{_ROOM}|{_STREET}|{_SOMEWHERE}|{_THERE}",
    "person": rf"\b{_FULL_NAME}",
    "number": (
        rf"{_LISTED['number']}"
        rf"|(?<![\w$€£.,])\d[\d,]{{0,15}}(?:\.\d+)?\s?%?(?![\w:/])|\b(?:{_WORDS}|twice|once)\b"
    ),
    "amount": rf"{_LISTED['amount']}|{_MONEY}|(?<![\d.,])\b(?:\d[\d,.]{{0,15}}|{_WORDS})\s?(?!%|percent){_UNITS}",
    "email": r"(?<![\w.+'-])[\w.+'-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,6}",
    "phone": (
        r"(?<![\w.-])\+?(?:\(\d{2,5}\)|\d{1,5})(?:[ ./-]?(?:\(\d{1,5}\)|\d{2,5})){1,5}(?:\sx\d{1,6})?(?![\w-])"
        r"|\b(?:x|ext\.? ?)\d{3,6}\b"
    ),
    "link": r"(?:https?://|www\.)[^\s<>\"')\]]{2,300}",
}
_NOBODY = re.compile(r"(?-i:[A-Z]{2,}s)|original message|(?:\W|\b\w\b)*", re.IGNORECASE)  # APIs, P & S
_IS_PHONE = re.compile(r"(?!(?:19|20)\d\d-\d\d-\d\d)(?:\D*\d){7}")
_NOT_NAMES = frozenset(prompt("not_names").split())
# A clause boundary between a day and a time. A comma directly before the time or a place is not one.
_CLAUSE = re.compile(
    r";|[.!?]\s+(?-i:[A-Z])|[,:–—-]\s+(?!(?:at|from|in|around|about|any|after|before|until|starting|on)\b)\w"
    r"|\b(?:because|since|but|so|while|when|where|who|which)\b",
    re.IGNORECASE,
)


def find(text: str, kind: Kind) -> list[Span]:
    """Return the spans of one kind in the first `LONGEST` characters, in order, without overlaps."""
    spans = list[tuple[int, int]]()
    for match in re.finditer(_FINDERS[kind], text[:LONGEST], re.IGNORECASE if kind in _ANY_CASE else 0):
        front, kept = match[0].lstrip(" -\n\t"), match[0].rstrip(" .,;:\n\t-'’")
        kept = match[0] if match[0].endswith("m.") else kept  # 5 p.m.
        spans.append((match.end() - len(front), match.start() + len(kept)))
    if kind == "person":
        spans = [_name(text, *span) for span in spans]
        spans = [span for span in spans if not _NOBODY.fullmatch(text, *span)]
    if kind == "phone":  # an extension, or enough digits that are no date
        spans = [span for span in spans if text[span[0]] in "xe" or _IS_PHONE.match(text[slice(*span)])]
    return [Span(start, end) for start, end in spans if start < end]


_NUMBER = rf"(?:\d[\d,]{{0,15}}(?:\.\d+)?|{_WORDS})"
_TO = r"(?:\s*[-–—]\s*|\s+(?:to|through|thru|until|till)\s+)"
_AND = r"(?:,?\s+(?:and|or|&)\s+)"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?(?![\w:%/])"
_AFTER_DAY = r"(?=\s*(?:[.,;!?)]|$|(?:and|or|at|in|from|to)\b))"
_ZONE = (
    r"\s*\(?(?-i:[A-Z]{1,3}[SD]?T|UTC|GMT)\b\)?"
    r"|\s+(?:eastern|central|mountain|pacific)\b(?:\s+(?:standard|daylight))?(?:\s+time\b)?"
)
_SCALE = r"\s?(?:k|m|bn|hundred|thousand|million|billion|dozen)\b"
_MEASURE = (
    r"\s?(?:%|per\s?cent\b|percentage\s+points?\b)"
    rf"|\s?{_UNITS}|\s(?:years?\s+old|years?|feet|foot|meters?|metres?|degrees?|pages|seats|points)\b"
)
_RATE = r"\s?/\s?[a-z]+\b|\s+(?:each|apiece|per\s+[a-z]+)\b"
_LIST_OF_NAMES = rf"\b{_FULL_NAME}(?:,\s+{_FULL_NAME}){{0,8}},?\s+(?:and|or|&)\s+{_FULL_NAME}"
_BEFORE_NUMBER = rf"(?:\bbetween\s+)?(?<![\w.,$€£]){_NUMBER}(?:{_TO}|\s+(?:and|or)\s+)"
_AROUND: dict[Kind, tuple[str, str]] = {
    "date": (
        rf"(?:\b(?:from|between)\s+)?(?<![\w:/]){_DAY}(?:{_TO}|{_AND})",
        rf"(?:{_TO}|,\s+|{_AND}){_DAY}{_AFTER_DAY}",
    ),
    "time": (rf"(?:\b(?:from|between)\s+)?(?<![\w:]){_HOUR}(?:{_TO}|{_AND})", rf"(?:{_TO}|{_AND})(?:{_CLOCK})|{_ZONE}"),
    "duration": (_BEFORE_NUMBER + "|" + rf"{_NUMBER}\s+and\s+", r"\s+and\s+a\s+half\b"),
    "number": (_BEFORE_NUMBER, f"{_SCALE}|{_MEASURE}"),
    "amount": (_BEFORE_NUMBER, _RATE),
}  # words that belong to a span before and after it
_BETWEEN_DATES = re.compile(rf"{_TO}|{_AND}|,\s+", re.IGNORECASE)
_FROM = re.compile(r"\b(?:from|between)\s+\Z", re.IGNORECASE)
# From one day to another; nothing lasts from the first to the second.
_MOVES = re.compile(rf"\b(?:{word_patterns('english')['moves']})\s+\Z", re.IGNORECASE)
_REACH = 40  # characters before a span that may belong to it


def whole(text: str, span: Span, kind: Kind) -> Span:
    """Return a span with all that belongs to it: the other end of a range, a whole list, its unit or time zone."""
    if kind in ("person", "place"):
        lists = (_name(text, *match.span()) for match in re.finditer(_LIST_OF_NAMES, text[:LONGEST]))
        return next((Span(*one) for one in lists if one[0] <= span.start and span.end <= one[1]), span)
    if kind not in _AROUND:
        return span
    if kind == "date":
        span = _dates_around(text, span)
    before, behind = _AROUND[kind]
    if match := re.search(rf"(?:{before})\Z", text[max(0, span.start - _REACH) : span.start], re.IGNORECASE):
        span = Span(span.start - len(match.group()), span.end)
    while match := re.compile(behind, re.IGNORECASE).match(text, span.end):
        span = Span(span.start, match.end())
    return span


def _dates_around(text: str, span: Span) -> Span:
    """Return the range or list of dates that a date is part of; of "moves from Monday to Tuesday" the last."""
    start, end, dates = span.start, span.end, find(text, "date")
    for one in dates:
        if end <= one.start and _BETWEEN_DATES.fullmatch(text, end, one.start):
            end = one.end
    for one in reversed(dates):
        if one.end <= start and _BETWEEN_DATES.fullmatch(text, one.end, start):
            start = one.start
    opening = _FROM.search(text[:start]) if (start, end) != (span.start, span.end) else None
    if opening and _MOVES.search(text[max(0, opening.start() - _REACH) : opening.start()]):
        return next(one for one in dates if one.end == end)
    return Span(opening.start() if opening else start, end)


def time_of(text: str, day: Span) -> Span | None:
    """Return the time that belongs to a day: the nearest in the same clause that no other day is nearer to."""
    days, times = _days_and_times(text)
    for one in sorted(times, key=lambda one: _distance(one, day))[:16]:
        between = text[min(one.end, day.end) : max(one.start, day.start)]
        if not _CLAUSE.search(between) and all(_distance(one, day) <= _distance(one, other) for other in days):
            return one
    return None


@lru_cache(maxsize=8)
def _days_and_times(text: str) -> tuple[list[Span], list[Span]]:
    return find(text, "date"), find(text, "time")


# Lines of a phone, by the words that name them beside its number.
_LINES = {
    name: re.compile(_LISTED[f"line {name}"], re.IGNORECASE) for name in ("fax", "mobile", "pager", "home", "office")
}
_LABEL = 24  # characters beside a number that may name its line


def line_named(text: str) -> str:
    """Return the line of a phone that a text names, such as "fax", of "work, fax" too; "" if it names none."""
    return next((line for line, pattern in _LINES.items() if pattern.search(text)), "")


def line_at(text: str, start: int, end: int) -> str:
    """Return the lines from one place of a text to another."""
    last = text.find("\n", end)
    return text[text.rfind("\n", 0, start) + 1 : last if last >= 0 else len(text)].strip("\n")


def line_of(text: str, number: Span) -> str:
    """Return the kind of line of a phone number, such as "fax", from the words before or after it; "" if unlabelled."""
    numbers = find(text, "phone")
    start = max([one.end for one in numbers if one.end <= number.start], default=0)
    end = min([one.start for one in numbers if one.start >= number.end], default=len(text))
    before = text[max(start, number.start - _LABEL) : number.start].rpartition("\n")[2]
    behind = text[number.end : min(end, number.end + _LABEL)].partition("\n")[0]
    return line_named(before) or line_named(behind)


class Entry(Struct, frozen=True):
    """What a row of a table or a contact says: who it may be about; values, each with kind, label and line."""

    names: tuple[str, ...]
    values: tuple[tuple[str, str, str, str], ...]


def entry(lines: Sequence[str], at: int) -> Entry:
    """Return what is listed at a line: by the labels of a table's first row, which has no number, or of a contact."""
    if lines[at].startswith("FN:"):
        first = next((n for n in range(at, -1, -1) if lines[n].startswith("BEGIN:VCARD")), at)
        block = takewhile(lambda one: not one.startswith("END:VCARD"), lines[first:])
        fields = [(label, value, one) for one in block for label, _, value in [one.partition(":")]]
        return Entry(names_at(lines[at]), _values(fields))
    own = _cells(lines[at])
    table = takewhile(lambda cells: len(cells) > 1, map(_cells, reversed(lines[:at])))
    above = [cells for cells in table if len(cells) == len(own)]  # others lack a cell, nobody can tell which
    if len(own) < 2 or not above or re.search(r"[\d@]", "".join(above[-1])):
        return Entry((), ())
    return Entry(names_at(lines[at]), _values([(*each, lines[at]) for each in zip(above[-1], own, strict=True)]))


def names_at(line: str) -> tuple[str, ...]:
    """Return whom a line of a contact or a row of a table may name: by a cell, or by two neighbours in either order."""
    own = [line[3:].strip()] if line.startswith("FN:") else _cells(line)
    return (*own, *(f"{one} {other}" for each in pairwise(own) for one, other in (each, each[::-1])))


def _cells(line: str) -> list[str]:
    sign = max("|\t;,", key=line.count)
    return [cell.strip() for cell in next(csv.reader([line], delimiter=sign, strict=False), [])] if sign in line else []


def _values(fields: Iterable[tuple[str, str, str]]) -> tuple[tuple[str, str, str, str], ...]:
    kinds: tuple[Kind, ...] = ("phone", "email")
    found = ((kind, label, value, line, find(value, kind)) for label, value, line in fields for kind in kinds)
    return tuple(
        (kind, value[one.start : one.end], line_named(re.sub(r"\W", " ", label)) if kind == "phone" else "", line)
        for kind, label, value, line, spans in found
        for one in spans[:1]
    )


_FULL_DAY = re.compile(r"uhr|\dh|\d h\b", re.IGNORECASE)  # counted to 24
_HOURS = re.compile(r"(\d{1,2})(?:[:.]?(\d\d))?(?:[:.]\d\d)?(?!\d)\s*(?:([ap])\.?m\b)?", re.IGNORECASE)
_NAMED_HOURS = _LISTED["hour"].split("|")


def clock_time(span: str) -> time | None:
    """Return the time of day that a span of kind "time" means, after noon where "two" may mean both; None for none."""
    if match := _HOURS.match(span):
        hour, minute, half = int(match[1]), int(match[2] or 0), (match[3] or "").lower()
        hour = hour % 12 + 12 * (half == "p") if half else hour
    else:
        first = span.lower().split()[0]
        hour, minute, half = _NAMED_HOURS.index(first) if first in _NAMED_HOURS else -1, 0, ""
    # People say "at two" for the afternoon, and "8" for the morning.
    if not half and 0 < hour < 8 and not span.startswith("0") and not _FULL_DAY.search(span):
        hour += 12
    return time(hour, minute) if 0 <= hour < 24 and minute < 60 else None


def _distance(one: Span, other: Span) -> int:
    return max(one.start - other.end, other.start - one.end)


def _name(text: str, start: int, end: int) -> tuple[int, int]:
    """Strip words that are not part of a name from both ends of a capitalised run."""
    words = [(start + match.start(), start + match.end()) for match in re.finditer(r"\S+", text[start:end])]
    for end in (0, -1):
        while words and text[slice(*words[end])].lower().rstrip(".,") in _NOT_NAMES:
            words.pop(end)
    name = text[words[0][0] : words[-1][1]] if words else ""
    return (words[0][0], words[-1][1] - 2 * name.endswith(("'s", "’s"))) if words else (start, start)
