"""Whether a text names a day that is still to come: the next concert is on one, and last year's is not the next.

Reads days that are written out and are quick to find ("22 June", "June 22nd, 2024", "2024-06-22"), and no others.
"""

import re
from datetime import date, datetime

from engine.ask.moments import resolve
from engine.ask.spans import MONTH

_DAY = re.compile(
    rf"(?<!\w)(?:\d{{4}}-\d\d-\d\d|\d{{1,2}}(?:st|nd|rd|th|\.)?\s(?:of\s)?(?i:{MONTH})(?:,?\s\d{{4}})?"
    rf"|(?=[JFMASOND])(?i:{MONTH})\s\d{{1,2}}(?:st|nd|rd|th)?\b(?!:)(?:,?\s\d{{4}})?)"
)


def comes(text: str, written: datetime | None, today: date) -> bool:
    """Tell whether a text, written then, names a day that is not over today."""
    if written is None:
        return False
    days = (resolve(one.group(), written) for one in _DAY.finditer(text))
    return any(day is not None and day.last >= today for day in days)
