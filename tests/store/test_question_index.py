"""The question index: each process finds what the ledger holds, whoever changed it."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from store.answers import AnswerBank, State
from store.database import Ledger, open_ledger
from store.search import Near, QuestionVectors
from store.types import table_of
from tests.store.answers_kit import BUDGET, EMBEDDER, WIDTH, direction, entry, keep, names, vectors


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with closing(open_ledger(tmp_path / "ledger.db", create=True)) as made:
        yield made


@pytest.fixture
def found(ledger: Ledger) -> QuestionVectors:
    return vectors(ledger)


def test_an_empty_bank_has_nothing_near(found: QuestionVectors) -> None:
    assert names(found, direction(1)) == []


def test_near_questions_come_with_their_entry_and_cosine(ledger: Ledger, found: QuestionVectors) -> None:
    keep(ledger, "a", direction(1))
    (near,) = found.near(direction(1, 0.3), scope="{}", writer="w", day=None, least=0.85)
    assert near == Near(b"a", entry("a"), near.similarity)
    assert near.similarity == pytest.approx(float(direction(1) @ direction(1, 0.3)), abs=1e-6)


def test_the_nearest_come_first_up_to_the_limit(ledger: Ledger, found: QuestionVectors) -> None:
    for number, turn in enumerate((0.4, 0.1, 0.3, 0.2)):
        keep(ledger, f"q{number}", direction(1, turn))
    assert names(found, direction(1)) == ["q1", "q3", "q2", "q0"]
    assert names(found, direction(1), most=2) == ["q1", "q3"]


def test_below_the_least_cosine_nothing_is_near(ledger: Ledger, found: QuestionVectors) -> None:
    keep(ledger, "a", direction(1, 0.3))
    cosine = float(direction(1, 0.3) @ direction(1))
    assert names(found, direction(1), least=cosine - 1e-5) == ["a"]
    assert names(found, direction(1), least=cosine + 1e-5) == []


@pytest.mark.parametrize("state", ["pending", "prefilled"])
def test_an_entry_without_an_answer_is_never_near(ledger: Ledger, found: QuestionVectors, state: State) -> None:
    keep(ledger, "a", direction(1), state)
    assert names(found, direction(1)) == []
    keep(ledger, "a", direction(1))
    assert names(found, direction(1)) == ["a"]
    keep(ledger, "a", direction(1), state)
    assert names(found, direction(1)) == []


@pytest.mark.parametrize(
    ("scope", "writer", "day"), [("{1}", "w", None), ("{}", "w2", None), ("{}", "w", "2026-11-21")]
)
def test_only_questions_of_the_same_scope_writer_and_day_are_near(
    ledger: Ledger, found: QuestionVectors, scope: str, writer: str, day: str | None
) -> None:
    other = entry("a", scope=scope, writer=writer, day=day)
    AnswerBank(ledger).put(b"a", other, BUDGET, direction(1).tobytes(), 0.5, EMBEDDER)
    near = found.near(direction(1), scope=scope, writer=writer, day=day, least=0.9)
    assert ([one.answer for one in near], names(found, direction(1))) == ([other], [])


def test_vectors_of_another_embedder_are_never_compared(ledger: Ledger) -> None:
    keep(ledger, "a", direction(1), embedder="embedder-2")
    keep(ledger, "b", direction(1))
    assert names(vectors(ledger), direction(1)) == ["b"]
    other = QuestionVectors(ledger, "embedder-2", WIDTH)
    assert names(other, direction(1)) == ["a"]
    assert names(vectors(ledger), direction(1)) == ["b"]


def test_a_vector_without_an_embedder_is_of_the_one_in_use(ledger: Ledger, found: QuestionVectors) -> None:
    ledger.set("vectors", table_of(EMBEDDER))
    AnswerBank(ledger).put(b"a", entry("a"), BUDGET, direction(1).tobytes())
    assert names(found, direction(1)) == ["a"]


def test_a_vector_of_another_width_is_left_out(ledger: Ledger, found: QuestionVectors) -> None:
    AnswerBank(ledger).put(b"a", entry("a"), BUDGET, direction(1).tobytes() * 2, 0.5, EMBEDDER)
    keep(ledger, "b", direction(1))
    assert names(found, direction(1)) == ["b"]


def test_deleted_or_changed_entries_are_not_near(ledger: Ledger, found: QuestionVectors) -> None:
    keep(ledger, "a", direction(1))
    keep(ledger, "b", direction(1))
    assert names(found, direction(1)) == ["a", "b"]
    AnswerBank(ledger).drop(b"a")
    keep(ledger, "b", direction(2))
    assert (names(found, direction(1)), names(found, direction(2))) == ([], ["b"])


def test_an_entry_stored_by_another_process_is_found_by_an_open_index(ledger: Ledger, tmp_path: Path) -> None:
    with closing(open_ledger(tmp_path / "ledger.db")) as theirs:
        one, other = vectors(ledger), vectors(theirs)
        for number in range(6):
            keep(theirs if number % 2 else ledger, f"q{number}", direction(number))
            assert [names(each, direction(number)) for each in (one, other)] == [[f"q{number}"]] * 2


def test_a_question_stored_again_after_many_were_deleted_is_found(ledger: Ledger, found: QuestionVectors) -> None:
    for number in range(5):
        keep(ledger, f"q{number}", direction(number))
    assert names(found, direction(4)) == ["q4"]
    for number in range(5):
        AnswerBank(ledger).drop(f"q{number}".encode())
    keep(ledger, "q4", direction(4))  # the last row was dropped: its number must not be given again
    assert names(found, direction(4)) == ["q4"]


def test_a_new_chunk_matches_questions_that_it_is_nearer_to_than_their_floor(
    ledger: Ledger, found: QuestionVectors
) -> None:
    keep(ledger, "a", direction(1), floor=0.9)
    keep(ledger, "b", direction(2), "prefilled", floor=0.9)
    keep(ledger, "c", direction(1, 0.1), floor=0.999)
    keep(ledger, "d", direction(1), embedder="embedder-2")
    AnswerBank(ledger).put(b"e", entry("e"), BUDGET, direction(1).tobytes(), None, EMBEDDER)
    chunks = np.stack([direction(2), direction(1)])
    assert found.affected_by(chunks) == [(b"a", 1), (b"b", 0)]
    AnswerBank(ledger).drop(b"a")
    assert found.affected_by(chunks) == [(b"b", 0)]


def test_no_new_chunks_match_no_question(ledger: Ledger, found: QuestionVectors) -> None:
    keep(ledger, "a", direction(1))
    assert found.affected_by(np.empty((0, WIDTH), np.float32)) == []
