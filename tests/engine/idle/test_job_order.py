"""The order of jobs: by gain per second."""

from engine.idle.prefetch import cost_of_token
from engine.idle.types import Job, by_rate
from store.kv_index import CountTotal


def job(expected: float, seconds: float = 1.0) -> Job:
    return Job("prefetch", "a", "", "", expected, seconds, seconds)


def test_the_rate_of_a_job_is_its_gain_per_second() -> None:
    one = job(3.0, seconds=0.5)
    assert (one.gain_s, one.rate) == (1.5, 3.0)
    assert job(3.0, seconds=0.0).rate == 0.0
    assert [each.rate for each in by_rate([job(1.0), job(3.0), job(2.0)])] == [3.0, 2.0, 1.0]


def test_the_cost_of_a_token_is_the_mean_of_those_cached() -> None:
    assert cost_of_token(CountTotal(count=2, tokens=100, bytes=5_000, seconds=20.0)) == (0.2, 50.0)
    assert cost_of_token(CountTotal())[0] > 0
