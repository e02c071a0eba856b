"""Calendars (iCalendar, RFC 5545) as readable text: what, when, where, who; and contacts (vCard, RFC 6350)."""

import re
import struct
from binascii import a2b_qp
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import partial
from io import BytesIO
from zoneinfo import ZoneInfo

from msgspec import Struct

from engine.ingest.headers import clean, decode_text, tidy
from engine.ingest.html import html_text
from engine.ingest.quotes import paragraphs
from engine.ingest.types import ParseLimits, content_id, item_or_bug
from engine.text.dates import DAY_NAMES, MONTH_NAMES, spell_date
from store.types import Document, ParsedItem, Role

WEEKDAYS = {"MO": 0, "TU": 1, "WE": 2, "TH": 3, "FR": 4, "SA": 5, "SU": 6}
_OFFSET = re.compile(r"([+-])(\d\d)(\d\d)")
_NTH_DAY = re.compile(r"(-?\d)([A-Z]{2})$")
_HEADINGS = {
    "": "Event",
    "CANCEL": "Cancelled",
    "REPLY": "Reply to invitation",
    "REQUEST": "Invitation",
    "COUNTER": "New time proposed",
}  # by the method of a calendar
_IANA = re.compile(r"(?:/[^/]+/)?([A-Za-z_]{2,20}(?:/[A-Za-z0-9_+-]{1,30}){1,2})$")


class Zones(Struct, frozen=True):
    """The time zones that a calendar defines, by name, and the name of its default zone, "" if it has none."""

    defined: dict[str, tzinfo]
    own: str = ""

    def find(self, name: str) -> tzinfo | None:
        """Return the zone of a name: an IANA zone, else the calendar's own."""
        if public := _IANA.match(name):
            with suppress(OSError, ValueError, KeyError):  # not in the zone database
                return ZoneInfo(public[1])
        return self.defined.get(name)


def parse_time(value: str, zone: str, zones: Zones) -> date | datetime | None:
    """Return the value of a DATE or DATE-TIME property, a time in the zone that it has; None if it is neither."""
    with suppress(ValueError, OverflowError):  # 31 February, or a year out of range
        if "T" not in value:
            return date.fromisoformat(value.strip())
        at = datetime.fromisoformat(value.strip())
        if at.tzinfo is None:
            return at.replace(tzinfo=zones.find(zone) if zone else None)
        # Its day in the calendar's own zone is the event's day.
        return at.astimezone((zones.find(zones.own) if zones.own else None) or UTC)
    return None


def _zone(halves: dict[str, "Component"]) -> tzinfo | None:
    """Return the zone whose year has these halves, through the notation of POSIX; None if they are not readable."""
    parts, changes = list[str](), list[str]()
    for half in (one for name in _HALVES if (one := halves.get(name))):
        if offset := _OFFSET.match(_text(half, "TZOFFSETTO")):
            parts.append(f"<{len(parts)}>{'+' if offset[1] == '-' else '-'}{offset[2]}:{offset[3]}")
            rule = dict(part.split("=", 1) for part in _text(half, "RRULE").upper().split(";") if "=" in part)
            if (nth := _NTH_DAY.match(rule.get("BYDAY", ""))) and nth[2] in WEEKDAYS:
                week, day = int(nth[1]), (WEEKDAYS[nth[2]] + 1) % 7
                changes.insert(0, f",M{rule.get('BYMONTH')}.{5 if week < 0 else week}.{day}")
    no_changes = struct.pack(">4sc15x6llbb4s", b"TZif", b"2", 0, 0, 0, 0, 1, 4, 0, 0, 0, b"UTC")  # RFC 8536
    with suppress(ValueError):
        posix = "".join([*parts, *changes] if len(changes) == 2 else parts[:1])
        return ZoneInfo.from_file(BytesIO(no_changes * 2 + f"\n{posix}\n".encode())) if posix else None
    return None


