"""Calendar invitations as text: what, when, where and who."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ingest.calendar import MOST_EVENTS, event_texts, rule_text
from engine.text.dates import spell_date

ZONES = ("Pacific/Kiritimati", "Pacific/Pago_Pago", "Asia/Kathmandu", "America/St_Johns", "Europe/Berlin")


def calendar(*lines: str, method: str = "REQUEST", before: tuple[str, ...] = ()) -> str:
    event = ("BEGIN:VEVENT", *lines, "END:VEVENT")
    return "\r\n".join(("BEGIN:VCALENDAR", f"METHOD:{method}", *before, *event, "END:VCALENDAR", ""))


def lines_of(*lines: str) -> list[str]:
    return event_texts(calendar(*lines))[0].split("\n")


def test_an_invitation_is_a_readable_paragraph() -> None:
    assert lines_of(
        "SUMMARY:Rehearsal\\, full choir",
        "DTSTART;TZID=Europe/Berlin:20240503T190000",
        "DTEND;TZID=Europe/Berlin:20240503T213000",
        "LOCATION:Great Hall",
        "ORGANIZER;CN=Ann Lee:mailto:ann@example.org",
        'ATTENDEE;CN="Ray, Bob";PARTSTAT=ACCEPTED:mailto:bob@example.org',
        "ATTENDEE:MAILTO:eve@example.org",
        "DESCRIPTION:Bring the\\nscores.",
        "BEGIN:VALARM",
        "DESCRIPTION:Reminder",
        "END:VALARM",
    ) == [
        "Invitation: Rehearsal, full choir",
        "When: Friday 3 May 2024, 19:00 to 21:30 (Europe/Berlin, UTC+02:00)",
        "Where: Great Hall",
        "Organiser: Ann Lee <ann@example.org>",
        "Attendees: Ray, Bob <bob@example.org> (accepted), eve@example.org",
        "Notes: Bring the",
        "scores.",
    ]


def test_the_days_that_a_rule_leaves_out_or_adds_are_named() -> None:
    zone = ";TZID=Europe/Berlin:"
    assert lines_of(
        "SUMMARY:Rehearsal",
        f"DTSTART{zone}20240503T190000",
        "RRULE:FREQ=WEEKLY",
        f"EXDATE{zone}20240510T190000,20240517T190000",
        "EXDATE;VALUE=DATE:20240524",
        f"RDATE{zone}20240511T190000",
    )[2:] == [
        "Repeats: every week",
        "Except: Friday 10 May 2024, Friday 17 May 2024 and Friday 24 May 2024",
        "Also: Saturday 11 May 2024",
    ]


@pytest.mark.parametrize(
    ("description", "notes"),
    [
        ("<ul><li>scores</li><li>a <b>pencil</b></li></ul>", ["Notes: - scores", "- a pencil"]),
        ("if x<b and b>c", ["Notes: if x<b and b>c"]),
    ],
)
def test_a_description_in_html_is_text(description: str, notes: list[str]) -> None:
    assert lines_of("SUMMARY:Rehearsal", f"DESCRIPTION:{description}")[1:] == notes


@pytest.mark.parametrize(
    ("lines", "when"),
    [
        (["DTSTART;VALUE=DATE:20240503", "DTEND;VALUE=DATE:20240504"], "Friday 3 May 2024 (all day)"),
        (["DTSTART;VALUE=DATE:20240503", "DTEND;VALUE=DATE:20240506"], "Friday 3 May 2024 to Sunday 5 May 2024"),
        (["DTSTART;VALUE=DATE:20240503", "DTEND;VALUE=DATE:00010101"], "Friday 3 May 2024 (all day)"),
        (["DTSTART:20240503T170000Z", "DTEND;VALUE=DATE:20240504"], "Friday 3 May 2024, 17:00 (UTC)"),
        (["DTSTART:20240503T170000Z", "DURATION:PT1H30M"], "Friday 3 May 2024, 17:00 to 18:30 (UTC)"),
        (["DTSTART:20240503T230000Z", "DURATION:PT2H"], "Friday 3 May 2024, 23:00 to Saturday 4 May 2024, 01:00 (UTC)"),
        (["DTSTART:20240503T170000"], "Friday 3 May 2024, 17:00"),
        (["DTSTART;TZID=Moon Base:20240503T170000"], "Friday 3 May 2024, 17:00 (Moon Base)"),
        (["DTSTART:20240231T170000Z"], "unreadable"),
    ],
)
def test_times_are_absolute(lines: list[str], when: str) -> None:
    assert lines_of("SUMMARY:x", *lines)[1] == f"When: {when}"


ZONE = (
    "BEGIN:VTIMEZONE",
    "TZID:W. Europe Standard Time",
    "BEGIN:STANDARD",
    "DTSTART:16011028T030000",
    "RRULE:FREQ=YEARLY;BYDAY=-1SU;BYMONTH=10",
    "TZOFFSETTO:+0100",
    "END:STANDARD",
    "BEGIN:DAYLIGHT",
    "DTSTART:16010325T020000",
    "RRULE:FREQ=YEARLY;BYDAY=-1SU;BYMONTH=3",
    "TZOFFSETTO:+0200",
    "END:DAYLIGHT",
    "END:VTIMEZONE",
)


@pytest.mark.parametrize(("day", "offset"), [("20240115", "+01:00"), ("20240715", "+02:00"), ("20241215", "+01:00")])
def test_a_zone_defined_by_the_calendar_gives_its_offset(day: str, offset: str) -> None:
    start = f"DTSTART;TZID=W. Europe Standard Time:{day}T100000"
    text = event_texts(calendar("SUMMARY:x", start, before=ZONE))[0]
    assert text.endswith(f"10:00 (W. Europe Standard Time, UTC{offset})")


@pytest.mark.parametrize(
    ("method", "heading"),
    [("CANCEL", "Cancelled"), ("REPLY", "Reply to invitation"), ("PUBLISH", "Event")],
)
def test_the_method_is_named(method: str, heading: str) -> None:
    assert event_texts(calendar("SUMMARY:Rehearsal", method=method)) == [f"{heading}: Rehearsal"]


def test_a_cancelled_event_says_so_whatever_the_method() -> None:
    assert lines_of("SUMMARY:Rehearsal", "STATUS:CANCELLED") == ["Cancelled: Rehearsal"]


def test_folded_lines_are_one() -> None:
    assert event_texts("BEGIN:VEVENT\r\nSUMMARY:Re\r\n hear\r\n\tsal\r\nEND:VEVENT") == ["Event: Rehearsal"]


def test_a_text_without_events_gives_none() -> None:
    assert event_texts("BEGIN:VCALENDAR\nEND:VCALENDAR") == []


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("FREQ=WEEKLY;BYDAY=TU,TH", "every week on Tuesday and Thursday"),
        ("FREQ=WEEKLY;INTERVAL=2;COUNT=10", "every 2 weeks, 10 times"),
        ("FREQ=MONTHLY;BYDAY=-1FR", "every month on the last Friday"),
        ("FREQ=YEARLY;BYMONTH=5;BYMONTHDAY=3;UNTIL=20300503", "every year on day 3 in May, until Friday 3 May 2030"),
        ("FREQ=SOMETIMES", "FREQ=SOMETIMES"),
    ],
)
def test_a_recurrence_rule_is_written_in_words(rule: str, words: str) -> None:
    assert rule_text(rule) == words


@pytest.mark.parametrize(
    ("before", "when"),
    [
        ((), "Friday 6 June 2025, 05:00 (UTC)"),
        (("X-WR-TIMEZONE:America/Los_Angeles",), "Thursday 5 June 2025, 22:00 (America/Los_Angeles, UTC-07:00)"),
        (("X-WR-TIMEZONE:Nowhere",), "Friday 6 June 2025, 05:00 (UTC)"),
    ],
)
def test_a_time_in_utc_is_of_the_day_in_the_calendars_own_zone(before: tuple[str, ...], when: str) -> None:
    text = event_texts(calendar("SUMMARY:Call", "DTSTART:20250606T050000Z", before=before))[0]
    assert f"When: {when}" in text.split("\n")


def test_the_end_of_a_recurrence_is_a_day_of_the_events_zone() -> None:
    start = "DTSTART;TZID=America/Los_Angeles:20250605T220000"
    text = event_texts(calendar("SUMMARY:Call", start, "RRULE:FREQ=DAILY;UNTIL=20250610T050000Z"))[0]
    assert "Repeats: every day, until Monday 9 June 2025" in text


@given(st.dates(date(1990, 1, 1), date(2090, 1, 1)), st.sampled_from(ZONES))
def test_days_and_floating_times_are_as_written_in_any_zone(day: date, zone: str) -> None:
    before = (f"X-WR-TIMEZONE:{zone}",)
    texts = [
        event_texts(calendar(f"DTSTART{value}", before=before))[0].split("\n")[1]
        for value in (f";VALUE=DATE:{day:%Y%m%d}", f":{day:%Y%m%d}T233000", f";TZID={zone}:{day:%Y%m%d}T120000")
    ]
    written = spell_date(day, weekday=True)
    assert texts[0] == f"When: {written} (all day)"
    assert texts[1] == f"When: {written}, 23:30"
    assert texts[2].startswith(f"When: {written}, 12:00 ({zone}, UTC")


def test_no_more_events_are_read_than_the_limit() -> None:
    assert len(event_texts("BEGIN:VEVENT\nSUMMARY:x\nEND:VEVENT\n" * (MOST_EVENTS + 5))) == MOST_EVENTS


PIECES = [
    "BEGIN:VEVENT",
    "END:VEVENT",
    "BEGIN:VTIMEZONE",
    "END:VTIMEZONE",
    "TZID:z",
    "TZOFFSETTO:+2500",
    "TZOFFSETTO:-0330",
]
TIMES = [
    "DTSTART;TZID=z:99991231T235959",
    "DTEND:00010101",
    "DURATION:P9999W",
    "RRULE:FREQ=WEEKLY;BYDAY=9XX",
    "DTSTART:20240101",
]


@given(
    st.lists(
        st.sampled_from([*PIECES, *TIMES, "SUMMARY:s", "END:X", "RRULE:BYMONTH=13", "BEGIN:DAYLIGHT", "END:DAYLIGHT"])
    )
)
def test_any_lines_are_a_calendar(lines: list[str]) -> None:
    assert all(text.split(":")[0] in ("Event", "Invitation") for text in event_texts("\n".join(lines)))


@given(st.text(max_size=200))
def test_any_text_after_a_summary_is_harmless(text: str) -> None:
    assert event_texts(f"BEGIN:VEVENT\nSUMMARY:s\n{text}")[0].startswith(("Event", "Cancelled"))


@pytest.mark.parametrize(
    "value", ["", "tomorrow", "2024-06-05 at ten", "20240231T100000", "20240605T250000", "x" * 500]
)
def test_an_event_of_an_unreadable_time_has_none(value: str) -> None:
    def event(name: str, start: str) -> str:
        return f"BEGIN:VEVENT\nSUMMARY:{name}\nDTSTART:{start}\nEND:VEVENT\n"

    first, bad, last = event_texts(event("A", "20240604T100000Z") + event("B", value) + event("C", "20240606T100000Z"))
    assert bad == "Event: B\nWhen: unreadable"
    assert ("4 June" in first, "6 June" in last) == (True, True)


def test_a_task_says_what_is_due_and_how_far_it_is() -> None:
    lines = ["BEGIN:VTODO", "SUMMARY:Oil the pump", "DUE;VALUE=DATE:20240503", "STATUS:IN-PROCESS", "END:VTODO"]
    assert event_texts("\n".join(lines)) == ["Task: Oil the pump\nDue: Friday 3 May 2024\nStatus: in process"]


def test_a_note_of_a_calendar_is_read() -> None:
    lines = ["BEGIN:VJOURNAL", "SUMMARY:Harbour", "DESCRIPTION:The key is new.", "END:VJOURNAL"]
    assert event_texts("\n".join(lines)) == ["Note: Harbour\nNotes: The key is new."]
