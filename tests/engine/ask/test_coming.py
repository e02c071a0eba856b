"""Days that are written out are seen, and are to come until they are over."""

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.relative_dates import is_upcoming

WRITTEN, TODAY = datetime(2024, 4, 29, tzinfo=UTC), date(2024, 6, 19)


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
def test_a_day_to_come_is_seen(text: str) -> None:
    assert is_upcoming(text, WRITTEN, TODAY)


@pytest.mark.parametrize(
    "text",
    ["It is on 15 June.", "on 18 June 2024", "22 June 2023", "May 5", "in June", "version 22.6", "", "June 22:30"],
)
def test_a_day_gone_by_and_what_is_no_day_are_not(text: str) -> None:
    assert not is_upcoming(text, WRITTEN, TODAY)


def test_without_its_date_a_text_says_nothing() -> None:
    assert not is_upcoming("Saturday 22 June", None, TODAY)


def test_a_day_without_a_year_is_the_one_nearest_to_the_text() -> None:
    assert is_upcoming("on 3 January", datetime(2023, 12, 20, tzinfo=UTC), date(2024, 1, 2))
    assert not is_upcoming("on 3 January", datetime(2022, 12, 20, tzinfo=UTC), date(2024, 1, 2))


@given(st.text(max_size=200), st.dates(date(1990, 1, 1), date(2100, 1, 1)))
def test_any_text_is_read(text: str, today: date) -> None:
    assert is_upcoming(text, WRITTEN, today) in (True, False)


@given(st.dates(date(2024, 5, 1), date(2024, 12, 31)))
def test_what_is_to_come_is_so_until_its_day_is_over(today: date) -> None:
    assert is_upcoming("the fair is on 2 September 2024", WRITTEN, today) == (today <= date(2024, 9, 2))
