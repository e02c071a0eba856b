"""The index of the KV cache: nodes with their state and pins, hits, bytes written; rows of the ledger.

Every method of the index is one or two statements, most of them inside a transaction of the caller's. `KvFolder` keeps
rows and files together: verified, removed with their descendants, and cleaned up after a crash.
"""

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any, Literal, Self

from store.database import HOLDS_TEXT, Ledger
from store.home import Identity, identity
from store.kv_files import (
    PARTIAL,
    SUFFIX,
    BadNode,
    Key,
    Node,
    TreeRoot,
    child_key,
    first_key,
    pack,
    shared,
    unpack,
    verify,
)
from store.locks import Lease

_DAY_S = 86_400
LACKING = "kv.lacking"  # the small value that says that something had no room


@dataclass(frozen=True, slots=True)
class CountTotal:
    """How often, and how much in all."""

    count: int = 0
    tokens: int = 0
    bytes: int = 0
    seconds: float = 0.0


State = Literal["reserved", "complete", "deleting"]

# Of nodes that hold text of a document which is not stored.
NODES_OF_REMOVED = """(document != '' AND EXISTS (SELECT 1 FROM json_each('["' || replace(document, ' ', '","') || '"]')
                 WHERE value NOT IN (SELECT id FROM documents)))"""
