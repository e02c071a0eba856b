"""The index of the KV cache: nodes, hits, bytes written; and the folder that keeps its rows and files together.

A file is written before its row and removed after it, and one process writes at a time: a file without a row is what
was left of one that died, and is cleaned up.
"""

from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from msgspec.structs import astuple

from store import kv_files
from store.database import HOLDS_TEXT, Ledger, LedgerRows
from store.home import Identity, identity
from store.kv_files import PARTIAL, SUFFIX, BadNode, Key, Node, TreeRoot
from store.locks import Locks

_DAY_S = 86_400
LACKING = "kv.lacking"  # the small value that says that something had no room


@dataclass(frozen=True, slots=True)
class CountTotal:
    """How often, and how much in all."""

    count: int = 0
    tokens: int = 0
    bytes: int = 0
    seconds: float = 0.0


# Of nodes that hold text of a document which is not stored.
NODES_OF_REMOVED = """(document != '' AND EXISTS (SELECT 1 FROM json_each('["' || replace(document, ' ', '","') || '"]')
                 WHERE value NOT IN (SELECT id FROM documents)))"""
_NODE = """key, parent, path, depth, ids, bytes, seconds, created, last_used, uses, coalesce(document, ''),
           size, mtime_ns, ctime_ns, inode"""
_BELOW = """WITH RECURSIVE below (key) AS (
    SELECT value FROM (SELECT ?1 AS value) UNION SELECT n.key FROM kv_nodes n JOIN below b ON n.parent = b.key)
    SELECT key FROM below JOIN kv_nodes USING (key)"""


class KvIndex(LedgerRows):
    """The rows of KV nodes, counters by kind, and the bytes written on each day."""

    def find(self, key: Key) -> Node | None:
        """Return a node; None if it is not stored."""
        row = self._rows.execute(f"SELECT {_NODE} FROM kv_nodes WHERE key = ?", (key,)).fetchone()
        return _node(row) if row else None

    def all_keys(self) -> list[Key]:
        """Return the keys of all nodes."""
        return [key for (key,) in self._rows.execute("SELECT key FROM kv_nodes")]

    def nodes(self, *, with_ids: bool = True) -> list[Node]:
        """Return all nodes, or what eviction chooses by: without their token ids, which take most of the space."""
        columns = _NODE if with_ids else _NODE.replace(" ids,", " NULL,")
        return [_node(row) for row in self._rows.execute(f"SELECT {columns} FROM kv_nodes")]

    def best_partial(self, parent: Key, ids: Sequence[int], sub_step: int) -> tuple[Node, int] | None:
        """Return the child that shares most tokens with a segment, and how many, if any shares a sub-step."""
        sql = f"SELECT {_NODE} FROM kv_nodes WHERE parent = ? AND first = ?"
        alike = map(_node, self._rows.execute(sql, (parent, kv_files.first_key(ids, sub_step))))
        found = [(node, count) for node in alike if (count := kv_files.shared(node.ids, ids, sub_step))]
        return max(found, key=lambda one: (one[1], one[0].last_used, one[0].key), default=None)

    def below(self, keys: Iterable[Key]) -> set[Key]:
        """Return those of the nodes that are stored, and all of their descendants."""
        return {row[0] for key in keys for row in self._rows.execute(_BELOW, (key,))}

    def add(self, node: Node, sub_step: int, root: Key) -> bool:
        """Add a node; False where its parent was removed, or a document was forgotten meanwhile."""
        assert node.verified, "its file was not written"
        ids = (kv_files.pack(node.ids), kv_files.first_key(node.ids, sub_step))
        about = (node.bytes, node.seconds, node.created, node.last_used, node.document, *astuple(node.verified))
        sql = f"""INSERT INTO kv_nodes (key, parent, path, depth, ids, first, bytes, seconds, created, last_used,
                 document, size, mtime_ns, ctime_ns, inode) SELECT {", ".join("?" * 15)}
                 WHERE ? IN (SELECT ? UNION SELECT key FROM kv_nodes WHERE key = ?)"""
        row = (node.key, node.parent, node.path, node.depth, *ids, *about, node.parent, root, node.parent)
        return self._rows.execute(sql, row).rowcount == 1

    def set_verified(self, key: Key, file: Identity) -> None:
        """Store the identity of a file that was verified."""
        sql = "UPDATE kv_nodes SET size = ?, mtime_ns = ?, ctime_ns = ?, inode = ? WHERE key = ?"
        self._rows.execute(sql, (*astuple(file), key))

    def drop(self, keys: Collection[Key]) -> None:
        """Remove the rows of nodes, with the jobs that made them; inside a transaction of the caller's."""
        for table in ("kv_nodes", "job_outputs"):
            self._rows.executemany(f"DELETE FROM {table} WHERE key = ?", [(key,) for key in keys])

    def unused(self, *kinds: str) -> list[Node]:
        """Return the leaves that these kinds of idle jobs made and nothing used, oldest first."""
        made = f"SELECT key FROM job_outputs WHERE kind IN ({', '.join('?' * len(kinds))})"
        sql = f"""SELECT {_NODE} FROM kv_nodes WHERE key IN ({made}) AND uses = 0 AND {HOLDS_TEXT}
                  AND key NOT IN (SELECT parent FROM kv_nodes) ORDER BY created, rowid"""
        return [_node(row) for row in self._rows.execute(sql, kinds)]

    def totals(self) -> CountTotal:
        """Count the nodes, their tokens (four bytes each in a row), bytes, and seconds of computing."""
        sums = ", ".join(f"coalesce(sum({what}), 0)" for what in ("length(ids) / 4", "bytes", "seconds"))
        return CountTotal(*self._rows.execute(f"SELECT count(*), {sums} FROM kv_nodes").fetchone())

    def record_use(self, keys: Iterable[Key], now: float) -> None:
        """Count one use of each node."""
        sql = "UPDATE kv_nodes SET uses = uses + 1, last_used = max(last_used, ?) WHERE key = ?"
        self._rows.executemany(sql, [(now, key) for key in keys])

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
    key, parent, path, depth, ids, *about = row
    about[-4:] = [Identity(*about[-4:])]
    return Node(key, parent, path, depth, kv_files.unpack(ids or b""), *about)


