"""Where an embedder's vectors lie, and how many are wanting, without opening a table."""

from hashlib import blake2b

from store.ledger import Ledger


def count(ledger: Ledger) -> int:
    """Count them."""
    return int(ledger.rows.execute("SELECT count(*) FROM pending").fetchone()[0])


def table_of(fingerprint: str) -> str:
    """Name the table of an embedder's vectors."""
    return f"vectors_{blake2b(fingerprint.encode(), digest_size=8).hexdigest()}"
