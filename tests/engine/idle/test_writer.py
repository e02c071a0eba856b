"""How a language model writes a completion: its segments, what fits its context, and when it is interrupted."""

from collections.abc import Callable

import pytest

from engine.idle.plan import writer
from engine.models.types import Frame
from store.jobs import OutOfTime
from tests.engine.llm.scripted_model import ScriptedModel


def after(count: int) -> Callable[[], bool]:
    """Return a function that is true once it was called so often."""
    asked = list[int]()

    def late() -> bool:
        asked.append(1)
        return len(asked) > count

    return late


def test_segments_are_prefilled_one_by_one_within_the_chat_template() -> None:
    model = ScriptedModel(["When is ", "tea?"], frame=Frame((-1,), (-2,), (-3,)))
    assert writer(model, 9, lambda: False)(["sum up\n", "one\n", "two\n", "Questions:"]) == "When is tea?"
    assert model.text() == ["(-1) sum up (-2)", "one", "two", "Questions: (-3)"]


def test_no_more_tokens_are_written_than_allowed() -> None:
    assert writer(ScriptedModel(["a", "b", "c"]), 2, lambda: False)(["sum up\n", "Questions:"]) == "ab"


def test_what_loops_is_written_once_and_a_sentence_that_does_not_fit_is_left_out() -> None:
    looping = writer(ScriptedModel(["Who has", " the key", "?\n"] * 9), 27, lambda: False)
    assert looping(["sum up\n", "Questions:"]) == "Who has the key?\n"
    long = writer(ScriptedModel(["Gus", " has", " the key.", " Ann", " asked"]), 4, lambda: False)
    assert long(["sum up\n", "Summary:"]) == "Gus has the key. "


def test_middle_segments_that_do_not_fit_are_left_out() -> None:
    model = ScriptedModel(["a"], context=9)
    writer(model, 4, lambda: False)(["sum up\n", "one two\n", "three four\n", "Questions:"])
    assert model.text() == ["sum up", "one two", "Questions:"]


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_writing_ends_as_soon_as_the_run_is_over(count: int) -> None:
    model = ScriptedModel(["a", "b"])
    with pytest.raises(OutOfTime):
        writer(model, 9, after(count))(["sum up\n", "one\n", "Questions:"])
    assert len(model.heard) == min(count, 3)
