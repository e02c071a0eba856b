"""Checksums of the files of the search tables and of rows of the ledger: neither LanceDB nor SQLite verifies them.

LanceDB writes every file once, under a new name. A list per table holds each with its size, times and CRC32: a file
that has not changed since costs one `stat`, any other is read and compared.

A table of the ledger with checksums has a view, `intact_TABLE`, to read from: a damaged row is no row for its readers.
Triggers keep checksums current, whatever writes.
"""

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from msgspec import Struct
from msgspec.structs import astuple

from store.home import replacing
from store.kv_files import Identity, identity
from store.types import replace

_BLOCK = 1 << 20
_REWRITTEN = "latest_version_hint.json"  # by every commit; LanceDB manages without it
_LISTS = "checksums"  # the folder of the lists, beside those of the tables
_ROWS = ("data", "_deletions")  # the folders of a table without which rows are lost
# The last bytes of files by format; a bitmap of deleted rows (.bin), which is written at once, has none to tell.
_ENDS = {".lance": b"LANC", ".manifest": b"LANC", ".arrow": b"ARROW1", ".bin": b""}
_LARGEST = 2**64 - 1
_VERSIONS, _RECORDS = "_versions", "_transactions"  # one file for each commit: only the latest version is read


Chosen = Callable[[str], bool]  # whether to read a file that seems unchanged, by its name


def nothing(_: str) -> bool:
    """Choose no file."""
    return False


def everything(_: str) -> bool:
    """Choose all files."""
    return True


class Checksum(Struct, frozen=True):
    """A file as it was written: what `stat` says of it, and the CRC32 of its content."""

    file: Identity
    crc: int


class FileList(Struct, frozen=True):
    """The files of a table by their path in it; with `writing`, a writer is at work or died, and files may vanish."""

    files: Mapping[str, Checksum]
    writing: bool = False


class Checksums:
    """The lists of one home; only the process that holds the writer lock changes them."""

    def __init__(self, tables: Path) -> None:
        self._tables, self._lists = tables, tables / _LISTS

    def tables(self) -> list[str]:
        """Return the names of the tables that have a list."""
        return sorted(path.stem for path in self._lists.glob("*.json"))

    def damaged(self, table: str, *, reads: Chosen = nothing) -> list[str]:
        """Return the files of a table that are missing or not as they were written; none where it has no list.

        Those that it `reads` are read even if they seem unchanged.
        """
        while True:
            known = self._read(table)
            bad = [name for name, one in known.files.items() if not self._is_intact(table, name, one, reads)]
            if known.writing:
                return [name for name in bad if os.path.lexists(self._tables / folder_of(table) / name)]
            if not bad or known == self._read(table):  # else another process removed them meanwhile
                return bad

    def begin(self, table: str) -> None:
        """Mark a table as being written to, until `record`."""
        self._write(table, replace(self._read(table), writing=True))

    def record(self, table: str) -> None:
        """List the files of a table as they are now, once the disk has the new ones, which LanceDB does not wait for.

        Those listed already keep their checksum.
        """
        known, found, folders = self._read(table).files, dict[str, Checksum](), set[Path]()
        folder = self._tables / folder_of(table)
        for name in _names(folder):
            if name in known:
                found[name] = known[name]
            elif (fresh := _checksum(folder / name, sync=True)) is not None:
                found[name] = fresh
                folders |= {folder / name, *(folder / name).parents} - {self._tables, *self._tables.parents}
        for path in folders:
            _sync(path) if path.is_dir() else None
        self._write(table, FileList(found))

    def is_writing(self, table: str) -> bool:
        """Return whether a writer of a table is at work, or died."""
        return self._read(table).writing

    def is_listed(self, table: str) -> bool:
        """Return whether any file of a table is listed."""
        return bool(self._read(table).files)

    def torn(self, table: str) -> list[str]:
        """Return the files written since the last `record` that lack their end: LanceDB may not notice that."""
        folder, known = self._tables / folder_of(table), self._read(table).files
        return [name for name in _names(folder) if name not in known and _lacks_end(folder / name)]

    def versions(self, table: str) -> tuple[int | None, int | None]:
        """Return the latest version of a table that is listed, and the latest that is there."""
        there = _names(self._tables / folder_of(table))
        return _version(self._latest(self._read(table).files)), _version(self._latest(there))

    def needed(self, table: str, files: Iterable[str]) -> list[str]:
        """Return those files that reading the latest version may need."""
        latest = self._latest(self._read(table).files)
        return [name for name in files if name.split("/")[0] not in (_VERSIONS, _RECORDS) or name == latest]

    def hold_rows(self, table: str, files: Iterable[str]) -> list[str]:
        """Return those files without which rows are lost; everything else can be made from the rows."""
        latest = self._latest(self._read(table).files)
        return [name for name in files if name.split("/")[0] in _ROWS or name == latest]

    def files(self, table: str) -> set[str]:
        """Return the paths of all files in the folder of a table, but for the one that each commit replaces."""
        return set(_names(self._tables / folder_of(table)))

    def forget(self, table: str) -> None:
        """Remove the list of a table that was removed."""
        with suppress(OSError):
            self._path(table).rmdir() if self._path(table).is_dir() else self._path(table).unlink()

    def _is_intact(self, table: str, name: str, known: Checksum, reads: Chosen) -> bool:
        path = self._tables / folder_of(table) / name
        found = identity(path)
        if found == known.file and not reads(f"{folder_of(table)}/{name}"):
            return True
        fresh = _checksum(path) if found and found.size == known.file.size else None
        return fresh is not None and fresh.crc == known.crc

    def _latest(self, files: Iterable[str]) -> str:
        """Return the file of the latest version, which has the lowest number in its name."""
        return min(
            (name for name in files if name.startswith(f"{_VERSIONS}/") and name.endswith(".manifest")), default=""
        )

    def _path(self, table: str) -> Path:
        return self._lists / f"{table}.json"

    def _read(self, table: str) -> FileList:
        """Read a list; an empty one where there is none, or where it is damaged itself."""
        writing, rows = read_list(self._path(table)) or (False, ())
        return FileList({name: Checksum(Identity(*file), crc) for name, file, crc in rows}, writing)

    def _write(self, table: str, known: FileList) -> None:
        rows = [(name, astuple(one.file), one.crc) for name, one in sorted(known.files.items())]
        self._lists.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._path(table).is_dir():  # put there by somebody else
            self._path(table).rmdir()
        write_list(self._path(table), [known.writing, rows])


