"""Whether two answers say the same: equal in words, one nearly within the other, or the same day in other words."""

import re
from datetime import date, timedelta

from engine.ask.keys import same_answer
from engine.text import dates
from tests.bench.metrics import terms

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_BEFORE = re.compile(rf"\b(day|week|weekend|{'|'.join(_DAYS)})\s+before\b", re.IGNORECASE)
_TODAY = date(2024, 5, 15)  # a year that is not named is near it


def agree(one: str | None, other: str | None) -> bool:
    """Whether two answers say the same; None and "" are no answer."""
    if not one or not other:
        return not one and not other
    if terms(one) == terms(other) or same_answer(one, other):
        return True
    return bool(days := day_of(one)) and days == day_of(other)


def day_of(text: str) -> date | None:
    """Return the one day that an answer names, as a date or as the day or weekday before one; None for a span."""
    found = dates.find(text, _TODAY)
    if len(found) != 1 or found[0].first != found[0].last:
        return None
    day: date = found[0].first
    back = _BEFORE.search(text)
    if back is None:
        return day
    unit = back[1].lower()
    if unit in _DAYS:
        return day - timedelta(days=(day.weekday() - _DAYS.index(unit) - 1) % 7 + 1)
    return day - timedelta(days=1) if unit == "day" else None
