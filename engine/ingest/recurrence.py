"""A calendar's repetition rule (RRULE) in words; knows no events."""

import re

from engine.ingest.timezones import DAYS, MONTHS, WEEKDAYS, Zones, day_in_words, moment

_UNITS = {
    "DAILY": "day",
    "WEEKLY": "week",
    "MONTHLY": "month",
    "YEARLY": "year",
    "HOURLY": "hour",
    "MINUTELY": "minute",
}
_DAY = re.compile(r"([+-]?\d{1,2})?(MO|TU|WE|TH|FR|SA|SU)$")
_ORDINALS = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", -1: "last", -2: "second to last"}


def in_words(rule: str) -> str:
    """Say how often an event repeats; a rule that cannot be said is given as it is."""
    parts = dict(part.split("=", 1) for part in rule[:500].upper().split(";") if "=" in part)
    unit = _UNITS.get(parts.get("FREQ", "").strip())
    if unit is None:
        return " ".join(rule[:500].split())
    interval = parts.get("INTERVAL", "1").strip()
    words = f"every {unit}" if interval == "1" else f"every {interval} {unit}s"
    days = _listed([_day(day) for day in parts.get("BYDAY", "").split(",") if day.strip()])
    dates = _listed([day.strip() for day in parts.get("BYMONTHDAY", "").split(",") if day.strip()])
    months = _listed([_month(month.strip()) for month in parts.get("BYMONTH", "").split(",") if month.strip()])
    words += f" on {days}" if days else ""
    words += f" on day {dates}" if dates else ""
    words += f" in {months}" if months else ""
    if count := parts.get("COUNT", "").strip():
        words += f", {count} times"
    if until := moment(parts.get("UNTIL", ""), "", Zones({})):
        words += f", until {day_in_words(until.at)}"
    return words


def _day(code: str) -> str:
    found = _DAY.match(code.strip())
    if found is None:
        return code.strip()
    name = DAYS[WEEKDAYS[found[2]]]
    return f"the {_ORDINALS.get(int(found[1]), found[1])} {name}" if found[1] else name


def _month(number: str) -> str:
    return MONTHS[int(number) - 1] if number.isdecimal() and 1 <= int(number) <= 12 else number


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
