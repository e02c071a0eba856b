"""What can go wrong outside pkb, a full disk or a damaged file, in one line. Knows no command; shows no data."""

import sqlite3

_LEDGER = {  # SQLite's primary result codes: what happened, and what helps
    3: ("the ledger cannot be read: permission denied", "pkb doctor"),
    5: ("another pkb is writing", "try again when it is done"),
    8: ("the ledger cannot be written: read-only", "pkb doctor"),
    10: ("the ledger cannot be read or written: the disk is full or failing", "pkb doctor"),
    11: ("the ledger is damaged", "pkb check"),
    13: ("no space left on the disk", "pkb doctor"),
    14: ("the ledger cannot be opened", "pkb doctor"),
    26: ("the ledger is not a pkb database", "pkb check"),
}
_TABLES = (  # what the system says inside LanceDB's message
    ("os error 28", "no space left on the disk", "pkb doctor"),
    ("os error 13", "the tables cannot be read or written: permission denied", "pkb doctor"),
    ("os error 30", "the tables cannot be written: read-only", "pkb doctor"),
    ("LanceError(IO)", "the tables are damaged", "pkb check"),
    ("LanceError(Corrupt", "the tables are damaged", "pkb check"),
)


def explain(error: Exception) -> tuple[str, str] | None:
    """Give what went wrong and what to type next, None where the error is pkb's own fault."""
    if isinstance(error, sqlite3.Error):
        return _LEDGER.get((getattr(error, "sqlite_errorcode", None) or 0) & 0xFF)
    said = str(error)
    if "lance" in said.lower():
        return next(((what, step) for mark, what, step in _TABLES if mark in said), None)
    if isinstance(error, OSError) and error.errno is not None:
        where = f": {error.filename}" if error.filename else ""
        return f"{(error.strerror or 'input or output failed').lower()}{where}", "pkb doctor"
    return None
