"""The chunks that have no vector yet, counted without opening a table."""

from store.ledger import Ledger


def count(ledger: Ledger) -> int:
    """Count them."""
    return int(ledger.rows.execute("SELECT count(*) FROM pending").fetchone()[0])
