"""In which document each passage of mail is searched, and which documents merely quote it."""

from collections.abc import Iterable, Mapping

from store.ledger import Ledger


def owners(ledger: Ledger, digests: Iterable[bytes]) -> Mapping[bytes, str]:
    """Give the document that each passage is searched in, for those that are known."""
    sql = "SELECT document FROM passages WHERE digest = ?"
    found = ((digest, ledger.rows.execute(sql, (digest,)).fetchone()) for digest in set(digests))
    return {digest: row[0] for digest, row in found if row}


def own(ledger: Ledger, document: str, digests: Iterable[bytes]) -> None:
    """Say that passages are searched in this document, unless another one has them already."""
    ledger.rows.executemany("INSERT OR IGNORE INTO passages VALUES (?, ?)", [(d, document) for d in digests])


def quote(ledger: Ledger, document: str, digests: Iterable[bytes]) -> None:
    """Say that a document quotes these passages, and no others, which are searched elsewhere."""
    ledger.rows.execute("DELETE FROM quoting WHERE document = ?", (document,))
    ledger.rows.executemany("INSERT OR IGNORE INTO quoting VALUES (?, ?)", [(d, document) for d in digests])


def leave(ledger: Ledger, documents: Iterable[str]) -> set[str]:
    """Let go of the passages of documents that go; gives the documents that quote them, and now hold them alone."""
    orphaned: set[str] = set()
    sql = "SELECT quoting.document FROM quoting JOIN passages USING (digest) WHERE passages.document = ?"
    for document in sorted(documents):
        orphaned.update(row[0] for row in ledger.rows.execute(sql, (document,)))
        for table in ("passages", "quoting"):
            ledger.rows.execute(f"DELETE FROM {table} WHERE document = ?", (document,))
    return orphaned
