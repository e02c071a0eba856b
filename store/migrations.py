"""The schema of the ledger (SQLite), and its numbered migrations: none is edited once released.

The first is the schema of `schema.sql`. Ledgers of before, which no release has written, are not read.
"""

from pathlib import Path
from typing import Final

from store.checksums import add_checksums

# The tables that hold, or are looked up by, what was made of documents: nothing is added that rests on what was read
# before something was forgotten. See `Ledger.renew`.
DERIVED: Final = (
    "answers", "question_vectors", "verifications", "notices", "refresh_candidates", "rejected_answers", "history",
    "retrievals", "question_documents", "predictions", "jobs", "job_outputs", "kv_nodes", "kv_ghosts",
)  # fmt: skip
_CHECKSUMMED = (
    "answers", "verifications", "notices", "rejected_answers", "predictions", "provenance", "people", "places",
)  # fmt: skip

_CHANGES = tuple(
    f"""CREATE TRIGGER {table}_changed_{event} AFTER {event} ON {table} BEGIN
    INSERT INTO changed_documents SELECT {changed}, coalesce(max(CAST(value AS INTEGER)), 0) FROM meta
    WHERE name = 'generation' ON CONFLICT (document) DO UPDATE SET generation = excluded.generation; END"""
    for table, event, changed in (
        *(("documents", "insert", "new.id"), ("documents", "delete", "old.id")),
        *(("missing_embeddings", "insert", "new.document"), ("missing_embeddings", "delete", "old.document")),
        ("relocations", "delete", "old.document"),
    )
)
_QUESTION_DOCUMENTS = tuple(
    f"""CREATE TRIGGER {table}_documents_delete AFTER DELETE ON {table} BEGIN
    DELETE FROM question_documents WHERE key = {key} AND NOT EXISTS (SELECT 1 FROM history WHERE key = {key})
    AND NOT EXISTS (SELECT 1 FROM answers WHERE key = {key})
    AND NOT EXISTS (SELECT 1 FROM rejected_answers WHERE key = {key}); END"""
    for table, key in (
        ("history", "coalesce(old.key, CAST(old.id AS BLOB))"),
        ("answers", "old.key"),
        ("rejected_answers", "old.key"),
    )
)
_CURRENT = tuple(
    f"""CREATE TRIGGER {table}_current BEFORE INSERT ON {table}
    WHEN NOT is_current((SELECT value FROM meta WHERE name = 'forget.epoch')) BEGIN SELECT RAISE(IGNORE); END"""
    for table in DERIVED
)


def _schema() -> tuple[str, ...]:
    """Return the statements of the first schema."""
    written = Path(__file__).with_name("schema.sql").read_text("utf-8").split("\n\n")
    return (*written[1:], *add_checksums(*_CHECKSUMMED), *_CHANGES, *_QUESTION_DOCUMENTS, *_CURRENT)


def _kinds_of_problems() -> tuple[str, ...]:
    """Return what adds the kinds of what looks misread to the items that could not be read completely."""
    return ("ALTER TABLE problems ADD COLUMN kinds TEXT NOT NULL DEFAULT ''",)


def _files_of_tables() -> tuple[str, ...]:
    """Return what lists the files of the search tables, in place of a journal of what is done to them."""
    changed = next(one for one in _CHANGES if "ON relocations" in one)
    return (
        """CREATE TABLE table_files (
        path TEXT PRIMARY KEY, crc INTEGER NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
        ctime_ns INTEGER NOT NULL, inode INTEGER NOT NULL) WITHOUT ROWID""",
        "INSERT INTO meta SELECT 'tables.doubtful', '1' WHERE EXISTS (SELECT 1 FROM journal)",
        "DROP TABLE journal",
        "CREATE TABLE moved (document TEXT PRIMARY KEY) WITHOUT ROWID",
        "INSERT INTO moved SELECT document FROM relocations",
        "DROP TABLE relocations",
        changed.replace("relocations", "moved"),
    )


OLDEST: Final = 22  # the number of the first
MIGRATIONS: Final = (_schema, _kinds_of_problems, _files_of_tables)
NEWEST: Final = OLDEST + len(MIGRATIONS) - 1


def statements(number: int) -> tuple[str, ...]:
    """Return the statements of a migration."""
    return MIGRATIONS[number - OLDEST]()
