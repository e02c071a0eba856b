"""Relative dates, resolved against the day on which they were written."""

from datetime import date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.dates import Days, spell_date
from engine.text.relative_dates import in_words, resolve
from engine.text.spans import find

MONDAY = datetime(2023, 5, 8, 13, 56)
PIECES = [
    "last ",
    "next ",
    "two ",
    "weeks ",
    "ago",
    "in ",
    "99999999 ",
    "years ",
    "Friday",
    "summer",
    "May ",
    "29 February",
    "9999",
    "31",
    ".",
]


@pytest.mark.parametrize(
    ("span", "meant"),
    [
        ("yesterday", "7 May 2023"),
        ("last night", "7 May 2023"),
        ("the day before yesterday", "6 May 2023"),
        ("the day after tomorrow", "10 May 2023"),
        ("two days ago", "6 May 2023"),
        ("last Friday", "5 May 2023"),
        ("on Friday", "12 May 2023"),
        ("Fri.", "12 May 2023"),
        ("Dienstag", "9 May 2023"),
        ("gestern", "7 May 2023"),
        ("gestern Abend", "7 May 2023"),
        ("Morgen", "9 May 2023"),
        ("morgen früh", "9 May 2023"),
        ("heute Morgen", "8 May 2023"),
        ("übermorgen", "10 May 2023"),
        ("avant-hier", "6 May 2023"),
        ("demain soir", "9 May 2023"),
        ("pasado mañana", "10 May 2023"),
        ("mañana por la tarde", "9 May 2023"),
        ("l’altro ieri", "6 May 2023"),
        ("nächsten Freitag", "12 May 2023"),
        ("letzten Freitag", "5 May 2023"),
        ("vendredi prochain", "12 May 2023"),
        ("viernes que viene", "12 May 2023"),
        ("lunedì scorso", "1 May 2023"),
        ("letzte Woche", "the week before 8 May 2023"),
        ("semaine prochaine", "the week after 8 May 2023"),
        ("5 mai", "5 May 2023"),
        ("3. Juni", "3 June 2023"),
        ("May 3rd", "3 May 2023"),
        ("Thu 18 May", "Thursday 18 May 2023"),
        ("next Tuesday, 16 May", "Tuesday 16 May 2023"),
        ("Sunday the twenty-eighth of May", "Sunday 28 May 2023"),
        ("next month", "June 2023"),
        ("last year", "2022"),
        ("three years ago", "2020"),
        ("two decades ago", "around 2003"),
        ("twenty days ago", "18 April 2023"),
        ("two hours ago", "8 May 2023"),
        ("last May", "May 2022"),
        ("last summer", "summer 2022"),
        ("next fall", "fall 2023"),
        ("last week", "the week before 8 May 2023"),
        ("this week", "the week of 8 May 2023"),
        ("this past weekend", "the weekend before 8 May 2023"),
        ("two weekends ago", "two weekends before 8 May 2023"),
        ("a few days ago", "a few days before 8 May 2023"),
        ("in two weeks", "two weeks after 8 May 2023"),
    ],
)
def test_a_relative_date_is_spelled_out(span: str, meant: str) -> None:
    assert in_words(span, MONDAY) == meant


@pytest.mark.parametrize("span", ["3 May 2024", "2022", "2024-05-03", "03.05.2024", "soon"])
def test_a_full_date_or_no_date_is_left_as_it_is(span: str) -> None:
    assert in_words(span, MONDAY) is None


@pytest.mark.parametrize("span", ["half a year ago", "twenty-five days ago", "in many weeks", "two decades later"])
def test_an_unknown_count_is_not_guessed(span: str) -> None:
    assert resolve(span, MONDAY) is None


def test_a_bare_weekday_in_the_past_tense_is_the_last_one() -> None:
    assert in_words("Friday", MONDAY, past=True) == "5 May 2023"


def test_a_day_without_a_year_is_the_nearest_one() -> None:
    assert resolve("December 30", datetime(2024, 1, 3)) == Days(date(2023, 12, 30), date(2023, 12, 30), yearly=False)


@pytest.mark.parametrize("span", ["laſt ſpring", "two weekſ ago", "ſept. 3", "laſt ſunday"])
def test_a_long_s_raises_nothing(span: str) -> None:
    assert resolve(span, MONDAY) is None or in_words(span, MONDAY) is not None


def test_dots_put_the_day_first() -> None:
    assert resolve("03.05.2024", MONDAY) == Days(date(2024, 5, 3), date(2024, 5, 3))


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("Wir treffen uns morgen um neun.", ["morgen"]),
        ("Morgen kommt Bob.", ["Morgen"]),
        ("Guten Morgen, am Morgen war es kalt.", []),
        ("Heute Morgen kam Post.", ["Heute Morgen"]),
        ("Wir sind hier, und hier ist der Plan.", []),
        ("Elle est venue hier soir.", ["hier soir"]),
        ("Por la mañana no puedo, mañana sí.", ["mañana"]),
        ("Nächsten Freitag um acht.", ["Nächsten Freitag"]),
        ("On se voit vendredi prochain.", ["vendredi prochain"]),
    ],
)
def test_words_for_days_near_today_are_told_from_those_for_the_morning(text: str, spans: list[str]) -> None:
    assert [text[one.start : one.end] for one in find(text, "date")] == spans


def test_a_summer_that_is_over_is_last_summer() -> None:
    assert in_words("last summer", datetime(2023, 11, 2)) == "summer 2023"


def test_a_date_beyond_the_calendar_is_none() -> None:
    assert resolve("in 9999999 years", MONDAY) is None


def test_a_day_is_written_without_commas() -> None:
    assert spell_date(date(2023, 5, 7)) == "7 May 2023"


@given(
    st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join)),
    st.datetimes(min_value=datetime(1, 1, 1), max_value=datetime(9999, 12, 31)),
    st.booleans(),
)
def test_whatever_is_written_resolves_to_days_in_order_or_to_none(span: str, written: datetime, past: bool) -> None:
    days = resolve(span, written, past)
    assert days is None or days.first <= days.last


@given(st.lists(st.sampled_from(PIECES)).map("".join), st.datetimes())
def test_words_are_given_only_for_what_resolves(span: str, written: datetime) -> None:
    assert in_words(span, written) is None or resolve(span, written) is not None


@pytest.mark.parametrize("span", ["Monday 16 May", "the 22nd", "Tuesday the 4th", "Thursdays", "Mondays and Fridays"])
def test_a_day_that_contradicts_itself_or_is_not_one_day_is_left_as_it_is(span: str) -> None:
    assert in_words(span, MONDAY) is None
