"""A slice of what `pkb check` looks at, so that in time all of it is read through without anybody waiting for it."""

import sqlite3

from store.errors import PkbError
from store.home import Home
from store.kv_shelf import Shelf
from store.ledger import Ledger

_AT = "slice.at"  # the small value of the ledger that says how far the last slice went


def check_slice(home: Home, ledger: Ledger, count: int) -> int:
    """Read the files of the next so many kept nodes, removing what is damaged; gives their number.

    When all were read it looks at the ledger's own pages, and begins again; PkbError where those are damaged.
    """
    at = bytes.fromhex(ledger.get(_AT) or "")
    sql = "SELECT key FROM kv_nodes WHERE state = 'whole' AND key > ? ORDER BY key LIMIT ?"
    keys = [key for (key,) in ledger.rows.execute(sql, (at, count))]
    shelf, removed = Shelf(ledger, home.tensors), 0
    for key in keys:
        if (entry := shelf.index.find(key)) is not None:
            removed += not shelf.check(entry.node, read_data=True)
    shelf.owner.close()
    ledger.set(_AT, keys[-1].hex() if len(keys) == count else "")
    if len(keys) < count:
        _pages(ledger)
    return removed


def _pages(ledger: Ledger) -> None:
    try:
        found = ledger.rows.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.DatabaseError as error:
        found = str(error)
    if found != "ok":
        raise PkbError("the ledger is damaged", "pkb check --read-data")
