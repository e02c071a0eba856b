"""What idle work took, by kind, and what of it was used later: the account that `pkb idle` and `pkb stats` give.

What a kind made is remembered by key, an answer's or a node's, with how often it was used by then. Knows no work.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from store.foreseen import Foresights
from store.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Spent:
    """What some work took: tokens read into a model and written by it, and bytes of tensors that were kept."""

    units: int = 0
    seconds: float = 0.0
    read: int = 0
    written: int = 0
    flops: float = 0.0
    bytes: int = 0

    def __add__(self, more: "Spent") -> "Spent":
        return Spent(
            self.units + more.units,
            self.seconds + more.seconds,
            self.read + more.read,
            self.written + more.written,
            self.flops + more.flops,
            self.bytes + more.bytes,
        )

    def less(self, before: "Spent") -> "Spent":
        """Give what came on top of an earlier count."""
        return Spent(
            self.units - before.units,
            self.seconds - before.seconds,
            self.read - before.read,
            self.written - before.written,
            self.flops - before.flops,
            self.bytes - before.bytes,
        )


_MADE = "INSERT INTO idle_made (key, kind, uses, source, pays) SELECT key, ?, uses, ?, ?"
_AGAIN = """ON CONFLICT DO UPDATE SET kind = excluded.kind, uses = excluded.uses,
            source = iif(excluded.source = '', source, excluded.source),
            pays = iif(excluded.source = '', pays, excluded.pays)"""


@dataclass(frozen=True, slots=True)
class Paid:
    """What a kind of work took so far, how often what it made was used since, and the seconds that saved.

    The seconds are those that making it had taken, each time: what loading it took is not subtracted.
    """

    units: int
    seconds: float
    flops: float
    hits: int
    saved_s: float


class Account:
    """What the nights of one home took and brought."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._rows = ledger, ledger.rows

    def add(self, kind: str, spent: Spent) -> None:
        """Count work of a kind."""
        sql = """INSERT INTO idle_runs VALUES (?, ?, ?, ?, 0, 0) ON CONFLICT DO UPDATE SET
                 units = units + excluded.units, seconds = seconds + excluded.seconds, flops = flops + excluded.flops"""
        self._rows.execute(sql, (kind, spent.units, spent.seconds, spent.flops))

    def newest(self) -> int:
        """Give the number of the latest node, for `made`."""
        return int(self._rows.execute("SELECT coalesce(max(rowid), 0) FROM kv_nodes").fetchone()[0])

    def made(self, kind: str, answers: Sequence[bytes], after: int, source: str = "", spared: float = 0.0) -> None:
        """Remember that a kind of work made these answers, and the nodes that came after the one of this number.

        Where a source foresaw the question, the first use of its answer pays that source 1, and the first uses of all
        those nodes but that of every prompt together `spared`.
        """
        sql = f"{_MADE} FROM answers WHERE key = ? {_AGAIN}"
        self._rows.executemany(sql, [(kind, source, float(bool(source)), key) for key in answers])
        sql = "SELECT count(*) FROM kv_nodes WHERE rowid > ? AND depth > 1"
        count = self._rows.execute(sql, (after,)).fetchone()[0]
        part = spared / count if source and count else 0.0
        sql = f"{_MADE} * (depth > 1) FROM kv_nodes WHERE rowid > ? {_AGAIN}"
        self._rows.execute(sql, (kind, source, part, after))

    def kept(self, kind: str, node: bytes) -> None:
        """Remember that a kind of work kept the node of this key."""
        self._rows.execute(f"{_MADE} FROM kv_nodes WHERE key = ? {_AGAIN}", (kind, "", 0.0, node))

    def gather(self, now: float) -> None:
        """Count what was used since the last time; what has gone meanwhile is counted no more."""
        with self._ledger.transaction():
            Foresights(self._ledger).gather(now)
            for table, seconds in (("answers", "made_ms / 1000"), ("kv_nodes", "seconds")):
                self._gather(table, seconds)
            sql = """DELETE FROM idle_made WHERE key NOT IN (SELECT key FROM answers)
                     AND key NOT IN (SELECT key FROM kv_nodes)"""
            self._rows.execute(sql)

    def by_kind(self) -> dict[str, Paid]:
        """Give what each kind of work took and brought."""
        sql = "SELECT kind, units, seconds, flops, hits, saved_s FROM idle_runs ORDER BY rowid"
        return {kind: Paid(*row) for kind, *row in self._rows.execute(sql)}

    def _gather(self, table: str, seconds: str) -> None:
        sql = f"""SELECT idle_made.kind, sum({table}.uses - idle_made.uses),
                         sum(({table}.uses - idle_made.uses) * {table}.{seconds})
                  FROM idle_made JOIN {table} USING (key) WHERE {table}.uses > idle_made.uses GROUP BY 1"""
        for kind, hits, saved in self._rows.execute(sql).fetchall():
            update = "UPDATE idle_runs SET hits = hits + ?, saved_s = saved_s + ? WHERE kind = ?"
            self._rows.execute(update, (hits, saved, kind))
        sql = f"""UPDATE idle_made SET uses = {table}.uses FROM {table} WHERE {table}.key = idle_made.key"""
        self._rows.execute(sql)
