"""Which messages belong together: by References and In-Reply-To, and where a mail has neither, by its subject."""

from store.ledger import Ledger
from store.records import Document


def thread_of(ledger: Ledger, document: Document) -> str:
    """Give the thread of a document and remember what leads to it, inside the caller's transaction.

    Documents should come oldest first: a subject leads to the thread that last used it. A message that ties two
    threads together makes them one.
    """
    links = [f"id:{link}" for link in document.links]
    known = list(dict.fromkeys(filter(None, (_lookup(ledger, key) for key in links))))
    answered = len(document.links) > 1 or not document.topic
    topic = f"topic:{document.topic}"
    if not known and not answered and document.is_reply and (earlier := _lookup(ledger, topic)):
        known = [earlier]
    thread = known[0] if known else document.id
    for other in known[1:]:
        _merge(ledger, other, thread)
    keys = [*links, *([topic] if document.topic and document.kind == "mail" else [])]
    ledger.rows.executemany("INSERT OR REPLACE INTO threads VALUES (?, ?)", [(key, thread) for key in keys])
    return thread


def members(ledger: Ledger, thread: str) -> list[str]:
    """Give the documents of a thread, oldest first."""
    sql = "SELECT id FROM documents WHERE thread = ? ORDER BY date, id"
    return [row[0] for row in ledger.rows.execute(sql, (thread,))]


def _lookup(ledger: Ledger, key: str) -> str | None:
    row = ledger.rows.execute("SELECT thread FROM threads WHERE key = ?", (key,)).fetchone()
    return str(row[0]) if row else None


def _merge(ledger: Ledger, old: str, new: str) -> None:
    for table in ("threads", "documents"):
        ledger.rows.execute(f"UPDATE {table} SET thread = ? WHERE thread = ?", (new, old))
