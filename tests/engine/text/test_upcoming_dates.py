"""Texts that name a day which is not over yet, or a time that has not come."""

from datetime import UTC, date, datetime, time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.text.relative_dates import event_times, next_start

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


@pytest.mark.parametrize(
    ("rule", "days"),
    [
        ("every day", "3-24 3-25 3-26"),
        ("every 2 days", "3-25 3-27 3-29"),
        ("every week on Monday and Friday, until Friday 29 March 2024", "3-25 3-29"),
        ("every 2 weeks on Tuesday", "4-2 4-16 4-30"),
        ("every month on the third Wednesday", "4-17 5-15 6-19"),
        ("every month on the last Friday", "3-29 4-26 5-31"),
        ("every month on day 1 and 15", "4-1 4-15 5-1"),
        ("every year in March and June on day 19", "6-19 3-19"),
        ("every week on Tuesday, 3 times", ""),
        ("every 0 weeks on Tuesday", "3-26 4-2 4-9"),
        ("every now and then", ""),
    ],
)
def test_a_repeated_event_takes_place_as_its_rule_says(rule: str, days: str) -> None:
    text = f"Event: Rehearsal\nWhen: Tuesday 5 March 2024, 19:00 to 21:00\nRepeats: {rule}"
    now = datetime(2024, 3, 24)
    found = [one.begins for one in event_times(text, now) if one.is_coming(now)][:3]
    assert [f"{one.month}-{one.day}" for one in found] == days.split()
    assert {one.hour for one in found} <= {19}


@given(st.text(max_size=60), st.text(max_size=60), st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1)))
@example("Monday 1 January 0001, 00:00 (x, UTC+14:00)", "every day", datetime(2024, 1, 1))
@example("Friday 31 December 9999, 23:00 (x, UTC-12:00)", "every 3 years", datetime(2024, 1, 1))
@example("Friday 99 May 2024 (x, UTC+99:99)", "every week, 0 times", datetime(2024, 1, 1))
@example("Friday 3 May 2024, 10:00 (x, UTC+99:99)", "every week, until Friday 31 February 2024", datetime(2024, 1, 1))
def test_any_event_is_accepted(when: str, rule: str, now: datetime) -> None:
    event_times(f"Event: x\nWhen: {when}\nRepeats: {rule}", now)
