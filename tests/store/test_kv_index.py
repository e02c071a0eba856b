"""The rows of KV nodes, their owners, pins, counters and ghosts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from store.database import Ledger, open_ledger
from store.home import Identity
from store.kv_files import Node, child_key
from store.kv_index import CountTotal, KvIndex, ProcessOwner, is_alive, remove_dead_owners
from tests.store.kv_kit import ROOT, SUB_STEP, run_python

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
    return Node(key, above, key, depth, ids, size, 2.0, 5.0, 5.0, 0)


def put(index: KvIndex, *nodes: Node) -> None:
    for one in nodes:
        index.reserve(one, SUB_STEP, "me")
        assert index.complete(one.key, "me")


def test_a_reserved_node_is_not_whole_until_it_is_settled(index: KvIndex) -> None:
    one, states = node(1, 2), []
    index.reserve(one, SUB_STEP, "me")
    states.append(index.find(one.key))
    index.complete(one.key, "me")
    states.append(index.find(one.key))
    assert [(entry.state, entry.owner, entry.node) for entry in states if entry] == [
        ("reserved", "me", one),
        ("complete", None, one),
    ]


def test_another_owners_reservation_cannot_be_settled(index: KvIndex) -> None:
    index.reserve(node(1), SUB_STEP, "me")
    assert not index.complete(node(1).key, "you")


def test_a_node_given_up_while_it_was_written_is_not_settled_and_stays_its_writers(index: KvIndex) -> None:
    index.reserve(node(1), SUB_STEP, "me")
    index.mark_deleting([node(1).key], "you")
    assert (index.complete(node(1).key, "me"), index.unfinished()) == (False, [(node(1).key, "me")])


def test_a_whole_node_that_is_given_up_belongs_to_who_removes_it(index: KvIndex) -> None:
    put(index, node(1))
    index.mark_deleting([node(1).key], "you")
    assert index.unfinished() == [(node(1).key, "you")]


def test_below_a_node_are_all_its_descendants_and_itself(index: KvIndex) -> None:
    top, other = node(1), node(9)
    child = node(2, parent=top)
    leaf = node(3, parent=child)
    put(index, top, other, child, leaf)
    assert index.below([top.key]) == {top.key, child.key, leaf.key}


def test_below_a_node_that_is_not_there_is_nothing(index: KvIndex) -> None:
    assert index.below([node(1).key]) == set()


def test_children_that_begin_alike_are_found_by_their_first_sub_step(index: KvIndex) -> None:
    alike, other, short = node(1, 2, 3, 4, 5), node(1, 2, 3, 9, 5), node(1, 2)
    put(index, alike, other, short)
    assert index.sharing_prefix(ROOT.key, [1, 2, 3, 4, 7, 8], SUB_STEP) == [alike]


def test_a_segment_shorter_than_a_sub_step_begins_like_none(index: KvIndex) -> None:
    put(index, node(1, 2, 3))
    assert index.sharing_prefix(ROOT.key, [1, 2, 3], SUB_STEP) == []


def test_a_use_is_counted_and_time_never_goes_back(index: KvIndex) -> None:
    put(index, node(1))
    for now in (30.0, 20.0):
        index.record_use([node(1).key], now)
    entry = index.find(node(1).key)
    assert entry is not None
    assert (entry.node.uses, entry.node.last_used) == (2, 30.0)


def test_the_file_last_read_whole_is_remembered(index: KvIndex) -> None:
    put(index, node(1))
    index.set_verified(node(1).key, FILE)
    assert [entry.verified for entry in index.entries()] == [FILE]


def test_dropping_a_node_drops_its_pins(index: KvIndex) -> None:
    put(index, node(1))
    index.pin([node(1).key], "me", 9.0)
    index.drop([node(1).key])
    assert (index.entries(), index.pins()) == ([], [])


def test_two_pins_on_a_node_are_let_go_one_by_one(index: KvIndex) -> None:
    put(index, node(1))
    first = index.pin([node(1).key], "me", 9.0)
    index.pin([node(1).key], "me", 8.0)
    index.unpin(first)
    assert index.pins() == [(node(1).key, "me", 8.0)]


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


def test_a_holder_is_alive_until_it_lets_go(tmp_path: Path) -> None:
    owner = ProcessOwner(tmp_path)
    name = owner.name
    alive = is_alive(tmp_path, name)
    owner.close()
    assert (alive, is_alive(tmp_path, name), list(tmp_path.iterdir())) == (True, False, [])


def test_two_holders_in_one_process_are_two(tmp_path: Path) -> None:
    one, other = ProcessOwner(tmp_path), ProcessOwner(tmp_path)
    assert one.name != other.name
    one.close()
    assert is_alive(tmp_path, other.name)
    other.close()


def test_a_process_that_was_killed_is_not_alive_and_is_swept_up(tmp_path: Path) -> None:
    code = """if True:
        import sys, pathlib
        from store.kv_index import ProcessOwner
        owner = ProcessOwner(pathlib.Path(sys.argv[1]))
        print(owner.name, flush=True)
        sys.stdin.read()"""
    with run_python(code, str(tmp_path)) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        alive = is_alive(tmp_path, name)
        remove_dead_owners(tmp_path)
        still = is_alive(tmp_path, name)
        process.kill()
        process.wait()
    dead = not is_alive(tmp_path, name)
    remove_dead_owners(tmp_path)
    assert (alive, still, dead, list(tmp_path.iterdir())) == (True, True, True, [])


def test_a_holder_whose_file_was_removed_takes_another_name(tmp_path: Path) -> None:
    owner = ProcessOwner(tmp_path / "new")
    first = owner.name
    (tmp_path / "new" / f"{first}.owner").unlink()
    second = owner.name
    assert (first == second, is_alive(tmp_path / "new", second)) == (False, True)
    owner.close()