def read_list(path: Path) -> Any:
    """Return what `write_list` wrote; None where there is no such file, or it is damaged."""
    with suppress(OSError, ValueError):
        checksum, _, body = path.read_bytes().partition(b"\n")
        return json.loads(body) if int(checksum, 16) == crc32(body) else None


def write_list(path: Path, values: Any, *, lasting: bool = False) -> None:
    """Write JSON values with their CRC32, whole or not at all; OSError."""
    body = json.dumps(values).encode()
    with replacing(path, path.with_suffix(f".{os.getpid()}"), lasting=lasting) as file:
        file.write(b"%08x\n%s" % (crc32(body), body))


def unfinished(tables: Path) -> list[Path]:
    """Return the lists that a killed process did not finish, in the folder of the tables."""
    return [path for path in (tables / _LISTS).glob("*") if path.suffix[1:].isdecimal()]


def folder_of(table: str) -> str:
    """Name the folder of a table."""
    return f"{table}.lance"


def _names(folder: Path) -> Iterator[str]:
    for inner, _, names in os.walk(folder):
        yield from (Path(inner, name).relative_to(folder).as_posix() for name in names if name != _REWRITTEN)


def _lacks_end(path: Path) -> bool:
    """Return whether a file of a known format is empty or cut off."""
    if (end := _ENDS.get(path.suffix)) is None:
        return False
    with suppress(FileNotFoundError), path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - len(end)))
        return size == 0 or file.read() != end
    return False


def _version(manifest: str) -> int | None:
    """Return the number of a version, which its file counts down from the largest."""
    return _LARGEST - int(Path(manifest).stem) if manifest else None


def _sync(path: Path) -> None:
    """Wait until the disk has a file or a folder; OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _checksum(path: Path, *, sync: bool = False) -> Checksum | None:
    """Read a file; None if there is no regular file, or where it was written to meanwhile. OSError with `sync`."""
    before, crc = identity(path), 0
    if before is None:
        return None
    if sync:
        _sync(path)
    try:
        with path.open("rb", buffering=0) as file:
            while block := file.read(_BLOCK):
                crc = crc32(block, crc)
    except OSError:
        return None
    return Checksum(before, crc) if identity(path) == before else None


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
    return f"{row or table}.crc = {_row_checksum(table, row or table)}"


def row_checksum(*values: bytes | float | None) -> int:
    """Return the CRC32 of the values of a row; numbers are compared as float, as SQLite may store either."""
    each = (value if isinstance(value, bytes) else _number(value) for value in values)
    return crc32(b"".join(b"%d:%b" % (len(raw), raw) for raw in each))


def register(rows: sqlite3.Connection) -> None:
    """Let the triggers and views of a connection compute checksums."""
    rows.create_function("row_checksum", -1, row_checksum, deterministic=True)
    rows.execute("PRAGMA trusted_schema = ON")  # off in some builds of SQLite


def add_checksums(*tables: str) -> tuple[str, ...]:
    """Return the statements that give tables checksums, and the rows in them theirs."""
    return tuple(statement for table in tables for statement in _add(table))


def _add(table: str) -> tuple[str, ...]:
    key, numbers, texts = (names.split() for names in _COVERED[table])
    columns = ", ".join(dict.fromkeys((*key, *numbers, *texts)))
    update = f"UPDATE {table} SET crc = {_row_checksum(table, table)}"
    this = " AND ".join(f"{name} = new.{name}" for name in key)
    # Updating a damaged row must not give it a valid checksum.
    return (
        f"ALTER TABLE {table} ADD COLUMN crc INTEGER",
        update,
        f"""CREATE TRIGGER {table}_crc_insert AFTER INSERT ON {table} WHEN new.crc IS NULL BEGIN
            {update} WHERE {this}; END""",
        f"""CREATE TRIGGER {table}_crc_update AFTER UPDATE OF {columns} ON {table} WHEN {intact(table, "old")} BEGIN
            {update} WHERE {this}; END""",
        f"CREATE VIEW intact_{table} AS SELECT * FROM {table} WHERE {intact(table)}",
    )


def _row_checksum(table: str, row: str) -> str:
    key, numbers, texts = (names.split() for names in _COVERED[table])
    plain = [f"{row}.{name}" for name in (*key, *numbers) if name not in texts]
    # Texts as bytes: a damaged one need not be UTF-8.
    return f"row_checksum({', '.join([*plain, *(f'CAST({row}.{name} AS BLOB)' for name in texts)])})"


def _number(value: float | None) -> bytes:
    return b"" if value is None else repr(float(value)).encode()
