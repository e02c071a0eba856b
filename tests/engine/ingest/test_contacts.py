"""Files of calendars and of contacts: a document for each event with its exceptions, and for each contact."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ingest.calendar import read_calendar, read_contacts
from engine.ingest.files import read
from engine.ingest.scan import detect
from engine.ingest.types import ParseLimits
from store.types import Document

LIMITS = ParseLimits()


def events(*lines: str) -> list[Document]:
    text = "\r\n".join(["BEGIN:VCALENDAR", "X-WR-TIMEZONE:Europe/Berlin", *lines, "END:VCALENDAR", ""])
    assert detect("x", text.encode()) == "calendar"
    return [found.document for found in read_calendar(text.encode(), LIMITS) if found.document]


def event(*lines: str) -> list[str]:
    return ["BEGIN:VEVENT", *lines, "END:VEVENT"]


def contacts(text: str) -> list[Document]:
    raw = text.strip().replace("\n", "\r\n").encode()
    assert detect("x", raw) == "contacts"
    return [found.document for found in read_contacts(raw, LIMITS) if found.document]


def test_an_event_is_a_document_of_the_day_it_was_last_changed() -> None:
    lines = ("UID:1", "SUMMARY:Dentist", "DTSTART:20241014T073000Z", "DTSTAMP:20240901T080000Z")
    (found,) = events(
        *event(*lines, "CREATED:20240815T090000Z", "ORGANIZER;CN=Mira:mailto:m@x.org", "ATTENDEE:mailto:a@x")
    )
    assert (found.title, found.sender, found.recipients, found.date) == (
        "Dentist",
        "Mira <m@x.org>",
        ("a@x",),
        datetime(2024, 8, 15, 9, tzinfo=UTC),
    )
    assert found.text.startswith("Event: Dentist\nWhen: Monday 14 October 2024, 09:30 (Europe/Berlin, UTC+02:00)\n")
    assert {passage.role for passage in found.passages} == {"event"}


def test_a_series_is_one_document_with_its_moved_and_cancelled_days() -> None:
    (found,) = events(
        *event("UID:1", "SUMMARY:Choir", "DTSTART:20240603T173000Z", "RRULE:FREQ=WEEKLY;BYDAY=MO",
               "EXDATE:20240617T173000Z", "RDATE:20240619T173000Z"),
        *event("UID:1", "SUMMARY:Choir", "RECURRENCE-ID:20240624T173000Z", "DTSTART:20240625T173000Z", "LOCATION:Hall"),
        *event("UID:1", "SUMMARY:Choir", "RECURRENCE-ID:20240701T173000Z", "DTSTART:20240701T173000Z",
               "STATUS:CANCELLED"),
    )  # fmt: skip
    assert found.text == (
        "Event: Choir\nWhen: Monday 3 June 2024, 19:30 (Europe/Berlin, UTC+02:00)\nRepeats: every week on Monday\n"
        "Except: Monday 17 June 2024\nAlso: Wednesday 19 June 2024\n\n"
        "Event: Choir\nWhen: Tuesday 25 June 2024, 19:30 (Europe/Berlin, UTC+02:00)\n"
        "Instead of: Monday 24 June 2024\nWhere: Hall\n\n"
        "Cancelled: Choir\nWhen (cancelled): Monday 1 July 2024, 19:30 (Europe/Berlin, UTC+02:00)"
    )


def test_events_without_an_id_are_documents_of_their_own() -> None:
    assert len(events(*event("SUMMARY:a"), *event("SUMMARY:b"), *event("UID:1", "SUMMARY:c"))) == 3


def test_more_events_than_an_invitation_may_have_are_all_read() -> None:
    assert len(events(*(line for n in range(300) for line in event(f"UID:{n}", f"SUMMARY:e{n}")))) == 300


def test_a_contact_of_version_3() -> None:
    (found,) = contacts("""
BEGIN:VCARD
VERSION:3.0
FN:Anna Lee
N:Lee;Anna;;;
TEL;TYPE=CELL:+49 151 23456789
TEL;TYPE=WORK,VOICE:+49 30 555 0199
EMAIL;TYPE=INTERNET;TYPE=HOME:anna.lee@exam
 ple.org
