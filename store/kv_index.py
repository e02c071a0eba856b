"""Which KV nodes there are, who is writing or removing them, and who holds on to them: rows of the ledger.

Every method is one or two statements, most of them for a transaction of the caller's. Knows no files.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import takewhile
from typing import Any, Literal, Self

from store.database import Ledger
from store.kv_files import Identity
from store.kv_tree import Key, Node, TreeRoot, child_key, first_key, pack, shared, unpack

GHOSTS = 20_000  # kept at most, about 3 MB of ledger
_DAY_S = 86_400
_EPOCH = date(1970, 1, 1)
_DAYS = 60  # that bytes written are remembered for


@dataclass(frozen=True, slots=True)
class CountTotal:
    """How often, and how much in all."""

    count: int = 0
    tokens: int = 0
    bytes: int = 0
    seconds: float = 0.0


class KvCounts:
    """Counters by kind and name, bytes written by day, and ghosts."""

    def __init__(self, ledger: Ledger) -> None:
        self._rows = ledger.rows

    def add(self, kind: str, name: str, *, tokens: int = 0, size: int = 0, seconds: float = 0.0) -> None:
        """Count one event."""
        sql = """INSERT INTO kv_counts VALUES (?, ?, 1, ?, ?, ?) ON CONFLICT DO UPDATE SET
                 count = count + 1, tokens = tokens + excluded.tokens, bytes = bytes + excluded.bytes,
                 seconds = seconds + excluded.seconds"""
        self._rows.execute(sql, (kind, name, tokens, size, seconds))

    def of(self, kind: str) -> dict[str, CountTotal]:
        """Return the counters of a kind, by name."""
        sql = "SELECT name, count, tokens, bytes, seconds FROM kv_counts WHERE kind = ?"
        return {name: CountTotal(*numbers) for name, *numbers in self._rows.execute(sql, (kind,))}

    def total(self, kind: str) -> CountTotal:
        """Return the counters of a kind, added up."""
        sums = ", ".join(f"coalesce(sum({what}), 0)" for what in ("count", "tokens", "bytes", "seconds"))
        return CountTotal(*self._rows.execute(f"SELECT {sums} FROM kv_counts WHERE kind = ?", (kind,)).fetchone())

    def written(self, now: float) -> int:
        """Return the bytes written since midnight, UTC."""
        row = self._rows.execute("SELECT bytes FROM kv_written WHERE day = ?", (_day(now),)).fetchone()
        return int(row[0]) if row else 0

    def written_by_day(self) -> dict[date, int]:
        """Return the bytes written on each day, UTC, that any were written on, oldest first."""
        rows = self._rows.execute("SELECT day, bytes FROM kv_written ORDER BY day")
        return {_EPOCH + timedelta(day): size for day, size in rows}

    def write(self, size: int, now: float) -> None:
        """Count bytes that are about to be written."""
        sql = "INSERT INTO kv_written VALUES (?, ?) ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes"
        self._rows.execute(sql, (_day(now), size))
        self._rows.execute("DELETE FROM kv_written WHERE day < ?", (_day(now) - _DAYS,))

    def removed(self, nodes: Iterable[Node], reason: str) -> None:
        """Count nodes that go."""
        for node in nodes:
            self.add("removed", reason, tokens=len(node.ids), size=node.bytes, seconds=node.seconds)

    def record_eviction(self, nodes: Iterable[Node], now: float) -> None:
        """Remember nodes that go for lack of room, the latest ones of them all."""
        rows = [(node.key, len(node.ids), node.bytes, node.seconds, node.uses, now) for node in nodes]
        self._rows.executemany("INSERT OR REPLACE INTO kv_ghosts VALUES (?, ?, ?, ?, ?, ?, 0)", rows)
        sql = "DELETE FROM kv_ghosts WHERE key IN (SELECT key FROM kv_ghosts ORDER BY evicted DESC LIMIT -1 OFFSET ?)"
        self._rows.execute(sql, (GHOSTS,))

    def missed(self, keys: Iterable[Key]) -> None:
        """Count the ghosts at the head of a path that was asked for."""
        sql = "SELECT tokens, bytes, seconds FROM kv_ghosts WHERE key = ?"
        for key in keys:
            row = self._rows.execute(sql, (key,)).fetchone()
            if row is None:
                return
            tokens, size, seconds = row
            self.add("ghost", "missed", tokens=tokens, size=size, seconds=seconds)

    def forget_eviction(self, key: Key) -> None:
        """Forget the ghost of a node that is back."""
        self._rows.execute("DELETE FROM kv_ghosts WHERE key = ?", (key,))

    def forget_ghosts(self) -> None:
        """Forget all ghosts."""
        self._rows.execute("DELETE FROM kv_ghosts")

    def ghosts(self) -> int:
        """Return the number of ghosts."""
        return int(self._rows.execute("SELECT count(*) FROM kv_ghosts").fetchone()[0])


def _day(now: float) -> int:
    return int(now // _DAY_S)


State = Literal["reserved", "whole", "dying"]

_NODE = "key, parent, path, depth, ids, bytes, seconds, created, last_used, uses"
_ENTRY = f"{_NODE}, state, owner, size, mtime_ns, ctime_ns, inode"
_BELOW = """WITH RECURSIVE below (key) AS (
    SELECT value FROM (SELECT ?1 AS value) UNION SELECT n.key FROM kv_nodes n JOIN below b ON n.parent = b.key)
    SELECT key FROM below JOIN kv_nodes USING (key)"""


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node with how far its file is: whose it is while unfinished, and its identity when it was last read whole."""

    node: Node
    state: State
    owner: str | None
    verified: Identity | None