@dataclass(frozen=True, slots=True)
class Match:
    """The cached prefix of a prompt; a node that is evicted before it is loaded is a miss."""

    found: tuple[Node, ...]
    shared: int | None = None  # tokens of the last node found, whole sub-steps, if not all of it

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Return the nodes that match as a whole."""
        return self.found if self.shared is None else self.found[:-1]

    @property
    def lengths(self) -> tuple[int, ...]:
        """Return the matched tokens of each node."""
        return (*(len(node.ids) for node in self.nodes), *([] if self.shared is None else [self.shared]))

    @property
    def tokens(self) -> int:
        """Return the number of tokens that need not be computed."""
        return sum(self.lengths)


def path_keys(root: TreeRoot, segments: Sequence[Sequence[int]]) -> list[Key]:
    """Return the key of every prefix of a prompt, the root's first."""
    return list(accumulate(segments, kv_files.child_key, initial=root.key))


_STRAYS = (SUFFIX, PARTIAL, ".owner")  # the last of homes of earlier versions
PATIENT_S = 5.0  # to wait for a process that writes a node


class KvFolder:
    """The node files of one folder."""

    def __init__(self, ledger: Ledger, folder: Path) -> None:
        self.ledger, self.folder, self.index = ledger, folder, KvIndex(ledger)

    def path_of(self, key: Key) -> Path:
        """Return the path of a node's file."""
        return self.folder / (key.hex() + SUFFIX)

    def alone(self, timeout_s: float = 0.0) -> AbstractContextManager[bool]:
        """Be the only process that writes files; yields False where another one does for so long."""
        return Locks(self.folder).sole("kv", timeout_s)

    def check(self, node: Node, *, read_data: bool = False) -> bool:
        """Return whether a node's file is intact, and remove the node if not."""
        if not (intact := self.is_intact(node, read_data=read_data)):
            self.remove_damaged(node)
        return intact

    def is_intact(self, node: Node, *, read_data: bool) -> bool:
        """Return whether a node's file is intact; one `stat` tells that of a file unchanged since it was verified."""
        known, path = self.index.find(node.key), self.path_of(node.key)
        found = identity(path)
        if known is None or found is None:
            return False
        if found == known.verified and not read_data:
            return True
        try:
            header = kv_files.verify(path)
        except (BadNode, OSError):
            return False
        if (header.key, header.parent, header.path, header.ids) != (node.key, node.parent, node.path, node.ids):
            return False
        if found == identity(path) != known.verified:
            self.index.set_verified(node.key, found)
        return True

    def remove_damaged(self, node: Node) -> None:
        """Remove a node whose file cannot be used, and its descendants."""
        known = self.index.find(node.key)
        if known and known.created == node.created:  # else it was stored again under the same key
            self.remove([node.key])

    def remove(self, keys: Collection[Key]) -> int:
        """Remove nodes and their descendants; returns their number. A file that cannot be removed still counts."""
        with self.ledger.transaction():
            found = self.index.below(keys)
            self.index.drop(found)
        for key in found:
            unlink(self.path_of(key))
        return len(found)

    def remove_unlinked(self) -> int:
        """Remove the nodes of documents that are not stored, or not known, with all below; return their number."""
        sql = f"SELECT key FROM kv_nodes WHERE (document IS NULL AND depth > 1) OR {NODES_OF_REMOVED}"
        keys = [key for (key,) in self.ledger.rows.execute(sql)]
        return self.remove(keys) if keys else 0

    def collect(self, timeout_s: float = 0.0) -> None:
        """Clean up: files without a row, if nobody writes one or ends that in time, and rows without a file."""
        if self._strays():
            with self.alone(timeout_s) as is_alone:
                for path in self._strays() if is_alone else ():
                    unlink(path)
        self.remove([key for key in self.index.all_keys() if not self.path_of(key).exists()])

    def orphans(self) -> list[Path]:
        """Return the files without a row; if there are any, waits for a process that may be writing one."""
        if found := self._strays():
            with self.alone(PATIENT_S):
                found = self._strays()
        return found

    def _strays(self) -> list[Path]:
        expected = {self.path_of(key) for key in self.index.all_keys()}
        return [path for path in self.folder.glob("*") if path.suffix in _STRAYS and path not in expected]


def unlink(path: Path) -> None:
    """Remove a file, or an empty folder in its place, if that is possible."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()
