"""The order of jobs: by gain per second, and none before the job it stands behind."""

from hypothesis import given
from hypothesis import strategies as st

from engine.idle.prefetch import cost_of_token
from engine.idle.types import KINDS, Job, by_rate, in_order
from store.kv_index import CountTotal

Path = tuple[str, ...]
SYSTEM, A, B = "system", "a", "b"


def job(path: Path, expected: float, seconds: float = 1.0) -> Job:
    behind = "/".join(path[:-1]) if len(path) > 1 else None
    return Job("prefetch", "/".join(path), "", "", expected, seconds, seconds, behind=behind)


paths = st.lists(st.sampled_from([SYSTEM, A, B]), min_size=1, max_size=4).map(tuple)
jobs = st.lists(st.builds(job, paths, st.floats(0, 9), st.floats(0.1, 9)), max_size=12)


@given(jobs)
def test_no_job_comes_before_the_one_it_stands_behind(some: list[Job]) -> None:
    ordered = [one.subject for one in in_order(some)]
    behind = {one.subject: one.behind for one in some}
    for number, subject in enumerate(ordered):
        assert behind[subject] not in ordered[number + 1 :]


@given(jobs)
def test_of_one_subject_the_best_job_is_taken(some: list[Job]) -> None:
    best = {one.subject: max(other.rate for other in some if other.subject == one.subject) for one in some}
    assert {one.subject: one.rate for one in in_order(some)} == best
    assert len(in_order(some)) == len(best)


@given(jobs)
def test_jobs_that_none_stands_behind_come_in_order_of_gain_per_second(some: list[Job]) -> None:
    ordered = in_order(some)
    leaves = [one.rate for one in ordered if one.subject not in {other.behind for other in some}]
    assert leaves == sorted(leaves, reverse=True)
    assert [one.rate for one in by_rate(some)] == sorted((one.rate for one in some), reverse=True)


def test_the_rate_of_a_job_is_its_gain_per_second() -> None:
    one = job((SYSTEM, A), 3.0, seconds=0.5)
    assert (one.gain_s, one.rate) == (1.5, 3.0)
    assert job((SYSTEM, A), 3.0, seconds=0.0).rate == 0.0


def test_stored_answers_come_before_predictions_and_maintenance_last() -> None:
    assert KINDS[:3] == ("start", "refresh", "verify")
    assert KINDS[-1] == "maintenance"


def test_the_cost_of_a_token_is_the_mean_of_those_cached() -> None:
    assert cost_of_token(CountTotal(count=2, tokens=100, bytes=5_000, seconds=20.0)) == (0.2, 50.0)
    assert cost_of_token(CountTotal())[0] > 0
