"""Finds the date of a meeting in a line or in a file's name; a time without a known zone is taken as UTC.

Reads English months and numbers; 03/05/2024 is the fifth of March, 03.05.2024 the third of May.
"""

import re
from datetime import UTC, datetime, timedelta, timezone

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAME = (
    r"(?P<name>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_YEAR, _MONTH, _DAY = r"(?P<year>(?:19|20)\d\d)", r"(?P<month>\d{1,2})", r"(?P<day>\d{1,2})"
_DATES = [
    re.compile(rf"(?<!\d){pattern}(?!\d)", re.IGNORECASE)
    for pattern in (
        rf"{_YEAR}(?P<sep>[-/._]){_MONTH}(?P=sep){_DAY}",
        rf"{_DAY}(?:st|nd|rd|th)?[ -]+(?:of +)?{_NAME},?[ -]+{_YEAR}",
        rf"\b{_NAME} +{_DAY}(?:st|nd|rd|th)?,? +{_YEAR}",
        rf"{_DAY}\.{_MONTH}\.{_YEAR}",
        rf"{_MONTH}/{_DAY}/{_YEAR}",
        r"(?P<year>(?:19|20)\d\d)(?P<month>[01]\d)(?P<day>[0-3]\d)",
    )
]
_TIME = re.compile(
    r"(?<![\d:])(?P<hour>\d{1,2})(?:[:.](?P<minute>\d\d))?(?:[:.](?P<second>\d\d)(?:\.\d+)?)? ?(?P<half>[ap])\.?m\b\.?"
    r"|(?<![\d:])(?P<hour24>\d{1,2}):(?P<minute24>\d\d)(?::(?P<second24>\d\d)(?:\.\d+)?)?",
    re.IGNORECASE,
)
_STAMP = re.compile(r"[-_ T]*(?P<hour>[0-2]\d)[-_.:h]?(?P<minute>[0-5]\d)(?:[-_.:m]?(?P<second>[0-5]\d))?(?!\d)")
# A bare offset is one only behind seconds, else 10:00-11:00 would be one.
_OFFSET = re.compile(
    r"(?:\b(?:UTC|GMT)|(?<=:\d\d:\d\d)|(?<=\.\d\d\d)) ?(?P<sign>[+-])(?P<hours>\d{1,2})(?::?(?P<minutes>\d\d))?\b"
)
_HOURS = {"EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7, "CET": 1, "CEST": 2}
_ZONE = re.compile(rf"\b(?:{'|'.join(_HOURS)}|UTC|GMT)\b|(?<=\d)Z\b")
_FILLER = re.compile(
    r"\b(?:date|when|time|on|at|of|from|recorded|held|start(?:ed)?|mon(?:day)?|tue(?:s(?:day)?)?|wed(?:nesday)?"
    r"|thu(?:rs?(?:day)?)?|fri(?:day)?|sat(?:urday)?|sun(?:day)?|o'clock|hrs?)\b",
    re.IGNORECASE,
)


def date_line(line: str) -> datetime | None:
    """Give the date of a line that says nothing but a date; None for any other line."""
    found = _day(line) if len(line) <= 120 else None
    if found is None:
        return None
    rest = _ZONE.sub("", _OFFSET.sub(" ", found[1]))
    more = len(_TIME.findall(rest)) > 1 or re.search(r"\w", _FILLER.sub("", _TIME.sub(" ", rest)))
    return None if more else _clock(*found)


def date_within(line: str) -> datetime | None:
    """Give the first date in a line, with the first time."""
    found = _day(line[:300])
    return _clock(*found) if found else None


def date_in_name(name: str) -> datetime | None:
    """Give the date that a file's name holds, with the time where one follows it."""
    if (match := _dated(name)) is None or (day := _made(match)) is None:
        return None
    stamp = _STAMP.match(name, match.end())
    if stamp and int(stamp["hour"]) < 24:
        return day.replace(hour=int(stamp["hour"]), minute=int(stamp["minute"]), second=int(stamp["second"] or 0))
    return day


def without_date(name: str) -> str:
    """Give a file's name without its date and the time behind it."""
    if (match := _dated(name)) is None:
        return name
    stamp = _STAMP.match(name, match.end())
    return f"{name[: match.start()].removesuffix('GMT')} {name[stamp.end() if stamp else match.end() :]}"


def _dated(text: str) -> re.Match[str] | None:
    found = (match for pattern in _DATES if (match := pattern.search(text)) and _made(match))
    return next(found, None)


def _day(line: str) -> tuple[datetime, str] | None:
    """Give the day and what is left of the line."""
    if (match := _dated(line)) is None or (day := _made(match)) is None:
        return None
    return day, f"{line[: match.start()]} {re.sub(r'^T(?=[0-9])', '', line[match.end() :])}"


def _made(match: re.Match[str]) -> datetime | None:
    parts = match.groupdict()
    month = _MONTHS.index(parts["name"][:3].lower()) + 1 if parts.get("name") else int(parts["month"])
    try:
        return datetime(int(parts["year"]), month, int(parts["day"]), tzinfo=UTC)
    except ValueError:  # no such day
        return None


def _clock(day: datetime, rest: str) -> datetime:
    if (time := _TIME.search(rest)) is None:
        return day
    hour = int(time["hour"] or time["hour24"])
    if time["half"]:
        hour = hour % 12 + (12 if time["half"].lower() == "p" else 0)
    minute, second = int(time["minute"] or time["minute24"] or 0), int(time["second"] or time["second24"] or 0)
    try:
        return day.replace(hour=hour, minute=minute, second=second, tzinfo=_zone(rest))
    except ValueError:  # no such time
        return day


def _zone(rest: str) -> timezone:
    if match := _OFFSET.search(rest):
        shift = timedelta(hours=int(match["hours"]), minutes=int(match["minutes"] or 0))
        shift = -shift if match["sign"] == "-" else shift
    else:
        named = _ZONE.search(rest)
        shift = timedelta(hours=_HOURS.get(named[0], 0) if named else 0)
    return timezone(shift) if shift and abs(shift) < timedelta(hours=24) else UTC
