"""Dates in transcripts, in the forms that people and recorders write."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ingest.headers import date_line
from engine.ingest.transcripts import date_in_name, date_within

DAY = datetime(2024, 5, 3, tzinfo=UTC)
EVENING = datetime(2024, 5, 3, 19, tzinfo=UTC)


@pytest.mark.parametrize(
    ("line", "date"),
    [
        ("1:56 pm on 8 May, 2023", datetime(2023, 5, 8, 13, 56, tzinfo=UTC)),
        ("12:05 am on 1 January, 2023", datetime(2023, 1, 1, 0, 5, tzinfo=UTC)),
        ("2024-05-03", DAY),
        ("Date: Friday 3 May 2024, 19:00", EVENING),
        ("May 3, 2024", DAY),
        ("Fri, May 3rd, 2024 at 7 pm", EVENING),
        ("03.05.2024", DAY),
        ("5/3/2024 7:00 PM", EVENING),
        ("2024-05-03T19:00:00Z", EVENING),
        ("2024-05-03T21:00:00+02:00", EVENING),
        ("2024-05-03 19:00:00 -0500", EVENING + timedelta(hours=5)),
        ("3 May 2024 21:00 CEST", EVENING),
        ("3 May 2024 19:30 GMT+5:30", DAY + timedelta(hours=14)),
    ],
)
def test_a_line_with_only_a_date_is_a_date(line: str, date: datetime) -> None:
    assert date_line(line) == date


@pytest.mark.parametrize(
    "line",
    [
        "",
        "We met on 3 May 2024",
        "Budget 2024",
        "2024-13-45",
        "1234567890",
        "Test 2024-05-03",
        "3 May 2024, 10:00-11:00",
        "Ann: 3 May 2024",
    ],
)
def test_a_line_with_more_text_or_without_a_day_is_not_a_date(line: str) -> None:
    assert date_line(line) is None


def test_the_first_time_of_a_range_is_the_date_within_a_line() -> None:
    assert date_within("When: 3 May 2024, 19:00-20:00, room 5") == EVENING


@pytest.mark.parametrize(
    ("name", "date", "rest"),
    [
        ("notes 2024-05-03", DAY, "notes"),
        ("sync_20240503_final", DAY, "sync_ _final"),
        ("GMT20240503-190000_Recording", EVENING, "_Recording"),
        ("2024-05-03 19.00.00 Weekly sync", EVENING, "Weekly sync"),
        ("call_2024_05_03", DAY, "call_"),
        ("acdc_2024-05-03_182", DAY, "acdc_ _182"),
    ],
)
def test_the_date_of_a_name_is_found_and_taken_out(name: str, date: datetime, rest: str) -> None:
    found, others = date_in_name(name)
    assert (found, others.strip()) == (date, rest)


@pytest.mark.parametrize("name", ["session_01", "ES2002a", "123456789012", "20241345", "invoice 4711"])
def test_other_numbers_in_a_name_are_no_date(name: str) -> None:
    assert date_in_name(name) == (None, name)


@given(st.text(st.sampled_from("0123456789-/.: TtZzapmMay,GMT+"), max_size=60))
def test_any_line_gives_an_aware_date_or_none(line: str) -> None:
    for found in (date_line(line), date_within(line), date_in_name(line)[0]):
        assert found is None or found.utcoffset() is not None


@given(st.datetimes(datetime(1970, 1, 1), datetime(2099, 12, 31)), st.integers(-12, 14))
def test_an_iso_date_is_read_back(date: datetime, hours: int) -> None:
    aware = date.replace(microsecond=0, tzinfo=timezone(timedelta(hours=hours)))
    assert date_line(aware.isoformat()) == aware
