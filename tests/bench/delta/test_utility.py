"""Eviction by utility: its parts, the failures of algorithm 1 as printed, and its mended form."""

from functools import partial
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from store.kv_files import Node
from tests.bench.delta.utility import Cached, State, UtilityWeights, mended, printed, utility

SIZES = st.integers(1, 50)
NODES = st.lists(st.tuples(SIZES, st.floats(0, 1)), max_size=12)


def cached(number: int, size: int, worth: float) -> Cached:
    return Cached(bytes([number]), size, worth)


def state_of(state: State, _: Node) -> State:
    return state


def node(tokens: int, last_used: float = 0.0) -> Node:
    return Node(b"k", b"p", b"", 1, tuple(range(tokens)), 1, 1.0, 0.0, last_used, 0)


def test_a_node_of_a_client_that_asks_is_worth_more_than_one_of_a_client_that_is_gone() -> None:
    states: list[State] = ["asking", "connected", "gone"]
    worth = [utility(UtilityWeights(), partial(state_of, state))(node(100), 0.0) for state in states]
    assert worth == sorted(worth, reverse=True)
    assert len(set(worth)) == 3


def test_recent_and_long_nodes_are_worth_more() -> None:
    score = utility(UtilityWeights(), lambda _: "gone")
    assert score(node(100, last_used=50.0), 86_400.0) > score(node(100), 86_400.0)
    assert score(node(200), 0.0) > score(node(100), 0.0)


def test_as_printed_it_never_ends_where_the_new_node_has_the_least_utility() -> None:
    rounds = list(islice(printed([cached(1, 10, 0.9)], cached(2, 5, 0.1)), 1000))
    assert len(rounds) == 1000
    assert set(rounds) == {(cached(1, 10, 0.9),)}  # nothing is removed, and nothing added


def test_as_printed_it_counts_one_removed_node_again_and_again() -> None:
    nodes, incoming = [cached(1, 2, 0.1), cached(2, 50, 0.5)], cached(3, 10, 0.9)
    *_, last = printed(nodes, incoming)
    assert sum(one.bytes for one in last) == 60  # 2 bytes were freed, and counted five times
    assert sum(one.bytes for one in mended(nodes, incoming, 52)) <= 52


def test_as_printed_it_evicts_although_there_is_room() -> None:
    nodes, incoming = [cached(1, 10, 0.1)], cached(2, 10, 0.9)
    *_, last = printed(nodes, incoming)
    assert last == (incoming,)
    assert mended(nodes, incoming, 100) == (*nodes, incoming)


def test_mended_a_new_node_of_the_least_utility_is_given_up() -> None:
    nodes = [cached(1, 10, 0.9)]
    assert mended(nodes, cached(2, 5, 0.1), 10) == tuple(nodes)


@given(found=NODES, size=SIZES, worth=st.floats(0, 1), room=st.integers(0, 100))
def test_mended_it_ends_within_the_budget_and_evicts_no_node_of_more_utility(
    found: list[tuple[int, float]], size: int, worth: float, room: int
) -> None:
    nodes = [cached(number, *one) for number, one in enumerate(found)]
    incoming = cached(99, size, worth)
    budget = sum(one.bytes for one in nodes) + room
    after = mended(nodes, incoming, budget)
    assert sum(one.bytes for one in after) <= budget
    gone = [one for one in nodes if one not in after]
    assert all(one.utility <= incoming.utility for one in gone)
    assert incoming in after or not gone
    enough = sorted(gone, key=lambda one: one.utility)[:-1]
    assert not gone or sum(one.bytes for one in enough) < size - room
