"""A prompt within a context: the best sources first, in document order."""

from datetime import UTC, datetime

from engine.llm.prompt import fit, question_segment
from engine.types import Evidence
from store.types import Chunk, replace
from tests.engine.ask.passages import passage
from tests.engine.llm.scripted_model import ScriptedModel

NOW = datetime(2024, 6, 19, tzinfo=UTC)


def chunk(document: str, position: int) -> Chunk:
    return Chunk(f"{document}{position}", document, position, f"From: {document}", f"text {position}", 1, 1)


FIRST = passage((chunk("a", 0), chunk("a", 1), chunk("a", 2)), "a", (), NOW, 1.0, ())
SECOND = passage((chunk("b", 0),), "b", (), NOW, 0.5, ())
EVIDENCE = Evidence((FIRST, SECOND), ("a0", "a1", "a2", "b0"), 1.0)


def shown(model: ScriptedModel, evidence: Evidence = EVIDENCE) -> list[str]:
    return [text.split()[2] + text.split()[-1] for text in fit(model, "q", NOW, evidence, 10).chunks]


def test_a_context_too_short_for_all_shows_the_best_sources() -> None:
    everything = fit(ScriptedModel([]), "q", NOW, EVIDENCE, 10)
    short = ScriptedModel([], context=everything.count)  # with ten tokens for the answer
    assert shown(short) == ["a0", "a1"]
    assert shown(ScriptedModel([])) == ["a0", "a1", "a2", "b0"]


def test_a_model_with_a_role_adapter_is_shown_the_best_source_alone() -> None:
    assert shown(ScriptedModel([], has_roles=True)) == ["a0", "a1", "a2"]
    assert fit(ScriptedModel([], has_roles=True), "q", NOW, EVIDENCE, 10).left_out == 0


def test_a_model_is_shown_the_chosen_sources_by_their_own_places() -> None:
    found = fit(ScriptedModel([]), "q", NOW, replace(EVIDENCE, shown=(1,)), 10)
    assert (shown(ScriptedModel([]), replace(EVIDENCE, shown=(1,))), found.sources) == (["b0"], (1,))
    assert found.left_out == 0


def test_the_last_segment_has_the_time_only_where_the_question_is_read_by_it() -> None:
    now = datetime(2024, 6, 19, 8, 5, tzinfo=UTC)
    asked = ("When is my next call?", "Who has the key?", "Who had the key?")
    first = [question_segment(text, now).splitlines()[0] for text in asked]
    assert first == [
        "Today is Wednesday 19 June 2024, 08:05.",
        "Today is Wednesday 19 June 2024.",
        "Question: Who had the key?",
    ]
