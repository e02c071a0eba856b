"""Checksums of the files of the search tables: LanceDB does not verify what it reads.

LanceDB writes every file once, under a new name, and a version of a table is the files that it names. The ledger lists
the files of the versions that it acknowledges, each with its size, times and CRC32: a file that has not changed since
costs one `stat`, any other is read and compared. An unlisted file is not part of a table.

Where they are objects in a store, the ledger lists the size and time that the store states, and a check compares these.
"""

import os
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

from msgspec import Struct
from msgspec.structs import astuple

from store.errors import DiskFull, PkbError, UsageError
from store.home import Identity, identity

if TYPE_CHECKING:
    from store.database import Ledger
    from store.tables import ObjectStore

PLACE = "tables.place"  # the small value that names the object store with the tables, if they are in one
TAKEN = "taken"  # the small value of a reader's ledger that says what it took over last
_BLOCK = 1 << 20
_REWRITTEN = "latest_version_hint.json"  # by every commit; LanceDB manages without it
_ROWS = ("data", "_deletions")  # the folders of a table without which rows are lost
# The last bytes of files by format; a bitmap of deleted rows (.bin), which is written at once, has none to tell.
_ENDS = {".lance": b"LANC", ".manifest": b"LANC", ".arrow": b"ARROW1", ".bin": b""}
_LARGEST = 2**64 - 1
_VERSIONS, _RECORDS = "_versions", "_transactions"  # one file for each commit: only the latest version is read
_LISTED = "path, crc, size, mtime_ns, ctime_ns, inode"


class Checksum(Struct, frozen=True):
    """A file as it was written: what `stat` says of it, and the CRC32 of its content."""

    file: Identity
    crc: int


class TableFiles:
    """The files of the tables that the ledger lists, by their paths in a folder; to change it needs the writer lock.

    A writer that died leaves files that are not listed, which the next one removes: every table is as before then.
    """

    def __init__(self, ledger: "Ledger", folder: Path, objects: "ObjectStore | None" = None) -> None:
        self._ledger, self._folder, self._objects = ledger, folder, objects

    def names(self) -> list[str]:
        """Return the names of the tables."""
        return sorted({path.split("/")[0].removesuffix(folder_of("")) for path in self._listed()})

    def latest(self, table: str) -> tuple[int, Identity] | None:
        """Return the number of a table's latest version and the identity of its file; None where there is no table."""
        known = self._listed(table)
        name = _latest(known)
        return (_LARGEST - int(Path(name).stem), known[name].file) if name else None

    def damaged(self, table: str, *, reads: bool = False, whole: bool = False) -> list[str]:
        """Return the files that reading a table may need, or all, which are missing or not as they were written.

        With `reads` they are read even if they seem unchanged. Before objects are read, nobody looks: the store says
        itself what is missing.
        """
        if not whole and self._ledger.get(PLACE):
            return []
        while True:
            known = self._listed(table)
            latest = _latest(known)
            read = [path for path in known if whole or path == latest or _part(path) not in (_VERSIONS, _RECORDS)]
            if self._objects:
                there = self._objects.files()
                bad = [path for path in read if there.get(path) != known[path]]
            else:
                bad = [path for path in read if not is_intact(self._folder / path, known[path], reads=reads)]
            if not bad or known == self._listed(table):  # else another process rewrote it meanwhile
                return bad

    def hold_rows(self, table: str, files: Iterable[str]) -> bool:
        """Return whether any of these files has rows: everything else can be made from the rows."""
        latest = _latest(self._listed(table))
        return any(_part(path) in _ROWS or path == latest for path in files)

    def stored(self) -> list[str]:
        """Return all files that are there."""
        if self._objects:
            return [*self._objects.files()]
        there = (Path(inner, name) for inner, _, names in os.walk(self._folder) for name in names)
        return [path.relative_to(self._folder).as_posix() for path in there]

    def unlisted(self) -> list[str]:
        """Return the files that do not belong to a table."""
        known = self._listed()
        return [path for path in self.stored() if path not in known and not path.endswith(f"/{_REWRITTEN}")]

    def written(self) -> dict[str, Checksum]:
        """Sync files that are not listed yet, and return their checksums; DiskFull where one lacks its last bytes."""
        if self._objects:
            self._objects.confirm()
            known = self._listed()
            return {path: one for path, one in self._objects.files().items() if path not in known}
        found, folders = dict[str, Checksum](), set[Path]()
        for path in self.unlisted():
            if _lacks_end(self._folder / path):  # which LanceDB may not notice
                raise DiskFull(f"the disk is full or failing: {self._folder}", "pkb doctor")
            if fresh := checksum(self._folder / path, sync=True):
                found[path] = fresh
                folders |= {*(self._folder / path).parents} - {*self._folder.parents}
        for folder in folders:
            _sync(folder)
        return found

    def add(self, files: Mapping[str, Checksum], replaced: str = "") -> None:
        """List files, in place of all of a table that is `replaced`, inside the caller's transaction."""
        gone = [(path,) for path in (self._listed(replaced) if replaced else ())]
        self._ledger.rows.executemany("DELETE FROM table_files WHERE path = ?", gone)
        rows = [(path, one.crc, *astuple(one.file)) for path, one in files.items()]
        self._ledger.rows.executemany(f"INSERT INTO table_files ({_LISTED}) VALUES (?, ?, ?, ?, ?, ?)", rows)

    def settle(self) -> None:
        """Remove what is not listed; PkbError where another ledger than this one tells what is."""
        if self._ledger.get(TAKEN):
            raise PkbError("these tables are those of another home, which writes them", "unset PKB_HOME")
        if self._objects:
            self._objects.claim()
        held = {*self._listed(), *(f"{folder_of(name)}/{_VERSIONS}/{_REWRITTEN}" for name in self.names())}
        others = [path for path in self.stored() if path not in held]
        if self._objects:
            self._objects.remove(others)
            return
        for path in others:
            (self._folder / path).unlink()
        for inner, _, _ in os.walk(self._folder, topdown=False):
            with suppress(OSError):  # not empty
                Path(inner).rmdir() if Path(inner) != self._folder else None

    def _listed(self, table: str = "") -> dict[str, Checksum]:
        below = f"{folder_of(table)}/" if table else ""
        sql = f"SELECT {_LISTED} FROM table_files WHERE substr(path, 1, length(?1)) = ?1"
        return {path: Checksum(Identity(*file), crc) for path, crc, *file in self._ledger.rows.execute(sql, (below,))}


