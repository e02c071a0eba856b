"""Moments of a calendar file in the zone they are given in, in words; knows no events and no locale."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
WEEKDAYS = {"MO": 0, "TU": 1, "WE": 2, "TH": 3, "FR": 4, "SA": 5, "SU": 6}
_MOMENT = re.compile(r"\s*(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)?(Z?))?\s*$")
_OFFSET = re.compile(r"([+-])(\d\d)(\d\d)")
_NTH_DAY = re.compile(r"(-?\d)([A-Z]{2})$")
_IANA = re.compile(r"(?:/[^/]+/)?([A-Za-z_]{2,20}(?:/[A-Za-z0-9_+-]{1,30}){1,2})$")


@dataclass(frozen=True, slots=True)
class Moment:
    """A day or a moment, and the zone in words ("" for a floating one)."""

    at: date | datetime
    zone: str


@dataclass(frozen=True, slots=True)
class Rule:
    """One half of a zone's year: the offset from UTC that holds from a month's nth weekday on."""

    offset: timedelta
    month: int  # 0 where the offset holds all year
    nth: int
    weekday: int

    def begins(self, year: int) -> date:
        """Give the day of a year on which this half begins."""
        if not self.month:
            return date(year, 1, 1)
        if self.nth < 0:
            last = date(year + self.month // 12, self.month % 12 + 1, 1) - timedelta(days=1)
            return last - timedelta(days=(last.weekday() - self.weekday) % 7)
        first = date(year, self.month, 1)
        return first + timedelta(days=(self.weekday - first.weekday()) % 7 + 7 * (max(self.nth, 1) - 1))


@dataclass(frozen=True, slots=True)
class Zones:
    """The zones that a calendar defines for itself, by name."""

    rules: dict[str, tuple[Rule, ...]]

    @classmethod
    def of(cls, lines: Iterable[tuple[str, str]]) -> "Zones":
        """Read the property lines of VTIMEZONE components: pairs of name and value."""
        rules: dict[str, tuple[Rule, ...]] = {}
        name, half = "", dict[str, str]()
        for field, value in lines:
            if field == "TZID":
                name = value
            elif field == "BEGIN":
                half = {}
            elif field == "END" and half:
                rule = _rule(half)
                rules[name] = (*rules.get(name, ()), rule) if rule else rules.get(name, ())
                half = {}
            else:
                half.setdefault(field, value)
        return cls(rules)

    def find(self, name: str, at: datetime) -> tzinfo | None:
        """Give the zone of a name at a local moment: a public one, else the calendar's own."""
        public = _IANA.match(name)
        if public:
            try:
                return ZoneInfo(public[1])
            except (OSError, ValueError, KeyError):  # none of that name here
                pass
        halves = sorted((rule.begins(at.year), rule.offset) for rule in self.rules.get(name, ())[:10])
        if not halves:
            return None
        begun = [offset for begin, offset in halves if begin <= at.date()]
        return timezone(begun[-1] if begun else halves[-1][1])


def moment(value: str, zone: str, zones: Zones) -> Moment | None:
    """Read a DATE or DATE-TIME value; None if it is neither."""
    found = _MOMENT.match(value[:40])
    if found is None:
        return None
    year, month, day = int(found[1]), int(found[2]), int(found[3])
    try:
        if found[4] is None:
            return Moment(date(year, month, day), "")
        at = datetime(year, month, day, int(found[4]), int(found[5]), min(int(found[6] or 0), 59))
        if found[7]:
            return Moment(at.replace(tzinfo=UTC), "UTC")
        known = zones.find(zone, at) if zone else None
        if known is None:
            return Moment(at, zone[:80])
        aware = at.replace(tzinfo=known)
        return Moment(aware, f"{zone[:80]}, {_offset_words(aware)}")
    except (ValueError, OverflowError):  # the 31st of February, or a year at the calendar's end
        return None


def day_in_words(day: date) -> str:
    """Write a date so that every part can be searched for."""
    return f"{DAYS[day.weekday()]} {day.day} {MONTHS[day.month - 1]} {day.year}"


def clock(at: datetime) -> str:
    """Write the time of day."""
    return f"{at.hour:02}:{at.minute:02}"


def _offset_words(at: datetime) -> str:
    minutes = int((at.utcoffset() or timedelta()).total_seconds()) // 60
    return f"UTC{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


def _rule(half: dict[str, str]) -> Rule | None:
    offset = _OFFSET.match(half.get("TZOFFSETTO", ""))
    if offset is None or int(offset[2]) > 23:
        return None
    span = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
    parts = dict(part.split("=", 1) for part in half.get("RRULE", "").upper().split(";") if "=" in part)
    nth = _NTH_DAY.match(parts.get("BYDAY", ""))
    month = parts.get("BYMONTH", "")
    if nth is None or nth[2] not in WEEKDAYS or not month.isdecimal() or not 1 <= int(month) <= 12 or int(nth[1]) > 4:
        return Rule(-span if offset[1] == "-" else span, 0, 0, 0)
    return Rule(-span if offset[1] == "-" else span, int(month), int(nth[1]), WEEKDAYS[nth[2]])
