"""What a chunk tells that can be asked for, and the verb that stands behind "did"."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.idle.deeds import Deed, Event, deeds, events, matters
from engine.idle.verbs import base
from tests.engine.idle.kit import chat, hit

REGULAR = (
    "paint join visit start plan try work contact monitor edit train attend explain wait look cook leak treat avoid "
    "move store share hike provide celebrate create invite complete hope time welcome capture announce receive "
    "raise bake explore handle charge arrive invite promote contribute decide admire tune trade agree argue name"
)


WORDS = ["I", "went", "to", "the", "a", "my", "meeting", "on", "Friday,", "Ann", "painted", "will", "'s", "\n"]


@pytest.mark.parametrize("verb", REGULAR.split())
def test_a_regular_verb_is_found_from_its_past(verb: str) -> None:
    past = {"try": "tried", "plan": "planned"}.get(verb, verb + ("d" if verb.endswith("e") else "ed"))
    assert base(past) == verb


@pytest.mark.parametrize(("past", "verb"), [("went", "go"), ("bought", "buy"), ("read", "read"), ("began", "begin")])
def test_an_irregular_verb_is_found_from_its_past(past: str, verb: str) -> None:
    assert base(past) == verb


@pytest.mark.parametrize("word", ["need", "red", "hundred", "excited", "cat", "", "ed"])
def test_what_is_no_past_gives_no_verb(word: str) -> None:
    assert base(word) == ""


def test_what_a_speaker_did_is_a_deed_of_the_speaker() -> None:
    spoken = chat("Ann: I just painted a lake last year.", "Ann", "Bob")
    assert list(deeds(spoken)) == [Deed("Ann", "paint", "a lake", dated=True, ahead=False, of_thing=True)]


def test_what_a_sender_will_do_is_a_deed_ahead() -> None:
    assert list(deeds(hit("I'm going to visit my aunt on Friday."))) == [
        Deed("Ann Lee", "visit", "their aunt", dated=True, ahead=True, of_thing=True)
    ]


def test_what_somebody_else_did_is_a_deed_of_theirs() -> None:
    assert [(one.who, one.verb, one.dated) for one in deeds(hit("Carla Diaz joined the choir."))] == [
        ("Carla Diaz", "join", False)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "I painted it.",
        "I will not paint a lake.",
        "Yesterday painted a lake.",
        "I thought so too.",
        "They painted a lake.",
        "Did you hear? I painted a lake?",
        "> I painted a lake.",
    ],
)
def test_what_only_its_context_explains_is_no_deed(text: str) -> None:
    assert list(deeds(hit(text))) == []


def test_what_takes_place_is_found_with_whether_its_day_and_place_are_told() -> None:
    text = "The dress rehearsal is on Friday in Oslo Hall. Our summer picnic is fun."
    assert list(events(hit(text))) == [Event("dress rehearsal", True, True), Event("summer picnic", False, False)]


def test_each_speaker_says_something_about_the_matter_of_most_words() -> None:
    text = "Ann: I must say that the old church boiler broke down in the night.\nBob: Well, my cat is well today too."
    assert list(matters(chat(text, "Ann", "Bob"))) == [("Ann", "old church boiler")]


def test_a_matter_ends_where_its_day_is_told() -> None:
    text = "I will gladly come and see the summer choir concert 3 May with the others."
    assert list(matters(hit(text))) == [("Ann Lee", "summer choir concert")]


def test_what_merely_has_a_word_of_an_event_is_none() -> None:
    assert list(events(hit("The end of the party was fine, and my call you know."))) == [Event("party", False, False)]


@given(st.text(max_size=300) | st.lists(st.sampled_from(WORDS)).map(" ".join))
def test_no_text_breaks_it(text: str) -> None:
    one = hit(text)
    assert all(each.who and each.verb and each.rest for each in deeds(one))
    assert all(each.name for each in events(one))
    assert all(who and matter for who, matter in matters(one))
