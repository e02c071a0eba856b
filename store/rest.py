"""Whether anything has changed that could give idle something to do. Knows no kind of work."""

import json
from hashlib import blake2b

from store.ledger import Ledger

_NAME = "rested"  # the small value of the ledger that holds the digest of what there was


def rests(ledger: Ledger, *about: str) -> bool:
    """Tell whether all is as it was when idle had nothing left to do; `about` is what counts beside the ledger."""
    return ledger.get(_NAME) == _digest(ledger, about)


def rest(ledger: Ledger, *about: str) -> None:
    """Remember how all is now that nothing is left to do."""
    ledger.set(_NAME, _digest(ledger, about))


def _digest(ledger: Ledger, about: tuple[str, ...]) -> str:
    counted = [
        f"SELECT {what} FROM {table}"
        for table, what in (
            ("asked", "max(id)"),
            ("answers", "count(*), sum(state = 'undecoded'), max(created)"),
            ("owed", "count(*)"),
            ("hints", "count(*), max(at)"),
            ("jobs", "count(*), max(id)"),
            ("kv_nodes", "count(*)"),
            ("kv_ghosts", "count(*)"),
            ("pending", "count(*)"),
        )
    ]
    state = [ledger.generation, *(ledger.rows.execute(sql).fetchone() for sql in counted), *about]
    return blake2b(json.dumps(state).encode(), digest_size=16).hexdigest()
