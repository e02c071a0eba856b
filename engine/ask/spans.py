"""The parts of a sentence that may answer a question of one kind (a date, a place, a person, ...), and what a date means.

Knows shapes of words alone, English first. What it finds may be wrong, so it is shown with the sentence it stands in.
"""

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Literal

from engine.ask import dates

Kind = Literal["date", "time", "duration", "place", "person", "number", "amount", "email", "phone", "link"]
LONGEST = 2000  # characters of a text that are looked at

_MONTH = (
    r"(?:jan(?:uary|uar|vier)?|feb(?:ruary|ruar)?|février|mar(?:ch|s)?|märz|apr(?:il)?|avril|may|mai|june?|juin|juni"
    r"|july?|juillet|juli|aug(?:ust)?|août|sept?(?:ember|embre)?|o[ck]t(?:ober|obre)?|nov(?:ember|embre)?"
    r"|de[cz](?:ember|embre)?|décembre)\b\.?"
)
_WEEKDAY = r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)days?|(?:mon|tues?|wed|thurs?|fri|sat|sun)\b\.?)"
_FOREIGN_DAY = (
    r"(?:montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche"
    r"|heute|gestern|hier|demain|aujourd['’]hui)"
)
_WORD = (
    r"(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen"
    r"|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|million|dozen)"
)
_WORDS = rf"{_WORD}(?:[\s-]{_WORD}){{0,3}}"
_VAGUE = r"(?:an?\s+few|an?\s+couple(?:\s+of)?|several|many|some)"
_COUNT = rf"(?:{_VAGUE}|half\s+an?|an?|\d{{1,4}}|{_WORDS})"
_UNIT = r"(?:second|minute|min|hour|hr|day|night|week|weekend|fortnight|month|quarter|semester|year|decade)s?\b"
_SEASON = r"(?:spring|summer|autumn|fall|winter)"
_PART = r"(?:morning|afternoon|evening|night)"
_WHICH = r"(?:this\s+past|last|past|previous|this|next|coming|following)"
_DATE = (
    rf"\d{{4}}-\d\d-\d\d|\d{{1,2}}(?:st|nd|rd|th|\.)?\s+(?:of\s+)?{_MONTH}(?:,?\s+\d{{4}})?"
    rf"|{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?(?!\d)(?:,?\s+\d{{4}})?|{_MONTH},?\s+(?:of\s+)?\d{{4}}"
    r"|\d{1,2}([/.])\d{1,2}(?:\1(?:\d{4}|\d\d))?(?![\w%])"
    rf"|the\s+day\s+(?:before\s+yesterday|after\s+tomorrow)|(?:yesterday|tomorrow|today|tonight)(?:\s+{_PART})?"
    rf"|{_COUNT}\s+{_UNIT}\s+(?:ago|back|later|from\s+now)|(?:in|within)\s+{_COUNT}\s+{_UNIT}"
    rf"|(?:(?:early|late|mid|end\s+of|beginning\s+of)[\s-]+)?{_WHICH}\s+(?:(?:few|couple\s+of|{_WORD}|\d{{1,4}})\s+)?"
    rf"(?:{_UNIT}|{_WEEKDAY}|{_PART}|{_SEASON}|{_MONTH})(?:\s+{_PART})?"
    rf"|(?<=\bin\s)(?:(?:early|late|mid)[\s-]+)?{_MONTH}|(?<=\bsince\s){_MONTH}|(?<=\buntil\s){_MONTH}|(?<=\bby\s){_MONTH}"
    rf"|{_WEEKDAY}(?:\s+{_PART})?|{_FOREIGN_DAY}|(?:(?:the|in)\s+)?{_SEASON}(?:\s+of)?\s+\d{{4}}|(?:19|20)\d\d(?![\w:-])"
)
_CLOCK = (
    r"\d{1,2}(?:[:.]\d\d){0,2}\s*(?:[ap]\.?m\b\.?|o['’]clock|uhr\b|h\b)|(?<![\d:.])\d{1,2}:\d\d(?::\d\d)?(?![\d:])"
    rf"|\bnoon\b|\bmidnight\b|(?<=\bat\s)(?:{_WORD}|\d{{1,2}})(?!\s*[\w%])|{_WORD}\s+o['’]clock"
)
_CAPITAL = r"[^\W\d_a-zß-ÿ][\w'’&-]*"
_NAME = rf"{_CAPITAL}(?:\s(?:{_CAPITAL}|[A-Z]\.|(?:de|von|van|der|la|of|the|and|&)\s{_CAPITAL}))*"
_FULL_NAME = rf"{_CAPITAL}(?:\s(?:{_CAPITAL}|[A-Z]\.|(?:de|von|van|der|la)\s{_CAPITAL}))*"
_ROOM = r"(?i:room|suite|floor|building|hall|gate)\s+[A-Z]?\d[\w-]*|\b[A-Z]{2,4}\s?\d{3,5}[a-z]?\b"
_STREET = rf"\d{{1,5}}\s(?:{_CAPITAL}\s){{1,4}}(?:St|Street|Ave|Avenue|Rd|Road|Blvd|Lane|Drive|Way|Plaza|Square)\b\.?"
_SOMEWHERE = "|".join(
    rf"(?<=\b{word}\s)(?:the\s)?{_NAME}" for word in ("in", "at", "to", "from", "near", "visit", "visited", "into")
)
_THERE = r"(?:in|at|into|to|near|by|under|behind)\s(?:an?|the|my|our|his|her|your|their)\s[a-z-]+"
_MONEY = r"(?:[$€£¥]|\b(?:usd|eur|gbp|us\$))\s?\d[\d,.]{0,15}\s?(?:k\b|m\b|bn\b|million|billion|thousand)?"
_UNITS = r"(?:%|(?:percent|dollars?|euros?|pounds?|cents?|bucks|usd|eur|gbp|chf|kg|km|miles?|mwh?|mmbtu|bcf|hours?)\b)"
_FINDERS: dict[Kind, re.Pattern[str]] = {
    "date": re.compile(rf"\b(?:{_DATE})", re.I),
    "time": re.compile(_CLOCK, re.I),
    "duration": re.compile(rf"(?:(?:about|nearly|almost|over)\s)?\b{_COUNT}[\s-]+(?:more\s)?{_UNIT}|since\s\d{{4}}\b", re.I),
    "place": re.compile(f"{_ROOM}|{_STREET}|{_SOMEWHERE}|{_THERE}"),
    "person": re.compile(rf"\b{_FULL_NAME}"),
    "number": re.compile(rf"(?<![\w$€£.,])\d[\d,]{{0,15}}(?:\.\d+)?\s?%?(?![\w:/])|\b(?:{_WORDS}|twice|once)\b", re.I),
    "amount": re.compile(rf"{_MONEY}|(?<![\d.,])\b(?:\d[\d,.]{{0,15}}|{_WORDS})\s?{_UNITS}", re.I),
    "email": re.compile(r"(?<![\w.+'-])[\w.+'-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,6}"),
    "phone": re.compile(r"(?<![\w.-])\+?(?:\(\d{2,5}\)|\d{1,5})(?:[ ./-]?(?:\(\d{1,5}\)|\d{2,5})){1,5}(?:\sx\d{1,6})?(?![\w-])"),
    "link": re.compile(r"(?:https?://|www\.)[^\s<>\"')\]]{2,300}", re.I),
}
_NO_NAME = (
    "i the a an and but so or if it this that these those he she we they you my our your his her their yes no not ok okay "
    "thanks thank hi hey hello dear regards best what when where who why how which there here please re fw fwd subject to "
    "from cc sent date also just yeah wow great sure well now then in on at for of with by as is are was were do did have "
    "has had can could will would let all some any one two after before since while because though although monday tuesday "
    "wednesday thursday friday saturday sunday january february march april may june july august september october november "
    "december am pm pls i'm i've i'll it's that's we're let's don't call see fyi attached first last next good email mr mrs ms"
)
_NO_NAMES = frozenset(_NO_NAME.split())
_MEANINGS = (
    "januar=january mai=may juni=june juli=july märz=march oktober=october dezember=december janvier=january février=february "
    "mars=march avril=april juin=june juillet=july août=august septembre=september octobre=october novembre=november "
    "décembre=december heute=today gestern=yesterday hier=yesterday demain=tomorrow aujourd'hui=today montag=monday "
    "dienstag=tuesday mittwoch=wednesday donnerstag=thursday freitag=friday samstag=saturday sonntag=sunday lundi=monday "
    "mardi=tuesday mercredi=wednesday jeudi=thursday vendredi=friday samedi=saturday dimanche=sunday mon=monday tue=tuesday "
    "tues=tuesday wed=wednesday thu=thursday thur=thursday thurs=thursday fri=friday sat=saturday sun=sunday"
)
_ENGLISH = dict(pair.split("=") for pair in _MEANINGS.split())
_COUNTS = {word: count for count, word in enumerate("zero one two three four five six seven eight nine ten".split())}
_SHIFT = re.compile(rf"(?:in|within)\s+(?P<count>\w+)\s+(?P<unit>{_UNIT})|(?P<other>\w+)\s+(?P<size>{_UNIT})\s+(?:later|from)", re.I)
_FEW_AGO = re.compile(rf"{_VAGUE}\s+(?P<unit>{_UNIT})\s+(?:ago|back)|last\s+few\s+(?P<size>{_UNIT})", re.I)
_SEASONAL = re.compile(rf"(?:(?P<which>{_WHICH})\s+)?(?P<season>{_SEASON})\b(?:\s+of)?(?:\s+(?P<year>\d{{4}}))?", re.I)
_BARE_DAY = re.compile(rf"(?:this\s+)?(?P<day>{_WEEKDAY})(?:\s+{_PART})?$", re.I)
_NAMED = re.compile(rf"(?P<which>{_WHICH})\s+(?P<month>{_MONTH})", re.I)
_FULL = re.compile(r"\d{4}-\d\d-\d\d|\b(?:19|20)\d\d\b|\d[./]\d{1,2}[./]\d")
_DAYS = {"day": 1, "night": 1, "week": 7, "weekend": 7, "fortnight": 14, "month": 30, "quarter": 91, "year": 365}
_SEASONS = {"winter": 12, "spring": 3, "summer": 6, "autumn": 9, "fall": 9}


