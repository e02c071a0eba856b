"""Dates in questions and mails, parsed into intervals of days, and dates written out.

Relative ones ("last week") are resolved against the day given. Knows no time zones and no clock times.
"""

import re
from calendar import monthrange
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta

from msgspec import Struct

from prompts import word_patterns

DAY_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTH_NAMES = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
WEEKDAYS = tuple(name.lower() for name in DAY_NAMES)
MONTHS = tuple(name[:3].lower() for name in MONTH_NAMES)
ENGLISH_MONTH = f"{'|'.join(MONTH_NAMES)}|{'|'.join(MONTHS)}|sept"  # a pattern for IGNORECASE
_MONTH = rf"(?P<month>{ENGLISH_MONTH})\b\.?"
_DAY, _YEAR = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?", r"(?P<year>(?:19|20)\d\d)"
_WEEKDAY = "|".join(WEEKDAYS)
_LISTED = word_patterns("languages")
NEAR_WORDS = {
    word: int(kind[5:]) for kind, words in _LISTED.items() if kind.startswith("near ") for word in words.split("|")
}
NEAR_DAY = "|".join(  # a pattern for IGNORECASE
    _LISTED.get(f"only {word}") or word.replace("'", "['’]").replace(" ", r"\s")
    for word in sorted(NEAR_WORDS, key=len, reverse=True)
)


class Days(Struct, frozen=True):
    """An interval of days, both ends included; a yearly one (no year was given) holds in every year."""

    first: date
    last: date
    yearly: bool = False

    def holds(self, day: date) -> bool:
        """Return whether a day lies in the interval."""
        if not self.yearly:
            return self.first <= day <= self.last
        return (self.first.month, self.first.day) <= (day.month, day.day) <= (self.last.month, self.last.day)


def spell_date(day: date, *, weekday: bool = False) -> str:
    """Return "7 May 2023", or "Sunday 7 May 2023"."""
    written = f"{day.day} {MONTH_NAMES[day.month - 1]} {day.year}"
    return f"{DAY_NAMES[day.weekday()]} {written}" if weekday else written


def find(text: str, today: date) -> list[Days]:
    """Return the dates in a text, by pattern, then in order; "May I" and 31 June are not dates."""
    found, rest = list[Days](), text
    for pattern, read in _READERS:
        for match in pattern.finditer(rest):
            found += read(match, today)
        rest = pattern.sub(lambda match: " " * len(match.group()), rest)
    return list(dict.fromkeys(found))


def _spelled(match: re.Match[str], today: date) -> Iterator[Days]:
    """Read a day, month or year in words: "3 May 2023", "May 3rd", "May 2023", and "May" alone where capitalised."""
    parts = match.groupdict()
    if not (parts.get("day") or parts.get("year")) and not match["month"][0].isupper():
        return
    month, yearly = MONTHS.index(match["month"][:3].casefold()) + 1, not parts.get("year")
    year = today.year if yearly else int(match["year"])
    yield from _month_or_day(year, month, parts.get("day"), yearly)


def _month_or_day(year: int, month: int, day: str | None, yearly: bool = False) -> Iterator[Days]:
    if not 1 <= month <= 12 or (day and not 1 <= int(day) <= monthrange(year, month)[1]):
        return
    first, last = (int(day), int(day)) if day else (1, monthrange(year, month)[1])
    yield Days(date(year, month, first), date(year, month, last), yearly)


def _numeric(match: re.Match[str], today: date) -> Iterator[Days]:
    """Read 2024-05-03, 5/3/2024 and 3.5.2024; where day and month could be either way round, both."""
    if match["iso"]:
        yield from _month_or_day(int(match["iso"]), int(match["mm"]), match["dd"])
        return
    year = int(match["y"]) + (2000 if len(match["y"]) == 2 else 0)
    for month, day in dict.fromkeys(((match["a"], match["b"]), (match["b"], match["a"]))):
        yield from _month_or_day(year, int(month), day)


