"""Documents whose places have changed, and the collections that the tables still give them until they are told.

A mark is made in the transaction that changes places, so that a killed writer's successor knows whom to tell.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from store.ledger import Ledger

_COLLECTIONS = "SELECT json_group_array(DISTINCT collection) FROM places WHERE document = ?1"


@dataclass(frozen=True, slots=True)
class Moved:
    """A document, the collections that the tables give it, and those it has by its places (none: it stands nowhere)."""

    document: str
    told: tuple[str, ...]
    now: tuple[str, ...]


def mark(ledger: Ledger, documents: Iterable[str]) -> None:
    """Say that the places of these documents are about to change; those that have none yet are left out."""
    sql = f"""INSERT OR IGNORE INTO moved SELECT ?1, ({_COLLECTIONS})
              WHERE EXISTS (SELECT 1 FROM places WHERE document = ?1)"""
    ledger.rows.executemany(sql, [(document,) for document in documents])


def marked(ledger: Ledger) -> list[Moved]:
    """Give the marked documents."""
    rows = ledger.rows.execute("SELECT document, collections FROM moved ORDER BY document").fetchall()
    return [Moved(document, _tuple(told), _now(ledger, document)) for document, told in rows]


def doubt(ledger: Ledger, documents: Iterable[str]) -> None:
    """Say that the tables are being told now, and from here on may give these documents either set of collections."""
    ledger.rows.executemany("UPDATE moved SET collections = '[]' WHERE document = ?", [(d,) for d in documents])


def settle(ledger: Ledger, documents: Iterable[str]) -> None:
    """Take the marks off, inside the caller's transaction."""
    ledger.rows.executemany("DELETE FROM moved WHERE document = ?", [(document,) for document in documents])


def _now(ledger: Ledger, document: str) -> tuple[str, ...]:
    return _tuple(ledger.rows.execute(_COLLECTIONS, (document,)).fetchone()[0])


def _tuple(names: str) -> tuple[str, ...]:
    return tuple(sorted(json.loads(names)))