_NODE = "key, parent, path, depth, ids, bytes, seconds, created, last_used, uses, coalesce(document, '')"
_ENTRY = f"{_NODE}, state, owner, size, mtime_ns, ctime_ns, inode"
_BELOW = """WITH RECURSIVE below (key) AS (
    SELECT value FROM (SELECT ?1 AS value) UNION SELECT n.key FROM kv_nodes n JOIN below b ON n.parent = b.key)
    SELECT key FROM below JOIN kv_nodes USING (key)"""


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node with the state of its file: the owner while unfinished, and the identity when it was last verified."""

    node: Node
    state: State
    owner: str | None
    verified: Identity | None


class KvIndex:
    """The rows of KV nodes and their pins, counters by kind, and the bytes written on each day."""

    def __init__(self, ledger: Ledger) -> None:
        self._rows = ledger.rows

    def find(self, key: Key) -> NodeRow | None:
        """Return the row of a node, whatever its state."""
        row = self._rows.execute(f"SELECT {_ENTRY} FROM kv_nodes WHERE key = ?", (key,)).fetchone()
        return _entry(row) if row else None

    def uses(self, key: Key) -> int | None:
        """Return how often a node was used; None if it is not stored."""
        entry = self.find(key)
        return entry.node.uses if entry and entry.state == "complete" else None

    def entries(self) -> list[NodeRow]:
        """Return all nodes, whatever their state."""
        return [_entry(row) for row in self._rows.execute(f"SELECT {_ENTRY} FROM kv_nodes")]

    def scored(self) -> list[tuple[Node, State]]:
        """Return all nodes with their states, without token ids: what eviction chooses by."""
        sql = f"SELECT {_NODE.replace(', ids,', ', NULL,')}, state FROM kv_nodes"
        rows = self._rows.execute(sql)
        return [(Node(key, above, path, depth, (), *rest), state) for key, above, path, depth, _, *rest, state in rows]

    def sizes(self) -> list[tuple[Key, int, State]]:
        """Return key, bytes and state of all nodes."""
        return self._rows.execute("SELECT key, bytes, state FROM kv_nodes").fetchall()

    def sharing_prefix(self, parent: Key, ids: Sequence[int], sub_step: int) -> list[Node]:
        """Return the complete children of a node that share at least one sub-step with a segment."""
        sql = f"SELECT {_NODE} FROM kv_nodes WHERE parent = ? AND first = ? AND state = 'complete'"
        return [_node(row) for row in self._rows.execute(sql, (parent, first_key(ids, sub_step)))]

    def below(self, keys: Iterable[Key]) -> set[Key]:
        """Return those of the nodes that are stored, and all of their descendants."""
        return {row[0] for key in keys for row in self._rows.execute(_BELOW, (key,))}

    def reserve(self, node: Node, sub_step: int, owner: str) -> None:
        """Add a node whose file is about to be written."""
        first = first_key(node.ids, sub_step)
        row = (node.key, node.parent, node.path, node.depth, pack(node.ids), first, node.bytes, node.seconds)
        sql = """INSERT INTO kv_nodes (key, parent, path, depth, ids, first, bytes, seconds, created, last_used,
                 state, owner, document) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'reserved', ?, ?)"""
        self._rows.execute(sql, (*row, node.created, node.last_used, owner, node.document))

    def complete(self, key: Key, owner: str) -> bool:
        """Mark a reserved node's file as written; False where the node was removed meanwhile."""
        sql = "UPDATE kv_nodes SET state = 'complete', owner = NULL WHERE key = ? AND owner = ? AND state = 'reserved'"
        return self._rows.execute(sql, (key, owner)).rowcount == 1

    def set_verified(self, key: Key, file: Identity) -> None:
        """Store the identity of a file that was verified."""
        sql = "UPDATE kv_nodes SET size = ?, mtime_ns = ?, ctime_ns = ?, inode = ? WHERE key = ?"
        self._rows.execute(sql, (file.size, file.mtime_ns, file.ctime_ns, file.inode, key))

    def mark_deleting(self, keys: Iterable[Key], owner: str) -> None:
        """Mark nodes for removal by `owner`, or by the process that is writing them, when done."""
        sql = "UPDATE kv_nodes SET state = 'deleting', owner = coalesce(owner, ?) WHERE key = ? AND state != 'deleting'"
        self._rows.executemany(sql, [(owner, key) for key in keys])

    def drop(self, keys: Collection[Key]) -> None:
        """Remove the rows of nodes whose files were removed, with their pins and the jobs that made them."""
        for table in ("kv_nodes", "kv_pins", "job_outputs"):
            self._rows.executemany(f"DELETE FROM {table} WHERE key = ?", [(key,) for key in keys])

    def unused(self, *kinds: str) -> list[Node]:
        """Return the leaves that these kinds of idle jobs made and nothing used, oldest first."""
        made = f"SELECT key FROM job_outputs WHERE kind IN ({', '.join('?' * len(kinds))})"
        sql = f"""SELECT {_NODE} FROM kv_nodes WHERE key IN ({made}) AND uses = 0 AND state = 'complete'
                  AND {HOLDS_TEXT} AND key NOT IN (SELECT parent FROM kv_nodes) ORDER BY created, rowid"""
        return [_node(row) for row in self._rows.execute(sql, kinds)]

    def totals(self) -> CountTotal:
        """Count the complete nodes, their tokens (four bytes each in a row), bytes, and seconds of computing."""
        sums = ", ".join(f"coalesce(sum({what}), 0)" for what in ("length(ids) / 4", "bytes", "seconds"))
        sql = f"SELECT count(*), {sums} FROM kv_nodes WHERE state = 'complete'"
        return CountTotal(*self._rows.execute(sql).fetchone())

    def unfinished(self) -> list[tuple[Key, str]]:
        """Return key and owner of the nodes that are being written or removed."""
        return self._rows.execute("SELECT key, owner FROM kv_nodes WHERE state != 'complete'").fetchall()

    def record_use(self, keys: Iterable[Key], now: float) -> None:
        """Count one use of each node."""
        sql = "UPDATE kv_nodes SET uses = uses + 1, last_used = max(last_used, ?) WHERE key = ?"
        self._rows.executemany(sql, [(now, key) for key in keys])

    def pin(self, keys: Iterable[Key], owner: str, until: float) -> tuple[int, ...]:
        """Pin nodes against eviction; returns the numbers to unpin by."""
        sql = "INSERT INTO kv_pins (key, owner, until) VALUES (?, ?, ?)"
        return tuple(int(self._rows.execute(sql, (key, owner, until)).lastrowid or 0) for key in keys)

    def unpin(self, numbers: Iterable[int]) -> None:
        """Remove pins."""
        self._rows.executemany("DELETE FROM kv_pins WHERE id = ?", [(number,) for number in numbers])

    def pins(self) -> list[tuple[Key, str, float]]:
        """Return key, owner and end of every pin."""
        return self._rows.execute("SELECT key, owner, until FROM kv_pins").fetchall()

    def count(self, kind: str, *, tokens: int = 0, size: int = 0, seconds: float = 0.0) -> None:
        """Count one event."""
        sql = """INSERT INTO kv_counts VALUES (?, 'all', 1, ?, ?, ?) ON CONFLICT DO UPDATE SET
                 count = count + 1, tokens = tokens + excluded.tokens, bytes = bytes + excluded.bytes,
                 seconds = seconds + excluded.seconds"""
        self._rows.execute(sql, (kind, tokens, size, seconds))

    def counted(self, kind: str) -> CountTotal:
        """Return the counters of a kind."""
        sums = ", ".join(f"coalesce(sum({what}), 0)" for what in ("count", "tokens", "bytes", "seconds"))
        return CountTotal(*self._rows.execute(f"SELECT {sums} FROM kv_counts WHERE kind = ?", (kind,)).fetchone())

    def written(self, now: float | None = None) -> int:
        """Return the bytes written since midnight, UTC, or ever."""
        sql = "SELECT coalesce(sum(bytes), 0) FROM kv_written WHERE day = coalesce(?, day)"
        return int(self._rows.execute(sql, (None if now is None else now // _DAY_S,)).fetchone()[0])

    def write(self, size: int, now: float) -> None:
        """Count bytes that are about to be written."""
        sql = "INSERT INTO kv_written VALUES (?, ?) ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes"
        self._rows.execute(sql, (now // _DAY_S, size))


def _node(row: Sequence[Any]) -> Node:
    key, parent, path, depth, ids, *rest = row
    return Node(key, parent, path, depth, unpack(ids), *rest)


def _entry(row: Sequence[Any]) -> NodeRow:
    state, owner, *file = row[11:]
    return NodeRow(_node(row[:11]), state, owner, None if file[0] is None else Identity(*file))


@dataclass(frozen=True, slots=True)
class Partial:
    """A node whose first tokens are those of the next segment: that many, whole sub-steps."""

    node: Node
    tokens: int


@dataclass(frozen=True, slots=True)
class Match:
    """The cached prefix of a prompt, pinned until it is released."""

    nodes: tuple[Node, ...]
    partial: Partial | None
    release: Callable[[], None] = lambda: None

    @property
    def lengths(self) -> tuple[int, ...]:
        """Return the matched tokens of each node."""
        return (*(len(node.ids) for node in self.nodes), *([self.partial.tokens] if self.partial else ()))

    @property
    def shared(self) -> int | None:
        """Return the matched tokens of the last node if they are a part of it, else None."""
        return self.partial.tokens if self.partial else None

    @property
    def tokens(self) -> int:
        """Return the number of tokens that need not be computed."""
        return sum(self.lengths)

    @property
    def found(self) -> list[Node]:
        """Return all nodes of the match."""
        return [*self.nodes, self.partial.node] if self.partial else list(self.nodes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def path_keys(root: TreeRoot, segments: Sequence[Sequence[int]]) -> list[Key]:
    """Return the key of every prefix of a prompt, the root's first."""
    keys = [root.key]
    for ids in segments:
        keys.append(child_key(keys[-1], ids))
    return keys


def best_partial(index: KvIndex, parent: Key, ids: Sequence[int], sub_step: int) -> Partial | None:
    """Return the child that shares most tokens with a segment, if any shares a sub-step."""
    candidates = [
        Partial(node, shared(node.ids, ids, sub_step)) for node in index.sharing_prefix(parent, ids, sub_step)
    ]
    return max(candidates, key=lambda one: (one.tokens, one.node.last_used, one.node.key), default=None)


_SUFFIX = ".owner"


class ProcessOwner:
    """A process as the owner of unfinished writes and of pins, by a lock file that shows whether it is alive."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._name, self._lease = folder, "", Lease(folder)

    @property
    def name(self) -> str:
        """Return the name (process id and token), locked from now on; a new one where its file was removed."""
        while not self._lease.held or self._lease.lost:  # as `remove_dead_owners` may before it is locked
            self.close()
            self._name = f"{os.getpid()}-{token_hex(8)}"
            self._lease = Lease(_path(self._folder, self._name))
            self._lease.acquire()
        return self._name

    def close(self) -> None:
        """Release the name; other processes finish what this one left."""
        if self._lease.held:
            _path(self._folder, self._name).unlink(missing_ok=True)
            self._lease.release()


def is_alive(folder: Path, name: str) -> bool:
    """Return whether the process of a name still runs."""
    return Lease(_path(folder, name)).is_taken()


def remove_dead_owners(folder: Path) -> None:
    """Remove the lock files of processes that have ended."""
    for path in folder.glob(f"*{_SUFFIX}"):
        if (lease := Lease(path)).acquire():
            path.unlink(missing_ok=True)
            lease.release()


def _path(folder: Path, name: str) -> Path:
    return folder / (name + _SUFFIX)


class KvFolder:
    """The node files of one folder."""

    def __init__(self, ledger: Ledger, folder: Path) -> None:
        self.ledger, self.folder = ledger, folder
        self.index, self.owner = KvIndex(ledger), ProcessOwner(folder)
        self.writing: Key | None = None  # reserved by its owner and not complete yet

    def path_of(self, key: Key) -> Path:
        """Return the path of a node's file."""
        return self.folder / (key.hex() + SUFFIX)

    def check(self, node: Node, *, read_data: bool = False) -> bool:
        """Return whether a node's file is intact, and remove the node if not.

        A file that has not changed since it was last verified costs one `stat`.
        """
        if not (intact := self.is_intact(node, read_data=read_data)):
            self.remove_damaged(node)
        return intact

    def is_intact(self, node: Node, *, read_data: bool) -> bool:
        """Return whether a node's file is intact."""
        entry, path = self.index.find(node.key), self.path_of(node.key)
        found = identity(path)
        if entry is None or entry.state != "complete" or found is None:
            return False
        if found == entry.verified and not read_data:
            return True
        try:
            header = verify(path)
        except (BadNode, OSError):
            return False
        if (header.key, header.parent, header.path, header.ids) != (node.key, node.parent, node.path, node.ids):
            return False
        if found == identity(path) != entry.verified:
            self.index.set_verified(node.key, found)
        return True

    def remove_damaged(self, node: Node) -> None:
        """Remove a node whose file cannot be used, and its descendants."""
        entry = self.index.find(node.key)
        if entry and entry.node.created == node.created:  # else it was stored again under the same key
            self.remove([node.key])

    def remove(self, keys: Collection[Key]) -> int:
        """Remove nodes and their descendants; returns their number. Those being written are removed when finished."""
        with self.ledger.transaction():
            found = [entry for key in self.index.below(keys) if (entry := self.index.find(key))]
            if found:
                self.index.mark_deleting([entry.node.key for entry in found], self.owner.name)
        self.remove_files(entry.node.key for entry in found if entry.state == "complete")
        with self.ledger.transaction():
            self.finish_removals()
        return len(found)

    def remove_unlinked(self) -> int:
        """Remove the nodes of documents that are not stored, or not known, with all below; return their number."""
        sql = f"""SELECT key FROM kv_nodes WHERE state != 'deleting' AND (
                  (document IS NULL AND depth > 1) OR {NODES_OF_REMOVED})"""
        keys = [key for (key,) in self.ledger.rows.execute(sql)]
        return self.remove(keys) if keys else 0

    def remove_files(self, keys: Iterable[Key]) -> None:
        """Remove files; one that cannot be removed stays, and still counts towards the budget."""
        for key in keys:
            for suffix in (SUFFIX, PARTIAL):
                _unlink(self.path_of(key).with_suffix(suffix))

    def finish_removals(self) -> None:
        """Inside a transaction, remove the nodes that this process or a dead one left unfinished."""
        left = [
            key
            for key, owner in self.index.unfinished()
            if (key != self.writing if owner == self.owner.name else not is_alive(self.folder, owner))
        ]
        self.remove_files(left)
        self.index.drop(left)

    def collect(self) -> None:
        """Clean up: unfinished nodes of dead processes, files without a row, rows without a file."""
        with self.ledger.transaction():
            remove_dead_owners(self.folder)
            for owner in {owner for _, owner, _ in self.index.pins()}:
                if not is_alive(self.folder, owner):
                    self.ledger.rows.execute("DELETE FROM kv_pins WHERE owner = ?", (owner,))
            for path in self.orphans():
                _unlink(path)
            sizes = self.index.sizes()
        gone = [key for key, _, state in sizes if state == "complete" and not self.path_of(key).exists()]
        self.remove(gone)

    def orphans(self) -> list[Path]:
        """Return the files without a row; inside a transaction, so that no node is reserved meanwhile."""
        sizes = self.index.sizes()
        expected = {self.path_of(key) for key, _, _ in sizes}
        expected |= {self.path_of(key).with_suffix(PARTIAL) for key, _, state in sizes if state != "complete"}
        return [path for path in self.folder.glob("*") if path.suffix in (SUFFIX, PARTIAL) and path not in expected]


def _unlink(path: Path) -> None:
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()
