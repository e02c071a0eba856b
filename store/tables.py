"""LanceDB, known to this module alone: typed tables, rewritten to compact, to repair and to forget.

Knows columns and conditions, not what a row means.
"""

import errno
import gc
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from store.checksums import TableFiles, folder_of
from store.database import Ledger
from store.errors import DamagedTable
from store.types import Row, Vectors


def _stand_in(name: str) -> None:
    """Import a package without executing it: each of its names is a plain class; its submodules import as usual."""
    spec = find_spec(name)
    if spec is None or name in sys.modules:
        return
    package, (above, _, inner) = module_from_spec(spec), name.rpartition(".")

    def empty(attribute: str) -> type:
        if attribute.startswith("__"):  # of the import system, which looks for what a package need not have
            raise AttributeError(attribute)
        return type(attribute, (SimpleNamespace,), {})

    package.__dict__["__getattr__"] = empty
    sys.modules[name] = package
    if above:
        setattr(sys.modules[above], inner, package)


@contextmanager
def _quick_import() -> Iterator[None]:
    """Import LanceDB without collecting garbage, of which there is none, and without comparing overriding methods.

    LanceDB itself does not compare their signatures from Python 3.12 on.
    """
    checks = vars(import_module("overrides")) if sys.version_info < (3, 12) else {}
    override, collects = checks.get("override"), gc.isenabled()

    def mark(method: Any) -> Any:
        method.__override__ = True
        return method

    checks["override"] = mark
    gc.disable()
    try:
        yield
    finally:
        checks["override"] = override
        gc.freeze()  # thousands of classes, which need not be looked at again
        if collects:
            gc.enable()


# A client of remote databases, of whose classes a local one uses none: half of the time that LanceDB takes to import.
for _remote in ("lance_namespace", "lance_namespace_urllib3_client", "lance_namespace_urllib3_client.models"):
    _stand_in(_remote)
with _quick_import():
    import lancedb

_DATE = pa.timestamp("us", "UTC")
_ABOUT = [
    pa.field("date", _DATE),
    pa.field("local", pa.timestamp("us")),  # the same moment on the writer's clock
    pa.field("sender", pa.string(), nullable=False),
    pa.field("recipients", pa.string(), nullable=False),  # one per line
    pa.field("collections", pa.list_(pa.string()), nullable=False),  # as it was; the ledger's places tell what is now
]


def _fields(kind: pa.DataType, *names: str, nullable: bool = False) -> list[pa.Field]:
    return [pa.field(name, kind, nullable=nullable) for name in names]


_DOCUMENTS = [
    *_fields(pa.string(), "id", "kind", "title"),
    *_fields(pa.string(), "message_id", nullable=True),
    *_fields(pa.large_string(), "text"),
    *_fields(pa.string(), "claimed", nullable=True),  # ISO; the date it gives itself, if later than it was first seen
    *_ABOUT,
]
_CHUNKS = [
    *_fields(pa.string(), "id", "document"),
    *_fields(pa.int32(), "position"),
    *_fields(pa.string(), "header", "text", "words"),
    *_fields(pa.int32(), "first", "last"),
    *_fields(pa.string(), "title"),
    *_fields(pa.string(), "role", "written", "author", "origin", "claimed", nullable=True),  # dates in ISO, of quotes
    *_ABOUT,
]
# Apart from the chunks: filling a column rewrites its rows.
_VECTORS = [*_fields(pa.string(), "id", "document"), *_ABOUT]

# Failing, closed, too many open, full, read-only, quota: no damage.
_SYSTEM = tuple(f"(os error {number})" for number in (5, 13, 24, 28, 30, errno.EDQUOT))
Acknowledge = Callable[..., AbstractContextManager[None]]  # it is given the name of a table that was replaced