_UNITS = {"DAILY": "day"} | {f"{unit.upper()}LY": unit for unit in ("week", "month", "year", "hour", "minute")}
_RULE_DAY = re.compile(r"([+-]?\d{1,2})?(MO|TU|WE|TH|FR|SA|SU)$")
_ORDINALS = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", -1: "last", -2: "second to last"}


def rule_text(rule: str, zone: tzinfo | None = None) -> str:
    """Return how often an event of a zone repeats, in words; an unknown rule is returned unchanged."""
    parts = dict(part.split("=", 1) for part in rule[:500].upper().split(";") if "=" in part)
    unit = _UNITS.get(parts.get("FREQ", "").strip())
    if unit is None:
        return " ".join(rule[:500].split())
    interval = parts.get("INTERVAL", "1").strip()
    words = f"every {unit}" if interval == "1" else f"every {interval} {unit}s"
    days = _listed([_day(day) for day in parts.get("BYDAY", "").split(",") if day.strip()])
    dates = _listed([day.strip() for day in parts.get("BYMONTHDAY", "").split(",") if day.strip()])
    numbers = (month.strip() for month in parts.get("BYMONTH", "").split(","))
    known = {str(number): name for number, name in enumerate(MONTH_NAMES, 1)}
    months = _listed([known.get(number.lstrip("0"), number) for number in numbers if number])
    words += f" on {days}" if days else ""
    words += f" on day {dates}" if dates else ""
    words += f" in {months}" if months else ""
    if count := parts.get("COUNT", "").strip():
        words += f", {count} times"
    if until := parse_time(parts.get("UNTIL", ""), "", Zones({})):
        if zone and isinstance(until, datetime) and until.tzinfo:
            with suppress(OverflowError):  # the first or last day that there is
                until = until.astimezone(zone)
        words += f", until {spell_date(until, weekday=True)}"
    return words


def _day(code: str) -> str:
    found = _RULE_DAY.match(code.strip())
    if found is None:
        return code.strip()
    name = DAY_NAMES[WEEKDAYS[found[2]]]
    return f"the {_ORDINALS.get(int(found[1]), found[1])} {name}" if found[1] else name


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


MOST_EVENTS = 100
MOST_PEOPLE = 100
MOST_LINES = 50_000
_ANSWERS = {"ACCEPTED": " (accepted)", "DECLINED": " (declined)", "TENTATIVE": " (tentative)"}
_COMPONENTS = {"VEVENT": "", "VTODO": "Task", "VJOURNAL": "Note", "VCARD": ""}  # and headings, if not by the method
_HALVES = ("STANDARD", "DAYLIGHT")  # of a year in a zone
_FOLD = re.compile(r"\n[ \t]")
_PARAMETER = re.compile(r';([A-Za-z0-9-]{1,40})(?:=("[^"]*+"?|[^;:,"]*+(?:,[^;:,"]*+)*+))?')
_NAME = re.compile(r"(?:[A-Za-z0-9-]{1,60}\.)?([A-Za-z][A-Za-z0-9-]{0,60})")
_TAGGED = re.compile(r"</?(?:p|br|div|b|i|u|a|ul|ol|li|span|html|body|table)(?:\s[^<>]*=[^<>]*)?\s?/?>", re.IGNORECASE)
_ESCAPE = re.compile(r"\\([nN\\;,])")
_DURATION = re.compile(r"([+-]?)P(?:(\d{1,4})W)?(?:(\d{1,4})D)?(?:T(?:(\d{1,4})H)?(?:(\d{1,4})M)?(?:(\d{1,6})S)?)?$")


class Property(Struct, frozen=True):
    """One line of a calendar: name and parameter names in upper case, and the value."""

    name: str
    parameters: dict[str, str]
    value: str

    @property
    def text(self) -> str:
        """Return the unescaped value."""
        return _ESCAPE.sub(lambda found: "\n" if found[1] in "nN" else found[1], self.value)


Component = dict[str, list[Property]]


def event_texts(calendar: str) -> list[str]:
    """Return one readable paragraph per event of a calendar, at most `MOST_EVENTS`."""
    method, events, zones = _components(calendar, MOST_LINES)
    return [_describe(event, method, zones) for event in events[:MOST_EVENTS]]


