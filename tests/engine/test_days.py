"""One notion of a day: what is shown, filtered by and answered is on the writer's clock, in any zone of the user."""

import os
import time
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from engine.app import Pkb
from engine.operations import search
from engine.session import now
from engine.text.question import understand
from engine.text.time_sensitive import moment as understood_at
from tests.bench.days import ZONES, generate, measure
from tests.effort import examples

SetZone = Callable[[str], None]
USERS = ("UTC", "America/Los_Angeles", "Europe/Berlin", "Asia/Kolkata", "Pacific/Kiritimati", "Etc/GMT+12")


@pytest.fixture
def set_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[SetZone]:
    """Return a function that sets the user's time zone, for the rest of the test."""

    def set_to(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield set_to
    monkeypatch.undo()
    time.tzset()


def ingested(home: Path, **mails: str) -> Pkb:
    """Return a home that has indexed these mails, for keyword search."""
    (home / "mail").mkdir(parents=True)
    for name, raw in mails.items():
        (home / "mail" / f"{name}.eml").write_text(raw, "utf-8")
    pkb = Pkb(home / "pkb")
    pkb.ingest([home / "mail"], embed=False)
    return pkb


def mail(sent: str, text: str, subject: str = "Boats") -> str:
    head = f"From: Ann Lee <ann@example.org>\nTo: Bob Roe <bob@example.org>\nSubject: {subject}\nDate: {sent}\n"
    return f"{head}Content-Type: text/plain; charset=utf-8\n\n{text}\n"


@examples(20, suppress_health_check=list(HealthCheck), deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(USERS))
def test_every_day_is_that_of_the_writer(
    tmp_path_factory: pytest.TempPathFactory, set_zone: SetZone, seed: int, user: str
) -> None:
    set_zone(user)
    mails = list(generate(8, seed))
    with ingested(tmp_path_factory.mktemp("days"), **{one.name: one.raw for one in mails}) as pkb:
        assert [found for found in measure(pkb, mails) if not found[2]] == []


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home with a mail of 5 June 23:30 in California, and the same text quoted and forwarded on 7 June."""
    sent, text = "Thu, 5 Jun 2025 23:30:00 -0700", "The {} race is tomorrow at the weir."
    inner = "---------- Forwarded message ---------\nFrom: Cleo Day <cleo@example.org>\n{}Subject: Kites\n\n{}"
    folder = tmp_path_factory.mktemp("june")
    late = "Sat, 7 Jun 2025 09:00:00 +0200"
    mails = {
        "own": mail(sent, text.format("skiff")),
        "forwarded": mail(late, inner.format(f"Date: {sent}\n", text.format("kite")), "Fwd: Kites"),
        "undated": mail(late, inner.format("", text.format("sledge")), "Fwd: Sledges"),
    }
    ingested(folder, **mails).close()
    return folder / "pkb"


@pytest.mark.parametrize(
    ("boat", "answer", "written"),
    [
        ("skiff", "6 June 2025", None),
        ("kite", "6 June 2025", "2025-06-05T23:30:00-07:00"),
        ("sledge", "The sledge race is tomorrow at the weir.", None),
    ],
)
def test_tomorrow_is_that_of_the_message_that_says_it(home: Path, boat: str, answer: str, written: str | None) -> None:
    with Pkb(home) as pkb:
        found = pkb.ask(f"When is the {boat} race?", cache="off")
    assert (found.text, found.sources[0].written) == (answer, written)


@pytest.mark.parametrize(("day", "found"), [("2025-06-04", False), ("2025-06-05", True), ("2025-06-06", False)])
def test_a_filter_by_day_means_the_day_of_the_writer(home: Path, day: str, found: bool) -> None:
    with Pkb(home) as pkb:
        assert bool(pkb.search("skiff race", since=day, until=day)) is found


def test_the_day_of_writing_is_shown_with_its_offset(home: Path) -> None:
    with Pkb(home) as pkb:
        source = pkb.search("skiff race")[0]
        document = pkb.show(source.path)[0]
        header = search(pkb.session, "skiff race", pkb.scope(), 1).passages[0].header
    assert (source.date, document["date"]) == ("2025-06-05T23:30:00-07:00",) * 2
    assert "Thursday 5 June 2025 23:30" in header


@pytest.mark.parametrize(
    ("boat", "mark"),
    [
        ("kite", "[forwarded from Cleo Day, written Thursday 5 June 2025 23:30]"),
        ("sledge", "[forwarded from Cleo Day, undated]"),
    ],
)
def test_a_prompt_says_when_a_forwarded_text_was_written(home: Path, boat: str, mark: str) -> None:
    with Pkb(home) as pkb:
        headers = [
            chunk.header for one in search(pkb.session, f"{boat} race", pkb.scope(), 3).passages for chunk in one.chunks
        ]
    assert any(header.endswith(mark) for header in headers)


@pytest.mark.parametrize(
    ("sent", "user", "day"),
    [
        ("Thu, 5 Jun 2025 23:30:00 +0000", "America/Los_Angeles", "2025-06-05"),
        ("Fri, 6 Jun 2025 06:30:00 -0000", "America/Los_Angeles", "2025-06-05"),  # a moment, its zone unknown
        ("Fri, 6 Jun 2025 06:30:00 -0000", "UTC", "2025-06-06"),
        ("Thu, 5 Jun 2025 23:30:00", "Pacific/Kiritimati", "2025-06-05"),  # the clock of nobody knows where
        ("Sun, 30 Mar 2025 00:30:00 -0000", "Europe/Berlin", "2025-03-30"),
        ("Sat, 25 Oct 2025 22:30:00 -0000", "Europe/Berlin", "2025-10-26"),  # summer time, for some hours
        ("Sun, 26 Oct 2025 22:30:00 -0000", "Europe/Berlin", "2025-10-26"),  # no more
    ],
)
def test_mail_without_a_zone_is_of_the_users_day(
    tmp_path: Path, set_zone: SetZone, sent: str, user: str, day: str
) -> None:
    set_zone(user)
    with ingested(tmp_path, one=mail(sent, "The skiff race is here.")) as pkb:
        found = pkb.search("skiff race", since=day, until=day)
    assert [one.date and one.date[:10] for one in found] == [day]


@examples(50, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(ZONES), st.datetimes(datetime(2000, 1, 1), datetime(2035, 1, 1)))
def test_a_document_is_the_same_in_every_zone_of_the_user(set_zone: SetZone, zone: ZoneInfo, clock: datetime) -> None:
    from engine.ingest.mail import read_mail
    from engine.ingest.types import ParseLimits

    for sent in (format_datetime(clock.replace(tzinfo=zone)), f"{clock:%d %b %Y %H:%M:%S}"):
        ids = set()
        for user in USERS:
            set_zone(user)
            document = read_mail(mail(sent, "hello").encode(), ParseLimits()).document
            assert document is not None
            assert document.date is not None
            assert document.date.date() == clock.date()
            ids.add(document.id)
        assert len(ids) == 1


@pytest.mark.parametrize(
    ("user", "today"),
    [("America/Los_Angeles", date(2025, 6, 5)), ("UTC", date(2025, 6, 6)), ("Asia/Tokyo", date(2025, 6, 6))],
)
def test_today_in_a_question_is_the_users(set_zone: SetZone, user: str, today: date) -> None:
    set_zone(user)
    moment = now({**os.environ, "PKB_NOW": "2025-06-06T04:00+00:00"})
    assert [days.first for days in understand("What is on tomorrow?", moment).dates] == [today + timedelta(days=1)]
    assert understood_at("What is on tomorrow?", moment, dated=False) == today.isoformat()


@pytest.mark.parametrize("user", USERS)
def test_the_day_of_a_meeting_is_as_written(tmp_path: Path, set_zone: SetZone, user: str) -> None:
    set_zone(user)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "2025-06-05 regatta.txt").write_text(
        "Ann: The skiff race is tomorrow.\nBob: Fine.\n", "utf-8"
    )
    with Pkb(tmp_path / "pkb") as pkb:
        pkb.ingest([tmp_path / "notes"], embed=False)
        assert pkb.ask("When is the skiff race?", since="2025-06-05", until="2025-06-05").text == "6 June 2025"
        assert [one.date and one.date[:10] for one in pkb.search("skiff race")] == ["2025-06-05"]
