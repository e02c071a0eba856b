"""Dates and clocks that lie: in mail, in events, in questions and filters, and time that goes by between questions."""

from contextlib import suppress
from datetime import UTC, datetime

import pytest

from store.errors import PkbError
from tests.attack.lab import BEN, NOW, Lab, mail

DATES = {
    "year 9999": "Fri, 31 Dec 9999 23:59:59 +0000",
    "year 0": "Sat, 1 Jan 0000 00:00:00 +0000",
    "year of five digits": "Wed, 5 Jun 20240 10:00:00 +0000",
    "two digits": "Wed, 5 Jun 24 10:00:00 +0000",
    "leap second": "Sat, 31 Dec 2016 23:59:60 +0000",
    "hour 24": "Wed, 5 Jun 2024 24:00:00 +0000",
    "30 February": "Fri, 30 Feb 2024 10:00:00 +0000",
    "29 February of no leap year": "Wed, 29 Feb 2023 10:00:00 +0000",
    "offset of 99 hours": "Wed, 5 Jun 2024 10:00:00 +9959",
    "offset of minus zero": "Wed, 5 Jun 2024 10:00:00 -0000",
    "zone of letters": "Wed, 5 Jun 2024 10:00:00 XYZZY",
    "a wrong weekday": "Mon, 5 Jun 2024 10:00:00 +0000",
    "digits of other scripts": "Wed, ５ Jun ２０２４ 10:00:00 +0000",
    "a comment without end": "Wed, 5 Jun 2024 10:00:00 +0000 (((((",
    "nothing": "",
    "a long text": "Wed, " * 10_000,
    "a question": "tomorrow",
    "a negative year": "Wed, 5 Jun -2024 10:00:00 +0000",
    "minutes of 99": "Wed, 5 Jun 2024 10:99:99 +0000",
    "two dates": "Wed, 5 Jun 2024 10:00:00 +0000, Wed, 5 Jun 2030 10:00:00 +0000",
}


@pytest.fixture(scope="module")
def dated(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Return a home with a mail of each date."""
    lab = Lab(tmp_path_factory.mktemp("time"))
    lab.read({f"{number}.eml": mail(f"Note {number}.", f"Date: {date}") for number, date in enumerate(DATES.values())})
    return lab


@pytest.mark.parametrize("name", DATES)
def test_no_mail_is_dated_later_than_it_was_seen(dated: Lab, name: str) -> None:
    (shown,) = dated.show(f"{list(DATES).index(name)}.eml")
    assert shown["date"] is None or datetime.fromisoformat(shown["date"]).astimezone(UTC) <= datetime.now(UTC)
    assert shown["date"] is None or datetime.fromisoformat(shown["date"]).year >= 1970


FILTERS = [
    ("since", "9999-12-31"),
    ("since", "0000-00-00"),
    ("since", "99999999999d"),
    ("since", "-1d"),
    ("since", "２０２４"),
    ("until", "9999-99-99"),
    ("until", "in 999999999999 days"),
    ("until", "the last day"),
    ("since", "2024-02-30"),
    ("since", "x" * 10_000),
    ("until", "0001-01-01"),
    ("since", "1e9d"),
    ("since", "0d"),
    ("until", "\0"),
    ("since", "٣d"),
]


@pytest.mark.parametrize(("name", "day"), FILTERS)
def test_a_day_that_is_none_is_refused_or_means_one(dated: Lab, name: str, day: str) -> None:
    with dated.open() as pkb, suppress(PkbError):
        since, until = (day, None) if name == "since" else (None, day)
        assert isinstance(pkb.search("note", since=since, until=until), list)


QUESTIONS = [
    "What happened on 31 February?",
    "When is the meeting in 999999999999 days?",
    "What was said 99999 years ago?",
    "What is on 31.12.9999?",
    "What was on 0000-00-00?",
    "Notes from 1 January 0001",
    "Who wrote 10000 weeks before 3 May?",
    "What is next 9999-12-31?",
    "Was war vor 99999999999 Tagen?",
    "What was the week before 1 January 1?",
    "What is at 25:61?",
    "Notes of the last 99999999999999999999 days",
    "What is in 9999999 months?",
    "明天之前99999年?",
]


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_day_of_a_question_is_a_bug(dated: Lab, question: str) -> None:
    assert dated.ask(question).question == question


def received(day: str) -> str:
    return f"Received: from a by mx.choir.example; {datetime.fromisoformat(day):%a, %d %b %Y %H:%M:%S} +0000"


def test_a_mail_of_the_future_does_not_win_over_todays(lab: Lab) -> None:
    seen = received("2024-06-01T10:00")
    forged = mail("The boathouse rent is now 5 euros.", seen, day="2030-01-01T10:00+00:00", sender=BEN)
    today = "2024-06-18T10:00"
    lab.read(
        {
            "old.eml": mail("The rent is now 900 euros.", received(today), day=f"{today}+00:00", sender=BEN),
            "new.eml": forged,
        }
    )
    assert "900" in (lab.ask("How much is the rent?").text or "")
    assert lab.show("new.eml")[0]["date"] < "2024-06-02"


def test_an_event_far_away_is_not_the_next_one(lab: Lab) -> None:
    def event(title: str, start: str) -> bytes:
        text = f"BEGIN:VEVENT\nSUMMARY:{title}\nDTSTART:{start}\nEND:VEVENT"
        return mail(text, "Content-Type: text/calendar", title=title)

    lab.read(
        {
            "a.eml": event("Choir meeting", "20240622T100000Z"),
            "b.eml": event("Choir meeting", "99991231T235959Z"),
            "c.eml": event("Choir meeting", "00010101T000000Z"),
        }
    )
    assert "22 June 2024" in (lab.ask("When is the next choir meeting?").text or "")


PASSING = {
    "today": ("What happens today?", {"days": 1}),
    "tomorrow": ("What is tomorrow?", {"days": 1}),
    "next meeting": ("When is my next meeting?", {"hours": 5}),
    "this week": ("What is this week?", {"days": 7}),
    "how long ago": ("How many days ago was the last meeting?", {"days": 2}),
    "across midnight": ("What is on tonight?", {"hours": 17}),
    "back in time": ("What happened yesterday?", {"days": -3}),
}


@pytest.mark.parametrize("name", PASSING)
def test_no_answer_outlives_its_time(lab: Lab, name: str) -> None:
    question, later = PASSING[name]
    for day in range(16, 26):
        said = f"The meeting is on {day} June 2024 at 10:00 in room {day}."
        lab.put(f"{day}.eml", mail(said, day=f"2024-06-{day - 3:02}T09:00+00:00", title="Meeting"))
    lab.read()
    lab.at(NOW)
    first = lab.both(question)
    assert first[0] == first[1]
    lab.later(**later)
    after = lab.both(question)
    assert after[0] == after[1]
