"""Which KV nodes there are, who is writing or removing them, and who holds on to them: rows of the ledger.

Every method is one or two statements, most of them for a transaction of the caller's. Knows no files.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from store.kv_files import Identity
from store.kv_tree import Key, Node, Root, first_key, pack, unpack
from store.ledger import Ledger

State = Literal["reserved", "whole", "dying"]

_NODE = "key, parent, path, depth, ids, bytes, seconds, created, last_used, uses"
_ENTRY = f"{_NODE}, state, owner, size, mtime_ns, ctime_ns, inode"
_BELOW = """WITH RECURSIVE below (key) AS (
    SELECT value FROM (SELECT ?1 AS value) UNION SELECT n.key FROM kv_nodes n JOIN below b ON n.parent = b.key)
    SELECT key FROM below JOIN kv_nodes USING (key)"""


@dataclass(frozen=True, slots=True)
class Entry:
    """A node with how far its file is: whose it is while unfinished, and its identity when it was last read whole."""

    node: Node
    state: State
    owner: str | None
    verified: Identity | None


class KvIndex:
    """The rows of KV nodes and their pins."""

    def __init__(self, ledger: Ledger) -> None:
        self._rows = ledger.rows

    def find(self, key: Key) -> Entry | None:
        """Give what is known of a node, whatever its state."""
        row = self._rows.execute(f"SELECT {_ENTRY} FROM kv_nodes WHERE key = ?", (key,)).fetchone()
        return _entry(row) if row else None

    def entries(self) -> list[Entry]:
        """Give all nodes, whatever their state."""
        return [_entry(row) for row in self._rows.execute(f"SELECT {_ENTRY} FROM kv_nodes")]

    def sizes(self) -> list[tuple[Key, int, State]]:
        """Give key, bytes and state of all nodes."""
        sql = "SELECT key, bytes, state FROM kv_nodes"
        return [(key, size, state) for key, size, state in self._rows.execute(sql)]

    def beginning_alike(self, parent: Key, ids: Sequence[int], sub_step: int) -> list[Node]:
        """Give the whole children of a node that share at least one sub-step with a segment."""
        sql = f"SELECT {_NODE} FROM kv_nodes WHERE parent = ? AND first = ? AND state = 'whole'"
        return [_node(row) for row in self._rows.execute(sql, (parent, first_key(ids, sub_step)))]

    def below(self, keys: Iterable[Key]) -> set[Key]:
        """Give those of the nodes that there are, and all of their descendants."""
        return {row[0] for key in keys for row in self._rows.execute(_BELOW, (key,))}

    def reserve(self, node: Node, root: Root, sub_step: int, owner: str) -> None:
        """Add a node whose file is about to be written."""
        first = first_key(node.ids, sub_step)
        row = (node.key, root.key, node.parent, node.path, node.depth, pack(node.ids), first, node.bytes, node.seconds)
        sql = """INSERT INTO kv_nodes (key, root, parent, path, depth, ids, first, bytes, seconds, created, last_used,
                 state, owner) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'reserved', ?)"""
        self._rows.execute(sql, (*row, node.created, node.last_used, owner))

    def settle(self, key: Key, owner: str) -> bool:
        """Say that a reserved node's file is there; False where the node was given up meanwhile."""
        sql = "UPDATE kv_nodes SET state = 'whole', owner = NULL WHERE key = ? AND owner = ? AND state = 'reserved'"
        return self._rows.execute(sql, (key, owner)).rowcount == 1

    def verified(self, key: Key, file: Identity) -> None:
        """Remember the file that was found to be whole."""
        sql = "UPDATE kv_nodes SET size = ?, mtime_ns = ?, ctime_ns = ?, inode = ? WHERE key = ?"
        self._rows.execute(sql, (file.size, file.mtime_ns, file.ctime_ns, file.inode, key))

    def doom(self, keys: Iterable[Key], owner: str) -> None:
        """Say that nodes are being removed: by `owner`, or by who is writing them, when done."""
        sql = "UPDATE kv_nodes SET state = 'dying', owner = coalesce(owner, ?) WHERE key = ? AND state != 'dying'"
        self._rows.executemany(sql, [(owner, key) for key in keys])

    def drop(self, keys: Collection[Key]) -> None:
        """Remove the rows of nodes whose files are gone, and who made them: whoever keeps them again is another one."""
        for table in ("kv_nodes", "kv_pins", "idle_made"):
            self._rows.executemany(f"DELETE FROM {table} WHERE key = ?", [(key,) for key in keys])

    def unfinished(self) -> list[tuple[Key, str]]:
        """Give key and owner of the nodes that are being written or removed."""
        sql = "SELECT key, owner FROM kv_nodes WHERE state != 'whole'"
        return [(key, owner) for key, owner in self._rows.execute(sql)]

    def used(self, keys: Iterable[Key], now: float) -> None:
        """Count one use of each node."""
        sql = "UPDATE kv_nodes SET uses = uses + 1, last_used = max(last_used, ?) WHERE key = ?"
        self._rows.executemany(sql, [(now, key) for key in keys])

    def pin(self, keys: Iterable[Key], owner: str, until: float) -> tuple[int, ...]:
        """Hold on to nodes; gives the numbers to let go by."""
        sql = "INSERT INTO kv_pins (key, owner, until) VALUES (?, ?, ?)"
        return tuple(int(self._rows.execute(sql, (key, owner, until)).lastrowid or 0) for key in keys)

    def unpin(self, numbers: Iterable[int]) -> None:
        """Let go."""
        self._rows.executemany("DELETE FROM kv_pins WHERE id = ?", [(number,) for number in numbers])

    def pins(self) -> list[tuple[Key, str, float]]:
        """Give key, owner and end of every pin."""
        return [
            (key, owner, until) for key, owner, until in self._rows.execute("SELECT key, owner, until FROM kv_pins")
        ]

    def unpin_owner(self, owner: str) -> None:
        """Let go of all that this one holds."""
        self._rows.execute("DELETE FROM kv_pins WHERE owner = ?", (owner,))


def _node(row: Sequence[Any]) -> Node:
    key, parent, path, depth, ids, *rest = row
    return Node(key, parent, path, depth, unpack(ids), *rest)


def _entry(row: Sequence[Any]) -> Entry:
    state, owner, *file = row[10:]
    return Entry(_node(row[:10]), state, owner, None if file[0] is None else Identity(*file))