class Tables:
    """The open tables of one home; DamagedTable where files of a table are missing or not as they were written.

    A table is read as the ledger acknowledges it: see `change`.
    """

    def __init__(self, folder: Path, ledger: Ledger) -> None:
        self._folder, self._ledger, self._files = folder, ledger, TableFiles(ledger, folder)
        self._changing: dict[str, Any] | None = None  # for writing, within `change`

    @contextmanager
    def change(self) -> Iterator[Acknowledge]:
        """Write to tables and ledger, all or nothing, with the writer lock.

        The block opens the transaction of the ledger that it is given: what was written until then counts from its end
        on. Where the block fails before, or the process dies, every table stays as it was. DiskFull.
        """
        self._files.settle()
        self._changing = {}
        try:
            yield self._acknowledge
        except Exception:
            with suppress(OSError, sqlite3.Error):  # else the next change does it
                self._files.settle()
            raise
        finally:
            self._changing = None

    @contextmanager
    def _acknowledge(self, replaced: str = "") -> Iterator[None]:
        written = self._files.written()
        self._ledger.rows.execute("PRAGMA synchronous = FULL")  # for it tells which files there are
        with self._ledger.transaction():
            self._files.add(written, replaced)
            yield

    def add(self, name: str, rows: Sequence[Row], width: int = 0) -> None:
        """Append rows whose ids are known to be new."""
        with self._writing(name):
            table = self._table(name, width)
            table.add(pa.Table.from_pylist(list(rows), schema=table.schema))

    def delete(self, name: str, condition: str) -> None:
        """Delete the rows under a condition; they stay on disk until the table is rewritten."""
        if self.has(name):
            with self._writing(name):
                self._table(name).delete(condition)

    def select(self, name: str, condition: str, columns: Sequence[str]) -> list[Row]:
        """Return columns of the rows under a condition, in no order."""
        return list(self.each(name, columns, condition))

    def each(self, name: str, columns: Sequence[str], condition: str = "true") -> Iterator[Row]:
        """Yield columns of the rows of a table under a condition, some at a time."""
        if not self.has(name):
            return
        with _damage_of(name):
            query = self._table(name).search().where(condition).select(list(columns))
            for batch in query.limit(None).to_batches():
                yield from batch.to_pylist()

    def vectors(self, name: str, condition: str) -> dict[str, Vectors]:
        """Return the vectors under a condition, by id."""
        if not self.has(name):
            return {}
        with _damage_of(name):
            query = self._table(name).search().where(condition).select(["id", "vector"])
            found = query.limit(None).to_arrow()
        column = found["vector"].combine_chunks()
        matrix = np.asarray(column.flatten()).reshape(len(found), -1) if len(found) else np.empty((0, 0), np.float32)
        return dict(zip(found["id"].to_pylist(), matrix, strict=True))

    def count(self, name: str, condition: str | None = None) -> int:
        """Count rows."""
        if not self.has(name):
            return 0
        with _damage_of(name):
            return int(self._table(name).count_rows(condition))

    def rewrite(self, name: str) -> None:
        """Write the rows into few new files and remove all others: nothing of deleted rows is left. Breaks readers."""
        with self.change() as acknowledge, _damage_of(name):
            table = self._connected().open_table(name)
            rows = table.search().limit(None).to_batches()
            self._create(name, data=rows, schema=table.schema, mode="overwrite")
            with acknowledge(name):
                pass
        self._files.settle()

    def remove_leftovers(self) -> None:
        """Remove what a writer that died left; needs the writer lock."""
        self._files.settle()

    def names(self) -> list[str]:
        """Return the names of the tables."""
        return self._files.names()

    def has(self, name: str) -> bool:
        """Return whether a table exists."""
        return name in (self._changing or ()) or self._files.latest(name) is not None

    def drop(self, name: str) -> None:
        """Remove a table, if it exists."""
        with self.change() as acknowledge, acknowledge():
            self._files.drop(name)
        self._files.settle()

    def damaged(self, *, reads: bool = False) -> dict[str, list[str]]:
        """Return the tables of which files are missing or not as they were written, with those files."""
        found = {name: self._files.damaged(name, reads=reads, whole=True) for name in self.names()}
        for name in (name for name, files in found.items() if not files):
            try:
                self.count(name)
            except DamagedTable:
                found[name] = [folder_of(name)]
        return {name: files for name, files in found.items() if files}

    def repair(self) -> None:
        """Rewrite damaged tables, and drop those whose rows are lost; breaks readers, so be alone."""
        self._files.settle()
        for name, files in self.damaged(reads=True).items():
            if not self._files.hold_rows(name, files):
                with suppress(DamagedTable):
                    self.rewrite(name)
                    continue
            self.drop(name)

    @contextmanager
    def _writing(self, name: str) -> Iterator[None]:
        """Write to a table, in a change of its own outside of one."""
        if self._changing is not None:
            with _damage_of(name):
                yield
            return
        with self.change() as acknowledge:
            with _damage_of(name):
                yield
            with acknowledge():
                pass

    def _table(self, name: str, width: int = 0) -> Any:
        """Return a table as it is read, or within a change as it is written, which creates it if there is none."""
        mark, changing = self._files.latest(name), self._changing
        if changing is not None and name in changing:
            return changing[name]
        if self._files.damaged(name) or (mark is None and changing is None):
            raise DamagedTable(name)
        if mark is None:
            fields = {"documents": _DOCUMENTS, "chunks": _CHUNKS}.get(name, _VECTORS)
            schema = pa.schema([*fields, pa.field("vector", pa.list_(pa.float32(), width))] if width else fields)
            return self._create(name, schema=schema)
        table = self._connected().open_table(name)
        if changing is None:
            table.checkout(mark[0])
        else:
            changing[name] = table
        return table

    def _create(self, name: str, **data: Any) -> Any:
        table = self._connected().create_table(name, **data)
        if self._changing is not None:
            self._changing[name] = table
        return table

    def _connected(self) -> Any:
        # Anew each time, a millisecond: a connection remembers tables that were replaced meanwhile.
        return lancedb.connect(self._folder)


@contextmanager
def _damage_of(name: str) -> Iterator[None]:
    """Turn errors of LanceDB, and panics of its native code, that are due to the content of files into DamagedTable."""
    try:
        yield
    except BaseException as error:
        text = str(error)
        known = isinstance(error, (OSError, RuntimeError, ValueError))
        ours = "lance" in text.lower() or text.startswith("Invalid input")
        is_damage = known and ours and not any(mark in text for mark in _SYSTEM)
        if not is_damage and type(error).__name__ not in ("PanicException", "RustPanic"):
            raise
        raise DamagedTable(name) from None
