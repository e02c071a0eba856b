"""Question analysis: answer type, names, dates, and whether the answer depends on the day."""

from datetime import date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.dates import Days, find
from engine.text.question import ASKING_WORDS, AnswerType, understand
from engine.text.time_sensitive import time_sensitivity
from engine.text.words import FUNCTION_WORDS, words

NOW = datetime(2024, 5, 15, 12)  # a Wednesday


def test_a_question_word_is_no_name_though_somebody_has_it() -> None:
    known = frozenset(["How", "Will", "Downing"])
    names = [
        understand(text, NOW, known).names for text in ("How much is it?", "Will it rain?", "When does Will sing?")
    ]
    assert names == [(), (), ("Will",)]


@given(st.text(max_size=200), st.dates(date(1950, 1, 1), date(2150, 1, 1)))
def test_any_text_can_be_analysed_at_any_time(text: str, day: date) -> None:
    found = understand(text, datetime(day.year, day.month, day.day))
    assert (found.text, found.day) == (text, day)
    assert set(found.day_words).isdisjoint(found.words)


@given(st.text(alphabet="0123456789/.- aegoMy", max_size=40))
def test_any_row_of_digits_gives_sound_intervals(text: str) -> None:
    assert all(days.first <= days.last for days in find(text, NOW.date()))


@given(st.dates(date(1900, 1, 1), date(2099, 12, 31)))
def test_a_date_in_words_or_digits_is_that_day(day: date) -> None:
    written = [f"{day:%Y-%m-%d}", f"{day.day} {day:%B %Y}", f"{day:%B} {day.day}, {day.year}"]
    assert [find(text, NOW.date()) for text in written] == [[Days(day, day)]] * 3


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("When is the rehearsal?", "date"),
        ("What time is rehearsal?", "time"),
        ("Where do we meet?", "place"),
        ("Which city did Ann visit?", "place"),
        ("Who wrote it?", "person"),
        ("How many people came?", "number"),
        ("How much was the cake?", "amount"),
        ("Did Ann come?", "yes/no"),
        ("Why was the plan dropped when it rained?", "other"),
        ("rehearsal", "other"),
        ("", "other"),
    ],
)
def test_the_first_question_word_decides_the_answer_type(text: str, asked: AnswerType) -> None:
    assert understand(text, NOW).asked == asked


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("When did Ann Lee call?", ("Ann Lee",)),
        ("Rehearsal moved?", ()),
        ("Caroline's dog is called what?", ("Caroline",)),
        ("Ann Lee wrote what?", ("Ann Lee",)),
        ("What did PhD A say?", ("PhD A",)),
        ('What is "the blue plan" about?', ("the blue plan",)),
        ("Do I work on Monday in May?", ()),
        ("¿Dónde trabaja Ana?", ("Ana",)),
    ],
)
def test_names_are_capitalised_words_inside_a_sentence_and_quoted_phrases(text: str, names: tuple[str, ...]) -> None:
    assert understand(text, NOW).names == names


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("Who wrote 'Re: the plan' and \"Hall\" to Ann?", ("Re: the plan", "Hall")),
        ("Who sent “Blue” to Ann's and Bob's friends?", ("Blue",)),
        ("Who sent Ann's plan?", ()),
    ],
)
def test_what_stands_between_quotation_marks_is_quoted_and_an_apostrophe_quotes_nothing(
    text: str, quoted: tuple[str, ...]
) -> None:
    assert understand(text, NOW).quoted == quoted


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("in May 2023", Days(date(2023, 5, 1), date(2023, 5, 31))),
        ("in March", Days(date(2024, 3, 1), date(2024, 3, 31), yearly=True)),
        ("on the 3rd of June", Days(date(2024, 6, 3), date(2024, 6, 3), yearly=True)),
        ("in 2022", Days(date(2022, 1, 1), date(2022, 12, 31))),
        ("today", Days(date(2024, 5, 15), date(2024, 5, 15))),
        ("tomorrow", Days(date(2024, 5, 16), date(2024, 5, 16))),
        ("last week", Days(date(2024, 5, 6), date(2024, 5, 12))),
        ("next month", Days(date(2024, 6, 1), date(2024, 6, 30))),
        ("last Wednesday", Days(date(2024, 5, 8), date(2024, 5, 8))),
        ("on Friday", Days(date(2024, 5, 17), date(2024, 5, 17))),
        ("two weeks ago", Days(date(2024, 4, 28), date(2024, 5, 4))),
        ("in the last 3 days", Days(date(2024, 5, 12), date(2024, 5, 15))),
    ],
)
def test_a_date_becomes_an_interval(text: str, days: Days) -> None:
    assert find(text, NOW.date()) == [days]


