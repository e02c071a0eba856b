"""The normal form of questions: frames, order, contractions and phrases."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ask.question_features import is_past, plain, tokens


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("Please give me Ann's phone number", "what be Ann's phone"),
        ("Ann Frey's email address?", "what be Ann Frey's email"),
        ("Who ought to be thanked at Monday's meeting?", "Who should be thanked at meeting on Monday"),
        ("At what address can Ann Frey be emailed?", "what is email of Ann Frey"),
        ("What number can I call Ann Frey on?", "what is phone of Ann Frey"),
        ("How frequently does Ann swim?", "how often does Ann swim"),
        ("What made Ann leave?", "why did Ann leave"),
        ("Who was it that rang?", "Who rang"),
        ("What are Ben's views on the roof?", "what does Ben think about the roof"),
        ("Who is the sender of the invoice?", "who sent the invoice"),
        ("From whom did Ann get the keys?", "who sent Ann the keys"),
        ("Who has to pay?", "Who should pay"),
        ("What's going to happen?", "What will happen"),
    ],
)
def test_a_question_has_a_plain_form(text: str, form: str) -> None:
    assert plain(text) == form


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("who's feeding Ann's cat", ["who", "is", "feeding", "Ann", "'s", "cat"]),
        ("they won't call O'Day's firm", ["they", "will", "not", "call", "ODay", "'s", "firm"]),
    ],
)
def test_contractions_are_spelled_out(text: str, found: list[str]) -> None:
    assert list(tokens(text)) == found


@pytest.mark.parametrize(
    ("word", "past"),
    [("sent", True), ("asked", True), ("ask", False), ("need", False), ("children", False), ("colour", False)],
)
def test_the_past_of_a_verb_is_known_by_its_form(word: str, past: bool) -> None:
    assert is_past(word) is past


def test_a_text_longer_than_any_question_stays_as_it_is() -> None:
    text = "Please tell me " + "?! " * 400
    assert plain(text) == text


@given(st.text(max_size=80))
def test_any_text_has_a_plain_form_and_words(text: str) -> None:
    assert all(tokens(plain(text)))
