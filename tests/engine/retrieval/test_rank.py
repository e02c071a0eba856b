"""Ranking over a pool: each part alone, then together."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from engine.retrieval.retrieve import (
    Pool,
    RankWeights,
    dated,
    of_best,
    places_of,
    proximity,
    scores,
    sequence,
    spread,
    with_neighbours,
)
from engine.text.dates import Days
from engine.text.question import Question
from store.types import Chunk, Hit

OFF = RankWeights(function=1, asking=1, names=1, vector=0, proximity=0, sequence=0, title=0, date=0, neighbour=0)
IDF = {"blue": 1.0, "plan": 3.0, "ann": 2.0}
MAY = Days(date(2024, 5, 1), date(2024, 5, 31))
ASKED = Question("blue plan", ("blue", "plan"), "other", (), (MAY,), date(2024, 5, 15))


Row = tuple[Hit, float | None]


def row(
    text: str = "",
    document: str = "d",
    position: int = 0,
    cosine: float | None = None,
    day: date | None = None,
    title: str = "",
) -> Row:
    moment = datetime.combine(day, time.min, UTC) if day else None
    chunk = Chunk(f"{document}{position}", document, position, "", text, 1, 1)
    return Hit(chunk, text, None, moment, "", (), title), cosine


def places(*texts: str) -> list[dict[str, list[int]]]:
    return places_of(texts, IDF)


def scored(pool: Pool, bm25: Sequence[float], weights: RankWeights, asked: Question = ASKED) -> list[float]:
    return scores(pool, places(*(hit.tokens for hit, _ in pool)), bm25, asked, IDF, weights)


tokens = st.sampled_from(("a", "an", "ann", "Ä1", "東京", "ann@example.org", "ann@example.com", "1234567", "12345678"))
pools = st.lists(st.lists(tokens, max_size=8).map(" ".join), max_size=5)


@given(pools, st.lists(tokens, max_size=4))
def test_the_places_of_words_are_those_of_a_look_at_each_word(texts: list[str], wanted: list[str]) -> None:
    expected = [
        {word: [place for place, token in enumerate(text.split(" ")) if token == word] for word in wanted}
        for text in texts
    ]
    found = places_of(texts, wanted)
    assert found == [{word: places for word, places in each.items() if places} for each in expected]


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


def test_neighbouring_words_of_the_question_count_by_how_near_they_stand() -> None:
    texts = places("blue plan", "plan x blue", "blue x x x x x x x x plan", "plan")
    assert proximity(texts, ["blue", "plan"], IDF) == [1.0, 0.875, 0.0, 0.0]


def test_a_pair_counts_by_the_idf_of_its_words() -> None:
    assert proximity(places("blue plan", "plan ann"), ["blue", "plan", "ann"], IDF) == [4 / 9, 5 / 9]


def test_one_word_has_no_neighbour() -> None:
    assert proximity(places("blue"), ["blue"], IDF) == [0.0]


def test_only_neighbouring_words_side_by_side_in_the_order_of_the_question_are_its_sequence() -> None:
    texts = places("x blue plan", "plan blue", "blue x plan", "blue x blue plan", "")
    assert sequence(texts, ["blue", "plan"], IDF) == [1.0, 0.0, 0.0, 1.0, 0.0]


def test_a_part_of_a_sequence_counts_by_the_idf_of_its_words() -> None:
    assert sequence(places("blue plan", "x plan ann"), ["blue", "plan", "ann"], IDF) == [4 / 9, 5 / 9]


@given(st.lists(st.lists(st.sampled_from(sorted(IDF)), max_size=8), max_size=5), st.permutations(sorted(IDF)))
def test_what_stands_in_sequence_is_never_less_near(texts: list[list[str]], question: list[str]) -> None:
    where = places(*map(" ".join, texts))
    pairs = zip(sequence(where, question, IDF), proximity(where, question, IDF), strict=True)
    assert all(0 <= in_order <= near + 1e-9 for in_order, near in pairs)


def test_a_document_from_a_day_that_is_asked_about_counts() -> None:
    assert dated([date(2024, 5, 31), date(2024, 6, 1), None], [MAY]) == [1.0, 0.0, 0.0]


def test_a_chunk_gains_from_its_better_neighbour() -> None:
    hits = [hit for hit, _ in (row(position=0), row(position=1), row(position=2), row(document="e", position=1))]
    assert with_neighbours(hits, [1.0, 0.5, 0.25, 0.5], 0.5) == [1.25, 1.0, 0.5, 0.5]


def test_with_every_part_off_the_order_is_that_of_bm25() -> None:
    rows = [row("blue", cosine=0.9, day=date(2024, 5, 3)), row("plan", position=5, cosine=0.1)]
    assert scored(rows, [1.0, 4.0], OFF) == [0.25, 1.0]


@pytest.mark.parametrize(
    ("part", "better"),
    [
        ("vector", row("plan blue", "a", 3, 0.2)),
        ("proximity", row("blue plan", "a", 3, 0.1)),
        ("sequence", row("x blue plan", "a", 3, 0.1)),
        ("title", row("plan blue", "a", 3, 0.1, title="blue plan")),
        ("date", row("plan blue", "a", 3, 0.1, date(2024, 5, 3))),
        ("neighbour", row("plan blue", "b", 21, 0.1)),
    ],
)
def test_each_part_alone_turns_a_tie(part: str, better: Row) -> None:
    rows = [row("plan x blue", "b", 7, 0.1), better, row("plan", "b", 20, 0.1)]
    quoting = structs.replace(ASKED, text="'blue plan'")
    assert scored(rows, [1.0, 1.0, 0.5], OFF, quoting)[:2] == [1.0, 1.0]
    one, other, _ = scored(rows, [1.0, 1.0, 0.5], replace(OFF, **{part: 0.5}), quoting)
    assert other > one


def test_an_empty_pool_has_no_scores() -> None:
    assert scored([], [], RankWeights()) == []