ADR;TYPE=HOME:;;Lindenweg 4;Berlin;;10115;Germany
BDAY:1980-05-03
ORG:Ropeworks;Choir
PHOTO;ENCODING=b;TYPE=JPEG:/9j/4AAQSkZJRg==
NOTE:Plays the\\, viola
END:VCARD
""")
    assert (found.title, found.sender, found.date) == ("Anna Lee", "", None)
    assert found.text == (
        "Contact: Anna Lee\nPhone number (mobile): +49 151 23456789\nPhone number (work): +49 30 555 0199\n"
        "Email address (home): anna.lee@example.org\nAddress (home): Lindenweg 4, Berlin, 10115, Germany\n"
        "Birthday: 3 May 1980\nOrganisation: Ropeworks, Choir\nNotes: Plays the, viola"
    )


def test_a_contact_of_version_2_1_in_quoted_printable() -> None:
    (found,) = contacts("""
BEGIN:VCARD
VERSION:2.1
N;CHARSET=ISO-8859-1;ENCODING=QUOTED-PRINTABLE:M=FCller;J=FCrgen
TEL;CELL;VOICE:0171 9876543
NOTE;ENCODING=QUOTED-PRINTABLE;CHARSET=UTF-8:eine lange=20=
Notiz =C3=A4=
b
TEL;HOME:030 1
END:VCARD
""")
    assert found.text == (
        "Contact: Jürgen Müller\nPhone number (mobile): 0171 9876543\nPhone number (home): 030 1\n"
        "Notes: eine lange Notiz äb"
    )


def test_contacts_of_version_4_and_of_groups() -> None:
    first, second = contacts("""
BEGIN:VCARD
VERSION:4.0
FN:Ben Okafor
item1.TEL;VALUE=uri;TYPE="cell,home":tel:+1-202-555-0143
EMAIL:mailto:ben@okafor.net
END:VCARD
begin:vcard
ORG:Ropeworks
URL:https://ropeworks.example
end:vcard
""")
    assert (
        first.text == "Contact: Ben Okafor\nPhone number (mobile, home): +1-202-555-0143\nEmail address: ben@okafor.net"
    )
    assert (second.title, second.text) == (
        "Ropeworks",
        "Contact: Ropeworks\nOrganisation: Ropeworks\nWebsite: https://ropeworks.example",
    )


def test_a_contact_without_a_name_or_anything_else_is_named() -> None:
    found = read_contacts(b"BEGIN:VCARD\nVERSION:3.0\nEND:VCARD\nBEGIN:VCARD\nFN:Ann\nEND:VCARD\n", LIMITS)
    assert [(one.item, one.document, one.problem) for one in found] == [
        (0, None, "a contact without a name or anything else"),
        (1, None, "a contact without a name or anything else"),
    ]


@pytest.mark.parametrize("read", [read_calendar, read_contacts])
@given(st.text(st.characters(codec="utf-8"), max_size=300))
def test_any_text_behind_the_first_line_is_read(read: object, text: str) -> None:
    assert callable(read)
    first = "BEGIN:VCALENDAR\nBEGIN:VEVENT" if read is read_calendar else "BEGIN:VCARD"
    for found in read(f"{first}\n{text}".encode(), LIMITS):
        assert found.document or found.problem


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_a_calendar_in_utf_16_is_one(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "a"
    path.write_bytes("BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:Choir\nEND:VEVENT\nEND:VCALENDAR".encode(encoding))
    assert [one.document.title for one in read(path, ParseLimits()) if one.document] == ["Choir"]


def test_a_calendar_of_other_bytes_is_not_called_empty(tmp_path: Path) -> None:
    path = tmp_path / "a.ics"
    path.write_bytes(b"BEGIN:VCALENDAR\n\0\1\2\3")
    assert [one.problem for one in read(path, ParseLimits())] == ["not a text"]


def test_a_number_of_a_kind_stands_before_one_of_none() -> None:
    (found,) = contacts("BEGIN:VCARD\nFN:Ann\nTEL:1\nTEL;TYPE=WORK:2\nEND:VCARD")
    assert found.text == "Contact: Ann\nPhone number (work): 2\nPhone number: 1"
