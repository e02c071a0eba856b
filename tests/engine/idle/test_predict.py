"""Predictions by a model, and which of all predictions are taken."""

import pytest

from engine.idle.predict import Prediction, from_history, pick
from tests.engine.idle.kit import Writes


def about(question: str, source: str = "history/form", promise: float = 0.5) -> Prediction:
    return Prediction(question, source, promise)


def test_a_model_is_asked_for_a_stride_of_questions_about_a_kind_of_collection() -> None:
    write = Writes("1. What tea?\n2. Who drinks?\n3. Why so?")
    found = from_history(["When is {tea}?"], "mail", 2, write)
    assert [one.question for one in found] == ["What tea?", "Who drinks?"]
    assert "their own mail, the latest last. Write 2 new questions" in write.shown[0]
    assert write.shown[1:] == ["- When is {tea}?\n", "Questions:"]


def test_from_history_a_question_that_was_asked_is_not_predicted() -> None:
    found = from_history(["When is tea?"], "mail", 5, lambda segments: "when is tea\nWhere is tea?")
    assert [(one.question, one.source) for one in found] == [("Where is tea?", "history/model")]


def test_a_question_of_many_lines_is_shown_on_one() -> None:
    write = Writes()
    from_history(["When\nis " + "tea " * 200], "mail", 5, write)
    assert (write.shown[1].count("\n"), len(write.shown[1]) < 310) == (1, True)


@pytest.mark.parametrize("stride", [0, 5])
def test_without_anything_to_predict_from_no_model_is_asked(stride: int) -> None:
    def write(segments: object) -> str:
        raise AssertionError(segments)

    assert from_history(["When is tea?"] if not stride else [], "mail", stride, write) == []


def test_of_each_source_the_best_of_its_share_are_taken() -> None:
    found = [about("When is a?", promise=0.1), about("When is b?", promise=0.9), about("Who is c?", "chunks/model")]
    assert [one.question for one in pick(found, {"history/form": 1, "chunks/model": 1}, [], lambda _: False)] == [
        "When is b?",
        "Who is c?",
    ]


def test_a_source_without_a_share_gives_nothing() -> None:
    assert pick([about("When is a?")], {"chunks/model": 3}, [], lambda _: False) == []


def test_what_is_known_or_near_or_the_same_is_left_out() -> None:
    found = [about(one) for one in ("When is a?", "when is A", "When is b?", "When is c?", "When is d?")]
    taken = pick(found, {"history/form": 9}, ["when is b ?"], is_similar=lambda question: "c" in question)
    assert [one.question for one in taken] == ["When is a?", "When is d?"]


def test_nothing_is_compared_once_there_are_enough() -> None:
    compared = list[str]()

    def near(question: str) -> bool:
        compared.append(question)
        return False

    pick([about(f"When is {name}?") for name in range(50)], {"history/form": 2}, [], near)
    assert len(compared) == 2
