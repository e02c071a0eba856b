"""Answers that say the same are told from those that do not."""

from datetime import date

import pytest

from tests.bench.agreement import agree, day_of


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("8 July 2022", "The Friday before 10 July 2022", True),
        ("7 July 2022", "The Friday before 10 July 2022", False),
        ("9 July 2022", "the day before 10 July 2022", True),
        ("7 May 2023", "May 7, 2023", True),
        ("the green folders", "The green folders.", True),
        ("Ann", "Bob", False),
        (None, "", True),
        ("Ann", None, False),
    ],
)
def test_two_answers_agree(one: str | None, other: str | None, same: bool) -> None:
    assert agree(one, other) is same


def test_a_span_of_days_is_no_day() -> None:
    assert day_of("the week before 10 July 2022") is None


def test_the_weekday_before_the_same_weekday_is_a_week_earlier() -> None:
    assert day_of("the Sunday before 10 July 2022") == date(2022, 7, 3)  # 10 July 2022 was a Sunday
