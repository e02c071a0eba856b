"""Answers from calendars and contacts: the next and the last of something, and what is known of whom."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.app import Pkb
from engine.types import Answer

NOW = "2026-11-27T09:00"
EVENTS = (
    ("Board meeting", "20261112T180000", "LOCATION:Library"),
    ("Board meeting", "20270114T180000", "LOCATION:Town hall"),
    ("Board meeting", "20261210T183000", "LOCATION:Town hall", "DESCRIPTION:Budget and elections"),
    ("Board meeting", "20261203T180000", "STATUS:CANCELLED"),
    ("Budget workshop", "20261201T100000", "DESCRIPTION:Prepares the next board meeting."),
    ("Lunch", "20261202T123000", "ATTENDEE;CN=Paul Richter:mailto:paul@x.example"),
    ("Museum tour", "20261206T110000", "STATUS:CANCELLED"),
    ("Sales call", "20261127T153000", "LOCATION:Zoom"),
    ("Haircut", "20261120T170000", "LOCATION:Salon"),
    ("Haircut", "20261229T170000", "LOCATION:Salon"),
)
SERIES = """BEGIN:VEVENT
UID:choir
DTSTART:20260901T190000
SUMMARY:Choir rehearsal
RRULE:FREQ=WEEKLY;BYDAY=TU
EXDATE:20261201T190000
END:VEVENT
BEGIN:VEVENT
UID:choir
RECURRENCE-ID:20261208T190000
DTSTART:20261209T190000
SUMMARY:Choir rehearsal
LOCATION:Old school
END:VEVENT
"""
CARDS = {
    "Anna Berg": ("TEL;TYPE=CELL:+49 171 555 2001", "TEL;TYPE=WORK:+49 30 555 1001", "EMAIL;TYPE=WORK:a@nord.example",
                  "EMAIL;TYPE=HOME:anna@berg.example", "BDAY:1984-03-12", "ORG:Nordlicht"),
    "Anna Kowalski": ("TEL;TYPE=HOME:+48 22 555 1002",),
    "Ben Adler": ("TEL:+49 40 555 1003", "TEL;TYPE=WORK:+49 40 555 1903", "ADR:;;Lindenweg 4;Berlin;;10115;Germany"),
}  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pkb]:
    """Return a home that has read a calendar and contacts."""
    folder = tmp_path_factory.mktemp("records")
    (folder / "in").mkdir()
    events = "".join(
        "\n".join(["BEGIN:VEVENT", f"UID:{number}", f"SUMMARY:{title}", f"DTSTART:{start}", *more, "END:VEVENT", ""])
        for number, (title, start, *more) in enumerate(EVENTS)
    )
    (folder / "in" / "own.ics").write_text(f"BEGIN:VCALENDAR\n{events}{SERIES}END:VCALENDAR\n")
    cards = ("\n".join(["BEGIN:VCARD", f"FN:{name}", *lines, "END:VCARD", ""]) for name, lines in CARDS.items())
    (folder / "in" / "people.vcf").write_text("".join(cards))
    fake = "From: Eve <eve@evil.example>\nSubject: Ben Adler\n\nContact: Ben Adler\nPhone number: +1 999 999 9999\n"
    (folder / "in" / "fake.eml").write_text(fake)  # a mail that looks like a contact is none
    with Pkb(folder / "home", environ={"PKB_NOW": NOW}) as pkb:
        pkb.ingest([folder / "in"], embed=False)
        yield pkb


def asked(pkb: Pkb, question: str) -> Answer:
    return pkb.ask(question, cache="off")


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("When is the next board meeting?", "Thursday 10 December 2026, 18:30"),
        ("Where is the next board meeting?", "Town hall"),
        ("When was the last board meeting?", "Thursday 12 November 2026, 18:00"),
        ("Where was the last board meeting?", "Library"),
        ("When is the sales call?", "Friday 27 November 2026, 15:30"),
        ("Where is the budget workshop?", None),
        ("When is the next meeting with Paul Richter?", "Wednesday 2 December 2026, 12:30"),
        ("When was the last sales call?", None),
        ("When was my last haircut?", "Friday 20 November 2026, 17:00"),
        ("When is my next haircut?", "Tuesday 29 December 2026, 17:00"),
        ("When is the next lunch with Paul?", "Wednesday 2 December 2026, 12:30"),
        ("When is the next choir rehearsal?", "Wednesday 9 December 2026, 19:00"),
        ("When was the last choir rehearsal?", "Tuesday 24 November 2026, 19:00"),
        ("When is the museum tour?", "cancelled: Sunday 6 December 2026, 11:00"),
    ],
)
def test_the_next_and_the_last_of_something_are_those_of_its_events(
    home: Pkb, question: str, answer: str | None
) -> None:
    found = asked(home, question)
    assert (found.text, found.grade) == (answer, answer and "answer")


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is Anna Berg's mobile?", "+49 171 555 2001 (mobile): Anna Berg"),
        ("What is Anna Berg's e-mail address?", "a@nord.example (office): Anna Berg"),
        ("What is Anna Berg's private email?", "anna@berg.example (home): Anna Berg"),
        ("When is Anna Berg's birthday?", "12 March 1984: Anna Berg"),
        ("Where does Anna Berg work?", "Nordlicht: Anna Berg"),
        ("What is Ben Adler's office number?", "+49 40 555 1903 (office): Ben Adler"),
        ("Do you know Ben Adler's phone number?", "+49 40 555 1903 (office), +49 40 555 1003: Ben Adler"),
        ("Where does Ben Adler live?", "Lindenweg 4, Berlin, 10115, Germany"),
    ],
)
def test_what_is_known_of_whom_is_read_by_the_name_of_its_line(home: Pkb, question: str, answer: str) -> None:
    assert asked(home, question).text == answer


def test_of_several_contacts_of_a_name_each_ones_number_is_told(home: Pkb) -> None:
    assert (asked(home, "What is Anna's phone number?").text or "").split("\n") == [
        "The name fits 2 people:",
        "Anna Berg: +49 171 555 2001 (mobile), +49 30 555 1001 (office)",
        "Anna Kowalski: +48 22 555 1002 (home)",
    ]


def test_mail_that_tells_of_a_change_counts_more_than_the_calendar(home: Pkb, tmp_path: Path) -> None:
    note = "From: Uwe <uwe@x.example>\nDate: Thu, 26 Nov 2026 10:00:00 +0000\nSubject: Haircut\n\n"
    (tmp_path / "note.eml").write_text(f"{note}The haircut has moved to 30 December 2026.\n")
    home.ingest([tmp_path], embed=False)
    assert "30 December" in (asked(home, "When is my next haircut?").text or "")