@dataclass(frozen=True, slots=True)
class Found:
    """Offsets of one span within its text."""

    start: int
    end: int


def find(text: str, kind: Kind) -> list[Found]:
    """Give the spans of one kind, in order, without overlaps; of a long text its beginning is looked at."""
    spans = [_trimmed(text, *match.span()) for match in _FINDERS[kind].finditer(text[:LONGEST])]
    if kind == "person":
        spans = [_name(text, *span) for span in spans]
    if kind == "phone":
        spans = [span for span in spans if sum(map(str.isdigit, text[slice(*span)])) >= 7 and not _FULL.match(text[slice(*span)])]
    return [Found(start, end) for start, end in spans if start < end]


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    part = text[start:end]
    dotted = part.endswith("m.")  # 5 p.m.
    return end - len(part.lstrip(" -\n\t")), start + len(part if dotted else part.rstrip(" .,;:\n\t-'’"))


def _name(text: str, start: int, end: int) -> tuple[int, int]:
    """Take off a run of capitals the words at its ends that are no part of a name."""
    words = [(start + match.start(), start + match.end()) for match in re.finditer(r"\S+", text[start:end])]
    while words and text[slice(*words[0])].lower().rstrip(".,") in _NO_NAMES:
        words.pop(0)
    while words and text[slice(*words[-1])].lower().rstrip(".,") in _NO_NAMES:
        words.pop()
    name = text[words[0][0] : words[-1][1]] if words else ""
    return (words[0][0], words[-1][1] - 2 * name.endswith(("'s", "’s"))) if words else (start, start)


