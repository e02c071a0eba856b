"""Predictions by templates of the user's questions."""

from hypothesis import given
from hypothesis import strategies as st

from engine.idle.predict import from_forms, pick
from tests.engine.idle.kit import hit


def asked(found: object) -> set[tuple[str, str]]:
    assert isinstance(found, list)
    return {(one.source, one.question) for one in found}


def test_a_question_about_two_people_is_predicted_for_a_third() -> None:
    past = ["How old is Eve Fox?", "How old is Dan Moe?"]
    assert ("history/form", "How old is Gus Hall?") in asked(
        from_forms([hit("Gus Hall turned fifty.")], past, lambda: False)
    )


def test_templates_whose_answer_the_chunks_lack_predict_nothing() -> None:
    past = ["What is the phone number of Eve Fox?", "What is the phone number of Dan Moe?"]
    assert from_forms([hit("Gus Hall is away.")], past, lambda: False) == []


def test_where_is_predicted_after_when() -> None:
    assert asked(from_forms([], ["When is the picnic?"], lambda: False)) == {("history/form", "Where is the picnic?")}


def test_without_earlier_questions_there_are_no_templates() -> None:
    assert from_forms([hit("Gus Hall is away.")], [], lambda: False) == []


@given(st.lists(st.text(max_size=120), max_size=3), st.lists(st.text(max_size=60), max_size=5))
def test_whatever_was_said_and_asked_predictions_are_of_known_sources_and_picked_once(
    texts: list[str], past: list[str]
) -> None:
    hits = [hit(text, str(place)) for place, text in enumerate(texts)]
    found = from_forms(hits, past, lambda: False)
    assert {one.source for one in found} <= {"history/form"}
    assert all(0 <= one.probability <= 1 for one in found)
    picked = pick(found, {"history/form": len(found)}, [], lambda _: False)
    assert len({one.question.casefold() for one in picked}) == len(picked)
    assert [one.probability for one in picked] == sorted((one.probability for one in picked), reverse=True)