def near_day(text: str, today: date) -> Days | None:
    """Return the day that "tomorrow" or the like alone means, in one of seven languages; None for another text."""
    step = NEAR_WORDS.get(" ".join(text.replace("’", "'").casefold().split()))
    with suppress(OverflowError):  # beyond the calendar
        return None if step is None else Days(day := today + timedelta(days=step), day)
    return None


def _unit(match: re.Match[str], today: date) -> Iterator[Days]:
    """Read "last week", "this month", "next year"; a week starts on Monday."""
    step = {"last": -1, "past": -1, "previous": -1, "next": 1, "coming": 1}.get(match["which"].casefold(), 0)
    unit = match["unit"].casefold()
    if unit == "year":
        yield Days(date(today.year + step, 1, 1), date(today.year + step, 12, 31))
    elif unit == "month":
        year, month = divmod(today.year * 12 + today.month - 1 + step, 12)
        yield from _month_or_day(year, month + 1, None)
    elif unit in ("week", "weekend"):
        monday = today + timedelta(days=7 * step - today.weekday())
        yield Days(monday + timedelta(days=5 if unit == "weekend" else 0), monday + timedelta(days=6))
    else:
        ahead = (WEEKDAYS.index(unit) - today.weekday()) % 7
        day = today + timedelta(days=ahead - 7 if step < 0 else ahead or 7 * (step > 0))
        yield Days(day, day)


def _counted(match: re.Match[str], today: date) -> Iterator[Days]:
    """Read "3 days ago" as that day, give or take half of the unit; "in the last 3 days" as what ends today."""
    size = {"day": 1, "week": 7, "month": 30, "year": 365}[match["size"].casefold()]
    days = (COUNTS.get(match["count"].casefold()) or int(match["count"])) * size
    if days < 36500:
        ago, slack = today - timedelta(days), timedelta(size // 2)
        yield Days(ago - slack, ago + slack) if match[0].casefold().endswith("ago") else Days(ago, today)


COUNTS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8}
COUNTS |= {"nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "fifteen": 15, "twenty": 20, "thirty": 30}
_COUNT, _SIZE = rf"(?P<count>\d{{1,4}}|{'|'.join(COUNTS)})", r"(?P<size>day|week|month|year)s?"
_SEPARATED = r"(?P<a>\d{1,2})(?P<sep>[/.])(?P<b>\d{1,2})(?P=sep)(?P<y>(?:19|20)?\d\d)"
_READERS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], date], Iterable[Days]]], ...] = tuple(
    (re.compile(rf"\b(?:{pattern})(?!\w)", re.IGNORECASE), read)
    for pattern, read in (
        (rf"(?P<iso>(?:19|20)\d\d)-(?P<mm>\d\d)-(?P<dd>\d\d)|{_SEPARATED}", _numeric),
        (rf"{_DAY}\s+(?:of\s+)?{_MONTH}(?:,?\s+{_YEAR})?", _spelled),
        (rf"{_MONTH}\s+{_DAY}(?:,?\s+{_YEAR})?", _spelled),
        (rf"{_MONTH},?\s+(?:of\s+)?{_YEAR}", _spelled),
        (rf"{_MONTH}(?!\s+(?:i|we|you|he|she|it|they|the|be)\b)", _spelled),
        (rf"{_COUNT}\s+{_SIZE}\s+ago", _counted),
        (rf"(?:last|past|previous)\s+{_COUNT}\s+{_SIZE}", _counted),
        (rf"(?P<which>last|past|previous|this|next|coming|on)\s+(?P<unit>{_WEEKDAY})", _unit),
        (r"(?P<which>last|past|previous|this|next|coming)\s+(?P<unit>weekend|week|month|year)", _unit),
        (rf"(?P<near>{NEAR_DAY})", lambda match, today: filter(None, [near_day(match["near"], today)])),
        (_YEAR, lambda match, _: [Days(date(int(match["year"]), 1, 1), date(int(match["year"]), 12, 31))]),
    )
)


def without_days(words: Sequence[str], days: Sequence[Days]) -> Sequence[str]:
    """Return the plain words of a text without those that name its days: "3", "may", "monday", "last week"."""
    names = ("last", "week", "month", "year", *NEAR_WORDS, *map(str.lower, (*MONTH_NAMES, *DAY_NAMES)))
    named = names if days else ()
    said = (word for word in words if not (days and word[0].isdigit()))
    return [word for word in said if len(word) < 3 or not any(one.startswith(word) for one in named)]


