"""Jobs are rows: one of a kind and subject, best first, begun a few times at most."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.database import open_ledger
from store.jobs import MAX_ATTEMPTS, JobRow, Jobs
from tests.effort import examples

WEEK = 7 * 86_400.0


def job(
    subject: str, *, benefit: float = 1.0, cost: float = 1.0, created: float = 0.0, kind: str = "populate"
) -> JobRow:
    return JobRow(kind, subject, cost, benefit, created, "history/model")


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    """Yield no jobs."""
    ledger = open_ledger(tmp_path / "ledger.db", create=True)
    yield Jobs(ledger)
    ledger.close()


def subjects(jobs: Jobs, kind: str = "populate") -> list[str]:
    return [job.subject for job in jobs.pending(kind)]


def test_those_come_first_that_bring_most_for_each_second(jobs: Jobs) -> None:
    jobs.offer([job("slow", benefit=5, cost=10), job("good", benefit=4, cost=1), job("cheap", benefit=0.1, cost=0.1)])
    assert subjects(jobs) == ["good", "cheap", "slow"]


def test_a_job_offered_again_is_one_job_with_what_is_thought_of_it_now(jobs: Jobs) -> None:
    jobs.offer([job("a", benefit=1)])
    jobs.start("populate", "a")
    jobs.offer([job("a", benefit=3)])
    assert [(one.benefit_s, one.attempts) for one in jobs.pending("populate")] == [(3.0, 1)]


def test_a_job_that_was_begun_too_often_is_given_up_for_a_week(jobs: Jobs) -> None:
    jobs.offer([job("a")])
    for _ in range(MAX_ATTEMPTS):
        jobs.start("populate", "a")
    assert (subjects(jobs), jobs.abandoned("populate"), jobs.counts()) == ([], {"a"}, {})
    assert [one.subject for one in jobs.all("populate")] == ["a"]
    jobs.offer([job("a", created=WEEK - 1)])
    assert subjects(jobs) == []
    jobs.offer([job("a", created=WEEK + 1)])
    assert [(one.attempts, one.created) for one in jobs.pending("populate")] == [(0, WEEK + 1)]


def test_a_job_that_was_put_back_has_not_been_tried_and_one_that_failed_has(jobs: Jobs) -> None:
    jobs.offer([job("a"), job("b")])
    for name in "ab":
        jobs.start("populate", name)
    jobs.release("populate", "a")
    assert {(one.subject, one.attempts) for one in jobs.pending("populate")} == {("a", 0), ("b", 1)}


def test_a_plan_takes_the_place_of_the_one_before_it_in_its_kind_alone(jobs: Jobs) -> None:
    jobs.offer([job("a"), job("b"), job("a", kind="refresh")])
    jobs.replace("populate", [job("b"), job("c")])
    assert (sorted(subjects(jobs)), subjects(jobs, "refresh")) == (["b", "c"], ["a"])
    jobs.remove("populate", "b")
    assert jobs.counts() == {"populate": 1, "refresh": 1}


@examples(40)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 9), st.floats(0, 9)), max_size=8))
def test_of_each_subject_there_is_one_with_the_last_numbers(
    tmp_path_factory: pytest.TempPathFactory, offered: list[tuple[str, float, float]]
) -> None:
    ledger = open_ledger(tmp_path_factory.mktemp("jobs") / "ledger.db", create=True)
    found = Jobs(ledger)
    found.offer([job(name, benefit=benefit, cost=cost) for name, benefit, cost in offered])
    last = {name: (benefit, cost) for name, benefit, cost in offered}
    assert {one.subject: (one.benefit_s, one.cost_s) for one in found.pending("populate")} == last
    ledger.close()
