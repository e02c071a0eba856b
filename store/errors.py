"""The errors shown to the user: one tree, one line each, and the command to type next.

PkbError                  1   any other error
├── UsageError            2   an invalid flag or argument
├── DamagedTable          1   files of a search table are missing or not as they were written
├── DamagedLedger         1   the ledger is missing or cannot be read
├── DiskFull              1   the disk has no room for what a command writes, or fails
├── UnsafePlace           1   the home is on a network disk or in a synced folder
├── Unreachable           1   the object store with the search tables does not answer, or refuses
├── NoStore              10   nothing was ever ingested
├── Locked               11   another pkb is writing
└── NoModel              12   the model asked for is not here
"""

import errno
import os
from pathlib import Path

_LEDGER = {  # SQLite's primary result codes: what happened, and what helps
    3: ("the ledger cannot be read: permission denied", "pkb doctor"),
    5: ("another pkb is writing", "try again when it is done"),
    8: ("the ledger cannot be written: read-only", "pkb doctor"),
    10: ("the ledger cannot be read or written: the disk is full or failing", "pkb doctor"),
    11: ("the ledger (ledger.db) is damaged", "pkb doctor --data --repair"),
    13: ("no space left on the disk", "pkb doctor"),
    14: ("the ledger cannot be opened", "pkb doctor"),
    26: ("the ledger (ledger.db) is not a pkb database", "pkb doctor --data --repair"),
}
_GARBLED = (
    *("Could not decode to UTF-8", "malformed"),
    *("no such column", "no such table", "no such function", "has no column"),
)  # of SQLite, which gives them no code of their own
_TABLES = (  # the system error inside LanceDB's message
    ("(os error 5)", "the disk is failing", "pkb doctor"),
    ("os error 28", "no space left on the disk", "pkb doctor"),
    ("os error 13", "the tables cannot be read or written: permission denied", "pkb doctor"),
    ("os error 30", "the tables cannot be written: read-only", "pkb doctor"),
    ("LanceError(IO)", "the search index is damaged", "pkb doctor --data --repair"),
    ("LanceError(Corrupt", "the search index is damaged", "pkb doctor --data --repair"),
)
_STORE = (  # the code of an error of S3 in a library's message
    (("NoSuchBucket", "NO_SUCH_BUCKET"), "no such bucket", "pkb config get home.tables, then create the bucket"),
    (
        ("AccessDenied", "ACCESS_DENIED", "InvalidAccessKeyId", "SignatureDoesNotMatch", "credential", "Forbidden"),
        "the credentials are missing or refused",
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or ~/.aws/credentials",
    ),
)
_DISK = {
    errno.ENOSPC: "no space left on the disk",
    errno.EDQUOT: "the quota of the disk is used up",
    errno.EIO: "the disk is failing",
}


class PkbError(Exception):
    """An error for the user: what went wrong, and the command that helps, if one does."""

    code = 1

    def __init__(self, message: str, next_step: str | None = None) -> None:
        super().__init__(message)
        self.message, self.next_step = message, next_step


class UsageError(PkbError):
    """An invalid flag or argument."""

    code = 2


class DamagedTable(PkbError):
    """Files of a search table are missing, or not as they were written."""

    def __init__(self, table: str) -> None:
        super().__init__(f"the search index is damaged ({table})", "pkb doctor --data --repair")


class DamagedLedger(PkbError):
    """The ledger is missing or cannot be read."""

    def __init__(self, path: object, what: str = "is damaged") -> None:
        super().__init__(f"{path} {what}", "restore it from a backup, or rebuild it: pkb doctor --data --repair")


class DiskFull(PkbError):
    """The disk has no room for what a command writes, or fails."""


class UnsafePlace(PkbError):
    """The home is on a network disk or in a synced folder, where SQLite is not safe."""


class Unreachable(PkbError):
    """The object store with the search tables does not answer, or refuses."""

    def __init__(self, place: str, said: str) -> None:
        """`said` is a library's message, of which nothing is shown."""
        found = ((why, step) for marks, why, step in _STORE if any(one in said for one in marks))
        why, step = next(found, ("no answer", "the same command once it answers, or check AWS_ENDPOINT_URL"))
        super().__init__(f"cannot reach {place}: {why}", step)


class NoStore(PkbError):
    """Nothing was ever ingested into this home."""

    code = 10

    def __init__(self) -> None:
        super().__init__("nothing has been ingested yet", "pkb ingest FOLDER")


class Locked(PkbError):
    """Another process holds the lock that this one needs."""

    code = 11


class NoModel(PkbError):
    """The model asked for is not on this machine."""

    code = 12


def as_pkb_error(error: Exception) -> PkbError:
    """Return an error for the user without the library's message, which could hold mail."""
    if isinstance(error, PkbError):
        return error
    known = explain(error) or ("it failed", "pkb doctor")
    return (Locked if known == _LEDGER[5] else PkbError)(*known)


def explain(error: Exception) -> tuple[str, str] | None:
    """Return the problem outside pkb and what to type next; None if the error is a bug of pkb."""
    import sqlite3  # imported late: help and usage errors must load nothing heavy

    if isinstance(error, sqlite3.Error):
        garbled = any(mark in str(error) for mark in _GARBLED)
        code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
        return _LEDGER.get(sqlite3.SQLITE_CORRUPT if garbled else code)
    text = str(error)
    if "lance" in text.lower() and getattr(error, "errno", None) is None:  # the path of another's may end so
        return next(((what, step) for mark, what, step in _TABLES if mark in text), None)
    if isinstance(error, OSError) and error.errno is not None:
        where = f": {error.filename}" if error.filename else ""
        return f"{(error.strerror or 'input or output failed').lower()}{where}", "pkb doctor"
    return None


def disk_failure(error: BaseException, folder: Path) -> str | None:
    """Return in words that the disk of a folder was full or failing when something was written; None if it was not."""
    import sqlite3  # imported late, as above

    if isinstance(error, sqlite3.OperationalError):
        code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
        if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY) and not os.access(folder, os.W_OK):
            return None  # no permission; else no room for a new file, or the file could be opened for reading alone
        if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            return "the disk is full or failing"  # SQLite does not tell which
        return _DISK[errno.ENOSPC] if code == sqlite3.SQLITE_FULL else None
    if "lance" in str(error).lower() and getattr(error, "errno", None) is None:
        return next((what for number, what in _DISK.items() if f"(os error {number})" in str(error)), None)
    return _DISK.get(error.errno or 0) if isinstance(error, OSError) else None
