"""Mail envelopes: sender, recipients, date, subject and thread from any header."""

import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ingest.headers import fields_of
from engine.ingest.mail import Envelope, parse_date, read_envelope, read_mail
from engine.ingest.types import ParseLimits
from engine.text.people import REPLIED


def envelope(*lines: str) -> Envelope:
    return read_envelope(fields_of("\n".join(lines).encode()))


def test_everyone_a_message_went_to_is_a_recipient() -> None:
    found = envelope("From: a@x.org", "To: b@x.org", "Cc: C <c@x.org>", "Bcc: c@x.org, d@x.org")
    assert found.document.recipients == ("b@x.org", "C <c@x.org>", "d@x.org")


def test_bcc_recipients_are_not_among_the_visible_ones() -> None:
    assert envelope("To: b@x.org", "Bcc: d@x.org").people == ("", "b@x.org")


def test_the_exported_display_name_names_the_sender() -> None:
    assert envelope("From: ann@x.org", "X-From: Ann Lee").document.sender == "Ann Lee <ann@x.org>"


def test_a_message_without_from_is_by_its_sender_field() -> None:
    assert envelope("Sender: ann@x.org").document.sender == "ann@x.org"


LIST = ("List-Id: Choir <choir.lists.x.org>", "To: choir@lists.x.org")


@pytest.mark.parametrize("field", ["Reply-To", "X-Original-From", "Cc"])
def test_a_message_that_a_list_sends_under_its_own_address_is_by_its_writer(field: str) -> None:
    found = envelope("From: \"'Ann Lee' via Choir\" <choir@lists.x.org>", *LIST, f"{field}: Ann Lee <ann@x.org>")
    assert found.document.sender == "Ann Lee <ann@x.org>"
    assert found.document.warnings == ("sent by choir@lists.x.org",)


@pytest.mark.parametrize(
    "lines",
    [
        ("From: Ann Lee via Choir <choir@lists.x.org>", *LIST, "Reply-To: Eve <eve@x.org>"),
        ("From: Ann Lee via Choir <choir@lists.x.org>", "Reply-To: Ann Lee <eve@x.org>"),
        ("From: Choir <choir@lists.x.org>", *LIST, "Reply-To: C <eve@x.org>"),
        ("From: Ann Lee <choir@other.org>", *LIST, "Reply-To: Ann Lee <eve@x.org>"),
    ],
)
def test_another_name_or_a_message_from_no_list_stays_with_its_sender(lines: tuple[str, ...]) -> None:
    assert envelope(*lines).people[0].startswith("choir@")


def test_links_start_with_the_messages_own_id() -> None:
    found = envelope("Message-ID: <3@x>", "In-Reply-To: <2@x>", "References: <1@x>", "\t<2@x>")
    assert (found.document.message_id, found.links) == ("3@x", ("3@x", "2@x", "1@x"))


