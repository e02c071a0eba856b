"""LanceDB, known to this module alone: typed tables, rewritten to compact, to repair and to forget.

They are in a folder or in an object store. Knows columns and conditions, not what a row means.
"""

import errno
import gc
import os
import re
import secrets
import sqlite3
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit
from zlib import crc32

import numpy as np
import pyarrow as pa

from store.checksums import PLACE, Checksum, TableFiles, folder_of
from store.database import Ledger
from store.errors import DamagedTable, PkbError, Unreachable, UsageError
from store.home import Identity
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
    """Import LanceDB without collecting garbage, of which there is none, and without comparing overriding methods."""
    checks = vars(import_module("overrides")) if sys.version_info < (3, 12) else {}  # from 3.12 on, LanceDB does not
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

_REQUEST = re.compile(r"RetryError|Generic \{ store|Generic S3 error|NoSuchBucket|error sending request")
# Failing, closed, too many open, full, read-only, quota: no damage.
_SYSTEM = tuple(f"(os error {number})" for number in (5, 13, 24, 28, 30, errno.EDQUOT))
Alone = Callable[[], AbstractContextManager[None]]  # in which nobody reads
Acknowledge = Callable[..., AbstractContextManager[None]]  # it takes the name of a table that was replaced, and Alone

_HERE = ("localhost", "127.0.0.1", "::1")
_AT_ONCE = 8  # requests
_MARK = "writer"  # the object that names the last change of the home that writes
MARKS = "tables.marks"  # the small value of the ledger with what it may hold: the last mark, and the next
_ANSWER_S, _READ_S, _WRITE_S = 4, 5, 20  # for a look, which is tried twice; of LanceDB, which tries six times


class ObjectStore:
    """The files of the tables as objects below s3://BUCKET/FOLDER; Unreachable where it does not answer or refuses.

    Each is written as a whole or not at all. Credentials and region are found as AWS's own programs find them, the
    endpoint in AWS_ENDPOINT_URL.
    """

    def __init__(self, place: str, ledger: Ledger) -> None:
        self.place, self._root, self._ledger = place, place.removeprefix("s3://").rstrip("/"), ledger
        self._endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
        scheme, host = self._endpoint.partition("://")[0], urlsplit(self._endpoint).hostname
        if self._endpoint and not (host and (scheme == "https" or (scheme == "http" and host in _HERE))):
            why = "AWS_ENDPOINT_URL must begin with https://, or mail would go unencrypted"
            raise UsageError(why, "export AWS_ENDPOINT_URL=https://HOST")

    def options(self, *, writes: bool) -> dict[str, str]:
        """Return LanceDB's options: nothing waits for long, but a writer longer than a reader."""
        found = {"connect_timeout": f"{_ANSWER_S}s", "timeout": f"{_WRITE_S if writes else _READ_S}s"}
        found |= {"client_max_retries": "0", "download_retry_count": "1"}
        if self._endpoint:
            # Else it reads that variable itself, also if it is empty, which it does not survive.
            found |= {"aws_endpoint_url_s3": self._endpoint, "aws_endpoint": self._endpoint}
            found |= {"allow_http": str(self._endpoint.startswith("http:")).lower()}
        return found

    def files(self) -> dict[str, Checksum]:
        """Return what the store says of each file of a table, by its path."""
        return {path: one for path, one in self._listed().items() if path.split("/")[0].endswith(folder_of(""))}

    def remove(self, paths: Sequence[str]) -> None:
        """Remove files."""

        def remove(path: str) -> None:
            with suppress(FileNotFoundError):
                self._patient.delete_file(f"{self._root}/{path}")

        with self._reached(), ThreadPoolExecutor(_AT_ONCE) as pool:
            deque(pool.map(remove, paths), maxlen=0)

    def check(self) -> None:
        """Raise Unreachable if the store does not answer, sooner than LanceDB does."""
        with self._reached():
            self._objects.get_file_info(f"{self._root}/{_MARK}")

    def claim(self, *, whatever: bool = False) -> None:
        """Mark the store as this home's for a change; PkbError where mark or files are another's, unless `whatever`."""
        known, before = (self._ledger.get(MARKS) or "").split(), self._mark()
        if not whatever and before not in known and (before or self._listed()):
            step = "pkb config set home.tables s3://BUCKET/ANOTHER-FOLDER, or if that home is gone: "
            raise PkbError(f"another home or program has written to {self.place}", f"{step}pkb doctor --data --repair")
        fresh = secrets.token_hex(8)
        self._ledger.rows.execute("PRAGMA synchronous = FULL")  # a mark that it forgot would be another home's
        self._ledger.set(MARKS, f"{before} {fresh}")
        with self._reached(), self._patient.open_output_stream(f"{self._root}/{_MARK}") as stream:
            stream.write(fresh.encode())
        self.confirm()

    def confirm(self) -> None:
        """Raise PkbError where another home has claimed the store since this one did."""
        if self._mark() != (self._ledger.get(MARKS) or "").split(" ")[-1]:
            raise PkbError(f"another home is writing to {self.place}", "pkb doctor --data")

    def _mark(self) -> str:
        try:
            with self._reached(), self._objects.open_input_stream(f"{self._root}/{_MARK}") as stream:
                version, content = stream.metadata().get("VersionId", b"null"), stream.read()
        except FileNotFoundError:
            return ""
        if version not in (b"", b"null"):
            why = f"the bucket of {self.place} keeps earlier versions of objects, which pkb forget cannot erase"
            raise PkbError(why, "turn its versioning off and empty it")
        return str(content.decode())

    def _listed(self) -> dict[str, Checksum]:
        from pyarrow.fs import FileSelector

        with self._reached():
            found = self._objects.get_file_info(FileSelector(self._root, allow_not_found=True, recursive=True))
        files = {one.path.removeprefix(f"{self._root}/"): one for one in found if one.is_file}
        about = {path: Identity(one.size, one.mtime_ns, 0, 0) for path, one in files.items()}
        return {path: Checksum(one, crc32(f"{path} {one}".encode())) for path, one in about.items()}

    @cached_property
    def _objects(self) -> Any:
        return self._client(_ANSWER_S)

    @cached_property
    def _patient(self) -> Any:
        return self._client(_WRITE_S)

    def _client(self, seconds: int) -> Any:
        from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem

        scheme, _, host = self._endpoint.rpartition("://")
        return S3FileSystem(
            endpoint_override=host or None,
            scheme=scheme or "https",
            region=os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"),
            connect_timeout=_ANSWER_S,
            request_timeout=seconds,
            retry_strategy=AwsStandardS3RetryStrategy(max_attempts=2),
        )

    @contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            raise Unreachable(self.place, str(error)) from None


