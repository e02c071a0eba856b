"""Curves of question similarity, from hand-made streams and from real retrieval."""

import json
from pathlib import Path

import numpy as np
import pytest

from store.hits import Vectors
from tests.bench.corpus import Query, User
from tests.bench.motivation import (
    TITLES,
    Asked,
    along,
    asked,
    figures,
    frequencies,
    hottest,
    known,
    nearest,
    reached,
    write,
)
from tests.demo import DATA


def vector(degrees: float) -> Vectors:
    return np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))], np.float32)


def question(degrees: float, answer: str, *chunks: str) -> Asked:
    return Asked(Query("?", answer, frozenset()), vector(degrees), chunks, chunks[-1] if chunks else None)


STREAM = (
    question(0, "Ann", "a", "b"),
    question(60, "Bo", "a", "c"),
    question(55, "Bo", "a", "b", "d"),
    question(0, "Cy", "d"),
)


def test_the_nearest_earlier_question_is_found_and_its_answer_compared() -> None:
    found = list(nearest(STREAM))
    assert [cosine for cosine, _ in found] == pytest.approx([0, 0.5, np.cos(np.radians(5)), 1])
    assert [agrees for _, agrees in found] == [False, False, True, False]


def test_a_step_counts_what_reaches_it() -> None:
    found = reached([0.0, 0.5, 0.9, 1.0], 8)
    assert len(found) == 20
    assert (found[0], found[9], found[10], found[17], found[19]) == (3 / 8, 3 / 8, 2 / 8, 2 / 8, 1 / 8)


def test_the_hottest_tenth_comes_first() -> None:
    assert hottest([1, 1, 1, 1, 1, 1, 1, 1, 1, 11]) == pytest.approx([0.55 + 0.05 * part for part in range(10)])


def test_a_question_counts_a_chunk_once() -> None:
    assert sorted(frequencies([("a", "a", "b"), ("a",)])) == [1, 2]


def test_the_best_chunk_is_known_from_the_second_time_on() -> None:
    assert list(known(STREAM)) == [0, 0, 0, 1]


def test_a_question_that_finds_nothing_has_no_known_chunk() -> None:
    assert list(known([question(0, ""), question(1, "")])) == [0, 0]


def test_parts_of_streams_are_averaged_at_their_place() -> None:
    assert along([[0, 1], [0, 0, 1, 1]]) == (0, 0, 1, 1)


def test_users_are_not_mixed() -> None:
    alone, twice = figures([STREAM]), figures([STREAM, STREAM])
    del alone["frequency"], twice["frequency"]  # the same chunks of two users are two
    assert twice == alone


def test_every_curve_has_a_title() -> None:
    assert figures([STREAM]).keys() == TITLES.keys()


def test_prefixes_and_places_are_told_apart() -> None:
    found = figures([STREAM])
    assert found["overlap"] == pytest.approx((0, 1 / 2, 2 / 3, 0))
    assert found["anywhere"] == pytest.approx((0, 1 / 2, 2 / 3, 1))


def test_the_same_answer_is_a_part_of_the_similar() -> None:
    found = figures([STREAM])
    assert found["similar"][18] == 0.5
    assert found["same_answer"][18] == 0.25


def test_what_is_written_has_numbers_for_every_corpus(tmp_path: Path) -> None:
    read = json.loads(write(tmp_path / "new", {"one": {"overlap": (0.5,)}}, {"one": 3}).read_text("utf-8"))
    assert read["corpora"] == {"one": {"overlap": [0.5]}}
    assert read["titles"]["overlap"]["x"] == "tenths of the questions asked"


@pytest.mark.slow
def test_real_questions_retrieve_the_same_chunks_again(tmp_path: Path) -> None:
    text = "When is the summer concert?"
    queries = tuple(Query(text, "", frozenset()) for _ in range(2))
    found = asked(User("demo", "demo", (DATA / "transcripts",), queries), tmp_path)
    assert found[0].chunks == found[1].chunks
    assert found[0].first in found[0].chunks
    assert figures([found])["overlap"] == (0, 1)
