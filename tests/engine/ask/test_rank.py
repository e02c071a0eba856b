"""Ranking over a pool: each part alone, then together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ask.rank import Row, Weights, coverage, of_best, proximity, scores, spread, with_company

OFF = Weights(function=1, vector=0, names=0, proximity=0, neighbour=0, document=0)
IDF = {"blue": 1.0, "plan": 3.0, "ann": 2.0}


def row(text: str = "", document: str = "d", position: int = 0, cosine: float | None = None) -> Row:
    where: dict[str, list[int]] = {}
    for place, word in enumerate(text.split()):
        where.setdefault(word, []).append(place)
    return Row(document, position, where, cosine)


@given(st.lists(st.floats(0, 100)))
def test_the_best_becomes_one_and_order_stays(values: list[float]) -> None:
    found = of_best(values)
    assert max(found, default=1.0) in (0.0, 1.0)
    assert all(
        (a < b) >= (x < y) for a, x in zip(values, found, strict=True) for b, y in zip(values, found, strict=True)
    )


@given(st.lists(st.none() | st.floats(-1, 1)))
def test_spread_values_lie_between_nought_and_one(values: list[float | None]) -> None:
    assert all(-1e-9 <= value <= 1 + 1e-9 for value in spread(values))


def test_an_unknown_cosine_gets_the_mean_of_the_known() -> None:
    assert spread([0.0, None, 1.0, 0.2]) == pytest.approx([0.0, 0.4, 1.0, 0.2])


def test_no_vectors_at_all_count_nothing() -> None:
    assert spread([None, None]) == [0.0, 0.0]


def test_coverage_is_the_share_of_wanted_words_by_idf() -> None:
    assert coverage([row("blue"), row("plan ann"), row()], ["blue", "plan"], IDF) == [0.25, 0.75, 0.0]


def test_nothing_wanted_covers_nothing() -> None:
    assert coverage([row("blue")], [], IDF) == [0.0]


def test_neighbouring_words_of_the_question_count_where_they_stand_close() -> None:
    rows = [row("blue plan"), row("blue x x x x x plan"), row("plan")]
    assert proximity(rows, ["blue", "plan"], IDF) == [1.0, 0.0, 0.0]


def test_a_chunk_gains_from_its_neighbour_and_from_the_best_of_its_document() -> None:
    rows = [row(position=0), row(position=1), row(position=5), row(document="e")]
    assert with_company(rows, [1.0, 0.5, 0.0, 0.5], 0.5, 0.1) == pytest.approx([1.35, 1.1, 0.1, 0.55])


def test_with_every_part_off_the_order_is_that_of_bm25() -> None:
    rows = [row("blue", cosine=0.9), row("plan", position=5, cosine=0.1)]
    assert scores(rows, [1.0, 4.0], ["blue"], ["blue"], IDF, OFF) == [0.25, 1.0]


@pytest.mark.parametrize("part", ["vector", "names", "proximity", "neighbour", "document"])
def test_each_part_alone_can_turn_a_tie(part: str) -> None:
    rows = [
        row("plan blue", "a", 3, 0.1),
        row("blue plan", "b", 7, 0.2) if part != "proximity" else row("blue x x x x x plan", "b", 7, 0.1),
        row("", "b", 8 if part == "neighbour" else 20, 0.3),
    ]
    bm25 = [1.0, 1.0, 0.9 if part == "neighbour" else 1.1 if part == "document" else 0.0]
    names = ["ann"] if part == "names" else []
    if part == "names":
        rows[1] = row("blue plan ann", "b", 7, 0.1)
    weights = Weights(
        **{"function": 1, "vector": 0, "names": 0, "proximity": 0, "neighbour": 0, "document": 0, part: 0.5}
    )
    found = scores(rows, bm25, ["blue", "plan"], names, IDF, weights)
    assert found[0] != found[1]


def test_an_empty_pool_has_no_scores() -> None:
    assert scores([], [], ["blue"], [], IDF, Weights()) == []
