"""Predictions by the forms of the user's own questions."""

from hypothesis import given
from hypothesis import strategies as st

from engine.idle.templates import SOURCES, from_forms
from tests.engine.idle.kit import hit


def asked(found: object) -> set[tuple[str, str]]:
    assert isinstance(found, list)
    return {(one.method, one.question) for one in found}


def test_what_was_asked_of_two_people_is_asked_of_a_third() -> None:
    past = ["How old is Eve Fox?", "How old is Dan Moe?"]
    assert ("form", "How old is Gus Hall?") in asked(from_forms([hit("Gus Hall turned fifty.")], past))


def test_nothing_is_asked_by_forms_of_which_the_chunks_hold_no_answer() -> None:
    past = ["What is the phone number of Eve Fox?", "What is the phone number of Dan Moe?"]
    assert from_forms([hit("Gus Hall is away.")], past) == []


def test_of_what_it_was_asked_when_it_is_it_is_asked_where() -> None:
    assert asked(from_forms([], ["When is the picnic?"])) == {("where-too", "Where is the picnic?")}


def test_without_questions_so_far_there_are_no_forms() -> None:
    assert from_forms([hit("Gus Hall is away.")], []) == []


@given(st.lists(st.text(max_size=120), max_size=3), st.lists(st.text(max_size=60), max_size=5))
def test_whatever_was_said_and_asked_predictions_are_of_known_sources_and_distinct(
    texts: list[str], past: list[str]
) -> None:
    hits = [hit(text, str(place)) for place, text in enumerate(texts)]
    found = from_forms(hits, past)
    assert {one.source for one in found} <= set(SOURCES)
    assert len({one.question.casefold() for one in found}) == len(found)
    assert [one.probability for one in found] == sorted((one.probability for one in found), reverse=True)
    assert all(0 <= one.probability <= 1 for one in found)