class Tables:
    """The open tables of one home, as the ledger acknowledges them; DamagedTable where files are missing or differ."""

    def __init__(self, folder: Path, ledger: Ledger) -> None:
        place = ledger.get(PLACE)
        self._store = ObjectStore(place, ledger) if place else None
        self._folder, self._ledger, self.files = folder, ledger, TableFiles(ledger, folder, self._store)
        self._changing: dict[str, Any] | None = None  # for writing, within `change`

    @contextmanager
    def change(self) -> Iterator[Acknowledge]:
        """Write to tables and ledger, all or nothing, with the writer lock.

        The block opens the transaction of the ledger that it is given: what was written until then counts from its end
        on. Where the block fails before, or the process dies, every table stays as it was. DiskFull.
        """
        self.files.settle()
        self._changing = {}
        try:
            yield self._acknowledge
        except Exception:
            with suppress(OSError, sqlite3.Error, PkbError):  # else the next change does it
                self.files.settle()
            raise
        finally:
            self._changing = None

    @contextmanager
    def _acknowledge(self, replaced: str = "", alone: Alone = nullcontext) -> Iterator[None]:
        written = self.files.written()
        self._ledger.rows.execute("PRAGMA synchronous = FULL")  # for it tells which files there are
        with alone():
            with self._ledger.transaction():
                self.files.add(written, replaced)
                yield
            if replaced:
                self.files.settle()

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
        with self._damage_of(name):
            query = self._table(name).search().where(condition).select(list(columns))
            for batch in query.limit(None).to_batches():
                yield from batch.to_pylist()

    def vectors(self, name: str, condition: str) -> dict[str, Vectors]:
        """Return the vectors under a condition, by id."""
        if not self.has(name):
            return {}
        with self._damage_of(name):
            query = self._table(name).search().where(condition).select(["id", "vector"])
            found = query.limit(None).to_arrow()
        column = found["vector"].combine_chunks()
        matrix = np.asarray(column.flatten()).reshape(len(found), -1) if len(found) else np.empty((0, 0), np.float32)
        return dict(zip(found["id"].to_pylist(), matrix, strict=True))

    def count(self, name: str, condition: str | None = None) -> int:
        """Count rows."""
        if not self.has(name):
            return 0
        with self._damage_of(name):
            return int(self._table(name).count_rows(condition))

    def rewrite(self, name: str, alone: Alone = nullcontext) -> None:
        """Write the rows into few new files and remove all others: nothing of deleted rows is left.

        The removal breaks readers, so be alone, or take an instant in which to be.
        """
        with self.change() as acknowledge, self._damage_of(name):
            table = self._connected().open_table(name)
            rows = table.search().limit(None).to_batches()
            self._connected().create_table(name, data=rows, schema=table.schema, mode="overwrite")
            with acknowledge(name, alone):
                pass

    def stored(self) -> set[str]:
        """Return all files and objects of tables that are there, but for hints at the latest version."""
        return {path for path in self.files.stored() if not path.endswith(".json")}

    def names(self) -> list[str]:
        """Return the names of the tables."""
        return self.files.names()

    def has(self, name: str) -> bool:
        """Return whether a table exists."""
        return name in (self._changing or ()) or self.files.latest(name) is not None

    def drop(self, name: str) -> None:
        """Remove a table, if it exists."""
        with self.change() as acknowledge, acknowledge(name):
            pass

    def damaged(self, *, reads: bool = False) -> dict[str, list[str]]:
        """Return the tables of which files are missing or not as they were written, with those files."""
        found = {name: self.files.damaged(name, reads=reads, whole=True) for name in self.names()}
        for name in (name for name, files in found.items() if not files):
            try:
                self.count(name)
            except DamagedTable:
                found[name] = [folder_of(name)]
        return {name: files for name, files in found.items() if files}

    def repair(self) -> None:
        """Rewrite damaged tables, and drop those whose rows are lost; breaks readers, so be alone."""
        if self._store:
            self._store.claim(whatever=True)  # where another home wrote to it, too
        self.files.settle()
        for name, files in self.damaged(reads=True).items():
            if not self.files.hold_rows(name, files):
                with suppress(DamagedTable):
                    self.rewrite(name)
                    continue
            self.drop(name)

    @contextmanager
    def _writing(self, name: str) -> Iterator[None]:
        """Write to a table, in a change of its own outside of one."""
        own: AbstractContextManager[Acknowledge | None] = nullcontext() if self._changing is not None else self.change()
        with own as acknowledge:
            with self._damage_of(name):
                yield
            with acknowledge() if acknowledge else nullcontext():
                pass

    def _table(self, name: str, width: int = 0) -> Any:
        """Return a table as it is read, or within a change as it is written, which creates it if there is none."""
        mark, changing = self.files.latest(name), self._changing
        if changing is not None and name in changing:
            return changing[name]
        if self.files.damaged(name) or (mark is None and changing is None):
            raise DamagedTable(name)
        if mark is None:
            fields = {"documents": _DOCUMENTS, "chunks": _CHUNKS}.get(name, _VECTORS)
            schema = pa.schema([*fields, pa.field("vector", pa.list_(pa.float32(), width))] if width else fields)
            table = self._connected().create_table(name, schema=schema)
        else:
            table = self._connected().open_table(name) if changing is not None else self._at(name, mark[0])
        if changing is not None:
            changing[name] = table
        return table

    def _at(self, name: str, version: int, *, again: bool = True) -> Any:
        """Open a table at a version; again if a newer one vanishes meanwhile, as that of a change that is undone."""
        try:
            table = self._connected().open_table(name)
            table.checkout(version)
        except (OSError, RuntimeError, ValueError):
            if not again:
                raise
            return self._at(name, version, again=False)
        return table

    def _connected(self) -> Any:
        # Anew each time, a millisecond: a connection remembers tables that were replaced meanwhile.
        if self._store is None:
            return lancedb.connect(self._folder)
        if self._changing is None:
            self._store.check()
        options = self._store.options(writes=self._changing is not None)
        return lancedb.connect(self._store.place, storage_options=options)

    @contextmanager
    def _damage_of(self, name: str) -> Iterator[None]:
        """Turn errors of LanceDB, and panics of its native code, that are due to files into DamagedTable, Unreachable.

        It says of an object that is missing that it was not found, and of a request that failed, how often it tried.
        """
        try:
            yield
        except BaseException as error:
            text = str(error)
            known = isinstance(error, (OSError, RuntimeError, ValueError))
            if known and self._store and _REQUEST.search(text):
                raise Unreachable(self._store.place, text) from None
            ours = "lance" in text.lower() or text.startswith("Invalid input")
            is_damage = known and ours and not any(mark in text for mark in _SYSTEM)
            if not is_damage and type(error).__name__ not in ("PanicException", "RustPanic"):
                raise
            raise DamagedTable(name) from None