class KvIndex:
    """The rows of KV nodes and their pins."""

    def __init__(self, ledger: Ledger) -> None:
        self._rows = ledger.rows

    def find(self, key: Key) -> NodeRow | None:
        """Return what is known of a node, whatever its state."""
        row = self._rows.execute(f"SELECT {_ENTRY} FROM kv_nodes WHERE key = ?", (key,)).fetchone()
        return _entry(row) if row else None

    def entries(self) -> list[NodeRow]:
        """Return all nodes, whatever their state."""
        return [_entry(row) for row in self._rows.execute(f"SELECT {_ENTRY} FROM kv_nodes")]

    def sizes(self) -> list[tuple[Key, int, State]]:
        """Return key, bytes and state of all nodes."""
        sql = "SELECT key, bytes, state FROM kv_nodes"
        return [(key, size, state) for key, size, state in self._rows.execute(sql)]

    def beginning_alike(self, parent: Key, ids: Sequence[int], sub_step: int) -> list[Node]:
        """Return the whole children of a node that share at least one sub-step with a segment."""
        sql = f"SELECT {_NODE} FROM kv_nodes WHERE parent = ? AND first = ? AND state = 'whole'"
        return [_node(row) for row in self._rows.execute(sql, (parent, first_key(ids, sub_step)))]

    def below(self, keys: Iterable[Key]) -> set[Key]:
        """Return those of the nodes that there are, and all of their descendants."""
        return {row[0] for key in keys for row in self._rows.execute(_BELOW, (key,))}

    def reserve(self, node: Node, root: TreeRoot, sub_step: int, owner: str) -> None:
        """Add a node whose file is about to be written."""
        first = first_key(node.ids, sub_step)
        row = (node.key, root.key, node.parent, node.path, node.depth, pack(node.ids), first, node.bytes, node.seconds)
        sql = """INSERT INTO kv_nodes (key, root, parent, path, depth, ids, first, bytes, seconds, created, last_used,
                 state, owner) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'reserved', ?)"""
        self._rows.execute(sql, (*row, node.created, node.last_used, owner))

    def settle(self, key: Key, owner: str) -> bool:
        """Return that a reserved node's file is there; False where the node was given up meanwhile."""
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
        """Return key and owner of the nodes that are being written or removed."""
        sql = "SELECT key, owner FROM kv_nodes WHERE state != 'whole'"
        return [(key, owner) for key, owner in self._rows.execute(sql)]

    def used(self, keys: Iterable[Key], now: float) -> None:
        """Count one use of each node."""
        sql = "UPDATE kv_nodes SET uses = uses + 1, last_used = max(last_used, ?) WHERE key = ?"
        self._rows.executemany(sql, [(now, key) for key in keys])

    def pin(self, keys: Iterable[Key], owner: str, until: float) -> tuple[int, ...]:
        """Hold on to nodes; returns the numbers to let go by."""
        sql = "INSERT INTO kv_pins (key, owner, until) VALUES (?, ?, ?)"
        return tuple(int(self._rows.execute(sql, (key, owner, until)).lastrowid or 0) for key in keys)

    def unpin(self, numbers: Iterable[int]) -> None:
        """Let go."""
        self._rows.executemany("DELETE FROM kv_pins WHERE id = ?", [(number,) for number in numbers])

    def pins(self) -> list[tuple[Key, str, float]]:
        """Return key, owner and end of every pin."""
        return [
            (key, owner, until) for key, owner, until in self._rows.execute("SELECT key, owner, until FROM kv_pins")
        ]

    def unpin_owner(self, owner: str) -> None:
        """Let go of all that this one holds."""
        self._rows.execute("DELETE FROM kv_pins WHERE owner = ?", (owner,))