_NEAR = r"today|yesterday|(?:this|last) (?:week|month|year)|last \d{1,3} (?:days|weeks|months|years)"
_NUMBER, _ANY_YEAR, _NAME = r"\d{1,2}(?:st|nd|rd|th)?", r"(?:19|20)\d\d", f"(?:{ENGLISH_MONTH})"
_DATE = (
    rf"(?:\d{{4}}-\d\d-\d\d|{_NEAR}|(?:last )?(?:{_WEEKDAY})|{_ANY_YEAR}"
    rf"|(?:{_NUMBER}(?: of)? {_NAME}|{_NAME}(?: {_NUMBER})?)(?:,?(?: of)? {_ANY_YEAR})?)"
)
_LIMITS = (
    rf"(?<!\S)(?:(?:between|from) (?P<first>{_DATE}) (?:and|to|until|till|through) (?P<last>{_DATE})"
    rf"|(?:since|starting) (?P<since>{_DATE})|after (?P<after>{_DATE})|before (?P<before>{_DATE})"
    rf"|(?:until|till|up to|through) (?P<until>{_DATE})|(?:in|on|during|of|from|within|over) (?P<within>{_DATE})"
    rf"|(?P<near>{_NEAR}))(?!\S)"
)


def limits(text: str, today: date) -> tuple[str, date | None, date | None] | None:
    """Return a question about the past without its times, and the first day and the day after the last that it means.

    None if they are ahead, or cannot be told. A date without a year is the last that has begun, as a weekday is.
    """
    since, until, pattern = list[date](), list[date](), re.compile(_LIMITS, re.IGNORECASE)
    for match in pattern.finditer(text):
        said, days = {name: value for name, value in match.groupdict().items() if value}, dict[str, Days]()
        for name in reversed(said):  # the year of the last day is that of the first
            typed = f"last {said[name]}" if said[name].lower() in WEEKDAYS else said[name].title()
            found = find(typed, today)
            if found and found[0].yearly:
                is_ahead = (found[0].first.month, found[0].first.day) > (today.month, today.day)
                year = days["last"].first.year if "last" in days else today.year - is_ahead
                found = find(f"{typed} {year}", today)
            if len(found) != 1:
                return None
            days[name] = found[0]
        since += [days[name].first for name in ("first", "since", "within", "near") if name in days]
        since += [days["after"].last + timedelta(1)] if "after" in days else []
        until += [days[name].last + timedelta(1) for name in ("last", "until", "within", "near") if name in days]
        until += [days["before"].first] if "before" in days else []
    if len(since) > 1 or len(until) > 1 or any(day > today for day in since) or (until and since >= until):
        return None
    return " ".join(pattern.sub(" ", text).split()), next(iter(since), None), next(iter(until), None)


_AGO = re.compile(r"(\d{1,4})\s*([dwmy])")
_DAYS = {"d": 1, "w": 7, "m": 30, "y": 365}
_ISO = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?")


def first_day(day: str, today: date, *, end: bool = False) -> date:
    """Return the first day of a day, month or year, or with `end` the day after it; ValueError.

    Days may be named as people do, too: yesterday, monday, last week; a weekday or month is the last one that began.
    """
    if ago := _AGO.fullmatch(day.strip()):
        return today - timedelta(days=int(ago[1]) * _DAYS[ago[2]]) + timedelta(days=end)
    if iso := _ISO.fullmatch(day.strip()):
        first = date(int(iso[1]), int(iso[2] or 1), int(iso[3] or 1))
        if not end or iso[3]:
            return first + timedelta(days=end)
        return (first + timedelta(days=31 if iso[2] else 366)).replace(day=1)
    from engine.text.relative_dates import resolve

    named = resolve(day.strip(), datetime.combine(today, time.min), past=True) if any(map(str.isalpha, day)) else None
    if named is None:
        raise ValueError
    return named.last + timedelta(days=1) if end else named.first