def settle_place(ledger: "Ledger", wanted: str) -> None:
    """Note in which object store the tables are to be; none if it is empty. UsageError where they are elsewhere."""
    if wanted != (ledger.get(PLACE) or ""):
        refuse_move(ledger, wanted)
        ledger.set(PLACE, wanted)


def refuse_move(ledger: "Ledger", wanted: str) -> None:
    """Raise UsageError where there are tables, and not in this object store."""
    now = ledger.get(PLACE) or ""
    if wanted != now and ledger.rows.execute("SELECT 1 FROM table_files LIMIT 1").fetchone():
        where = f"in {now}" if now else "on this disk"
        step = f"pkb config set home.tables {now or repr('')}, or ingest into a new PKB_HOME"
        raise UsageError(f"the search tables of this home are {where}, and cannot be moved", step)


def is_intact(path: Path, known: Checksum, *, reads: bool = False) -> bool:
    """Return whether a file is as it was written; it is read if it seems changed, or anyway."""
    found = identity(path)
    if found == known.file and not reads:
        return True
    fresh = checksum(path) if found and found.size == known.file.size else None
    return fresh is not None and fresh.crc == known.crc


def list_files(rows: sqlite3.Connection, folder: Path) -> None:
    """List the files of the tables of a home whose ledger did not, as they are."""
    for path in folder.glob(f"*{folder_of('')}/**/*"):
        if path.name != _REWRITTEN and (one := checksum(path)):
            values = (path.relative_to(folder).as_posix(), one.crc, *astuple(one.file))
            rows.execute(f"INSERT INTO table_files ({_LISTED}) VALUES (?, ?, ?, ?, ?, ?)", values)


def folder_of(table: str) -> str:
    """Name the folder of a table."""
    return f"{table}.lance"


def _part(path: str) -> str:
    return path.split("/")[1]


def _latest(files: Iterable[str]) -> str:
    """Return the file of the latest version, which has the lowest number in its name; empty if there is none."""
    return min((path for path in files if _part(path) == _VERSIONS), default="")


def _lacks_end(path: Path) -> bool:
    if (end := _ENDS.get(path.suffix)) is None:
        return False
    with suppress(FileNotFoundError), path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - len(end)))
        return size == 0 or file.read() != end
    return False


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def checksum(path: Path, *, sync: bool = False) -> Checksum | None:
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
