"""What a question is limited to, as people type it: people, days and a collection become a scope."""

import calendar
import re
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING

from engine.session import Session
from engine.text.terminal import valid_text
from store.errors import UsageError
from store.types import Scope

if TYPE_CHECKING:
    from engine.text.dates import Days

_AGO = re.compile(r"(\d{1,4})\s*([dwmy])")
_DAYS = {"d": 1, "w": 7, "m": 30, "y": 365}
_ISO = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?")


def scope_of(
    opened: Session,
    sender: str | None,
    recipient: str | None,
    since: str | None,
    until: str | None,
    collection: str | None,
) -> Scope:
    """Return what --from, --to, --since, --until and --in leave to look at; UsageError naming what cannot be."""
    for flag, name in (("--from", sender), ("--to", recipient), ("--in", collection)):
        if name is not None and not name.strip():  # which would limit nothing
            raise UsageError(f"{flag} is empty", "pkb ask --help")
    first = None if since is None else _day("--since", since, opened.now)
    last = None if until is None else _day("--until", until, opened.now, end=True)
    if first and last and first >= last:
        raise UsageError(f"--since {since} is after --until {until}", "pkb ask --help")
    who, whom, where = (None if name is None else valid_text(name.strip()) for name in (sender, recipient, collection))
    if where is not None and where not in (known := opened.catalogue.by_collection()):
        raise UsageError(f"no collection {where}, only {', '.join(known) or 'none'}", "pkb stats")
    return Scope(who, whom, first, last, where)


def _day(flag: str, day: str, now: datetime, *, end: bool = False) -> date:
    """Return the first day of a day, month or year, or with `end` the day after it; UsageError naming the flag."""
    try:
        return first_day(day, now.date(), end=end)
    except (ValueError, OverflowError):
        example = "2024-05-03, 2024-05, 2024, 30d, yesterday or last week"
        raise UsageError(f"{flag} {day} is not a day like {example}", "pkb ask --help") from None


def first_day(day: str, today: date, *, end: bool = False) -> date:
    """Return the first day of a day, month or year, or with `end` the day after it; ValueError.

    Days may be named as people do, too: yesterday, monday, last week; a weekday or month is the last one that began.
    """
    if ago := _AGO.fullmatch(day.strip()):
        return today - timedelta(days=int(ago[1]) * _DAYS[ago[2]]) + timedelta(days=end)
    if iso := _ISO.fullmatch(day.strip()):
        first = date(int(iso[1]), int(iso[2] or 1), int(iso[3] or 1))
        return first + timedelta(days=_length(first, iso)) if end else first
    named = _named(day, today)
    return named.last + timedelta(days=1) if end else named.first


def _named(day: str, today: date) -> "Days":
    """Return what "last week" or "monday" means; ValueError if it means no days."""
    from engine.text.relative_dates import resolve

    in_words = any(map(str.isalpha, day))
    if not in_words or not (days := resolve(day.strip(), datetime.combine(today, time.min), past=True)):
        raise ValueError
    return days


def _length(first: date, iso: re.Match[str]) -> int:
    """Return the number of days of the day, month or year that begins so."""
    in_month = calendar.monthrange(first.year, first.month)[1]
    return 1 if iso[3] else in_month if iso[2] else 366 if calendar.isleap(first.year) else 365
