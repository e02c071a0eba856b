"""Days as people type them after --since and --until."""

import calendar
import re
from datetime import datetime, timedelta

from store.errors import UsageError

_AGO = re.compile(r"(\d{1,4})\s*([dwmy])")
_DAYS = {"d": 1, "w": 7, "m": 30, "y": 365}
_ISO = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?")


def moment(text: str | None, now: datetime, *, end: bool = False) -> datetime | None:
    """Give the start of a day, month or year in the user's zone, or with `end` the moment after it; UsageError."""
    if text is None:
        return None
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if ago := _AGO.fullmatch(text.strip()):
        return today - timedelta(days=int(ago[1]) * _DAYS[ago[2]]) + timedelta(days=end)
    if iso := _ISO.fullmatch(text.strip()):
        try:
            return _start(iso) if not end else _after(iso)
        except (ValueError, OverflowError):
            pass
    raise UsageError(f"not a day: {text}", "pkb ask --since 2024-05-03, 2024-05, 2024 or 30d")


def _start(iso: re.Match[str]) -> datetime:
    # The zone's offset of that day, not of today.
    return datetime(int(iso[1]), int(iso[2] or 1), int(iso[3] or 1)).astimezone()


def _after(iso: re.Match[str]) -> datetime:
    first = _start(iso)
    in_month = calendar.monthrange(first.year, first.month)[1]
    days = 1 if iso[3] else in_month if iso[2] else 366 if calendar.isleap(first.year) else 365
    return first + timedelta(days=days)
