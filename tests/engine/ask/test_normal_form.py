"""The normal form of questions: frames, order, contractions and phrases."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ask.normal_form import is_past, plain, tokens


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("Could you tell me when the choir meets?", "when the choir meets"),
        ("So, do you happen to know who leads the choir?", "who leads the choir"),
        ("Remind me again where we eat, please", "where we eat"),
        ("Please give me Ann's phone number", "what be Ann's phone"),
        ("Ann Frey's email address, do you know it?", "what be Ann Frey's email"),
        ("Ann Frey's email address?", "what be Ann Frey's email"),
        ("What was Ann's email address again?", "What is Ann's email"),
        ("On Friday, who ought to sing?", "who should sing On Friday"),
        ("Who ought to be thanked at Monday's meeting?", "Who should be thanked at meeting on Monday"),
        ("At what address can Ann Frey be emailed?", "what is email of Ann Frey"),
        ("What number can I call Ann Frey on?", "what is phone of Ann Frey"),
        ("How frequently does Ann swim?", "how often does Ann swim"),
        ("What made Ann leave?", "why did Ann leave"),
        ("According to Ann, what is too loud?", "what did Ann say is too loud"),
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
        ("who's taking care of Ann's cat", ["who", "is", "handle", "Ann", "'s", "cat"]),
        ("who called the picnic off", ["who", "canceled", "the", "picnic"]),
        ("who put the lamp off the table", ["who", "put", "the", "lamp", "off", "the", "table"]),
        ("they won't get in touch with O'Day's firm", ["they", "will", "not", "contact", "ODay", "'s", "firm"]),
        ("the U.S. embassy", ["the", "US", "embassy"]),
    ],
)
def test_words_are_spelled_out_and_phrases_are_words(text: str, found: list[str]) -> None:
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
