"""Which nodes go first, on a trace where every score has another answer, and against a naive choice."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.kv_files import Node
from store.kv_store import scores, victims

SCORES = scores(100.0)
ROOT = b"root"
NOW = 1000.0


def node(
    name: str, parent: bytes = ROOT, *, uses: int = 0, last_used: float = 0.0, seconds: float = 1.0, size: int = 100
) -> Node:
    return Node(name.encode(), parent, name.encode(), 1, (1,), size, seconds, 0.0, last_used, uses)


def names(nodes: list[Node]) -> list[str]:
    return [one.key.decode() for one in nodes]


# Used often but long ago and dear to compute; used once, just now; used some, lately, and cheap to compute.
TRACE = [
    node("often", uses=9, last_used=NOW - 1000, seconds=5000.0),
    node("lately", uses=1, last_used=NOW - 1, seconds=50.0),
    node("cheap", uses=4, last_used=NOW - 50, seconds=1.0),
]


@pytest.mark.parametrize(
    ("score", "order"),
    [
        ("lfu", ["lately", "cheap", "often"]),
        ("value", ["cheap", "often", "lately"]),
    ],
)
def test_each_score_evicts_another_node_first(score: str, order: list[str]) -> None:
    assert names(victims(TRACE, 300, SCORES[score], NOW)) == order


def test_of_nodes_used_as_often_the_longest_unused_goes_first() -> None:
    nodes = [node("new", uses=2, last_used=9.0), node("old", uses=2, last_used=3.0)]
    assert names(victims(nodes, 1, SCORES["lfu"], NOW)) == ["old"]


def test_what_a_node_is_worth_halves_in_a_half_life() -> None:
    now, then = (SCORES["value"](node("a", last_used=at, seconds=60.0), NOW) for at in (NOW, NOW - 100))
    assert (now, then) == (0.6, 0.3)


def test_a_use_in_the_future_counts_as_one_now() -> None:
    assert SCORES["value"](node("a", last_used=NOW + 500, seconds=60.0), NOW) == 0.6


def test_value_is_seconds_for_each_byte() -> None:
    small, large = (SCORES["value"](node("a", last_used=NOW, seconds=8.0, size=size), NOW) for size in (2, 4))
    assert (small, large) == (4.0, 2.0)


def test_no_more_goes_than_is_needed() -> None:
    assert len(victims(TRACE, 101, SCORES["lfu"], NOW)) == 2


def test_nothing_goes_where_nothing_is_needed() -> None:
    assert victims(TRACE, 0, SCORES["lfu"], NOW) == []


def test_a_parent_goes_behind_its_last_child_however_little_it_scores() -> None:
    nodes = [node("p"), node("a", b"p", uses=5), node("b", b"p", uses=7), node("leaf", uses=6)]
    assert names(victims(nodes, 400, SCORES["lfu"], NOW)) == ["a", "leaf", "b", "p"]


def test_what_is_kept_back_keeps_its_ancestors() -> None:
    nodes = [node("p"), node("q", b"p"), node("held", b"q"), node("free", b"p", uses=9)]
    assert names(victims(nodes, 400, SCORES["lfu"], NOW, {b"held"})) == ["free"]


@st.composite
def forests(draw: st.DrawFn) -> list[Node]:
    count = draw(st.integers(1, 12))
    parents = [draw(st.integers(-1, i - 1)) for i in range(count)]
    few = st.integers(0, 3)
    return [
        node(f"n{i}", f"n{parent}".encode() if parent >= 0 else ROOT, uses=draw(few), last_used=float(draw(few)))
        for i, parent in enumerate(parents)
    ]


def naive(nodes: list[Node], need: int, score: str, held: set[bytes]) -> list[str]:
    left, chosen = list(nodes), []
    while need > 0:
        leaves = [n for n in left if n.key not in held and n.key not in {m.parent for m in left}]
        if not leaves:
            break
        worst = min(leaves, key=lambda n: (SCORES[score](n, NOW), n.last_used, n.key))
        left.remove(worst)
        chosen.append(worst.key.decode())
        need -= worst.bytes
    return chosen


@given(forests(), st.integers(0, 1300), st.sampled_from(sorted(SCORES)), st.sets(st.integers(0, 11)))
@settings(deadline=None)
def test_victims_are_those_of_a_naive_choice(nodes: list[Node], need: int, score: str, held: set[int]) -> None:
    kept = {f"n{i}".encode() for i in held}
    assert names(victims(nodes, need, SCORES[score], NOW, kept)) == naive(nodes, need, score, kept)
