"""The order of idle work: benefit for each second, and nothing before what it stands behind."""

from hypothesis import given
from hypothesis import strategies as st

from engine.idle.units import Path, Unit, costs, in_order
from store.kv_counts import Tally

SYSTEM, A, B = (1,), (2, 3), (4,)


def unit(path: Path, expected: float, seconds: float = 1.0) -> Unit:
    return Unit("first", "", "", path, expected, seconds, 0)


paths = st.lists(st.sampled_from([SYSTEM, A, B]), min_size=1, max_size=4).map(tuple)
units = st.lists(st.builds(unit, paths, st.floats(0, 9), st.floats(0.1, 9)), max_size=12)


@given(units)
def test_nothing_comes_before_what_it_stands_behind(some: list[Unit]) -> None:
    ordered = [one.path for one in in_order(some)]
    for number, path in enumerate(ordered):
        assert not any(path == later[: len(path)] for later in ordered[:number])


@given(units)
def test_each_segment_is_read_once_for_the_best_of_its_reasons(some: list[Unit]) -> None:
    best = {one.path: max(other.rate for other in some if other.path == one.path) for one in some}
    assert {one.path: one.rate for one in in_order(some)} == best
    assert len(in_order(some)) == len(best)


@given(units)
def test_a_segment_that_nothing_waits_for_comes_in_order_of_its_benefit(some: list[Unit]) -> None:
    ordered = in_order(some)
    above = {other.path[:end] for other in some for end in range(len(other.path))}
    leaves = [one.rate for one in ordered if one.path not in above]
    assert leaves == sorted(leaves, reverse=True)


def test_benefit_is_what_questions_save_for_each_second_of_work() -> None:
    one = unit((SYSTEM, A), 3.0, seconds=0.5)
    assert (one.gain, one.rate) == (1.5, 3.0)
    assert unit((SYSTEM, A), 3.0, seconds=0.0).rate == 0.0


def test_what_a_token_costs_is_what_those_kept_have_cost() -> None:
    found = costs(Tally(count=2, tokens=100, bytes=5_000, seconds=20.0))
    assert (found.seconds, found.bytes) == (0.2, 50.0)
    assert costs(Tally()).seconds > 0
