"""Relative dates in a text ("next Friday", "two weeks ago"), resolved against the day on which it was written.

Extends `dates` with bare weekdays, seasons, vague counts, and German, French, Spanish and Italian words. Says, too,
whether a sentence speaks of the days that a question asks about, or of the next of something. Knows no time zones, and
clock times only of what is to come.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from operator import itemgetter

from msgspec import Struct

from engine.text import dates, spans
from engine.text.dates import MONTH_NAMES, WEEKDAYS, Days
from engine.text.question import NEXT, Question
from engine.text.spans import COUNT, FOREIGN_PART, LEAD, MONTH, ORDINALS, PART, SEASON, UNIT, VAGUE, WEEKDAY, WHICH
from engine.text.words import FUNCTION_WORDS, Span, words
from prompts import prompt, word_patterns
from store.types import replace

LONGEST = 100  # characters of a date expression
_ENGLISH = dict(pair.replace("_", " ").split("=") for pair in prompt("day_words").split())
_GLUED = re.compile("|".join(sorted(filter(re.compile(r"[\u3040-\u9fff]{2}").match, _ENGLISH), key=len, reverse=True)))
_AHEAD = re.compile("{ahead}|{later}".format(**word_patterns("languages")), re.I)
_BEHIND = re.compile(r"(\w+)\s+(next|last|que\s+viene)", re.I)  # vendredi prochain
_FOREIGN_PART = re.compile(rf"(?<=\w)\s+{FOREIGN_PART}$", re.I)
_NUMBERED = re.compile(r"(0?[1-9]|1[0-2])月(\d{1,2})[日号]")
_ORDINAL = re.compile(
    rf"\b(?:(?P<tens>twenty|thirty)[\s-])?(?P<one>{'|'.join(ORDINALS)})\b|\b(?P<thirty>thirtieth)\b", re.I
)
_FROM_NOW = re.compile(
    rf"(?:in|within)\s+(?P<count>\w+)\s+(?P<unit>{UNIT})|(?P<other>\w+)\s+(?P<size>{UNIT})\s+(?:from|(?P<ago>ago|back))",
    re.I,
)
_COUNTED = re.compile(rf"{UNIT}\s+(?:ago|back|later|from)|\b(?:in|within)\s+.*{UNIT}$", re.I)
_FEW_AGO = re.compile(rf"{VAGUE}\s+(?P<unit>{UNIT})\s+(?:ago|back)|last\s+few\s+(?P<size>{UNIT})", re.I)
_SEASONAL = re.compile(rf"(?:(?P<which>{WHICH})\s+)?(?P<season>{SEASON})\b(?:\s+of)?(?:\s+(?P<year>\d{{4}}))?", re.I)
_BARE_DAY = re.compile(rf"(?:this\s+)?(?P<day>{WEEKDAY})(?:\s+{PART})?\.?$", re.I)
_NAMED = re.compile(rf"(?P<which>{WHICH})\s+(?P<month>{MONTH})", re.I)
_FULL = re.compile(r"\d{4}-\d\d-\d\d|\b(?:19|20)\d\d\b|\d[./]\d{1,2}[./]\d")
_DROPPED = re.compile(rf"(\d)\.(?=\s+[a-z])|this(?=\s+past)|\s+{PART}$", re.I)
_WITH_WEEKDAY = re.compile(
    rf"(?:{WHICH}\s+)?(?P<day>{WEEKDAY}),?\s+(?:(?:the|den|der|le)\s+)?(?=.*(?:\d|{MONTH}))", re.I
)
_NOT_A_SINGLE_DAY = re.compile(
    rf"(?:{LEAD}|the\s+)\d{{1,2}}(?:st|nd|rd|th)?|{WEEKDAY}(?:,\s+|\s+(?:and|or)\s+|\s).*{WEEKDAY}|\w+days", re.I
)
_DOTTED = re.compile(r"\d\.\d{1,2}\.\d")
_UNIT_DAYS = dict.fromkeys(("second", "minute", "min", "hour", "hr"), 0) | {
    **{"day": 1, "night": 1, "week": 7, "weekend": 7, "fortnight": 14, "month": 30},
    **{"quarter": 91, "semester": 182, "year": 365, "decade": 3650},
}
_SEASONS = {"winter": 12, "spring": 3, "summer": 6, "autumn": 9, "fall": 9}


def resolve(span: str, written: datetime, past: bool = False) -> dates.Days | None:
    """Return the days that a date expression means; a bare weekday is the next, or with `past` the last."""
    today, text = written.date(), _FOREIGN_PART.sub("", span[:LONGEST].strip())
    if days := dates.near_day(span, today) or dates.near_day(text, today):
        return days
    text = _ORDINAL.sub(_in_digits, _DROPPED.sub(r"\1", _in_english(text)).strip())
    if _NOT_A_SINGLE_DAY.fullmatch(text):
        return None
    named = _WITH_WEEKDAY.match(text)
    text = text[named.end() :] if named else text
    try:
        days = _relative(text, today, past)
        if not days and not _COUNTED.search(text):  # better no date than a wrong one of "half a year ago"
            plain = dates.find(text[:1].upper() + text[1:], today)
            place = -1 if _DOTTED.search(text) else 0  # `find` returns both readings of 3.5.2024, the month first
            days = _nearest(plain[place], today) if plain else None
    except (OverflowError, ValueError):  # beyond the calendar
        return None
    said = named["day"].lower() if named else ""
    days_said = (said.removesuffix("s"), _ENGLISH.get(said.rstrip(".")))
    return days if not days or not named or WEEKDAYS[days.first.weekday()] in days_said else None


def _in_english(text: str) -> str:
    """Return a date expression with the words of other languages in English, and "vendredi prochain" the other way."""
    text = _NUMBERED.sub(lambda match: f"{match[2]} {MONTH_NAMES[int(match[1]) - 1]}", text)
    text = _AHEAD.sub(lambda one: f"in {one['count'] or one['number']} {one['size'] or one['unit']}", text)
    text = _GLUED.sub(lambda match: f" {_ENGLISH[match.group()]} ", text).strip()
    text = re.sub(r"(?<=\d)(?:er|º)\b|\sde(?=\s)", "", text) if text[:1].isdigit() else text
    text = re.sub(r"[^\W\d_]+", lambda match: _ENGLISH.get(match.group().lower(), match.group()), text)
    behind = _BEHIND.fullmatch(text)
    return f"{'last' if behind[2] == 'last' else 'next'} {behind[1]}" if behind else text


def _in_digits(match: re.Match[str]) -> str:
    tens, one = (match["tens"] or match["thirty"] or "").lower(), match["one"]
    return str({"twent": 20, "thirt": 30}.get(tens[:5], 0) + (1 + ORDINALS.index(one.lower()) if one else 0))


def _relative(text: str, today: date, past: bool) -> dates.Days | None:
    """Resolve the forms that `dates` does not know: a few days ago, in two weeks, seasons, bare weekdays, last May."""
    lower = text.lower()
    if "before yesterday" in lower or "after tomorrow" in lower or lower == "last":
        step = 2 if "after" in lower else -1 if lower == "last" else -2  # "last" is left of "last night"
        return dates.Days(only := today + timedelta(days=step), only)
    there = [name for name in WEEKDAYS if name in lower]
    if there and "week" in lower:  # "Freitag nächster Woche"
        which = next((word for word in ("last", "this") if word in lower), "next")
        monday = dates.find(f"{which} week", today)[0].first
        return dates.Days(only := monday + timedelta(WEEKDAYS.index(there[0])), only)
    if match := _FEW_AGO.search(text):
        size = _unit_days(match["unit"] or match["size"])
        return dates.Days(today - timedelta(days=5 * size), today - timedelta(days=2 * size))
    if match := _FROM_NOW.match(text):
        said, size = match["count"] or match["other"], _unit_days(match["unit"] or match["size"])
        if (count := int(said) if said.isdecimal() else dates.COUNTS.get(said.lower())) is None:
            return None
        middle, slack = today + timedelta(days=-count * size if match["ago"] else count * size), timedelta(size // 2)
        return dates.Days(middle - slack, middle + slack)
    if match := _SEASONAL.search(text):
        month, side = _SEASONS[match["season"].casefold()], _side(match["which"] or "")
        step = {1: today.month >= month, -1: -(today.month < month + 3)}.get(side, 0)
        year = int(match["year"]) if match["year"] else today.year + step
        return dates.Days(date(year, month, 1), date(year, month, 28) + timedelta(days=63))
    if match := _BARE_DAY.match(text):
        day = match["day"].rstrip(".").removesuffix("s")
        return next(iter(dates.find(f"{'last' if past else 'on'} {_ENGLISH.get(day.lower(), day)}", today)), None)
    if match := _NAMED.search(text):
        found = dates.find(match["month"].capitalize(), today)
        return _nearest(found[0], today, _side(match["which"])) if found else None
    return None


def _side(which: str) -> int:
    return {"next": 1, "coming": 1, "following": 1, "this": 0, "": 0}.get(which.lower(), -1)


def _nearest(days: dates.Days, today: date, side: int = 0) -> dates.Days:
    """Return a date without a year in the year that brings it nearest to today; `side` -1 or 1 wants past or future."""
    if not days.yearly:
        return days
    first, last = (day if (day.month, day.day) != (2, 29) else day.replace(day=28) for day in (days.first, days.last))
    years = range(today.year - 1, today.year + 2)
    moved = [dates.Days(first.replace(year=year), last.replace(year=year)) for year in years]
    right = [one for one in moved if side == 0 or (one.last < today if side < 0 else one.first > today)]
    return min(right or moved, key=lambda one: abs((one.first - today).days))


def _unit_days(unit: str) -> int:
    return _UNIT_DAYS[unit.casefold().rstrip("s")]


def in_words(span: str, written: datetime, past: bool = False) -> str | None:
    """Return the absolute form of a relative date, "7 May 2023" or "the week before 9 June 2023"; None for others."""
    span = span[:LONGEST]
    days = None if _FULL.search(span) else resolve(span, written, past)
    if days is None:
        return None
    today, length = written.date(), (days.last - days.first).days
    middle = days.first + timedelta(days=length // 2)
    if length == 0:
        weekday = f"{days.first:%A} " if _WITH_WEEKDAY.match(span) else ""
        return weekday + dates.spell_date(days.first)
    if length >= 300:
        return str(middle.year) if length < 400 else f"around {middle.year}"
    if season := _SEASONAL.search(span):
        return f"{season['season'].lower()} {days.first.year}"
    if length >= 27:
        return f"{middle:%B} {middle.year}"
    unit = re.sub(rf"(?i)^.*{WHICH}\s+|\s+(?:ago|back|later|from\s+now)$|^(?:in|within)\s+", "", _in_english(span))
    side = "before" if days.last < today else "after" if days.first > today else "of"
    article = "" if re.match(rf"(?i){COUNT}\s", unit) else "the "
    return f"{article}{unit.lower()} {side} {dates.spell_date(today)}"


def dates_in_words(text: str, span: Span, written: datetime, past: bool = False) -> str | None:
    """Return the absolute form of a date, or of a range or list of dates, in a text; None for what stays as it is.

    So do "Monday to Friday", which may be of every week, and "June 3-7", whose end is no date by itself.
    """
    found = [one for one in spans.find(text, "date") if span.start <= one.start and one.end <= span.end]
    said = [" ".join(text[one.start : one.end].split()) for one in found]
    if found == [span] or not found:
        return in_words(" ".join(text[span.start : span.end].split()), written, past)
    if found[-1].end != span.end or all(re.fullmatch(WEEKDAY, one, re.IGNORECASE) for one in said):
        return None
    starts = [span.start, *(one.end for one in found)]
    between = [text[start : one.start] for start, one in zip(starts, found, strict=False)]
    meant = (in_words(one, written, past) or one for one in said)
    return " ".join("".join(f"{gap}{day}" for gap, day in zip(between, meant, strict=True)).split())


_DAY = re.compile(
    rf"(?<!\w)(?:\d{{4}}-\d\d-\d\d|\d{{1,2}}(?:st|nd|rd|th|\.)?\s(?:of\s)?(?i:{MONTH})(?:,?\s\d{{4}})?"
    rf"|(?=[JFMASOND])(?i:{MONTH})\s\d{{1,2}}(?:st|nd|rd|th)?\b(?!:)(?:,?\s\d{{4}})?)"
)


def next_start(text: str, written: datetime | None, now: datetime) -> datetime | None:
    """Return the first local time from `now` on that a text written at `written` names; None if it names none.

    A day without a time begins at midnight, and is named until it is over.
    """
    if written is None:
        return None
    found = list[datetime]()
    for match in _DAY.finditer(text):
        days = resolve(match[0], written)
        if days and days.last >= now.date():
            clock = _clock(text, Span(*match.span()))
            start = datetime.combine(max(days.first, now.date()), clock or time.min)
            found += [start] * (clock is None or start >= now)
    return min(found, default=None)


# Events, in the words of engine/ingest/calendar.py: when they take place, repeated ones each time.

CANCELLED = "When (cancelled)"
_NEXT_EVENT = re.compile(r"\n+(?=[A-Z][^\n:]*: [^\n]*\nWhen\b)")
_SPELT = re.compile(rf"(\d{{1,2}}) ({'|'.join(dates.MONTH_NAMES)}) (\d{{4}})(?:, (\d\d):(\d\d))?")
_OFFSET = re.compile(r", UTC[+-]\d\d:\d\d(?=\)\Z)")  # left out: another holds in the other half of the year
_RULE = re.compile(r"every (?:(\d+) )?(day|week|month|year)s?\b(.*?)(?:, (\d+) times)?(?:, until (.*))?")
_ON = re.compile(rf"(?:the (\w+) )?\b({'|'.join(dates.DAY_NAMES)})")
_NEAR = timedelta(days=400)  # from now, for which repeated events are known


class EventTime(Struct, frozen=True):
    """One time at which an event takes place: local, when in words, and the lines of its text by their names."""

    begins: datetime
    when: str
    lines: Mapping[str, str]

    @property
    def about(self) -> str:
        """Return its title, place and people."""
        return " ".join(self.lines.get(name, "") for name in ("", "Where", "Organiser", "Attendees"))

    def is_coming(self, now: datetime) -> bool:
        """Return whether it is to come; a day without a time is until it is over."""
        return self.begins >= now or (self.begins.date() == now.date() and self.begins.time() == time.min)


def event_times(text: str, now: datetime) -> list[EventTime]:
    """Return when the events of a text take place, cancelled ones never, repeated ones in the year before and after."""
    split = ([line.partition(": ") for line in one.split("\n")] for one in _NEXT_EVENT.split(text))
    # The first line, which has the title, stands under an empty name.
    events = [{name: value for name, _, value in reversed(one)} | {"": one[0][2]} for one in split]
    found = list[EventTime]()
    left_out = ("Instead of", "Except", CANCELLED)
    aside = {day.date() for one in events for name in left_out for day in _spelt(one.get(name, ""))}
    for lines in events:
        rule, when = _RULE.fullmatch(lines.get("Repeats", "")), lines.get("When", "")
        with suppress(ValueError, OverflowError):  # beyond the calendar
            for first in _spelt(when)[:1]:
                days = [day for day in _repeated(rule, first.date(), now) if day not in aside] if rule else [first]
                for day in (*days, *_spelt(lines.get("Also", ""))):
                    begins = datetime(day.year, day.month, day.day, first.hour, first.minute)
                    named, spelt = (dates.spell_date(one, weekday=True) for one in (first, day))
                    found.append(EventTime(begins, _OFFSET.sub("", when).replace(named, spelt), lines))
    return found


def _spelt(text: str) -> list[datetime]:
    found = list[datetime]()
    for day, month, year, hour, minute in _SPELT.findall(text):
        with suppress(ValueError):
            month = dates.MONTH_NAMES.index(month) + 1
            found.append(datetime(int(year), month, int(day), int(hour or 0), int(minute or 0)))
    return found


def _repeated(rule: re.Match[str], first: date, now: datetime) -> list[date]:
    """Return the days near to now on which a rule repeats an event that began on one; of a counted one all."""
    begin = first if rule[4] else max(first, now.date() - _NEAR)
    last = min([min(now.date(), begin + 9 * _NEAR) + _NEAR, *(day.date() for day in _spelt(rule[5] or ""))])
    days = [day for past in range((last - begin).days + 1) if _recurs(rule, first, day := begin + timedelta(past))]
    return days[: int(rule[4] or len(days))]


def _recurs(rule: re.Match[str], first: date, day: date) -> bool:
    step, unit, how, names = int(rule[1] or 1), rule[2], rule[3], dates.MONTH_NAMES
    months, past = 12 * (day.year - first.year) + day.month - first.month, (day - first).days
    apart = {"day": past, "week": (past + first.weekday()) // 7, "month": months, "year": day.year - first.year}[unit]
    named = [name for name in names if name in how] or ([names[first.month - 1]] if unit == "year" else names)
    if apart % max(1, step) or names[day.month - 1] not in named:
        return False
    if on := _ON.findall(how):
        nth = {"", ORDINALS[(day.day - 1) // 7], "last" * ((day + timedelta(days=7)).month != day.month)}
        return any(which in nth and name == dates.DAY_NAMES[day.weekday()] for which, name in on)
    if numbers := re.findall(r"\d+", how):
        return str(day.day) in numbers
    return unit == "day" or (past % 7 == 0 if unit == "week" else day.day == first.day)


_SOME_DAY = rf"(?:\d|{MONTH}|{WEEKDAY}|{WHICH}\b|today|tonight|tomorrow|yesterday)"
_NEXT = re.compile(r"\b(?:next|upcoming|coming)\b", re.IGNORECASE)  # in a text
COMING = ("date", "time", "place")  # kinds of answers to questions for the next occurrence
# From Monday to Friday, Monday-Friday: days of every week.
_WEEKLY = re.compile(rf"{WEEKDAY}\s*(?:to|through|until|till|-|–)\s*{WEEKDAY}", re.IGNORECASE)
# The question is about one side of the day that it names.
_BOUNDED = re.compile(
    rf"\b(?:after|before|since|until|till)\s+(?:\w+\s+){{0,4}}?{_SOME_DAY}|\b(?:from|by)\s+{_SOME_DAY}", re.IGNORECASE
)
_CALLED_OFF = re.compile(r"\b(?:cancel(?:l?ed|ling|s)?|called off|postponed|abgesagt|annul(?:é|ée|lé))\b", re.I)
_MOVED = re.compile(r"\b(?:mov|chang|shift|reschedul|postpon|put|brought|goe)\w*\b.{0,60}?\b(?:to|until)\s", re.I)
_ENDS = re.compile(r"\b(?:until|till|to|by|through|before)\s+\Z", re.IGNORECASE)  # a day to which something goes on
_WEEKLY_DAY = re.compile(r"\b(mon|tues|wednes|thurs|fri|satur|sun)days\b", re.IGNORECASE)
_CAPITAL = re.compile(rf"(?!{MONTH}|(?:in|during|since|until|by|of)\b)(?-i:[A-Z])[\w.'’-]*\s+\Z", re.IGNORECASE)


class TimeConstraint(Struct, frozen=True):
    """The days that a question is about, the words that name them, and its other content."""

    days: tuple[Days, ...]
    words: frozenset[str]
    about: frozenset[str]
    claimed: frozenset[str] = frozenset()  # words of a date to confirm: another date answers as well
    coming: bool = False  # the next of something
    clock: datetime | None = None  # local; what begins before is no longer the next

    def spoken(self, text: str, written: datetime | None) -> bool | None:
        """Return whether a text speaks of these days (True) or of others alone (False); None if it is not known."""
        if not self.words or written is None:
            return None
        met = [self._met(text, one, written) for one in spans.find(text, "date")]
        if any(met):
            return True
        return None if False not in met or _WEEKLY.search(text) else False

    def _met(self, text: str, span: Span, written: datetime) -> bool | None:
        """Return the same of one date in a text, whose time of day may have passed."""
        met = self.meets(text[span.start : span.end], written)
        begins = _begins(text, span, written) if met and self.clock else None
        return met and not (self.clock and begins and begins.time() != time.min and begins < self.clock)

    def soonest(self, text: str, written: datetime | None) -> tuple[datetime, Span] | None:
        """Return when the first of the occurrences in a text that are to come begins, and where the text says so.

        In local time, midnight where only the day is known; None if it names none, or calls it off.
        """
        if not self.coming or written is None or _CALLED_OFF.search(text):
            return None
        met = [one for one in spans.find(text, "date") if self._met(text, one, written)]
        starts, moved = [one for one in met if not _ENDS.search(text[: one.start])], _MOVED.search(text)
        starts = [one for one in starts if moved is None or one.start >= moved.end()] or starts
        found = [(begins, one) for one in starts if (begins := _begins(text, one, written))]
        return min(found, key=itemgetter(0), default=None)

    def meets(self, span: str, written: datetime) -> bool | None:
        """Return whether a date in a text of that time may be of these days; None if it is wider or not clear."""
        if days := _WEEKLY_DAY.findall(span):
            return self._recurs([WEEKDAYS.index(f"{day.lower()}day") for day in days])
        meant = (resolve(span, written, past) for past in (False, True))  # a weekday: the last or the next
        pairs = [(asked, said) for said in meant if said for asked in self.days]
        if any(asked.holds(said.first) and asked.holds(said.last) for asked, said in pairs):
            return True
        begin = any(replace(said, yearly=asked.yearly).holds(asked.first) for asked, said in pairs)
        meet = begin or any(asked.holds(said.first) or asked.holds(said.last) for asked, said in pairs)
        return None if meet or not pairs else False

    def _recurs(self, weekdays: Sequence[int]) -> bool | None:
        """Return whether one of these days, of every week, is among the days; None if they are more than a week."""
        if any(asked.yearly or (asked.last - asked.first).days > 6 for asked in self.days):
            return None
        spans = [(asked.first.weekday(), (asked.last - asked.first).days) for asked in self.days]
        # What happens every week does not answer a question about that one day alone.
        return bool(self.about) and any((day - first) % 7 <= more for first, more in spans for day in weekdays)

    def told(self, text: str, spoken: bool | None) -> frozenset[str]:
        """Return words of a text, these days named in it as the question does, or not named if it spoke of others."""
        said = frozenset(words(text))
        if self.claimed:
            said = said | self.claimed if spans.find(text, "date") else said - self.claimed
        if self.coming:  # of the next occurrence: not of the next week, nor of another matter
            found = spans.find(text, "date")
            starts, ends = [0, *(one.end for one in found)], [*(one.start for one in found), len(text)]
            rest = " ".join(text[start:end] for start, end in zip(starts, ends, strict=True))
            behind = (rest[one.end() : one.end() + 60].split()[:3] for one in _NEXT.finditer(rest))
            is_next = any(self.about.intersection(words(" ".join(each))) for each in behind)
            return said if is_next and spoken is not False else said - self.words
        return said - self.words if spoken is False else said | self.words if spoken else said


def _begins(text: str, span: Span, written: datetime) -> datetime | None:
    """Return when what a text dates begins; a day without a time begins at midnight."""
    days = resolve(text[span.start : span.end], written)
    return datetime.combine(days.first, _clock(text, span) or time.min) if days else None


def _clock(text: str, day: Span) -> time | None:
    said = spans.time_of(text, day)
    return spans.clock_time(text[said.start : said.end]) if said else None


NONE = TimeConstraint((), frozenset(), frozenset())


def time_constraint(question: Question, kind: spans.Kind | None, since: date | None = None) -> TimeConstraint:
    """Return the days that a question names; for the next of something, all from the day on that asks, or `since`."""
    if question.dates:
        return NONE if _BOUNDED.search(question.text) else _named(question)
    coming = NEXT.search(question.text) if (kind or question.asked) in COMING else None
    if coming is None:
        return NONE
    named = frozenset(words(coming.group().split()[-1]))
    days, clock = Days(since or question.day, date.max), question.now if question.clock and since is None else None
    return TimeConstraint((days,), named, frozenset(question.content) - named, coming=True, clock=clock)


def _named(question: Question) -> TimeConstraint:
    """Return the days that a question names; "is the fair on 22 June?" claims one, "is it tomorrow?" asks about one."""
    stretches = list[str]()
    for one in spans.find(question.text, "date"):
        text, before = question.text[one.start : one.end], question.text[max(0, one.start - 40) : one.start]
        is_name = text.isdecimal() and _CAPITAL.search(before)  # the number behind "Kite 2077", a part of a title
        stretches += [text] * (not is_name and not any(text in each for each in question.quoted))
    claims = [question.asked == "yes/no" and any(map(str.isdecimal, one)) for one in stretches]
    named, claimed = (
        frozenset(word for one, each in zip(stretches, claims, strict=True) if each is claim for word in words(one))
        - FUNCTION_WORDS
        for claim in (False, True)
    )
    return TimeConstraint(question.dates, named, frozenset(question.content) - named - claimed, claimed)


def is_of_day(question: Question, written: datetime | None) -> bool:
    """Return whether a text written then is of a day that the question names."""
    return written is not None and any(days.holds(written.date()) for days in question.dates)