def _components(calendar: str, most: int) -> tuple[str, list[Component], Zones]:
    """Return the method, events, tasks and zones of a calendar; alarms inside events are left out."""
    events, part, stack = list[Component](), Component(), list[str]()
    halves, told = dict[str, dict[str, Component]](), dict[str, str]()
    for line in _FOLD.sub("", tidy(calendar)).split("\n")[:most]:
        found = _parse(line)
        if found is None:
            continue
        if found.name == "BEGIN":
            stack = [*stack[-4:], found.value.strip().upper()]
            if stack[-1] in _COMPONENTS:
                events.append(part := {})
            elif stack[-1] in _HALVES:
                halves.setdefault(told.get("TZID", ""), {})[stack[-1]] = part = {}
        if found.name == "END":
            stack = stack[:-1]
        elif stack and (stack[-1] in _COMPONENTS or stack[-1] in _HALVES):
            part.setdefault(found.name, []).append(found)
        elif found.name in ("METHOD", "TZID", "X-WR-TIMEZONE"):
            told[found.name] = found.value.strip()
    zones = {name: zone for name, several in halves.items() if (zone := _zone(several))}
    own = told.get("X-WR-TIMEZONE") or (told.get("TZID", "") if len(zones) == 1 else "")
    return told.get("METHOD", "").upper(), [event for event in events if len(event) > 1], Zones(zones, own)


def _parse(line: str) -> Property | None:
    name = _NAME.match(line)
    if name is None:
        return None
    parameters: dict[str, str] = {}
    end = name.end()
    while parameter := _PARAMETER.match(line, end):
        named, value = (parameter[1], parameter[2]) if parameter[2] is not None else ("TYPE", parameter[1])
        before = f"{parameters['TYPE']}," if named.upper() == "TYPE" and "TYPE" in parameters else ""
        parameters[named.upper()] = before + value.strip('"')
        end = parameter.end()
    return Property(name[1].upper(), parameters, line[end + 1 :]) if line[end : end + 1] == ":" else None


def _describe(event: Component, method: str, zones: Zones) -> str:
    status, kind = _text(event, "STATUS").upper(), _COMPONENTS[_text(event, "BEGIN").upper()]
    cancelled = status == "CANCELLED"
    heading = _HEADINGS["CANCEL"] if cancelled else kind or _HEADINGS.get(method, _HEADINGS[""])
    start, rule = _time(event, "DTSTART", zones), _text(event, "RRULE")
    zone = start.tzinfo if isinstance(start, datetime) else None
    asked = event.get("ATTENDEE", [])
    people = [f"{_person(one)}{_ANSWERS.get(one.parameters.get('PARTSTAT', '').upper(), '')}" for one in asked]
    more = f" and {len(people) - MOST_PEOPLE} more" if len(people) > MOST_PEOPLE else ""
    notes = _text(event, "DESCRIPTION") or _text(event, "X-ALT-DESC")
    notes = tidy(html_text(notes) if _TAGGED.search(notes) else notes)
    notes = "\n".join(line.rstrip() for line in notes.split("\n") if line.strip())
    lines = [
        f"{heading}: {clean(_text(event, 'SUMMARY')) or 'no title'}",
        f"When{' (cancelled)' * cancelled}: {_when(event, start, zones)}" if "DTSTART" in event else "",
        *_dates(event, zones, "Due", "DUE"),
        f"Status: {clean(status).lower().replace('-', ' ')}" if kind and status and not cancelled else "",
        *_dates(event, zones, "Completed", "COMPLETED"),
        f"Repeats: {rule_text(rule, zone)}" if rule else "",
        *(() if cancelled else _dates(event, zones, "Instead of", "RECURRENCE-ID")),
        *_dates(event, zones, "Except", "EXDATE"),
        *_dates(event, zones, "Also", "RDATE"),
        f"Where: {clean(_text(event, 'LOCATION'))}" if _text(event, "LOCATION") else "",
        *(f"Organiser: {_person(one)}" for one in event.get("ORGANIZER", [])[:1]),
        f"Attendees: {', '.join(people[:MOST_PEOPLE])}{more}" if people else "",
        f"Notes: {notes.strip()}" if notes.strip() else "",
    ]
    return "\n".join(line for line in lines if line)


