"""The exact tier: which questions are the same, and which are not."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ask.keys import Names, Wording, key, normalise, reword
from store.errors import UsageError
from store.types import Scope

NOW = datetime(2024, 6, 19, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    "same",
    [
        "When is rehearsal?",
        "when is rehearsal",
        "  WHEN  is\nrehearsal ??",
        "Ｗｈｅｎ is rehearsal？",
        "when is rehearsal...",
    ],
)
def test_case_space_form_and_final_marks_do_not_count(same: str) -> None:
    assert normalise(same) == "when is rehearsal"


@pytest.mark.parametrize(
    ("one", "other"), [("what is C?", "what is C#?"), ("is it 5%?", "is it 5?"), ("who's in", "whos in")]
)
def test_marks_that_mean_something_count(one: str, other: str) -> None:
    assert normalise(one) != normalise(other)


@given(st.text())
def test_normalising_twice_is_normalising_once(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


def names_of(*known: str) -> Names:
    """Return the lookup of an archive that holds these names."""
    forms = {form.casefold(): form for form in known}
    return lambda words: {word: forms[word] for word in words if word in forms}


@pytest.mark.parametrize(
    "same",
    [
        "When is rehearsal?",
        "when is rehearsal",
        " When  is\nrehearsal ??",
        "WHEN IS REHEARSAL?",
        "Ｗｈｅｎ is rehearsal？",
        "Could you tell me when rehearsal is?",
        "So, when is rehearsal?",
        "Does anyone know when rehearsal is?",
        "when is rehearsal, please",
        "Hi! Do you happen to know when rehearsal is? Thanks!",
        "I'd like to know when rehearsal is",
    ],
)
def test_space_form_final_marks_the_first_letter_and_polite_words_do_not_count_in_a_wording(same: str) -> None:
    assert reword(same, names_of()).text == "When is rehearsal?"


@pytest.mark.parametrize(
    ("told", "asked"),
    [
        ("who the chair's assistant is", "Who is the chair's assistant?"),
        ("what time it is", "What time is it?"),
        ("how old Ann is", "How old is Ann?"),
        ("which room the choir is in", "Which room is the choir in?"),
        ("where the meeting was held", "Where was the meeting held?"),
        ("who wrote the mail that was lost", "Who wrote the mail that was lost?"),
        ("which people are coming", "Which people are coming?"),
        ("what Ann said was wrong", "What Ann said was wrong?"),
        ("what is wrong", "What is wrong?"),
        ("in which year it was", "In which year it was?"),
    ],
)
def test_what_stands_behind_tell_me_is_in_the_order_of_a_question(told: str, asked: str) -> None:
    assert reword(f"tell me {told}", names_of()).text == asked


@pytest.mark.parametrize(
    "same",
    [
        "Did you tell me who wrote?",  # asks whether
        "Does Ann know who wrote?",
        "Tell me if Ann wrote?",
        "When rehearsal is?",
        "What is C#?",
        "Did Ann say please?",
    ],
)
def test_what_is_asked_itself_stays_in_a_wording(same: str) -> None:
    assert reword(same, names_of()).text == same


@pytest.mark.parametrize("same", ["Who is Ann’s boss?", "who is ann's boss", "WHO IS ANN'S BOSS"])
def test_names_of_the_archive_are_read_in_any_case(same: str) -> None:
    assert reword(same, names_of("Ann")) == Wording("Who is Ann's boss?", frozenset({"Ann"}))


def test_capitals_that_may_name_something_else_stay() -> None:
    assert reword("when is the Falcon due?", names_of("Ann")).text == "When is the Falcon due?"
    assert reword("when is the falcon due?", names_of("Ann")).text == "When is the falcon due?"


def test_two_names_that_are_words_are_read_together_only() -> None:
    known = names_of("Bill Vey")
    assert reword("did bill vey pay?", known).text == "Did Bill Vey pay?"
    assert reword("is the bill paid?", known).text == "Is the bill paid?"


_FRAMES = st.sampled_from(["tell me ", "So ", "please", "do you know ", "who ", "Ann ", "is ", ", thanks", "WHO "])


@given(
    st.text() | st.lists(_FRAMES | st.text(max_size=3)).map("".join),
    st.lists(st.sampled_from(["Ann", "Bill Vey", "É", "ß"])),
)
def test_the_wording_of_a_wording_is_itself(text: str, known: list[str]) -> None:
    try:
        once = reword(text, names_of(*known)).text
    except UsageError:
        return
    assert reword(once, names_of(*known)).text == once


def test_every_part_of_a_scope_makes_another_key() -> None:
    scopes = [
        Scope(),
        Scope(sender="a"),
        Scope(recipient="a"),
        Scope(collection="a"),
        Scope(since=NOW.date()),
        Scope(until=NOW.date()),
    ]
    keys = {key("When?", scope, "quote", None).digest for scope in scopes}
    assert len(keys) == len(scopes)


def test_another_writer_is_another_key() -> None:
    digests = {key("When?", Scope(), writer, None).digest for writer in ("quote-1", "quote-2")}
    assert len(digests) == 2


@pytest.mark.parametrize("empty", ["", "  ", "?!", "\n"])
def test_a_question_of_nothing_is_refused(empty: str) -> None:
    with pytest.raises(UsageError):
        reword(empty, names_of())