def _node(row: Sequence[Any]) -> Node:
    key, parent, path, depth, ids, *rest = row
    return Node(key, parent, path, depth, unpack(ids), *rest)


def _entry(row: Sequence[Any]) -> NodeRow:
    state, owner, *file = row[10:]
    return NodeRow(_node(row[:10]), state, owner, None if file[0] is None else Identity(*file))


@dataclass(frozen=True, slots=True)
class Partial:
    """A node whose first tokens are those of the next segment: that many, whole sub-steps."""

    node: Node
    tokens: int


@dataclass(frozen=True, slots=True)
class Match:
    """What is kept of a prompt, held on to until it is released."""

    nodes: tuple[Node, ...]
    partial: Partial | None
    release: Callable[[], None]

    @property
    def tokens(self) -> int:
        """Return the number of tokens that need not be computed."""
        return sum(len(node.ids) for node in self.nodes) + (self.partial.tokens if self.partial else 0)

    @property
    def found(self) -> list[Node]:
        """Return all nodes that take part."""
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


def whole(index: KvIndex, keys: Sequence[Key]) -> tuple[Node, ...]:
    """Return the nodes at the head of a path, up to the first that is not there."""
    found = takewhile(lambda entry: entry is not None and entry.state == "whole", map(index.find, keys))
    return tuple(entry.node for entry in found if entry)


def best_partial(index: KvIndex, parent: Key, ids: Sequence[int], sub_step: int) -> Partial | None:
    """Return the child that shares most with a segment, if any shares a sub-step."""
    shared_tokens = [
        Partial(node, shared(node.ids, ids, sub_step)) for node in index.beginning_alike(parent, ids, sub_step)
    ]
    return max(shared_tokens, key=lambda one: (one.tokens, one.node.last_used, one.node.key), default=None)


@dataclass(frozen=True, slots=True)
class Ghost:
    """A node that went for lack of room: its tokens, the bytes of its file, and what computing it had taken."""

    tokens: int
    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class UnusedNode:
    """A node that idle work made and nothing used: its key, and the bytes of its file."""

    key: Key
    bytes: int


class KvQueries:
    """Rows about nodes, as they are at the moment."""

    def __init__(self, ledger: Ledger, index: KvIndex, counts: KvCounts) -> None:
        self._rows, self._index, self._counts = ledger.rows, index, counts

    def uses(self, key: Key) -> int | None:
        """Return how often a node was used; None where it is not kept."""
        entry = self._index.find(key)
        return entry.node.uses if entry and entry.state == "whole" else None

    def ghost(self, key: Key) -> Ghost | None:
        """Return what is remembered of a node that went for lack of room."""
        sql = "SELECT tokens, bytes, seconds FROM kv_ghosts WHERE key = ?"
        row = self._rows.execute(sql, (key,)).fetchone()
        return Ghost(*row) if row else None

    def ghosts(self) -> int:
        """Return the number of nodes that went for lack of room and did not come back."""
        return self._counts.ghosts()

    def unused(self, *kinds: str) -> list[UnusedNode]:
        """Return the leaves that these kinds of idle work made and nothing used, those made first at the front."""
        sql = f"""SELECT key, bytes FROM kv_nodes JOIN idle_made USING (key)
                  WHERE kind IN ({", ".join("?" * len(kinds))}) AND kv_nodes.uses = 0 AND state = 'whole' AND depth > 1
                  AND key NOT IN (SELECT parent FROM kv_nodes) ORDER BY created, kv_nodes.rowid"""
        return [UnusedNode(*row) for row in self._rows.execute(sql, kinds)]

    def kept(self) -> CountTotal:
        """Return that is kept: nodes, their tokens (of four bytes each in a row), bytes, and seconds of computing."""
        sums = ", ".join(f"coalesce(sum({what}), 0)" for what in ("length(ids) / 4", "bytes", "seconds"))
        sql = f"SELECT count(*), {sums} FROM kv_nodes WHERE state = 'whole'"
        return CountTotal(*self._rows.execute(sql).fetchone())
