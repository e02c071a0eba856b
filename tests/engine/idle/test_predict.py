"""Predictions by a model, and which of all predictions are taken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.idle.predict import Prediction, choose, from_abstracts, from_history, pick
from store.jobs import Abstract
from tests.engine.idle.kit import DAY, Writes


def abstract(name: str, day: int = 0, asked: int = 0, drawn: int = 0) -> Abstract:
    return Abstract(f"about {name}", (name,), DAY.replace(day=1 + day), 0.0, "quote", asked, drawn)


def about(question: str, source: str = "history/form", promise: float = 0.5) -> Prediction:
    view, _, way = source.partition("/")
    return Prediction(question, view, way, promise)


def length(text: str) -> int:
    return len(text.split())


def test_the_newest_and_the_least_asked_about_are_chosen_by_turns_and_shown_oldest_first() -> None:
    known = [
        abstract("never", 0),
        abstract("once", 1, asked=1),
        abstract("often", 8, asked=5),
        abstract("new", 9, asked=9),
    ]
    assert [one.text for one in choose(known, 4, length)] == ["about never", "about new"]


def test_what_was_predicted_from_counts_like_what_was_asked_about() -> None:
    known = [abstract("drawn", 0, drawn=3), abstract("not", 1), abstract("new", 9, asked=9)]
    assert [one.text for one in choose(known, 4, length)] == ["about not", "about new"]


@given(st.integers(0, 30), st.integers(0, 9))
def test_what_is_chosen_keeps_within_its_tokens(most: int, count: int) -> None:
    chosen = choose([abstract(str(day), day) for day in range(count)], most, length)
    assert sum(length(one.text) for one in chosen) <= most
    assert len(chosen) == min(count, most // 2)


def test_a_model_is_asked_for_a_stride_of_questions_about_a_kind_of_collection() -> None:
    write = Writes("1. What tea?\n2. Who drinks?\n3. Why so?")
    found = from_abstracts([abstract("{tea}")], "mail", 2, write)
    assert [(one.question, one.source) for one in found] == [
        ("What tea?", "abstracts/model"),
        ("Who drinks?", "abstracts/model"),
    ]
    assert "mail. Write 2 questions" in write.shown[0]
    assert write.shown[1:] == ["- about {tea}\n", "Questions:"]


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
    found = [about("When is a?", promise=0.1), about("When is b?", promise=0.9), about("Who is c?", "abstracts/model")]
    assert [one.question for one in pick(found, {"history/form": 1, "abstracts/model": 1}, [])] == [
        "When is b?",
        "Who is c?",
    ]


def test_a_source_without_a_share_gives_nothing() -> None:
    assert pick([about("When is a?")], {"abstracts/model": 3}, []) == []


def test_what_one_source_cannot_fill_another_does() -> None:
    found = [about(f"When is {name}?") for name in "abc"]
    assert len(pick(found, {"history/form": 1, "abstracts/model": 1}, [])) == 2


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
