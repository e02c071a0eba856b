"""Time constraints: whether a sentence speaks of the days that a question asks about."""

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.question import understand
from engine.text.relative_dates import NONE, TimeConstraint, time_constraint
from engine.text.spans import Kind
from engine.text.words import words

NOW = datetime(2024, 6, 18, 8, tzinfo=UTC)  # a Tuesday
MAY = datetime(2024, 5, 20, tzinfo=UTC)  # a Monday
PIECES = ["tomorrow", "on Friday", "22 June", "Saturdays", "from Monday to Friday", "next", "meeting", "2024", " ", "?"]


def asked(text: str, kind: Kind | None = None, since: date | None = None) -> TimeConstraint:
    return time_constraint(understand(text, NOW), kind, since)


@pytest.mark.parametrize(
    ("text", "written", "spoken"),
    [
        ("I come tomorrow.", MAY, False),
        ("I come tomorrow.", NOW, True),
        ("I come on 19 June.", MAY, True),
        ("I come on 20 June.", MAY, False),
        ("I come on 20 June or the day before, 19 June.", MAY, True),
        ("I come on Wednesday.", NOW, True),
        ("I come on Wednesday.", MAY, False),
        ("I come on Wednesdays.", MAY, True),
        ("I come on Thursdays.", MAY, False),
        ("I come from Monday to Friday.", MAY, None),
        ("I come in June.", MAY, None),
        ("I come.", MAY, None),
        ("I come tomorrow.", None, None),
    ],
)
def test_a_sentence_speaks_of_the_days_that_its_words_meant_when_it_was_written(
    text: str, written: datetime | None, spoken: bool | None
) -> None:
    assert asked("Who comes tomorrow?").spoken(text, written) is spoken


def test_days_that_are_spoken_of_are_named_as_the_question_names_them() -> None:
    assert "tomorrow" in asked("Who comes tomorrow?").told("I come on 19 June.", spoken=True)


def test_days_of_the_same_name_are_not_those_of_the_question() -> None:
    assert asked("Who comes tomorrow?").told("I come tomorrow.", spoken=False) == frozenset(words("I come"))


def test_another_year_of_a_day_without_a_year_is_the_same_day() -> None:
    assert asked("Who came on 22 June?").spoken("Ann came on 22 June 2021.", MAY)


@pytest.mark.parametrize(
    "text",
    [
        "Is the fair on 22 June?",
        "Who came after the fair on 22 June?",
        "Who wrote the mail 'Fair on 22 June'?",
        "Who plays Kite 2077?",
        "Who came?",
    ],
)
def test_such_a_question_has_no_time_constraint(text: str) -> None:
    assert asked(text).spoken("The fair is on 15 June.", MAY) is None


def test_the_next_is_not_before_the_day_that_asks_or_what_is_given() -> None:
    when = asked("When is the next meeting?", "date")
    assert [when.spoken(f"We meet on {day} June.", MAY) for day in (17, 18, 19)] == [False, True, True]
    when = asked("When is the next meeting?", "date", MAY.date())
    assert [when.spoken(f"We meet on {day} May.", MAY) for day in (19, 20, 21)] == [False, True, True]


@pytest.mark.parametrize("text", ["See you next week.", "The next repair day is on 3 July.", "No meeting next Friday."])
def test_the_next_of_something_else_is_not_what_is_asked_for(text: str) -> None:
    assert "next" not in asked("When is the next meeting?", "date").told(text, spoken=True)


def test_the_next_of_what_is_asked_for_is_named_so() -> None:
    assert "next" in asked("When is the next meeting?", "date").told("Our next meeting is on 3 July.", spoken=True)


def test_the_next_of_no_occasion_is_no_day() -> None:
    assert asked("Who is the next chair?", "person") == NONE


texts = st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map(" ".join))


@given(texts, texts, st.one_of(st.none(), st.datetimes()))
def test_only_the_words_of_days_are_added_or_taken_away(question: str, text: str, written: datetime | None) -> None:
    when = asked(question, "date")
    told = when.told(text, when.spoken(text, written))
    assert told ^ set(words(text)) <= when.words
