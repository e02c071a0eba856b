"""Answers of the bank that are not as they would be made now: of an older generation, or read ahead only.

Knows rows; which of them are worth making again is for others to say.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from store.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Mine:
    """Entries that can be made now: by writers whose names begin so; of those whose meaning moves, on this day."""

    writer: str
    day: str  # local, ISO

    @property
    def condition(self) -> tuple[str, tuple[object, ...]]:
        """Give it as SQL, and its values."""
        sql = "substr(writer, 1, ?) = ? AND coalesce(day, ?) = ?"
        return sql, (len(self.writer), self.writer, self.day, self.day)


def older(ledger: Ledger, mine: Mine, generation: int, limit: int) -> list[bytes]:
    """Give the keys of what was made in an older generation, the most used first."""
    return _keys(ledger, mine, "generation < ? AND state != 'owed'", (generation,), "used", limit)


def undecoded(ledger: Ledger, mine: Mine, limit: int) -> list[bytes]:
    """Give the keys of what was read ahead and not answered, the latest first."""
    return _keys(ledger, mine, "state = 'undecoded'", (), "created", limit)


def stamp(ledger: Ledger, key: bytes, generation: int, evidence: Sequence[str]) -> None:
    """Say that what was made from this evidence was found right in a generation, without counting a use."""
    sql = "UPDATE answers SET generation = max(generation, ?) WHERE key = ? AND evidence = ?"
    ledger.rows.execute(sql, (generation, key, json.dumps(evidence)))


def typical_s(ledger: Ledger, writer: str) -> float | None:
    """Give the seconds that an answer of such a writer takes to make, on average; None where there is none."""
    sql = "SELECT avg(made_ms) / 1000 FROM answers WHERE substr(writer, 1, ?) = ? AND state = 'answered'"
    found = ledger.rows.execute(sql, (len(writer), writer)).fetchone()[0]
    return None if found is None else float(found)


def wanted(ledger: Ledger, mine: Mine, limit: int) -> list[bytes]:
    """Give the keys of what was made, the most used first."""
    return _keys(ledger, mine, "state != 'owed'", (), "used", limit)


def _keys(ledger: Ledger, mine: Mine, also: str, values: tuple[object, ...], then: str, limit: int) -> list[bytes]:
    condition, about = mine.condition
    sql = f"SELECT key FROM answers WHERE {condition} AND {also} ORDER BY uses DESC, {then} DESC LIMIT ?"
    return [key for (key,) in ledger.rows.execute(sql, (*about, *values, limit))]
