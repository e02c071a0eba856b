"""The simulated cache of several adapters: what is found, what it takes, and the budget."""

from dataclasses import replace
from random import Random

import pytest

from store.kv_files import Node
from store.kv_store import scores
from tests.bench.delta.simulation import Cache, Costs, System, Trees, simulate
from tests.bench.delta.utility import UtilityWeights, utility
from tests.bench.delta.workload import Asked, requests

COSTS = Costs(lambda start, stop: float(stop - start), load=0.1, decode=0.2, bytes=10, share=0.3, question=5)
SYSTEM, FIRST, SECOND = (1, 2), (3, 4, 5), (6, 7, 8, 9)


def system(trees: Trees) -> System:
    return System(trees, trees, lambda _: scores(1.0)["lfu"])


def asked(adapter: int, *segments: tuple[int, ...], client: int = 0, at: float = 0.0, last: bool = False) -> Asked:
    return Asked(segments, adapter, client, at, last)


def test_without_a_cache_everything_is_computed() -> None:
    found = simulate([asked(0, SYSTEM, FIRST)] * 2, system("none"), 10**6, COSTS)
    assert (found.first_token, found.reused, found.bytes) == ((10.0, 10.0), 0, (0, 0))


def test_a_cached_prefix_is_loaded_and_the_rest_computed() -> None:
    found = simulate([asked(0, SYSTEM, FIRST), asked(0, SYSTEM, SECOND)], system("each"), 10**6, COSTS)
    assert list(found.first_token) == pytest.approx([10.0, 2 * 0.1 + 4 + 5])
    assert found.reused == 2


def test_another_adapter_finds_nothing_and_its_nodes_are_differences_where_trees_are_shared() -> None:
    stream = [asked(adapter, SYSTEM, FIRST) for adapter in (0, 1, 1)]
    each, shared = (simulate(stream, system(trees), 10**6, COSTS) for trees in ("each", "shared"))
    assert (each.reused, shared.reused) == (5, 5)
    assert (each.bytes[-1], shared.bytes[-1]) == (100, 65)
    assert each.first_token[-1] == pytest.approx(5 * 0.1 + 5)
    assert shared.first_token[-1] == pytest.approx(5 * (0.1 * 1.3 + 0.2) + 5)


def test_a_cache_of_one_adapter_is_emptied_by_the_next() -> None:
    stream = [asked(adapter, SYSTEM, FIRST) for adapter in (0, 1, 0)]
    found = simulate(stream, system("one"), 10**6, COSTS)
    assert (found.reused, found.bytes) == (0, (50, 50, 50))


def test_when_an_anchor_is_evicted_another_node_of_its_path_is_whole() -> None:
    cache = Cache(system("shared"), 10**6, COSTS)
    for adapter in (0, 1):
        cache.ask(asked(adapter, SYSTEM))
    anchor, other = (cache.nodes[key] for key in next(iter(cache.paths.values())))
    cache._remove(anchor)
    assert (other.bytes, cache.nodes[other.key].bytes, cache.bytes) == (6, 20, 20)


@pytest.mark.parametrize("trees", ["one", "each", "shared"])
@pytest.mark.parametrize("budget", [0, 40, 100, 1000])
def test_the_budget_holds_after_every_request(trees: Trees, budget: int) -> None:
    rng = Random(7)
    pieces = [tuple(rng.randrange(50) for _ in range(rng.randrange(1, 9))) for _ in range(12)]
    stream = [asked(rng.randrange(3), SYSTEM, *rng.sample(pieces, 3), at=float(at)) for at in range(200)]
    for own in (system(trees), replace(system(trees), score=lambda of: utility(UtilityWeights(), of))):
        assert max(simulate(stream, own, budget, COSTS).bytes) <= budget


def test_a_client_asks_then_is_connected_then_is_gone() -> None:
    cache = Cache(system("each"), 10**6, COSTS)
    cache.ask(asked(0, SYSTEM, client=1))
    node: Node = next(iter(cache.nodes.values()))
    before = cache.state_of(node)
    cache.ask(asked(0, FIRST, client=1, last=True))
    assert (before, cache.state_of(node)) == ("connected", "gone")


def test_every_question_is_asked_once_and_each_client_leaves_once() -> None:
    users = [[((user, number),) for number in range(20)] for user in range(3)]
    stream = requests(users, 5, by_user=True)
    assert sorted(one.segments for one in stream) == sorted(prompt for user in users for prompt in user)
    assert sum(one.last for one in stream) == len({one.client for one in stream})
    assert all(one.adapter == one.segments[0][0] for one in stream)
    assert [one.at for one in stream] == sorted(one.at for one in stream)


def test_few_adapters_get_most_questions() -> None:
    users = [[((0, number),) for number in range(1000)]]
    counts = [sum(one.adapter == adapter for one in requests(users, 5, by_user=False)) for adapter in range(5)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > 400
