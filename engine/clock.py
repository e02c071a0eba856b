"""What time it is for a question: now, or what PKB_NOW says, in the zone the user lives in."""

from collections.abc import Mapping
from datetime import datetime

from store.errors import UsageError


def now(environ: Mapping[str, str]) -> datetime:
    """Give the aware local time; UsageError where PKB_NOW is no ISO date and time."""
    given = environ.get("PKB_NOW")
    if not given:
        return datetime.now().astimezone()
    try:
        return datetime.fromisoformat(given).astimezone()
    except ValueError:
        raise UsageError("PKB_NOW must be like 2024-06-19T08:00", None) from None
