"""Spans that look like a date, a place, a person, a number and so on."""

from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.spans import LONGEST, Kind, find, time_of
from engine.text.words import Span

PIECES = [
    "5 May ",
    "3. Mai",
    "2024-05-03",
    "last ",
    "week ",
    "two ",
    "Ann ",
    "Vey ",
    "in ",
    "at ",
    "the ",
    "Room 12",
    "$1,200 ",
    "7 p.m. ",
    "a@b.org ",
    "+41 44 ",
    "123 45 67",
    "www.",
    "http://x",
    "-",
    ".",
    ",",
    "(",
    "\n",
    "1",
    "O'",
    "of ",
    "de ",
]


def texts(text: str, kind: Kind) -> list[str]:
    return [text[found.start : found.end] for found in find(text, kind)]


@pytest.mark.parametrize(
    "date",
    [
        "yesterday",
        "tomorrow morning",
        "last week",
        "next month",
        "two days ago",
        "a few weeks ago",
        "in two weeks",
        "5 May 2023",
        "May 3rd",
        "May 3rd, 2024",
        "3rd of May",
        "May 2023",
        "2024-05-03",
        "03.05.2024",
        "5/3/24",
        "Friday",
        "last Friday",
        "Monday night",
        "5 mai",
        "3. Mai 2024",
        "12. Dezember",
        "Dienstag",
        "gestern",
        "summer of 2022",
        "last summer",
        "the day before yesterday",
        "end of last year",
    ],
)
def test_dates_are_found_in_many_forms(date: str) -> None:
    assert texts(f"They moved, {date}, to Bern", "date") == [date]


def test_a_month_needs_a_day_a_year_or_a_preposition() -> None:
    assert texts("She may march in June", "date") == ["June"]


@pytest.mark.parametrize("time", ["5 p.m.", "14:30", "14:30 Uhr", "7pm", "noon", "six o'clock", "11:05am", "930am"])
def test_times_of_day_are_found(time: str) -> None:
    assert texts(f"Meet me {time} sharp", "time") == [time]


@pytest.mark.parametrize("duration", ["4 years", "about two weeks", "half an hour", "30 minutes", "a few months"])
def test_durations_are_found(duration: str) -> None:
    assert texts(f"It took {duration} to finish", "duration") == [duration]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("I moved to New York City last year", "New York City"),
        ("we meet in Room 12 as ever", "Room 12"),
        ("he lives at 12 Baker Street now", "12 Baker Street"),
        ("come to EB 3267 please", "EB 3267"),
        ("it hid in my slipper once", "in my slipper"),
        ("we meet in the Mt. Hood room", "the Mt. Hood room"),
        ("my desk is on the 4th floor", "the 4th floor"),
    ],
)
def test_places_are_told_by_prepositions_rooms_and_streets(text: str, place: str) -> None:
    assert place in texts(text, "place")


def test_persons_are_runs_of_capitals_without_the_words_around_them() -> None:
    assert texts("Hi Ann Vey, I told General Jones and Mr. de Wit", "person")[:2] == ["Ann Vey", "General Jones"]


def test_a_possessive_is_no_part_of_a_name() -> None:
    assert texts("it was Ann's idea", "person") == ["Ann"]


def test_numbers_are_found_as_digits_and_as_words() -> None:
    assert texts("We have 1,200 chairs, twenty-one tables and 3.5 % left", "number") == ["1,200", "twenty-one", "3.5 %"]


def test_amounts_have_a_currency_or_a_unit() -> None:
    assert texts("It costs $1,200.50, or 900 euros, for 3 boxes", "amount") == ["$1,200.50", "900 euros"]


def test_an_address_keeps_its_apostrophe_and_loses_the_full_stop() -> None:
    assert texts("Write to nick.o'day@example.org.", "email") == ["nick.o'day@example.org"]


@pytest.mark.parametrize(
    "number",
    ["713-853-4777", "44 207 783 4040", "(713) 646-7327", "+41 44 123 45 67", "713/365-0174", "x39673", "ext. 4412"],
)
def test_telephone_numbers_are_found_in_many_forms(number: str) -> None:
    assert texts(f"Call {number} now", "phone") == [number]


def test_a_date_is_no_telephone_number() -> None:
    assert texts("on 2024-05-03 we met", "phone") == []


def test_a_link_ends_before_a_bracket() -> None:
    assert texts("(see https://example.org/a?b=c)", "link") == ["https://example.org/a?b=c"]


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join)), st.sampled_from(get_args(Kind)))
def test_spans_stand_in_order_within_the_text(text: str, kind: Kind) -> None:
    spans = find(text, kind)
    assert all(0 <= span.start < span.end <= min(len(text), LONGEST) for span in spans)
    assert all(before.end <= after.start for before, after in pairwise(spans))


@given(st.lists(st.sampled_from(PIECES)).map("".join), st.sampled_from(get_args(Kind)))
def test_spans_have_no_blanks_around_them(text: str, kind: Kind) -> None:
    assert all(part == part.strip() for part in texts(text, kind))


@pytest.mark.parametrize(
    "date",
    ["Saturday 15 June", "next Tuesday, 13 February", "Thu 16 May 2024", "Mondays and Fridays", "Friday the 3rd"],
)
def test_a_weekday_and_its_date_are_one_span(date: str) -> None:
    assert texts(f"We meet on {date} at the pier.", "date") == [date]


@pytest.mark.parametrize(
    ("text", "day", "time"),
    [
        ("on Friday at 18:30 in the hall", "Friday", "18:30"),
        ("on Friday 21 June, after 14:00", "Friday 21 June", "14:00"),
        ("Monday 8 July, 19:45, in the staff room", "Monday 8 July", "19:45"),
        ("we start at 19:45 on Mondays", "Mondays", "19:45"),
        ("on Friday at 18:00 and on Sunday at 11:00", "Sunday", "11:00"),
        ("on Tuesdays, the club meets at 19:45", "Tuesdays", None),
        ("on Tuesdays because it rains at 19:45", "Tuesdays", None),
        ("Friday's (05/04/00) call of the north at 18:30", "05/04/00", "18:30"),
        ("Friday: 18:30", "Friday", "18:30"),
        ("on Fri. at 18:30", "Fri", "18:30"),
        ("on Friday; 18:30 is too late", "Friday", None),
    ],
)
def test_the_time_of_a_day_stands_in_its_clause(text: str, day: str, time: str | None) -> None:
    start = text.index(day)
    found = time_of(text, Span(start, start + len(day)))
    assert (text[found.start : found.end] if found else None) == time


def test_a_month_is_no_place() -> None:
    assert texts("In March we met in Vevey hall and in May at the Red Lion.", "place") == ["Vevey hall", "the Red Lion"]
