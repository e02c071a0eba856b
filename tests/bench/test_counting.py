"""A model that computes nothing does what a real one does: the same tiers, tokens, steps and loads."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench.corpus import Query
from tests.bench.counting import Memo, Tally, bytes_of, folder_of, size_of_shape
from tests.bench.home import NANO
from tests.bench.plan import TRACED
from tests.bench.test_harness import RIGHT, user
from tests.bench.traces import SITTING, Row, read, rows, sample, trace, work

QUESTIONS = (
    Query("When is the coach?", RIGHT, frozenset()),
    Query("When is our coach?", RIGHT, frozenset()),
    Query("Who has the spare key?", "Pavel Novak", frozenset()),
    Query("When is the coach?", RIGHT, frozenset()),
    Query("Who sings bass on the moon?", "", frozenset()),
)


def done(row: Row) -> Row:
    """Return a row without bytes, which differ with the shape."""
    return replace(row, work=replace(row.work, written=0), idle=row.idle and replace(row.idle, written=0))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an empty folder for homes and models."""
    return tmp_path_factory.mktemp("traces")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["naive-2", "percache-2", "pkb-5", "pkb-blocks-5"])
def test_layers_that_compute_nothing_count_what_real_ones_do(folder: Path, name: str) -> None:
    asked = user(folder, *QUESTIONS)
    real = list(rows(asked, TRACED[name], folder, Memo(), NANO, None))
    counted = list(rows(asked, TRACED[name], folder, Memo(), NANO, "135M"))
    assert [done(row) for row in counted] == [done(row) for row in real]
    assert sum(steps for row in real for _, _, steps, _ in row.work.steps) > 0


@pytest.mark.slow
def test_what_was_retrieved_before_changes_no_row(folder: Path) -> None:
    asked, memo = user(folder, *QUESTIONS), Memo()
    first = list(rows(asked, TRACED["ragcache-2"], folder, memo, NANO))
    assert list(rows(asked, TRACED["ragcache-2"], folder, memo, NANO)) == first


def test_a_kept_segment_counts_the_bytes_of_the_real_shape(folder: Path) -> None:
    first = next(iter(rows(user(folder, *QUESTIONS), TRACED["ragcache-2"], folder, Memo(), NANO)))
    question = next(count for kind, count, _, _ in first.work.steps if kind == "head")
    assert first.work.written == pytest.approx((first.prompt - question) * bytes_of("135M"), rel=0.05)


def test_steps_without_guesses_are_those_of_a_model_that_guesses_none(folder: Path) -> None:
    policy = TRACED["naive-2"]
    alone = replace(policy, settings={**policy.settings, "experiment.drafts": 0})
    guessing, plain = (list(rows(user(folder, *QUESTIONS), one, folder, Memo(), NANO)) for one in (policy, alone))
    for with_guesses, without in zip(guessing, plain, strict=True):
        decoded = [steps for kind, _, steps, _ in without.work.steps if kind == "decode"]
        assert list(with_guesses.work.plain) == list(without.work.plain)
        assert sum(decoded) - with_guesses.work.plain[0] in (0, 1)  # a stop is read before it is known


def test_a_finished_user_is_read_and_not_repeated(folder: Path) -> None:
    asked = user(folder, *QUESTIONS[:1])
    file = trace(asked, 1, [TRACED["naive-2"]], folder)
    before = file.stat().st_mtime_ns
    assert trace(asked, 1, [TRACED["naive-2"]], folder).stat().st_mtime_ns == before
    assert [(row.policy, row.tier, row.number) for row in read(file)] == [("naive", "full", 1)]


def test_idle_runs_come_between_sittings(folder: Path) -> None:
    found = list(rows(user(folder, *QUESTIONS), TRACED["pkb-2"], folder, Memo(), NANO))
    assert [row.number for row in found if row.idle] == [1, 1 + SITTING]


def test_a_sample_is_blocks_of_neighbours_in_order() -> None:
    queries = [Query(str(number), "", frozenset()) for number in range(200)]
    chosen = [int(one.text) for one in sample(queries, 40)]
    assert chosen == [*range(45, 65), *range(135, 155)]
    assert sample(queries[:7], 40) == tuple(queries[:7])


def test_steps_are_added_up_by_kind_and_rows() -> None:
    tally = Tally()
    tally.steps["body", 100, 0] += 1
    tally.steps["body", 100, 300] += 2
    tally.written.append((400, 3))
    assert work(tally, 5).steps == [["body", 100, 3, 600]]
    assert work(tally, 5).plain == [3, 400 + 401 + 402]


def test_a_shape_has_the_parameters_of_its_model() -> None:
    found = size_of_shape("135M")
    assert round((found.parameters + found.head_parameters) / 1e6, 1) == 134.5  # SmolLM2-135M, embeddings shared
    assert bytes_of("135M") == 30 * 2 * 3 * 64 * 4


@pytest.mark.parametrize("shape", ["135M", "0.5B"])
def test_a_counted_shape_answers_in_blocks_too(folder: Path, shape: str) -> None:
    model = folder_of(shape, folder / "models", real=False)
    found = list(rows(user(folder, *QUESTIONS[:1]), TRACED["pkb-blocks-2"], folder, Memo(), model, shape))
    assert [(row.tier, row.prompt > row.reused > 0) for row in found] == [("blocks", True)]
