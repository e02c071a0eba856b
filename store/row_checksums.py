"""Checksums of rows of the ledger, which SQLite itself does not verify: a damaged row is no row for its readers.

A table with checksums has a view, `intact_TABLE`, to read from. Triggers keep checksums current, whatever writes.
"""

import sqlite3
from typing import Final
from zlib import crc32

# Tables that are shown, or decide what is shown: key, other numbers, texts. How often a row was used is left out.
# A migration uses this: change no released line of it.
_COVERED = {
    "answers": (
        "key",
        "generation created made_ms tau bytes",
        "question scope writer day reply evidence tier state origin source",
    ),
    "verifications": ("key", "matched similarity at", "served"),
    "notices": ("key", "at", "kind before after cause"),
    "rejected_answers": ("key", "at", "answer"),
    "predictions": ("question chunk", "", "question chunk"),
    "provenance": ("document", "", "document seen warnings people"),
    "people": ("name address sends", "documents", "name address seen"),
    "places": ("path item", "lines_before", "document message_id collection"),
}
PRIMARY: Final = ("places",)  # cannot be made from anything else in the home
TABLES: Final = tuple(name for name in _COVERED if name not in PRIMARY)


def intact(table: str, row: str = "") -> str:
    """Return the SQL condition that a row is as it was written; NULL where it has no checksum."""
    return f"{row or table}.crc = {_checksum(table, row or table)}"


def row_checksum(*values: bytes | float | None) -> int:
    """Return the CRC32 of the values of a row; numbers are compared as float, as SQLite may store either."""
    each = (value if isinstance(value, bytes) else _number(value) for value in values)
    return crc32(b"".join(b"%d:%b" % (len(raw), raw) for raw in each))


def register(rows: sqlite3.Connection) -> None:
    """Let the triggers and views of a connection compute checksums."""
    rows.create_function("row_checksum", -1, row_checksum, deterministic=True)
    rows.execute("PRAGMA trusted_schema = ON")  # off in some builds of SQLite


def add_checksums() -> tuple[str, ...]:
    """Return the statements that give all tables checksums, and the rows in them theirs."""
    return tuple(statement for table in _COVERED for statement in _add(table))


def _add(table: str) -> tuple[str, ...]:
    key, numbers, texts = (names.split() for names in _COVERED[table])
    columns = ", ".join(dict.fromkeys((*key, *numbers, *texts)))
    update = f"UPDATE {table} SET crc = {_checksum(table, table)}"
    this = " AND ".join(f"{name} = new.{name}" for name in key)
    # A change of a damaged row must not make it look intact.
    return (
        f"ALTER TABLE {table} ADD COLUMN crc INTEGER",
        update,
        f"""CREATE TRIGGER {table}_crc_insert AFTER INSERT ON {table} WHEN new.crc IS NULL BEGIN
            {update} WHERE {this}; END""",
        f"""CREATE TRIGGER {table}_crc_update AFTER UPDATE OF {columns} ON {table} WHEN {intact(table, "old")} BEGIN
            {update} WHERE {this}; END""",
        f"CREATE VIEW intact_{table} AS SELECT * FROM {table} WHERE {intact(table)}",
    )


def _checksum(table: str, row: str) -> str:
    key, numbers, texts = (names.split() for names in _COVERED[table])
    plain = [f"{row}.{name}" for name in (*key, *numbers) if name not in texts]
    # Texts as bytes: a damaged one need not be UTF-8.
    return f"row_checksum({', '.join([*plain, *(f'CAST({row}.{name} AS BLOB)' for name in texts)])})"


def _number(value: float | None) -> bytes:
    return b"" if value is None else repr(float(value)).encode()
