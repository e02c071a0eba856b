"""A look at the tree of kept KV tensors that changes nothing in it: for who plans what to read, and in which order."""

from dataclasses import dataclass

from store.kv_counts import KvCounts, Tally
from store.kv_index import KvIndex
from store.kv_tree import Key
from store.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Ghost:
    """A node that went for lack of room: its tokens, the bytes of its file, and what computing it had taken."""

    tokens: int
    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Unused:
    """A node that idle work made and nothing used: its key, and the bytes of its file."""

    key: Key
    bytes: int


class Peek:
    """Rows about nodes, as they are at the moment."""

    def __init__(self, ledger: Ledger, index: KvIndex, counts: KvCounts) -> None:
        self._rows, self._index, self._counts = ledger.rows, index, counts

    def uses(self, key: Key) -> int | None:
        """Give how often a node was used; None where it is not kept."""
        entry = self._index.find(key)
        return entry.node.uses if entry and entry.state == "whole" else None

    def ghost(self, key: Key) -> Ghost | None:
        """Give what is remembered of a node that went for lack of room."""
        sql = "SELECT tokens, bytes, seconds FROM kv_ghosts WHERE key = ?"
        row = self._rows.execute(sql, (key,)).fetchone()
        return Ghost(*row) if row else None

    def ghosts(self) -> int:
        """Give the number of nodes that went for lack of room and did not come back."""
        return self._counts.ghosts()

    def unused(self, *kinds: str) -> list[Unused]:
        """Give the leaves that these kinds of idle work made and nothing used, those made first at the front."""
        sql = f"""SELECT key, bytes FROM kv_nodes JOIN idle_made USING (key)
                  WHERE kind IN ({", ".join("?" * len(kinds))}) AND kv_nodes.uses = 0 AND state = 'whole' AND depth > 1
                  AND key NOT IN (SELECT parent FROM kv_nodes) ORDER BY created, kv_nodes.rowid"""
        return [Unused(*row) for row in self._rows.execute(sql, kinds)]

    def kept(self) -> Tally:
        """Give all that is kept: nodes, their tokens (of four bytes each in a row), bytes, and seconds of computing."""
        sums = ", ".join(f"coalesce(sum({what}), 0)" for what in ("length(ids) / 4", "bytes", "seconds"))
        sql = f"SELECT count(*), {sums} FROM kv_nodes WHERE state = 'whole'"
        return Tally(*self._rows.execute(sql).fetchone())
