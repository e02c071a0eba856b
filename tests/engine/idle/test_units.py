"""The order of idle work: benefit for each second, and nothing before what it stands behind."""

from hypothesis import given
from hypothesis import strategies as st

from engine.idle.types import DONE, KINDS, IdleJob, by_rate, costs, in_order
from store.kv_index import CountTotal

Path = tuple[str, ...]
SYSTEM, A, B = "system", "a", "b"


def unit(path: Path, expected: float, seconds: float = 1.0) -> IdleJob:
    behind = "/".join(path[:-1]) if len(path) > 1 else None
    return IdleJob("first", "/".join(path), "", "", expected, seconds, seconds, lambda: DONE, behind=behind)


paths = st.lists(st.sampled_from([SYSTEM, A, B]), min_size=1, max_size=4).map(tuple)
units = st.lists(st.builds(unit, paths, st.floats(0, 9), st.floats(0.1, 9)), max_size=12)


@given(units)
def test_nothing_comes_before_what_it_stands_behind(some: list[IdleJob]) -> None:
    ordered = [one.subject for one in in_order(some)]
    behind = {one.subject: one.behind for one in some}
    for number, subject in enumerate(ordered):
        assert behind[subject] not in ordered[number + 1 :]


@given(units)
def test_each_is_done_once_for_the_best_of_its_reasons(some: list[IdleJob]) -> None:
    best = {one.subject: max(other.rate for other in some if other.subject == one.subject) for one in some}
    assert {one.subject: one.rate for one in in_order(some)} == best
    assert len(in_order(some)) == len(best)


@given(units)
def test_what_nothing_waits_for_comes_in_order_of_its_benefit(some: list[IdleJob]) -> None:
    ordered = in_order(some)
    leaves = [one.rate for one in ordered if one.subject not in {other.behind for other in some}]
    assert leaves == sorted(leaves, reverse=True)
    assert [one.rate for one in by_rate(some)] == sorted((one.rate for one in some), reverse=True)


def test_benefit_is_what_questions_save_for_each_second_of_work() -> None:
    one = unit((SYSTEM, A), 3.0, seconds=0.5)
    assert (one.gain, one.rate) == (1.5, 3.0)
    assert unit((SYSTEM, A), 3.0, seconds=0.0).rate == 0.0


def test_what_people_were_told_comes_before_what_they_may_ask() -> None:
    assert KINDS[:3] == ("start", "refresh", "owed")
    assert KINDS[-1] == "upkeep"


def test_what_a_token_costs_is_what_those_kept_have_cost() -> None:
    found = costs(CountTotal(count=2, tokens=100, bytes=5_000, seconds=20.0))
    assert (found.seconds, found.bytes) == (0.2, 50.0)
    assert costs(CountTotal()).seconds > 0
