"""The gain of a job, and the cost of a token by which prefetching is planned."""

from engine.idle.prefetch import cost_of_token
from store.jobs import Job
from store.kv_index import CountTotal


def test_the_gain_of_a_job_is_what_it_takes_for_each_question_that_will_use_it() -> None:
    assert Job("prefetch", "a", "", "", 3.0, 0.5).gain_s == 1.5


def test_the_cost_of_a_token_is_the_mean_of_those_cached() -> None:
    assert cost_of_token(CountTotal(count=2, tokens=100, bytes=5_000, seconds=20.0)) == (0.2, 50.0)
    assert cost_of_token(CountTotal())[0] > 0