def _text(event: Component, name: str) -> str:
    found = event.get(name)
    return found[0].text.strip() if found else ""


def _time(event: Component, name: str, zones: Zones) -> date | datetime | None:
    first = next(iter(event.get(name, [])), None)
    return parse_time(first.value, first.parameters.get("TZID", ""), zones) if first else None


def _when(event: Component, start: date | datetime | None, zones: Zones) -> str:
    """Return start and end as absolute dates; iCalendar's end of an all-day event is exclusive."""
    if start is None:
        return "unreadable"  # not its text, in which a question could find a day, such as "tomorrow"
    day, end = spell_date(start, weekday=True), _end(event, start, zones)
    if not isinstance(start, datetime):
        if end and (end - start).days > 1:
            return f"{day} to {spell_date(end - timedelta(days=1), weekday=True)}"
        return f"{day} (all day)"
    text = f"{day}, {start:%H:%M}"
    if isinstance(end, datetime) and end != start:
        same = end.date() == start.date()
        text += f" to {end:%H:%M}" if same else f" to {spell_date(end, weekday=True)}, {end:%H:%M}"
    first = event["DTSTART"][0]
    zone = (zones.own if first.value.strip().endswith("Z") else first.parameters.get("TZID", ""))[:80]
    if offset := f"{start:%z}":
        zone = "UTC" if start.tzinfo is UTC else f"{zone}, UTC{offset[:3]}:{offset[3:5]}"
    return f"{text} ({zone})" if zone else text


def _end(event: Component, start: date | datetime, zones: Zones) -> date | datetime | None:
    """Return the end in the zone of the start; None if there is none, or if one is a date and the other a time."""
    with suppress(OverflowError):  # beyond year 9999
        if "DTEND" in event:
            end = _time(event, "DTEND", zones)
            if isinstance(end, datetime) and isinstance(start, datetime):
                return end.astimezone(start.tzinfo) if end.tzinfo and start.tzinfo else end
            return None if isinstance(end, datetime) or isinstance(start, datetime) else end
        if lasts := _DURATION.match(_text(event, "DURATION")):
            weeks, days, hours, minutes, seconds = (int(part or 0) for part in lasts.groups()[1:])
            span = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
            return start - span if lasts[1] == "-" else start + span
    return None


def _person(found: Property) -> str:
    address = clean(found.value).removeprefix("mailto:").removeprefix("MAILTO:").removeprefix("Mailto:")
    name = clean(found.parameters.get("CN", ""))
    return f"{name} <{address}>" if name and name != address else address


def _dates(event: Component, zones: Zones, heading: str, name: str) -> list[str]:
    values = [(value, one.parameters.get("TZID", "")) for one in event.get(name, ()) for value in one.value.split(",")]
    found = [read for value, zone in values[:MOST_PEOPLE] if (read := parse_time(value, zone, zones))]
    return [f"{heading}: {_listed([spell_date(day, weekday=True) for day in found])}"] if found else []


# Files of events and of contacts: a document for each event with its moved and cancelled days, and for each contact.

_LABELS = {
    **{"TEL": "Phone number", "EMAIL": "Email address", "ADR": "Address", "BDAY": "Birthday", "ORG": "Organisation"},
    **{"TITLE": "Job", "ROLE": "Role", "NICKNAME": "Nickname", "URL": "Website", "NOTE": "Notes"},
}
_KINDS = {"HOME": "home", "WORK": "work", "CELL": "mobile", "FAX": "fax", "PAGER": "pager"}
_SOFT_BREAK = re.compile(r"(?<=QUOTED-PRINTABLE)((?:[^\n]*=\n)+)", re.IGNORECASE)
_URI = re.compile(r"(?:tel|mailto):", re.IGNORECASE)