def test_a_numeric_date_that_could_be_either_way_round_is_both() -> None:
    assert [days.first for days in find("5/6/2023", NOW.date())] == [date(2023, 5, 6), date(2023, 6, 5)]


@pytest.mark.parametrize("text", ["May I come?", "31 June 2023", "13/13/2023", "room 2512", "march on"])
def test_what_is_no_date_gives_no_interval(text: str) -> None:
    assert find(text, NOW.date()) == []


def test_a_yearly_interval_holds_in_every_year() -> None:
    assert find("in March", NOW.date())[0].holds(date(1999, 3, 31))


@pytest.mark.parametrize(
    "text",
    [
        "When is my next rehearsal?",
        "any mail from Ann today?",
        "Am I late?",
        "What did Ann do last week?",
        "Has Bob answered yet?",
        "What is the latest draft?",
        "What is on tomorrow?",
        "What happened two days ago?",
        "How many days until the concert?",
        "Is the invoice overdue?",
        "when is next rehearsal?",
        "Next rehearsal?",
        "what is due Friday?",
        "what do I need by Saturday?",
        "Which meetings are in two weeks?",
        "What must be done within 3 days?",
        "what’s coming up?",
        "What's on?",
        "When do we rehearse again?",
        "Wann ist morgen Probe?",
        "Was ist heute?",
        "Wann ist die nächste Probe?",
        "Was war vor zwei Wochen?",
        "Que faire vendredi ?",
        "Qu’y a-t-il aujourd’hui ?",
        "¿Qué hay mañana?",
        "Che cosa c'è domani?",
        "明天有什么？",
        "下周的排练是什么时候？",
        "来週の練習は？",
    ],
)
def test_a_question_whose_answer_depends_on_the_day_is_time_sensitive(text: str) -> None:
    assert time_sensitivity(text)


@pytest.mark.parametrize(
    "text",
    [
        "When did Ann visit Rome?",
        "How long did the meeting last?",
        "What did they agree on in May 2023?",
        "Who knows the code?",
        "What is Ann's last name?",
        "Who sits next to Ann?",
        "Who waters the plants in the morning?",
        "Who comes on Fridays?",
        "What is on the shopping list?",
        "Who asked for the key again?",
        "Wo ist der Schlüssel?",
        "Qui a la clé ?",
        "钥匙在谁那里？",
    ],
)
def test_a_question_about_a_fixed_fact_is_not_time_sensitive(text: str) -> None:
    assert not time_sensitivity(text)


def test_words_are_distinct_and_in_order() -> None:
    assert understand("the cat and the dog", NOW).words == ("the", "cat", "and", "dog")


def test_a_question_of_function_words_alone_keeps_them() -> None:
    assert understand("To be or not to be?", NOW).content == ("to", "be", "or", "not")


def test_asking_words_are_stemmed_as_by_words() -> None:
    assert set(words("said discussed summarize meeting opinions")) <= ASKING_WORDS


def test_no_asking_word_is_a_function_word() -> None:
    assert not ASKING_WORDS & FUNCTION_WORDS


@pytest.mark.parametrize("day", ["Yesterday", "Tomorrow", "Tonight", "Monday"])
def test_a_capitalised_day_inside_a_question_is_no_name(day: str) -> None:
    assert understand(f"Did Mira sing {day} well?", NOW).names == ("Mira",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What is on this Saturday?", "18 may"),
        ("Who comes tomorrow?", "thursday 16 may"),
        ("What did Ann write yesterday?", "tuesday 14 may"),
        ("What is on Saturday 18 May?", ""),
        ("What happened on 7 May 2023?", ""),
        ("What is due next week?", ""),
        ("When is the fair?", ""),
    ],
)
def test_a_relative_day_has_the_words_of_its_date(text: str, expected: str) -> None:
    assert understand(text, NOW).day_words == tuple(words(expected))


@pytest.mark.parametrize(
    ("text", "coming"),
    [
        ("When is the next concert?", True),
        ("Where is our coming concert?", True),
        ("what time is the upcoming rehearsal", True),
        ("When is Ann coming to the concert?", False),
        ("Where is the house next to the church?", False),
        ("When is the concert next week?", False),
        ("What is the next concert about?", False),
    ],
)
def test_a_question_about_the_next_event_is_time_sensitive(text: str, coming: bool) -> None:
    assert understand(text, NOW).coming is coming
    assert time_sensitivity(text) or not coming
