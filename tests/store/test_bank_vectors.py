"""Near questions: what SQLite says is near, whatever the matrix beside it holds."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from store.bank import Bank, State
from store.bank_matrix import Matrix, Rows
from store.bank_vectors import Near, QuestionVectors, group
from store.ledger import Ledger, open_ledger
from store.pending import table_of
from tests.store.bank_kit import BUDGET, EMBEDDER, FILE, WIDTH, by_hand, direction, entry, keep, names, vectors


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with closing(open_ledger(tmp_path / "ledger.db", create=True)) as made:
        yield made


@pytest.fixture
def found(ledger: Ledger, tmp_path: Path) -> QuestionVectors:
    return vectors(ledger, tmp_path)


def test_an_empty_bank_has_nothing_near_and_makes_no_file(found: QuestionVectors, tmp_path: Path) -> None:
    assert (names(found, direction(1)), (tmp_path / FILE).exists()) == ([], False)


def test_what_is_near_comes_with_its_entry_and_its_cosine(ledger: Ledger, found: QuestionVectors) -> None:
    keep(ledger, "a", direction(1))
    (near,) = found.near(direction(1, 0.3), scope="{}", writer="w", day=None, least=0.85)
    assert near == Near(b"a", entry("a"), near.similarity)
    assert near.similarity == pytest.approx(float(direction(1) @ direction(1, 0.3)), abs=1e-6)


def test_the_nearest_come_first_and_no_more_than_asked_for(ledger: Ledger, found: QuestionVectors) -> None:
    for number, turn in enumerate((0.4, 0.1, 0.3, 0.2)):
        keep(ledger, f"q{number}", direction(1, turn))
    assert names(found, direction(1)) == ["q1", "q3", "q2", "q0"]
    assert names(found, direction(1), most=2) == ["q1", "q3"]


def test_below_the_least_cosine_nothing_is_near(ledger: Ledger, found: QuestionVectors) -> None:
    keep(ledger, "a", direction(1, 0.3))
    cosine = float(direction(1, 0.3) @ direction(1))
    assert names(found, direction(1), least=cosine - 1e-5) == ["a"]
    assert names(found, direction(1), least=cosine + 1e-5) == []


@pytest.mark.parametrize("state", ["owed", "undecoded"])
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
    Bank(ledger).keep(b"a", other, BUDGET, direction(1).tobytes(), 0.5, EMBEDDER)
    near = found.near(direction(1), scope=scope, writer=writer, day=day, least=0.9)
    assert ([one.kept for one in near], names(found, direction(1))) == ([other], [])


def test_vectors_of_another_embedder_are_never_compared(ledger: Ledger, tmp_path: Path) -> None:
    keep(ledger, "a", direction(1), embedder="embedder-2")
    keep(ledger, "b", direction(1))
    assert names(vectors(ledger, tmp_path), direction(1)) == ["b"]
    other = QuestionVectors(ledger, tmp_path, "embedder-2", WIDTH)
    assert names(other, direction(1)) == ["a"]
    assert names(vectors(ledger, tmp_path), direction(1)) == ["b"]


def test_a_vector_without_an_embedder_is_of_the_one_in_use(ledger: Ledger, found: QuestionVectors) -> None:
    ledger.set("vectors", table_of(EMBEDDER))
    Bank(ledger).keep(b"a", entry("a"), BUDGET, direction(1).tobytes())
    assert names(found, direction(1)) == ["a"]


def test_a_vector_of_another_width_is_left_out(ledger: Ledger, found: QuestionVectors) -> None:
    Bank(ledger).keep(b"a", entry("a"), BUDGET, direction(1).tobytes() * 2, 0.5, EMBEDDER)
    keep(ledger, "b", direction(1))
    assert names(found, direction(1)) == ["b"]


def test_what_was_dropped_or_changed_is_not_near_any_more(ledger: Ledger, found: QuestionVectors) -> None:
    keep(ledger, "a", direction(1))
    keep(ledger, "b", direction(1))
    assert names(found, direction(1)) == ["a", "b"]
    Bank(ledger).drop(b"a")
    keep(ledger, "b", direction(2))
    assert (names(found, direction(1)), names(found, direction(2))) == ([], ["b"])


def test_what_another_process_keeps_is_found_by_one_that_has_looked_before(ledger: Ledger, tmp_path: Path) -> None:
    one, other = vectors(ledger, tmp_path), vectors(ledger, tmp_path)
    for number in range(6):
        keep(ledger, f"q{number}", direction(number))
        looks = (one, other) if number % 2 else (other, one)
        assert [names(each, direction(number)) for each in looks] == [[f"q{number}"]] * 2
    size = (tmp_path / FILE).stat().st_size
    assert (size - 64) // (16 + 4 * WIDTH) == 6  # and each stands in the file once


def _numbered(matrix: Matrix, *numbers: int) -> Rows:
    return np.array([(number, 7, direction(number)) for number in numbers], matrix.dtype)


def test_what_another_process_added_meanwhile_is_not_added_again(tmp_path: Path) -> None:
    matrix = Matrix(tmp_path / FILE, EMBEDDER, WIDTH)
    matrix.replace(_numbered(matrix, 1))
    for numbers in ((2, 3), (2, 3, 4)):
        matrix.append(_numbered(matrix, *numbers), after=1)
    assert matrix.rows()["number"].tolist() == [1, 2, 3, 4]


def test_rows_are_not_added_where_there_would_be_a_gap(tmp_path: Path) -> None:
    matrix = Matrix(tmp_path / FILE, EMBEDDER, WIDTH)
    matrix.replace(_numbered(matrix, 1))
    matrix.append(_numbered(matrix, 3), after=2)
    assert matrix.rows()["number"].tolist() == [1]


def test_the_matrix_is_readable_by_its_owner_alone(ledger: Ledger, found: QuestionVectors, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        keep(ledger, "a", direction(1))
        names(found, direction(1))
    finally:
        os.umask(before)
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


def _garbage(path: Path) -> None:
    path.write_bytes(np.random.default_rng(7).bytes(path.stat().st_size))


def _torn(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 5)


def _foreign(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def _emptied(path: Path) -> None:
    path.write_bytes(b"")


def _zeroed(path: Path) -> None:
    """Leave the header and the last row of what a power cut took the middle of."""
    data = bytearray(path.read_bytes())
    row = 16 + 4 * WIDTH
    data[64 + row : 64 + 3 * row] = bytes(2 * row)
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [Path.unlink, _garbage, _torn, _foreign, _emptied, _zeroed])
def test_a_damaged_matrix_is_made_anew(ledger: Ledger, tmp_path: Path, damage: Callable[[Path], None]) -> None:
    for number in range(9):
        keep(ledger, f"q{number}", direction(number))
    names(vectors(ledger, tmp_path), direction(1))
    whole = (tmp_path / FILE).read_bytes()
    damage(tmp_path / FILE)
    assert [names(vectors(ledger, tmp_path), direction(number)) for number in range(9)] == [
        by_hand(ledger, direction(number)) for number in range(9)
    ]
    assert (tmp_path / FILE).read_bytes() == whole


def test_a_row_that_holds_another_vector_matches_nothing_it_should_not_and_is_mended(
    ledger: Ledger, tmp_path: Path
) -> None:
    keep(ledger, "a", direction(1))
    keep(ledger, "b", direction(2))
    names(vectors(ledger, tmp_path), direction(1))
    data = bytearray((tmp_path / FILE).read_bytes())
    row = 16 + 4 * WIDTH
    data[64 + 16 : 64 + row] = direction(2).tobytes()  # where a stands
    data[64 + row + 16 : 64 + 2 * row] = np.full(WIDTH, np.nan, np.float32).tobytes()  # where b stands
    (tmp_path / FILE).write_bytes(data)
    found = vectors(ledger, tmp_path)
    assert (names(found, direction(1)), names(found, direction(2))) == ([], [])
    assert (found.check(), found.check()) == (False, True)
    assert (names(found, direction(1)), names(found, direction(2))) == (["a"], ["b"])


@pytest.mark.parametrize(
    "other", [{"scope": "{1}"}, {"writer": "w2"}, {"day": "2026-11-21"}, {"embedder": "embedder-2"}]
)
def test_a_row_that_says_it_is_another_question_is_not_believed(
    ledger: Ledger, tmp_path: Path, other: dict[str, str]
) -> None:
    embedder = other.get("embedder", EMBEDDER)
    about = entry("a", scope=other.get("scope", "{}"), writer=other.get("writer", "w"), day=other.get("day"))
    Bank(ledger).keep(b"a", about, BUDGET, direction(1).tobytes(), 0.5, embedder)
    matrix = Matrix(tmp_path / FILE, EMBEDDER, WIDTH)
    row = (1, group("{}", "w", None), direction(1))  # the number of a, in the words of a question that is asked
    matrix.replace(np.array([row], matrix.dtype))
    assert (len(matrix.rows()), names(vectors(ledger, tmp_path), direction(1))) == (1, [])


def test_a_ledger_put_back_from_a_backup_gets_a_matrix_of_its_own(tmp_path: Path) -> None:
    for name, keys in (("new", {"a": 1, "b": 2}), ("old", {"c": 5})):
        (tmp_path / name).mkdir()
        with closing(open_ledger(tmp_path / name / "ledger.db", create=True)) as ledger:
            for key, seed in keys.items():
                keep(ledger, key, direction(seed))
            names(vectors(ledger, tmp_path / name), direction(1))
    with closing(open_ledger(tmp_path / "old" / "ledger.db")) as ledger:
        found = vectors(ledger, tmp_path / "new")  # that holds more than this ledger ever had
        assert (names(found, direction(5)), names(found, direction(1))) == (["c"], [])
        assert found.check()


def test_rows_of_what_has_gone_are_let_go_of(ledger: Ledger, tmp_path: Path) -> None:
    found = vectors(ledger, tmp_path)
    for number in range(2100):
        keep(ledger, "a", direction(number))
        names(found, direction(number))
    assert names(found, direction(2099)) == ["a"]
    assert (tmp_path / FILE).stat().st_size < 100 * (16 + 4 * WIDTH)


def test_without_a_place_for_the_matrix_near_questions_are_found_all_the_same(ledger: Ledger, tmp_path: Path) -> None:
    keep(ledger, "a", direction(1))
    found = vectors(ledger, tmp_path / "not there")
    assert [names(found, direction(1)) for _ in range(2)] == [["a"]] * 2


def test_a_new_chunk_meets_the_questions_that_it_is_nearer_to_than_their_floor(
    ledger: Ledger, found: QuestionVectors
) -> None:
    keep(ledger, "a", direction(1), floor=0.9)
    keep(ledger, "b", direction(2), "undecoded", floor=0.9)
    keep(ledger, "c", direction(1, 0.1), floor=0.999)
    keep(ledger, "d", direction(1), embedder="embedder-2")
    Bank(ledger).keep(b"e", entry("e"), BUDGET, direction(1).tobytes(), None, EMBEDDER)
    chunks = np.stack([direction(2), direction(1)])
    assert found.meeting(chunks) == [(b"a", 1), (b"b", 0)]
    assert found.meeting(chunks, margin=0.05) == [(b"a", 1), (b"b", 0), (b"c", 1)]
    Bank(ledger).drop(b"a")
    assert found.meeting(chunks) == [(b"b", 0)]


def test_no_new_chunks_meet_no_question(ledger: Ledger, found: QuestionVectors) -> None:
    keep(ledger, "a", direction(1))
    assert found.meeting(np.empty((0, WIDTH), np.float32)) == []
