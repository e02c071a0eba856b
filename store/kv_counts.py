"""What the KV tree saved, lost and wrote, and what more room would have saved: counters and ghosts in the ledger.

A ghost is a node that went for lack of room. When it is asked for again, more room would have saved computing it. Every
method is for a transaction of the caller's.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta

from store.kv_tree import Key, Node
from store.ledger import Ledger

GHOSTS = 20_000  # kept at most, about 3 MB of ledger
_DAY_S = 86_400
_EPOCH = date(1970, 1, 1)
_DAYS = 60  # that bytes written are remembered for


@dataclass(frozen=True, slots=True)
class Tally:
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

    def of(self, kind: str) -> dict[str, Tally]:
        """Give the counters of a kind, by name."""
        sql = "SELECT name, count, tokens, bytes, seconds FROM kv_counts WHERE kind = ?"
        return {name: Tally(*numbers) for name, *numbers in self._rows.execute(sql, (kind,))}

    def total(self, kind: str) -> Tally:
        """Return the counters of a kind, added up."""
        sums = ", ".join(f"coalesce(sum({what}), 0)" for what in ("count", "tokens", "bytes", "seconds"))
        return Tally(*self._rows.execute(f"SELECT {sums} FROM kv_counts WHERE kind = ?", (kind,)).fetchone())

    def written(self, now: float) -> int:
        """Give the bytes written since midnight, UTC."""
        row = self._rows.execute("SELECT bytes FROM kv_written WHERE day = ?", (_day(now),)).fetchone()
        return int(row[0]) if row else 0

    def written_by_day(self) -> dict[date, int]:
        """Give the bytes written on each day, UTC, that any were written on, oldest first."""
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

    def bury(self, nodes: Iterable[Node], now: float) -> None:
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

    def exhume(self, key: Key) -> None:
        """Forget the ghost of a node that is back."""
        self._rows.execute("DELETE FROM kv_ghosts WHERE key = ?", (key,))

    def forget_ghosts(self) -> None:
        """Forget all ghosts."""
        self._rows.execute("DELETE FROM kv_ghosts")

    def ghosts(self) -> int:
        """Give the number of ghosts."""
        return int(self._rows.execute("SELECT count(*) FROM kv_ghosts").fetchone()[0])


def _day(now: float) -> int:
    return int(now // _DAY_S)
