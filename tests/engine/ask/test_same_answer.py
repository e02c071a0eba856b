"""Two answers are the same where their words are, or what they highlight is; and never where a number differs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ask.keys import same_answer


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("On Friday, at seven.", "on friday, at seven"),
        ("The summer concert is in the town hall on Friday", "Summer concert: in our town hall on Friday evening"),
        (None, None),
        (None, ""),
    ],
)
def test_answers_in_nearly_the_same_words_are_the_same(one: str | None, other: str | None) -> None:
    assert same_answer(one, other)
    assert same_answer(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("It starts at 7 in the town hall on Friday the 21st", "It starts at 8 in the town hall on Friday the 21st"),
        ("The summer concert is on Friday", "The summer concert is on Saturday"),
        ("The summer concert is on Friday", "The summer concert is not on Friday"),
        ("Ann gives Ben the key of the workshop", "Ben gives Ann the key of the workshop"),
        ("The concert is on Friday", "The concert on Friday was moved to Sunday"),
        ("Ann", "Ben"),
        ("On Friday", None),
        ("", "On Friday"),
    ],
)
def test_other_words_another_number_or_no_answer_are_not_the_same(one: str | None, other: str | None) -> None:
    assert not same_answer(one, other)
    assert not same_answer(other, one)


def test_what_is_highlighted_decides_where_both_highlight_something() -> None:
    assert same_answer("The choir sings on Friday, says Ann.", "Ben: see you Friday!", "Friday", "friday")
    assert not same_answer("At the desk.", "Please no longer at the desk, but by mail.", "desk", "desk")
    assert not same_answer("It is Friday the 21st at the hall", "It is Friday the 21st at the hall now", "21st", "hall")


def test_what_one_highlights_may_stand_anywhere_in_the_other() -> None:
    assert same_answer("The choir sings on 21 June.", "Moved to 21 June, bring chairs", "21 June")
    assert not same_answer("The choir sings on 21 June.", "Moved to June 21, bring chairs", "21 June")
    assert not same_answer("The key is with Ann", "An annual key", "Ann")


@given(st.text(max_size=40))
def test_an_answer_is_the_same_as_itself(answer: str) -> None:
    assert same_answer(answer, answer)


@given(st.text(max_size=40), st.text(max_size=40))
def test_which_of_two_answers_comes_first_does_not_matter(one: str, other: str) -> None:
    assert same_answer(one, other) == same_answer(other, one)
