"""Calendar invitations (iCalendar) as readable lines: what, when, where, who; knows nothing of the mail around them."""

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from engine.ingest.charsets import tidy
from engine.ingest.headers import clean
from engine.ingest.recurrence import in_words
from engine.ingest.timezones import Zones, clock, day_in_words, moment

MOST_EVENTS = 100
MOST_PEOPLE = 100
MOST_LINES = 50_000
_FOLD = re.compile(r"\n[ \t]")
_PARAMETER = re.compile(r';([A-Za-z-]{1,40})=("[^"]*+"?|[^;:,"]*+(?:,[^;:,"]*+)*+)')
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,60}")
_ESCAPE = re.compile(r"\\([nN\\;,])")
_DURATION = re.compile(r"([+-]?)P(?:(\d{1,4})W)?(?:(\d{1,4})D)?(?:T(?:(\d{1,4})H)?(?:(\d{1,4})M)?(?:(\d{1,6})S)?)?$")
_HEADINGS = {
    "CANCEL": "Cancelled",
    "REPLY": "Reply to invitation",
    "REQUEST": "Invitation",
    "COUNTER": "New time proposed",
}


@dataclass(frozen=True, slots=True)
class Property:
    """One line of a calendar: its name and parameters in upper case, its value."""

    name: str
    parameters: dict[str, str]
    value: str

    @property
    def text(self) -> str:
        """Give the value with its escapes undone."""
        return _ESCAPE.sub(lambda found: "\n" if found[1] in "nN" else found[1], self.value)


Component = dict[str, list[Property]]


def event_texts(calendar: str) -> list[str]:
    """Give one readable paragraph for each event of a calendar, at most `MOST_EVENTS`; none if it holds none."""
    method, events, zones = _components(calendar)
    return [_describe(event, method, zones) for event in events[:MOST_EVENTS]]


def _components(calendar: str) -> tuple[str, list[Component], Zones]:
    """Sort the lines of a calendar by the component they are in; alarms inside events are left out."""
    method, events = "", list[Component]()
    zone_lines: list[tuple[str, str]] = []
    stack: list[str] = []
    for line in _FOLD.sub("", tidy(calendar)).split("\n")[:MOST_LINES]:
        found = _parse(line)
        if found is None:
            continue
        if found.name == "BEGIN":
            stack = [*stack[-4:], found.value.strip().upper()]
            if stack[-1] == "VEVENT":
                events.append({})
        elif "VTIMEZONE" in stack:
            zone_lines.append((found.name, found.value.strip()))
        elif stack and stack[-1] == "VEVENT" and found.name != "END":
            events[-1].setdefault(found.name, []).append(found)
        elif found.name == "METHOD":
            method = found.value.strip().upper()
        if found.name == "BEGIN" and "VTIMEZONE" in stack:
            zone_lines.append(("BEGIN", stack[-1]))
        if found.name == "END" and stack:
            stack = stack[:-1]
    return method, [event for event in events if event], Zones.of(zone_lines)


def _parse(line: str) -> Property | None:
    name = _NAME.match(line)
    if name is None:
        return None
    parameters: dict[str, str] = {}
    end = name.end()
    while parameter := _PARAMETER.match(line, end):
        parameters[parameter[1].upper()] = parameter[2].strip('"')
        end = parameter.end()
    return Property(name[0].upper(), parameters, line[end + 1 :]) if line[end : end + 1] == ":" else None


def _describe(event: Component, method: str, zones: Zones) -> str:
    cancelled = _text(event, "STATUS").upper() == "CANCELLED"
    heading = _HEADINGS["CANCEL"] if cancelled else _HEADINGS.get(method, "Event")
    start = event.get("DTSTART", [])
    rule = _text(event, "RRULE")
    lines = [
        f"{heading}: {clean(_text(event, 'SUMMARY')) or 'no title'}",
        f"When: {_when(event, zones)}" if start else "",
        f"Repeats: {in_words(rule)}" if rule else "",
        f"Where: {clean(_text(event, 'LOCATION'))}" if _text(event, "LOCATION") else "",
        *(f"Organiser: {_person(one)}" for one in event.get("ORGANIZER", [])[:1]),
        _attendees(event.get("ATTENDEE", [])),
        *_notes(_text(event, "DESCRIPTION")),
    ]
    return "\n".join(line for line in lines if line)


def _text(event: Component, name: str) -> str:
    found = event.get(name)
    return found[0].text.strip() if found else ""


def _when(event: Component, zones: Zones) -> str:
    """Write begin and end with absolute dates; the end of an all-day event is exclusive in the format."""
    first = event["DTSTART"][0]
    start = moment(first.value, first.parameters.get("TZID", ""), zones)
    if start is None:
        return clean(first.value)
    end = _end(event, start.at, zones)
    if isinstance(start.at, datetime):
        return _span(start.at, end if isinstance(end, datetime) else start.at, start.zone)
    if isinstance(end, datetime) or end is None or (end - start.at).days <= 1:
        return f"{day_in_words(start.at)} (all day)"
    return f"{day_in_words(start.at)} to {day_in_words(end - timedelta(days=1))}"


def _span(start: datetime, end: datetime, zone: str) -> str:
    text = f"{day_in_words(start)}, {clock(start)}"
    if end != start:
        same = end.date() == start.date()
        text += f" to {clock(end)}" if same else f" to {day_in_words(end)}, {clock(end)}"
    return f"{text} ({zone})" if zone else text


def _end(event: Component, start: date | datetime, zones: Zones) -> date | datetime | None:
    duration = _DURATION.match(_text(event, "DURATION"))
    try:
        if last := event.get("DTEND"):
            found = moment(last[0].value, last[0].parameters.get("TZID", ""), zones)
            return _beside(found.at, start) if found is not None else None
        return start + _duration(duration) if duration is not None else None
    except OverflowError:  # at the calendar's end
        return None


def _duration(found: re.Match[str]) -> timedelta:
    weeks, days, hours, minutes, seconds = (int(part or 0) for part in found.groups()[1:])
    span = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    return -span if found[1] == "-" else span


def _beside(end: date | datetime, start: date | datetime) -> date | datetime | None:
    """Give an end in the zone of its start; None if one is a day and the other a moment."""
    if isinstance(end, datetime) and isinstance(start, datetime):
        return end.astimezone(start.tzinfo) if end.tzinfo and start.tzinfo else end
    return None if isinstance(end, datetime) or isinstance(start, datetime) else end


def _person(found: Property) -> str:
    address = clean(found.value).removeprefix("mailto:").removeprefix("MAILTO:").removeprefix("Mailto:")
    name = clean(found.parameters.get("CN", ""))
    return f"{name} <{address}>" if name and name != address else address


def _attendees(found: list[Property]) -> str:
    answers = {"ACCEPTED": " (accepted)", "DECLINED": " (declined)", "TENTATIVE": " (tentative)"}
    people = [_person(one) + answers.get(one.parameters.get("PARTSTAT", "").upper(), "") for one in found[:MOST_PEOPLE]]
    more = f" and {len(found) - MOST_PEOPLE} more" if len(found) > MOST_PEOPLE else ""
    return f"Attendees: {', '.join(people)}{more}" if people else ""


def _notes(description: str) -> list[str]:
    lines = [line.rstrip() for line in tidy(description).split("\n") if line.strip()]
    return [f"Notes: {lines[0]}", *lines[1:]] if lines else []
