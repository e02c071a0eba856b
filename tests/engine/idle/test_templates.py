"""Templates of the user's questions, and what fills their slots."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.idle.predict import fillers, forms, from_forms, may_answer
from store.jobs import OutOfTime
from tests.engine.idle.kit import hit

ASKED = [
    "What is the phone number of Carla Diaz?",
    "Who is Eve Fox?",
    "What is the phone number of Dan Moe?",
    "what is the phone number of Carla Diaz",
    "Who wrote the mail 'summer picnic'?",
    "Who wrote the mail 'the boiler'?",
]


def test_questions_that_differ_in_a_name_are_one_template() -> None:
    assert [(one.filled("X"), one.slot, one.share) for one in forms(ASKED)] == [
        ("what is the phone number of X", "name", 0.5),
        ("Who wrote the mail 'X'?", "title", 2 / 6),
    ]


def test_a_question_asked_about_one_name_only_is_no_template() -> None:
    assert forms(["Who is Eve Fox?", "Who is Eve Fox?"]) == []


def test_names_are_filled_in_by_people_and_by_names_asked_about() -> None:
    one = hit("Eve asked Gus Hall whether Oslo is far.")
    assert fillers(one, "name", ["Oslo", "Rome"]) == ["Ann Lee", "Bob Roy", "Gus Hall", "Oslo"]


def test_titles_are_filled_in_by_the_first_chunk_of_a_message() -> None:
    assert (fillers(hit("text"), "title", []), fillers(hit("text", position=1), "title", [])) == (["Rehearsal"], [])


def test_a_phone_number_is_asked_for_where_one_stands_beside_the_name() -> None:
    form = forms(ASKED)[0]
    assert [may_answer(form, "Gus Hall", hit(text)) for text in ("Gus Hall: 555-123-4567", "Gus Hall is away")] == [
        True,
        False,
    ]


def test_an_address_is_asked_for_where_one_looks_like_the_name() -> None:
    form = forms(["What is the email address of Eve Fox?", "What is the email address of Dan Moe?"])[0]
    assert [may_answer(form, name, hit("text")) for name in ("Ann Lee", "Gus Hall")] == [True, False]


@given(st.lists(st.text(max_size=60), max_size=6))
def test_a_template_filled_with_its_names_is_a_question_that_was_asked(questions: list[str]) -> None:
    for form in forms(questions):
        assert any(one.startswith(form.before) and one.endswith(form.after) for one in questions)


@pytest.mark.parametrize("steps", [0, 3])
def test_forms_are_filled_in_until_the_time_is_up(steps: int) -> None:
    calls = count()
    with pytest.raises(OutOfTime):
        from_forms(
            [hit(f"Gus Hall: 555-123-{number}") for number in range(1000, 1009)], ASKED, lambda: next(calls) == steps
        )
    assert next(calls) == steps + 1
