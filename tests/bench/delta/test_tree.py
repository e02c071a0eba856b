"""The tree of several adapters: anchors, differences, eviction of an anchor, damage."""

from pathlib import Path

import numpy as np
import pytest

from store.kv_files import TreeRoot, root_of
from tests.bench.delta.tree import Arrays, DeltaNode, DeltaTree
from tests.bench.sparkv.bitstream import Chunk32

IDS = (5, 6, 7)
SHARE = 0.01
ADAPTERS = ("mail", "meetings", "notes", "letters")


def root(adapter: str) -> TreeRoot:
    return root_of({"model": "m", "adapter": adapter})


def drawn(seed: int, apart: float = 0.1) -> dict[str, Chunk32]:
    """Return keys and values of two layers that are so far from those that all seeds have in common."""
    common, own = np.random.default_rng(0), np.random.default_rng(seed)
    return {
        f"{layer}.{kv}": (common.normal(size=(2, 60, 8)) + apart * own.normal(size=(2, 60, 8))).astype(np.float32)
        for layer in range(2)
        for kv in "kv"
    }


def values(tree: DeltaTree, node: DeltaNode) -> dict[str, bytes] | None:
    found = tree.load(node.key)
    return {name: one.values.tobytes() for name, one in found.items()} if found else None


def raw(arrays: Arrays) -> dict[str, bytes]:
    return {name: one.tobytes() for name, one in arrays.items()}


def file_of(folder: Path, node: DeltaNode) -> Path:
    return folder / f"{node.key.hex()}.safetensors"


@pytest.fixture
def tree(tmp_path: Path) -> DeltaTree:
    return DeltaTree(tmp_path, SHARE)


@pytest.fixture
def nodes(tree: DeltaTree) -> list[DeltaNode]:
    """Return the nodes of one path under four adapters: an anchor and three differences from it."""
    return [tree.keep(root(name), IDS, drawn(number)) for number, name in enumerate(ADAPTERS)]


def test_the_first_adapter_of_a_path_is_the_anchor_of_the_others(nodes: list[DeltaNode]) -> None:
    assert [node.anchor for node in nodes] == [None, nodes[0].key, nodes[0].key, nodes[0].key]
    assert len({node.path for node in nodes}) == 1
    assert len({node.key for node in nodes}) == 4


def test_an_anchor_is_exact_and_a_difference_is_within_its_bound(tree: DeltaTree, nodes: list[DeltaNode]) -> None:
    assert values(tree, nodes[0]) == raw(drawn(0))
    found, wanted = tree.load(nodes[1].key), drawn(1)
    assert found
    worst = max(np.abs(found[name].values - wanted[name]).max() / wanted[name].std() for name in wanted)
    assert worst == pytest.approx(nodes[1].error)
    assert 0 < worst <= SHARE


def test_another_path_has_an_anchor_of_its_own(tree: DeltaTree, nodes: list[DeltaNode]) -> None:
    other = tree.keep(root("meetings"), (*IDS, 8), drawn(1))
    below = tree.keep(nodes[1].above, IDS, drawn(1))
    assert (other.anchor, below.anchor) == (None, None)


def test_a_difference_that_does_not_pay_is_stored_whole(tmp_path: Path) -> None:
    tree = DeltaTree(tmp_path, 1e-6)
    tree.keep(root("mail"), IDS, drawn(0))
    node = tree.keep(root("meetings"), IDS, drawn(1))
    assert (node.anchor, node.error) == (None, 0.0)
    assert values(tree, node) == raw(drawn(1))


def test_layers_that_both_adapters_share_are_exact_and_almost_free(tree: DeltaTree) -> None:
    tree.keep(root("mail"), IDS, drawn(0))
    shared = drawn(1) | {name: one for name, one in drawn(0).items() if name.startswith("0.")}
    node = tree.keep(root("meetings"), IDS, shared)
    found = values(tree, node)
    assert found
    assert {name: found[name] for name in ("0.k", "0.v")} == {name: shared[name].tobytes() for name in ("0.k", "0.v")}
    assert node.bytes < tree.keep(root("notes"), IDS, drawn(2)).bytes * 0.7


@pytest.mark.parametrize("times", [1, 2, 3])
def test_when_the_anchor_goes_the_others_decode_to_the_same_bits(
    tree: DeltaTree, nodes: list[DeltaNode], times: int
) -> None:
    before = {node.key: values(tree, node) for node in nodes}
    gone = set()
    for _ in range(times):
        anchor = next(
            node
            for node in nodes
            if (found := tree.find(root(ADAPTERS[nodes.index(node)]), IDS)) and found.anchor is None
        )
        tree.evict(anchor.key)
        gone.add(anchor.key)
    assert len(tree) == 4 - times
    assert {node.key: values(tree, node) for node in nodes} == {
        key: None if key in gone else one for key, one in before.items()
    }


def test_evicting_a_difference_frees_its_bytes_and_an_anchor_less_than_its_own(
    tree: DeltaTree, nodes: list[DeltaNode]
) -> None:
    assert tree.evict(nodes[1].key) == nodes[1].bytes
    assert 0 < tree.evict(nodes[0].key) < nodes[0].bytes


@pytest.mark.parametrize("place", [3, 200, 0.5, -1])
def test_a_damaged_difference_costs_a_recompute_of_itself_alone(
    tree: DeltaTree, nodes: list[DeltaNode], tmp_path: Path, place: float
) -> None:
    damage(file_of(tmp_path, nodes[1]), place)
    assert tree.load(nodes[1].key) is None
    assert [tree.load(node.key) is not None for node in (nodes[0], nodes[2], nodes[3])] == [True] * 3
    again = tree.keep(root("meetings"), IDS, drawn(1))
    assert (again.anchor, tree.load(again.key) is not None) == (nodes[0].key, True)


@pytest.mark.parametrize("place", [3, 200, 0.5, -1])
def test_a_damaged_anchor_is_never_decoded_from(
    tree: DeltaTree, nodes: list[DeltaNode], tmp_path: Path, place: float
) -> None:
    damage(file_of(tmp_path, nodes[0]), place)
    assert [tree.load(node.key) for node in reversed(nodes)] == [None] * 4
    assert (len(tree), list(tmp_path.iterdir())) == (0, [])
    again = tree.keep(root("meetings"), IDS, drawn(1))
    assert values(tree, again) == raw(drawn(1))


def test_a_missing_anchor_is_never_decoded_from(tree: DeltaTree, nodes: list[DeltaNode], tmp_path: Path) -> None:
    file_of(tmp_path, nodes[0]).unlink()
    assert tree.load(nodes[2].key) is None


def test_the_anchor_of_other_bits_is_found_out(tree: DeltaTree, nodes: list[DeltaNode], tmp_path: Path) -> None:
    other = DeltaTree(tmp_path, SHARE)
    other.keep(root("mail"), IDS, drawn(9))  # a sound file in place of the anchor's
    assert tree.load(nodes[1].key) is None
    assert tree.find(root("meetings"), IDS) is None


def damage(path: Path, place: float) -> None:
    raw = bytearray(path.read_bytes())
    raw[int(place * len(raw)) if isinstance(place, float) else place] ^= 0x10
    path.write_bytes(raw)