def resolve(span: str, written: datetime, past: bool = False) -> dates.Days | None:
    """Give the days that a date in a text written then means; a bare weekday is the next one, or the last if `past`."""
    today = written.date()
    text = re.sub(r"[^\W\d_]+", lambda match: _ENGLISH.get(match.group().lower(), match.group()), span)
    text = re.sub(r"(?i)(\d)\.(?=\s+[a-z])|this(?=\s+past)|\s+(?:morning|afternoon|evening|night)$", r"\1", text).strip()
    try:
        if found := _special(text, today, past):
            return found
        plain = dates.find(text[:1].upper() + text[1:], today)
        return _nearest(plain[0], today) if plain else None
    except (OverflowError, ValueError):  # beyond the calendar
        return None


def _special(text: str, today: date, past: bool) -> dates.Days | None:
    """Read what `dates` does not: few days ago, in two weeks, seasons, bare weekdays, last May."""
    lower = text.lower()
    if "before yesterday" in lower or "after tomorrow" in lower or lower == "last":
        step = 2 if "after" in lower else -1 if lower == "last" else -2  # "last night" has lost its night
        return _days(today + timedelta(days=step))
    if match := _FEW_AGO.search(text):
        size = _size(match["unit"] or match["size"])
        return dates.Days(today - timedelta(days=5 * size), today - timedelta(days=2 * size))
    if match := _SHIFT.search(text):
        count, size = (match["count"] or match["other"]).lower(), _size(match["unit"] or match["size"])
        ahead = today + timedelta(days=size * (int(count) if count.isdecimal() else _COUNTS.get(count, 1)))
        return dates.Days(ahead - timedelta(days=size // 2), ahead + timedelta(days=size // 2))
    if match := _SEASONAL.search(text):
        return _season(match, today)
    if match := _BARE_DAY.match(text):
        return next(iter(dates.find(f"{'last' if past else 'on'} {match['day'].rstrip('s.')}", today)), None)
    if match := _NAMED.search(text):
        found = dates.find(match["month"].capitalize(), today)
        return _nearest(found[0], today, {"next": 1, "coming": 1, "this": 0}.get(match["which"].lower(), -1)) if found else None
    return None


def _season(match: re.Match[str], today: date) -> dates.Days:
    month = _SEASONS[match["season"].lower()]
    step = {"next": 1, "coming": 1, "last": -1, "past": -1, "previous": -1}.get((match["which"] or "").lower(), 0)
    year = int(match["year"]) if match["year"] else today.year + (step if step > 0 or today.month < month + 3 else 0)
    return dates.Days(date(year, month, 1), date(year, month, 28) + timedelta(days=63))


def _nearest(days: dates.Days, today: date, side: int = 0) -> dates.Days:
    """Give a day without a year the year that brings it nearest, on one side of today if asked to (-1, 1)."""
    if not days.yearly:
        return days
    moved = [_moved(days, today.year + step) for step in (-1, 0, 1)]
    right = [one for one in moved if side == 0 or (one.last < today if side < 0 else one.first > today)]
    return min(right or moved, key=lambda one: abs((one.first - today).days))


def _moved(days: dates.Days, year: int) -> dates.Days:
    first, last = (day if (day.month, day.day) != (2, 29) else day.replace(day=28) for day in (days.first, days.last))
    return dates.Days(first.replace(year=year), last.replace(year=year))


def _days(day: date) -> dates.Days:
    return dates.Days(day, day)


def _size(unit: str) -> int:
    return _DAYS.get(unit.lower().rstrip("s"), 1)


def in_words(span: str, written: datetime, past: bool = False) -> str | None:
    """Spell out what a date means where it does not say so itself: "7 May 2023", "the week before 9 June 2023"."""
    days = None if _FULL.search(span) else resolve(span, written, past)
    if days is None:
        return None
    today, length = written.date(), (days.last - days.first).days
    middle = days.first + timedelta(days=length // 2)
    if length == 0:
        return day_in_words(days.first)
    if length >= 300:
        return str(middle.year)
    if season := _SEASONAL.search(span):
        return f"{season['season'].lower()} {days.first.year}"
    if length >= 27:
        return f"{middle:%B} {middle.year}"
    unit = re.sub(rf"(?i)^.*{_WHICH}\s+|\s+(?:ago|back|later|from\s+now)$|^(?:in|within)\s+", "", span)
    side = "before" if days.last < today else "after" if days.first > today else "of"
    article = "" if re.match(rf"(?i){_COUNT}\s", unit) else "the "
    return f"{article}{unit.lower()} {side} {day_in_words(today)}"


def day_in_words(day: date) -> str:
    """Give "7 May 2023"."""
    return f"{day.day} {day:%B} {day.year}"