def read_calendar(raw: bytes, limits: ParseLimits) -> list[ParsedItem]:
    """Return the events of a calendar file, those of one UID as one document."""
    method, events, zones = _components(decode_text(raw), limits.file_bytes)
    series = dict[str, list[Component]]()
    for number, event in enumerate(events):
        series.setdefault(_text(event, "UID") or f"\0{number}", []).append(event)
    return [item_or_bug(item, partial(_series, item, one, method, zones)) for item, one in enumerate(series.values())]


def _series(item: int, events: list[Component], method: str, zones: Zones) -> ParsedItem:
    people = [list(map(_person, events[0].get(name, []))) for name in ("ORGANIZER", "ATTENDEE")]
    stamps = (one for name in ("LAST-MODIFIED", "CREATED", "DTSTAMP") for one in events[0].get(name, []))
    times = (parse_time(one.value, "", Zones({})) for one in stamps)
    date = next((at for at in times if isinstance(at, datetime) and at.tzinfo), None)
    text = "\n\n".join(_describe(event, method, zones) for event in events[:MOST_EVENTS])
    title = clean(_text(events[0], "SUMMARY"))
    return ParsedItem(item, _document(title, text, "event", next(iter(people[0]), ""), people[1], date))


def _document(
    title: str, text: str, role: Role, sender: str = "", recipients: Sequence[str] = (), date: datetime | None = None
) -> Document:
    lines, id_ = text.split("\n"), content_id(role, title, sender, text)
    passages = tuple(paragraphs(lines, [role] * len(lines), 1, date))
    return Document(id_, "mail", title, sender, tuple(recipients), date, None, text, passages)


def read_contacts(raw: bytes, limits: ParseLimits) -> list[ParsedItem]:
    """Return the contacts of a vCard file (2.1 to 4.0), a document each."""
    unbroken = _SOFT_BREAK.sub(lambda found: found[1].replace("=\n", ""), tidy(decode_text(raw)))
    _, cards, _ = _components(unbroken, limits.file_bytes)
    return [item_or_bug(item, partial(_contact, item, card)) for item, card in enumerate(cards)]


def _contact(item: int, card: Component) -> ParsedItem:
    names = [_value(one) for key in ("FN", "N", "ORG", "EMAIL") for one in card.get(key, ())]
    name = next(filter(None, names), "")
    lines = [
        f"{label}{_kind(one)}: {_value(one)}"
        for key, label in _LABELS.items()
        for one in sorted(card.get(key, ()), key=lambda one: not _kind(one))  # the others may be of any kind
        if _value(one)
    ]
    if not name or not lines:
        return ParsedItem(item, None, problem="a contact without a name or anything else")
    return ParsedItem(item, _document(name, "\n".join([f"Contact: {name}", *lines]), "body"))


def _kind(one: Property) -> str:
    kinds = [_KINDS[kind] for kind in one.parameters.get("TYPE", "").upper().split(",") if kind in _KINDS]
    return f" ({', '.join(kinds)})" if kinds else ""


def _value(one: Property) -> str:
    """Return a value as text: its parts, if it has several, behind each other."""
    encoded = "QUOTED-PRINTABLE" in (one.parameters.get("ENCODING", "") + one.parameters.get("TYPE", "")).upper()
    value = decode_text(a2b_qp(one.value.encode()), one.parameters.get("CHARSET", "")) if encoded else one.value
    parts = [Property("", {}, part).text for part in re.split(r"(?<!\\);", _URI.sub("", value.replace("\\:", ":")))]
    if one.name == "BDAY" and (day := parse_time(value.replace("-", ""), "", Zones({}))):
        return spell_date(day)
    parts = [parts[1], parts[0], *parts[2:]] if one.name == "N" and len(parts) > 1 else parts
    return clean((" " if one.name == "N" else ", ").join(part.strip() for part in parts if part.strip()))
