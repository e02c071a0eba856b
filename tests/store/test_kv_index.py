"""The rows of KV nodes, and counters."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from store.database import EPOCH, Ledger, open_ledger
from store.home import Identity
from store.kv_files import Node, child_key
from store.kv_index import CountTotal, KvIndex
from tests.store.kv_kit import ROOT, SUB_STEP

FILE = Identity(1, 2, 3, 4)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """Yield a new ledger."""
    opened = open_ledger(tmp_path / "ledger.db", create=True)
    yield opened
    opened.close()


@pytest.fixture
def index(ledger: Ledger) -> KvIndex:
    """Return its nodes."""
    return KvIndex(ledger)


def node(*ids: int, parent: Node | None = None, size: int = 100) -> Node:
    above = parent.key if parent else ROOT.key
    key, depth = child_key(above, ids), parent.depth + 1 if parent else 1
    return Node(key, above, key, depth, ids, size, 2.0, 5.0, 5.0, 0, verified=FILE)


def put(index: KvIndex, *nodes: Node) -> None:
    for one in nodes:
        assert index.add(one, SUB_STEP, ROOT.key)


def test_a_node_is_found_as_it_was_added(index: KvIndex) -> None:
    put(index, node(1, 2))
    assert index.find(node(1, 2).key) == node(1, 2)


def test_a_node_whose_parent_is_not_there_is_not_added(index: KvIndex) -> None:
    assert not index.add(node(2, parent=node(1)), SUB_STEP, ROOT.key)
    assert index.all_keys() == []


def test_nothing_is_added_once_something_was_forgotten(index: KvIndex, ledger: Ledger) -> None:
    ledger.set(EPOCH, "2")
    assert not index.add(node(1), SUB_STEP, ROOT.key)
    assert index.all_keys() == []


def test_below_a_node_are_all_its_descendants_and_itself(index: KvIndex) -> None:
    top, other = node(1), node(9)
    child = node(2, parent=top)
    leaf = node(3, parent=child)
    put(index, top, other, child, leaf)
    assert index.below([top.key]) == {top.key, child.key, leaf.key}


def test_below_a_node_that_is_not_there_is_nothing(index: KvIndex) -> None:
    assert index.below([node(1).key]) == set()


def test_children_that_begin_alike_are_found_by_their_first_sub_step(index: KvIndex) -> None:
    alike, other, short = node(1, 2, 3, 4, 5, 6), node(1, 2, 3, 9, 5, 6), node(1, 2)
    put(index, alike, other, short)
    assert index.best_partial(ROOT.key, [1, 2, 3, 4, 7, 8], SUB_STEP) == (alike, SUB_STEP)


def test_a_segment_shorter_than_a_sub_step_begins_like_none(index: KvIndex) -> None:
    put(index, node(1, 2, 3))
    assert index.best_partial(ROOT.key, [1, 2, 3], SUB_STEP) is None


def test_a_use_is_counted_and_time_never_goes_back(index: KvIndex) -> None:
    put(index, node(1))
    for now in (30.0, 20.0):
        index.record_use([node(1).key], now)
    found = index.find(node(1).key)
    assert found is not None
    assert (found.uses, found.last_used) == (2, 30.0)


def test_the_file_last_read_whole_is_remembered(index: KvIndex) -> None:
    put(index, node(1))
    index.set_verified(node(1).key, Identity(5, 6, 7, 8))
    assert [found.verified for found in index.nodes()] == [Identity(5, 6, 7, 8)]


def test_counters_add_up_by_kind(index: KvIndex) -> None:
    index.count("hit", tokens=3, size=5, seconds=0.5)
    index.count("hit", tokens=4)
    index.count("fetched")
    assert (index.counted("hit"), index.counted("none")) == (CountTotal(2, 7, 5, 0.5), CountTotal())


def test_bytes_written_are_counted_by_day(index: KvIndex) -> None:
    day = 86_400.0
    for size, now in ((5, 10 * day), (6, 11 * day - 1), (7, 11 * day)):
        index.write(size, now)
    assert [index.written(now) for now in (10.5 * day, 11 * day, 12 * day, None)] == [11, 7, 0, 18]
