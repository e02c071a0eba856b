"""Predictions without a model: by templates from chunks, and by the forms of the user's own questions."""

from hypothesis import given
from hypothesis import strategies as st

from engine.idle.predict_quote import TEMPLATES, from_chunks, from_forms
from tests.engine.idle.kit import chat, hit


def asked(found: object) -> set[tuple[str, str]]:
    assert isinstance(found, list)
    return {(one.template, one.question) for one in found}


def test_what_takes_place_on_a_day_is_asked_when_and_where() -> None:
    one = hit("The dress rehearsal is on Friday in Oslo Hall.")
    assert {("when-is", "When is the dress rehearsal?"), ("where-is", "Where is the dress rehearsal?")} <= asked(
        from_chunks([one], [])
    )


def test_what_somebody_did_is_asked_when_and_what() -> None:
    spoken = chat("Ann: I painted a lake last year.", "Ann", "Bob")
    assert asked(from_chunks([spoken], [])) == {
        ("when-did", "When did Ann paint a lake?"),
        ("what-did", "What did Ann paint?"),
    }


def test_what_a_speaker_tells_of_is_asked_for_and_promises_less_than_a_day() -> None:
    spoken = chat("Ann: Last year I saw how the old church boiler broke down. I painted a lake.", "Ann", "Bob")
    found = from_chunks([spoken], ["When is tea?", "What is tea?"])
    assert [one.template for one in found if one.template in ("said", "when-did")] == ["when-did", "said"]


def test_what_is_still_to_come_is_asked_so() -> None:
    spoken = chat("Ann: I will visit Oslo next week.", "Ann", "Bob")
    assert asked(from_chunks([spoken], [])) == {("when-did", "When will Ann visit Oslo?")}


def test_who_is_named_is_asked_for_and_so_is_what_a_mail_is_about() -> None:
    one = hit("Please call Carla Diaz.", title="Re: FW: Boiler?")
    assert asked(from_chunks([one], [])) == {
        ("who-is", "Who is Carla Diaz?"), ("about", "What did Ann Lee write about Boiler?"),
    }  # fmt: skip


def test_what_is_asked_for_most_promises_most() -> None:
    one = hit("The rehearsal is on Friday in Oslo Hall. Carla Diaz comes.", position=1)
    kinds = [each.template for each in from_chunks([one], ["Where is tea?", "Where is Bob?", "Who is Bob?"])]
    assert kinds == ["where-is", "who-is", "when-is"]


def test_the_newest_chunk_promises_most() -> None:
    found = from_chunks([hit(f"Please call {name} Diaz.", position=1) for name in ("Carla", "Dora", "Eve")], [])
    assert [one.question for one in found] == ["Who is Carla Diaz?", "Who is Dora Diaz?", "Who is Eve Diaz?"]


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
    for found in (from_chunks(hits, past), from_forms(hits, past)):
        assert {one.source for one in found} <= set(TEMPLATES)
        assert len({one.question.casefold() for one in found}) == len(found)
        assert [one.promise for one in found] == sorted((one.promise for one in found), reverse=True)
        assert all(0 <= one.promise <= 1 for one in found)
