"""Texts that name a day which is not over yet, or a time that has not come."""

from datetime import UTC, date, datetime, time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.relative_dates import next_start

WRITTEN, TODAY = datetime(2024, 4, 29, tzinfo=UTC), date(2024, 6, 19)


def is_upcoming(text: str, written: datetime | None, today: date) -> bool:
    return next_start(text, written, datetime.combine(today, time.min)) is not None


@pytest.mark.parametrize(
    "text",
    [
        "So we move to Saturday 22 June.",
        "It is on the 22nd of June, as ever",
        "June 22nd, 2024 at seven",
        "DTSTART 2024-06-22",
        "today, 19 June, is the last day",
        "It was on 15 June. Now it is 3 July.",
        "am 22. Juni",
    ],
)
def test_a_text_with_a_future_day_is_upcoming(text: str) -> None:
    assert is_upcoming(text, WRITTEN, TODAY)


@pytest.mark.parametrize(
    "text",
    ["It is on 15 June.", "on 18 June 2024", "22 June 2023", "May 5", "in June", "version 22.6", "", "June 22:30"],
)
def test_past_days_and_other_words_are_not(text: str) -> None:
    assert not is_upcoming(text, WRITTEN, TODAY)


def test_an_undated_text_is_never_upcoming() -> None:
    assert not is_upcoming("Saturday 22 June", None, TODAY)


def test_a_day_without_a_year_is_the_one_nearest_to_the_text() -> None:
    assert is_upcoming("on 3 January", datetime(2023, 12, 20, tzinfo=UTC), date(2024, 1, 2))
    assert not is_upcoming("on 3 January", datetime(2022, 12, 20, tzinfo=UTC), date(2024, 1, 2))


@given(st.text(max_size=200), st.dates(date(1990, 1, 1), date(2100, 1, 1)))
def test_any_text_is_accepted(text: str, today: date) -> None:
    assert is_upcoming(text, WRITTEN, today) in (True, False)


@given(st.dates(date(2024, 5, 1), date(2024, 12, 31)))
def test_a_text_is_upcoming_until_its_day_is_over(today: date) -> None:
    assert is_upcoming("the fair is on 2 September 2024", WRITTEN, today) == (today <= date(2024, 9, 2))


@pytest.mark.parametrize(
    ("clock", "start"), [("08:00", "2024-06-19T09:30"), ("09:31", "2024-06-19T14:00"), ("15:00", "2024-06-21T00:00")]
)
def test_the_first_time_to_come_is_found(clock: str, start: str) -> None:
    text = "We meet on 21 June. The talks are on 19 June at 2 pm and on 19 June at 9:30."
    assert next_start(text, WRITTEN, datetime.fromisoformat(f"2024-06-19T{clock}")) == datetime.fromisoformat(start)