def test_a_message_without_a_date_takes_that_of_its_last_received_field() -> None:
    found = envelope(
        "Received: from a by b; Mon, 1 Jan 2024 10:00:00 +0100", "Received: c; Sun, 31 Dec 2023 1:00:00 +0000"
    )
    assert (found.sent, found.document.date) == (None, datetime(2024, 1, 1, 9, 0, tzinfo=UTC))


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        ("Fri, 3 May 2024 10:00:00 +0200", datetime(2024, 5, 3, 8, 0, tzinfo=UTC)),
        ("3 May 2024 10:00 GMT", datetime(2024, 5, 3, 10, 0, tzinfo=UTC)),
        ("Fri, 3 May 2024 10:00:60 -0000", datetime(2024, 5, 3, 10, 0, 59, tzinfo=UTC)),
        ("Fri, 3 May 24 10:00:00 EST", datetime(2024, 5, 3, 15, 0, tzinfo=UTC)),
        ("Fri, 3 May 2024 10:00:00 +9999", datetime(2024, 5, 3, 10, 0, tzinfo=UTC)),
        ("Mon, 1 Jan 0150 00:00:00 +0000", None),
        ("Thu, 31 Feb 2024 10:00:00 +0000", None),
        ("2024-05-03T10:00:00+02:00", datetime(2024, 5, 3, 8, 0, tzinfo=UTC)),
        ("2024-05-03 10:00:00Z", datetime(2024, 5, 3, 10, 0, tzinfo=UTC)),
        ("Friday, May 3, 2024 3:31 PM -0500", datetime(2024, 5, 3, 20, 31, tzinfo=UTC)),
        ("Friday, 3 May 2024 12:05 AM", datetime(2024, 5, 3, 0, 5, tzinfo=UTC)),
        ("Fri, 3 May 2024 10:00:00 -05:30", datetime(2024, 5, 3, 15, 30, tzinfo=UTC)),
        ("ven, 3 mai 2024 10:00:00 +0200 (CEST)", datetime(2024, 5, 3, 8, 0, tzinfo=UTC)),
        ("Fri May  3 10:00:00 EEST 2024", datetime(2024, 5, 3, 7, 0, tzinfo=UTC)),
        ("Fri, 3 May 2024 10:00:00 JST", datetime(2024, 5, 3, 1, 0, tzinfo=UTC)),
        ("Fri, 3 May 2024 10:00:00 GMT+02:00", datetime(2024, 5, 3, 8, 0, tzinfo=UTC)),
        ("Fri, 3 May 2024 10:00:00 +200", datetime(2024, 5, 3, 8, 0, tzinfo=UTC)),
        ("Fri (a day), 3 (third) May 2024 10:00:00 (EDT) +0200", datetime(2024, 5, 3, 8, 0, tzinfo=UTC)),
        ("Fri May  3 10:00:00 2024 +0200", datetime(2024, 5, 3, 8, 0, tzinfo=UTC)),
        ("2024-05-03T10:00:00.123+02:00", datetime(2024, 5, 3, 8, 0, tzinfo=UTC)),
        ("soon", None),
        ("", None),
    ],
)
def test_a_date_field_gives_an_aware_time_or_none(value: str, moment: datetime | None) -> None:
    assert parse_date(value) == moment


def test_a_date_keeps_its_own_zone() -> None:
    found = parse_date("Fri, 3 May 2024 10:00:00 +0200")
    assert found is not None
    assert found.utcoffset() == timedelta(hours=2)


@pytest.mark.parametrize(
    ("value", "clock"),
    [
        ("Fri, 3 May 2024 23:30:00 -0700", "2024-05-03T23:30:00-07:00"),
        ("Fri, 3 May 2024 23:30:00 +0000", "2024-05-03T23:30:00+00:00"),
        ("Fri, 3 May 2024 23:30:00 GMT", "2024-05-03T23:30:00+00:00"),
        ("Fri, 3 May 2024 23:30:00 -0000", "2024-05-04T05:00:00+05:30"),
        ("Fri, 3 May 2024 23:30:00", "2024-05-03T23:30:00+05:30"),
        ("Fri, 3 May 2024 23:30:00 XYZ", "2024-05-03T23:30:00+05:30"),
    ],
)
def test_a_message_is_of_its_writers_day_or_the_users(monkeypatch: pytest.MonkeyPatch, value: str, clock: str) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Kolkata")
        time.tzset()
        found = envelope(f"Date: {value}").document.date
    time.tzset()
    assert found is not None
    assert found.isoformat() == clock


@pytest.mark.parametrize(
    ("title", "reply", "forward"),
    [
        ("Rehearsal", False, False),
        ("Re: Rehearsal", True, False),
        ("RE: FW: Rehearsal", True, False),
        ("[choir] AW: Re[2]: Rehearsal", True, False),
        ("Fwd: Rehearsal", True, True),
        ("WG: [choir] Rehearsal", True, True),
        ("Re:", True, False),
        ("Regards", False, False),
        ("回复：排练", True, False),
    ],
)
def test_replies_and_forwards_are_recognized_behind_list_tags(title: str, reply: bool, forward: bool) -> None:
    document = read_mail(
        f"Subject: {title}\n\nLook.\n\nAnn wrote on 3 May 2024:\n> Yes".encode(), ParseLimits()
    ).document
    assert document
    assert (REPLIED.match(title) is not None, document.passages[-1].role) == (reply, "forward" if forward else "quote")


@given(st.text(max_size=100))
def test_any_date_field_is_harmless(value: str) -> None:
    found = parse_date(value)
    assert found is None or found.tzinfo is not None


@given(st.lists(st.sampled_from(["From", "To", "Date", "References", "Subject", "X-From"])), st.text(max_size=60))
def test_any_header_is_harmless(names: list[str], value: str) -> None:
    found = envelope(*(f"{name}: {value}" for name in names))
    assert len(found.links) <= 50
