"""A tree of KV nodes of several adapters on disk: of each token path one node is whole, the others are differences.

A node's key covers its adapter, its path does not: nodes of one path are the same tokens under other adapters. The
first of them is the anchor of the others. Knows arrays by name: no models and no prompts.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from store.kv_files import BadNode, Header, Key, Tensor, TreeRoot, child_key, verify, write
from tests.bench.delta.codec import Gridded, on_grid, pack, unpack
from tests.bench.sparkv.bitstream import BadBitstream, Chunk32

Arrays = Mapping[str, Chunk32]  # by layer, and "k" or "v"
PAYS = 0.5  # a difference is stored where it takes at most this share of the whole
_ANCHOR = "anchor"  # the entry of a file that names its anchor; whole nodes have none


@dataclass(frozen=True, slots=True)
class DeltaNode:
    """A stored node: `anchor` is None where it is whole; `error` is its largest, as a share of a layer's spread."""

    key: Key
    path: Key
    parent: Key
    ids: tuple[int, ...]
    bytes: int
    anchor: Key | None = None
    error: float = 0.0

    @property
    def above(self) -> TreeRoot:
        """Return key and path that a node below it hangs from."""
        return TreeRoot(self.key, self.path)


class DeltaTree:
    """Nodes as files of a folder, indexed in memory; for one thread.

    Errors are at most `share` of the standard deviation of a layer's keys or values.
    """

    def __init__(self, folder: Path, share: float, pays: float = PAYS) -> None:
        self._folder, self._share, self._pays = folder, share, pays
        self._nodes: dict[Key, DeltaNode] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def bytes(self) -> int:
        """Return the bytes of all files."""
        return sum(node.bytes for node in self._nodes.values())

    def find(self, above: TreeRoot, ids: Sequence[int]) -> DeltaNode | None:
        """Return the node of a segment after a prefix under an adapter, if it is stored."""
        return self._nodes.get(child_key(above.key, ids))

    def keep(self, above: TreeRoot, ids: Sequence[int], arrays: Arrays) -> DeltaNode:
        """Store a segment: as a difference where its path has an anchor and that pays, otherwise whole."""
        path = child_key(above.path, ids)
        node = DeltaNode(child_key(above.key, ids), path, above.key, tuple(ids), 0)
        anchor = self._anchor(path)
        base = self.load(anchor.key) if anchor else None
        if anchor and base:
            found = {name: _rounded(array, base[name].values, self._share) for name, array in arrays.items()}
            error = max(_error(found[name].values, array) for name, array in arrays.items())
            made = self._write_delta(replace(node, error=error), found, anchor.key, base)
            if made.bytes <= self._pays * sum(array.nbytes for array in arrays.values()):
                return self._add(made)
        return self._add(self._write_whole(node, {name: Gridded(array) for name, array in arrays.items()}))

    def load(self, key: Key) -> dict[str, Gridded] | None:
        """Return a node's tensors; None where it is not stored, or damaged, and must be computed again.

        A damaged anchor takes its differences with it.
        """
        node = self._nodes.get(key)
        if node is None:
            return None
        base = self.load(node.anchor) if node.anchor else {}
        if base is None or key not in self._nodes:  # the anchor was damaged and took this node with it
            return None
        try:
            return self._read(node, base)
        except (BadNode, BadBitstream, OSError):
            self._remove_with_dependents(node)
            return None

    def evict(self, key: Key) -> int:
        """Remove a node; one of the differences from it, the longest, becomes their anchor. Returns the bytes freed."""
        node, before = self._nodes[key], self.bytes
        dependents = sorted(self._dependents(key), key=lambda one: one.bytes, reverse=True)
        loaded = [(one, found) for one in dependents if (found := self.load(one.key))]
        if key in self._nodes:
            self._remove(node)
        if loaded:
            anchor, base = loaded[0]
            self._add(self._write_whole(replace(anchor, anchor=None), base))
            for one, found in loaded[1:]:
                self._add(self._write_delta(one, found, anchor.key, base))
        return before - self.bytes

    def _anchor(self, path: Key) -> DeltaNode | None:
        return next((node for node in self._nodes.values() if node.path == path and node.anchor is None), None)

    def _dependents(self, key: Key) -> list[DeltaNode]:
        return [node for node in self._nodes.values() if node.anchor == key]

    def _write_whole(self, node: DeltaNode, arrays: Mapping[str, Gridded]) -> DeltaNode:
        tensors = list[Tensor]()
        for name, one in arrays.items():
            tensors += [Tensor(name, "F32", one.shape, _bytes(one.values)), _step(name, one.step)]
        return self._written(replace(node, anchor=None), tensors)

    def _write_delta(
        self, node: DeltaNode, arrays: Mapping[str, Gridded], anchor: Key, base: Mapping[str, Gridded]
    ) -> DeltaNode:
        streams = {name: pack(one, base[name].values) for name, one in arrays.items()} | {_ANCHOR: anchor}
        tensors = [Tensor(name, "U8", (len(stream),), stream) for name, stream in streams.items()]
        return self._written(replace(node, anchor=anchor), tensors)

    def _written(self, node: DeltaNode, tensors: Sequence[Tensor]) -> DeltaNode:
        path = self._path(node.key)
        write(path, Header(node.parent, node.key, node.parent, node.path, node.ids), tensors)
        return replace(node, bytes=path.stat().st_size)

    def _read(self, node: DeltaNode, base: Mapping[str, Gridded]) -> dict[str, Gridded]:
        path = self._path(node.key)
        header = verify(path)
        if (header.key, header.ids) != (node.key, node.ids):
            raise BadNode("mismatch")
        raw = path.read_bytes()[-header.payload_bytes :]
        parts = {one.name: (raw[one.begin : one.end], one.shape) for one in header.payloads}
        if node.anchor is None:
            return dict(_whole(parts))
        if parts.pop(_ANCHOR)[0] != node.anchor:
            raise BadNode("mismatch")
        return {name: unpack(stream, base[name].values) for name, (stream, _) in parts.items()}

    def _add(self, node: DeltaNode) -> DeltaNode:
        self._nodes[node.key] = node
        return node

    def _remove(self, node: DeltaNode) -> None:
        del self._nodes[node.key]
        self._path(node.key).unlink(missing_ok=True)

    def _remove_with_dependents(self, node: DeltaNode) -> None:
        for one in [*self._dependents(node.key), node]:
            self._remove(one)

    def _path(self, key: Key) -> Path:
        return self._folder / f"{key.hex()}.safetensors"


def _rounded(values: Chunk32, anchor: Chunk32, share: float) -> Gridded:
    """Return a tensor on its grid; exact where it equals the anchor's, which then costs nothing."""
    is_equal = values.tobytes() == anchor.tobytes()
    return Gridded(values) if is_equal else on_grid(values, share * float(values.std()))


def _error(found: Chunk32, wanted: Chunk32) -> float:
    spread = float(wanted.std())
    return float(np.abs(found - wanted).max()) / spread if spread else 0.0


def _bytes(values: Chunk32) -> bytes:
    return np.ascontiguousarray(values, "<f4").tobytes()


def _step(name: str, step: float) -> Tensor:
    return Tensor(f"{name}.step", "U8", (8,), np.float64(step).tobytes())


def _whole(parts: Mapping[str, tuple[bytes, tuple[int, ...]]]) -> Iterator[tuple[str, Gridded]]:
    for name, (raw, shape) in parts.items():
        if not name.endswith(".step"):
            values = np.frombuffer(raw, "<f4").reshape(shape).astype(np.float32)
            yield name, Gridded(values, float(np.frombuffer(parts[f"{name}.step"][0], "<f8")[0]))
