"""Answers of the bank that are not as they would be made now: of an older generation, or read ahead only.

Knows rows; which of them are worth making again is for others to say.
"""

import json
from collections.abc import Sequence

from store.ledger import Ledger


def older(ledger: Ledger, writer: str, generation: int, limit: int) -> list[bytes]:
    """Give the keys of what writers of this beginning made in an older generation, the most used first."""
    sql = """SELECT key FROM answers WHERE substr(writer, 1, ?) = ? AND generation < ? AND state != 'owed'
             ORDER BY uses DESC, used DESC LIMIT ?"""
    return [key for (key,) in ledger.rows.execute(sql, (len(writer), writer, generation, limit))]


def undecoded(ledger: Ledger, writer: str, limit: int) -> list[bytes]:
    """Give the keys of what was read ahead and not answered, the latest first."""
    sql = """SELECT key FROM answers WHERE substr(writer, 1, ?) = ? AND state = 'undecoded'
             ORDER BY uses DESC, created DESC LIMIT ?"""
    return [key for (key,) in ledger.rows.execute(sql, (len(writer), writer, limit))]


def stamp(ledger: Ledger, key: bytes, generation: int, evidence: Sequence[str]) -> None:
    """Say that what was made from this evidence was found right in a generation, without counting a use."""
    sql = "UPDATE answers SET generation = max(generation, ?) WHERE key = ? AND evidence = ?"
    ledger.rows.execute(sql, (generation, key, json.dumps(evidence)))


def typical_s(ledger: Ledger, writer: str) -> float | None:
    """Give the seconds that an answer of such a writer takes to make, on average; None where there is none."""
    sql = "SELECT avg(made_ms) / 1000 FROM answers WHERE substr(writer, 1, ?) = ? AND state = 'answered'"
    found = ledger.rows.execute(sql, (len(writer), writer)).fetchone()[0]
    return None if found is None else float(found)


def wanted(ledger: Ledger, writer: str, limit: int) -> list[bytes]:
    """Give the keys of what writers of this beginning made, the most used first."""
    sql = """SELECT key FROM answers WHERE substr(writer, 1, ?) = ? AND state != 'owed'
             ORDER BY uses DESC, used DESC LIMIT ?"""
    return [key for (key,) in ledger.rows.execute(sql, (len(writer), writer, limit))]
