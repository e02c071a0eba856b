"""Meetings by structure: what was decided, who does what, what was left open, and which meeting a name means."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from email.message import EmailMessage
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.app import Pkb
from engine.retrieval.open_loops import WholeDocument
from engine.retrieval.reports import found_in
from engine.types import Report
from store.errors import UsageError
from store.types import Chunk, Hit
from tests.demo import DATA

NOW = datetime(2024, 6, 19, 8, tzinfo=UTC)
PEOPLE = ("Ann", "Ben", "Eva")


def document(text: str) -> WholeDocument:
    """Return a meeting of PEOPLE with this text as its only chunk."""
    chunk = Chunk("c", "d", 0, "Meeting: Fair", text, 1, text.count("\n") + 1)
    return WholeDocument((Hit(chunk, "", None, NOW, "", PEOPLE, "Fair"),))


def found(kind: str, text: str) -> list[str]:
    return [one.text for one in found_in(document(text)) if one.found.kind == kind]


@pytest.mark.parametrize(
    ("text", "decided"),
    [
        ("Ann: We decided to rent the tent for two days.", ["We decided to rent the tent for two days."]),
        ("Ann: Let's go with the blue tent.", ["Let's go with the blue tent."]),
        ("Ann: I propose that we meet on Fridays.\nBen: Sounds good.", ["I propose that we meet on Fridays."]),
        ("Ann: Shall we rent the blue tent?\nBen: Mm-hmm.\nEva: Fine by me.", ["Shall we rent the blue tent?"]),
        ("Ann: I suggest we rent two tents. All in favour? Good.", ["I suggest we rent two tents."]),
        ("Ann: The tent is 90 pounds.\nBen: Agreed. Eva orders it from Oak.", ["Eva orders it from Oak."]),
        ("Ann: We could try Sundays.\nBen: Me too.\nAnn: Good. Then we open on Sundays.", ["Then we open on Sundays."]),
        ("Ann: Which evening is free?\nBen: Then Thursdays it is.", ["Then Thursdays it is."]),
        ("Ann: Decision: the fair moves to June.", ["Decision: the fair moves to June."]),
        ("Decisions\n- Rent the blue tent\n- Raffle tickets cost a pound\n\nAnn: Hello.",
         ["- Rent the blue tent", "- Raffle tickets cost a pound"]),
    ],
)  # fmt: skip
def test_a_decision_is_said_or_agreed_to(text: str, decided: list[str]) -> None:
    assert found("decision", text) == decided


@pytest.mark.parametrize(
    "text",
    [
        "Ann: I propose that we meet on Fridays.",  # nobody agrees
        "Ann: I propose that we meet on Fridays.\nAnn: Sounds good.",  # only the same person
        "Ann: I propose that we meet on Fridays.\nBen: No, Fridays are taken.\nEva: Sounds good.",
        "Ann: I propose that we meet on Fridays.\nBen: Mm-hmm.",
        "Ann: If we decided to rent the tent, who would pay?",
        "Ann: We haven't decided on the tent yet.",
        "Ann: Last week we decided to rent the tent.",
        "Ann: They decided to close the bakery.",
        "Ann: We decided that the",  # broken off
        "Ann: Let's move on to the next topic.\nBen: Sounds good.",
        "Ann: Decisions are hard, as my aunt would say.",
    ],
)
def test_in_doubt_nothing_was_decided(text: str) -> None:
    assert found("decision", text) == []


def test_who_says_yes_to_a_request_is_to_do_it() -> None:
    text = "Ann: Can you send the list to the caretaker by Friday?\nBen: Sure, I have it here.\n"
    (one,) = [one for one in found_in(document(text)) if one.found.kind == "task"]
    assert (one.who, one.by, one.due) == ("Ben", "Ann", date(2024, 6, 21))
    assert found("task", text.replace("Sure", "No, but")) == []
    assert found("task", "Ann: I'll write down the agenda for this meeting.") == []


def test_items_below_a_heading_are_tasks_until_the_list_ends() -> None:
    assert found("task", "Action items\n- Ben: tent for the fair\nThe tent is blue.\n- not one of them") == [
        "- Ben: tent for the fair"
    ]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Ann: How much does the blue tent cost?\nBen: I don't know.", ["How much does the blue tent cost?"]),
        ("Ann: How much does the blue tent cost?\nBen: Ninety pounds.", []),
        ("Ann: We still need to find out who has the key.", ["We still need to find out who has the key."]),
    ],
)
def test_a_question_is_open_if_nobody_knows_the_answer(text: str, left: list[str]) -> None:
    assert found("question", text) == left


@given(st.lists(st.sampled_from(["Ann: ", "Ben: ", "We decided on tea. ", "Agreed. ", "- ", "\n", "?", "é", "Sure. "])))
def test_whatever_is_said_each_line_is_a_quote(parts: list[str]) -> None:
    text = "".join(parts)
    assert all(one.text in text for one in found_in(document(text or " ")))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pkb]:
    """Yield a home with the bundled mail and meetings, a call, and mail around it."""
    folder = tmp_path_factory.mktemp("meetings")
    (folder / "new").mkdir()
    call = "FCR call\nDate: 3 June 2024\n\nAnn Lee: I'll send the list of stalls to Bob.\n"
    for day, who in ((1, "Bob Roy"), (2, "Eva Roy")):
        said = f"Stalls {day}\nDate: {day} May 2024\n\n{who}: I'll order the {day} tables.\nAnn Lee: Okay.\n"
        (folder / "new" / f"{day}.txt").write_text(f"{said}Ann Lee: Bob, please call the hall.\n" * (day == 1) or said)
    said = "Bob Roy: Will it rain on that day?\nAnn Lee: No idea.\nBob Roy: I'll call the caretaker.\n"
    (folder / "new" / "fcr.txt").write_text(call + said)
    sent = [("Re: FCR call", "Here is the list of stalls.", 5), ("FCR call on Friday", "It is in the hall.", 6)]
    for number, (subject, text, day) in enumerate(sent):
        message = EmailMessage()
        message["From"], message["To"], message["Subject"] = "Ann Lee <ann@x.org>", "bob@x.org", subject
        message["Date"], message["Message-ID"] = datetime(2024, 6, day, tzinfo=UTC), f"<{number}@x.org>"
        message.set_content(text)
        (folder / "new" / f"{number}.eml").write_bytes(message.as_bytes())
    with Pkb(folder / "home", environ={"PKB_NOW": NOW.isoformat()}) as pkb:
        pkb.ingest([DATA / "mail", DATA / "transcripts", folder / "new"], embed=False)
        yield pkb


def texts(report: Report, kind: str) -> list[str]:
    return [one.text for one in report.items if one.kind == kind]


def test_a_meeting_has_its_people_and_quotes_with_speaker_and_place(home: Pkb) -> None:
    found = home.meeting("workshop")
    assert (found.title, found.people) == (
        "workshop meeting",
        "Dele Marsh, Gus Tindall, Priya Raman, Mira Okafor (who spoke)",
    )
    first, second = (one for one in found.items if one.kind == "decision")
    assert (first.text, first.source.speaker) == ("Then we open on Sundays, as a trial.", "Dele Marsh")
    assert second.source.quote == "Priya orders it from Kettlewick."
    assert second.source.path.endswith("2024-02-27 workshop meeting.vtt")


def asked(pkb: Pkb, question: str) -> str | None:
    return pkb.ask(question, cache="off").text


def test_action_items_for_somebody_are_theirs_in_all_meetings_the_newest_first(home: Pkb) -> None:
    bobs = (
        "3 action items for Bob Roy in 2 meetings, newest first:\n"
        "Monday 3 June 2024: FCR call\n"
        "[1] Bob Roy: “I'll call the caretaker.”\n"
        "Wednesday 1 May 2024: Stalls 1\n"
        "[2] Bob Roy: “I'll order the 1 tables.”\n"
        "[2] Ann Lee: “Bob, please call the hall.” (for Bob)"
    )
    assert asked(home, "What are the action items for Bob Roy?") == bobs
    assert asked(home, "what are Bob Roy's action items") == bobs


def test_of_somebodys_action_items_those_that_a_message_says_are_done_are_left_out(home: Pkb) -> None:
    assert asked(home, "action items for Ann Lee") == "No action item for Ann Lee found by its words in 3 meetings"


def test_of_a_meeting_that_is_named_only_somebodys_action_items_are_told(home: Pkb) -> None:
    assert asked(home, "What are the action items for Ann Lee from the FCR call?") == (
        "1 action item for Ann Lee in 1 meeting:\n"
        "Monday 3 June 2024: FCR call\n"
        "[1] Ann Lee: “I'll send the list of stalls to Bob.”"
    )
    none = "No action item for Eva found by its words in 1 meeting"
    assert asked(home, "What are the action items for Eva from the FCR call?") == none


def test_a_name_that_several_have_is_that_of_the_one_at_the_meeting(home: Pkb) -> None:
    assert asked(home, "What are Roy's action items from stalls 2?") == (
        "1 action item for Roy in 1 meeting:\nThursday 2 May 2024: Stalls 2\n[1] Eva Roy: “I'll order the 2 tables.”"
    )


@pytest.mark.parametrize(
    ("name", "day"),
    [
        ("parents' committee", "2024-05-20"),
        ("parents committee of 11 March", "2024-03-11"),
        ("committee meeting with Chen", "2024-05-20"),
        ("the last call", "2024-06-03"),
        ("2024-05-04", "2024-05-04"),
        ("last meeting with Gus", "2024-02-27"),
        ("", "2024-06-03"),
    ],
)
def test_a_name_is_words_of_the_title_people_or_a_day(home: Pkb, name: str, day: str) -> None:
    assert (home.meeting(name).date or "").startswith(day)


def test_a_name_that_fits_none_is_an_error(home: Pkb) -> None:
    with pytest.raises(UsageError, match="no meeting fits design review"):
        home.meeting("design review")


def test_before_the_next_meeting_shows_what_is_open_what_was_done_and_new_mail(home: Pkb) -> None:
    found = home.meeting("FCR call", before=True)
    assert texts(found, "task") == ["I'll call the caretaker."]
    assert texts(found, "question") == ["Will it rain on that day?"]
    (done,) = (one for one in found.items if one.kind == "done")
    assert (done.text, done.source.title) == ("I'll send the list of stalls to Bob.", "Re: FCR call")
    assert texts(found, "mail") == ["FCR call on Friday", "Re: FCR call"]


def test_an_invitation_of_the_day_says_who_was_invited(home: Pkb, tmp_path: Path) -> None:
    lines = ["BEGIN:VCALENDAR", "METHOD:REQUEST", "BEGIN:VEVENT", "DTSTART:20240603T100000Z", "SUMMARY:FCR call"]
    people = [f"ATTENDEE;CN={name}:mailto:{name[:3]}@x.org" for name in ("Cleo Day", "Dan Fox")]
    folder = tmp_path / "invitation"
    folder.mkdir()
    (folder / "fcr.ics").write_text("\r\n".join([*lines, f"DTSTAMP:{NOW - timedelta(20):%Y%m%dT%H%M%SZ}", *people,
                                                  "END:VEVENT", "END:VCALENDAR", ""]))  # fmt: skip
    home.ingest([folder], embed=False)
    assert home.meeting("FCR call").people == "Ann Lee, Bob Roy (who spoke); invited: Cleo Day, Dan Fox"
