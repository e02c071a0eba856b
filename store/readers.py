"""Readers' homes: what the ledger of one takes over of the sources that another ledger knows.

A reader's home has its own answers, history, mapped index and KV cache, and reads the search tables of the other one.
It may be limited to some collections: then no row of another one enters its ledger, nor what is made from that.
So it is with the homes of others who see a part of an archive. Of their tokens digests are kept.
"""

import json
import re
import secrets
import shutil
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from hashlib import blake2b
from pathlib import Path

from msgspec import Struct
from msgspec.json import decode, encode

from store.catalog import count_people
from store.checksums import PLACE, TAKEN
from store.database import CHANGED_SINCE, EPOCH, NEWEST, Ledger, exists, open_ledger
from store.errors import DamagedLedger, NoStore, PkbError, UsageError
from store.home import Home, replacing
from store.types import replace


class _State(Struct, frozen=True):
    """What a source was when it was taken over: counters, and digests of the files of its tables and of its roots."""

    generation: int
    epoch: int
    rest: str
    collections: list[str] | None


# Of which rows of the source a reader's ledger has copies, by table; those of documents, by the column that names one.
_INSIDE = "(:names IS NULL OR collection IN (SELECT value FROM json_each(:names)))"
_HELD = f"(:names IS NULL OR EXISTS (SELECT 1 FROM source.places AS place WHERE place.{{}} = {{}} AND {_INSIDE}))"
_COPIED = {
    **dict.fromkeys(("roots", "places"), _INSIDE),
    **dict.fromkeys(("files", "problems"), _HELD.format("path", "{}.path")),
    "table_files": "true",
    "documents": _HELD.format("document", "{}.id"),  # before their titles, which go with them
    **dict.fromkeys(("titles", "provenance"), _HELD.format("document", "{}.document")),
}
_NAMED = {"documents": "id", "titles": "document", "provenance": "document"}
_CHANGED = """(SELECT document FROM source.changed_documents WHERE generation >= :start
               UNION SELECT document FROM main.changed_documents WHERE generation >= :own)"""
# The answers that rest on documents that are gone, or may do so.
_DERIVED = """key NOT IN (SELECT key FROM question_documents) OR key IN (
    SELECT key FROM question_documents WHERE document IN (SELECT value FROM json_each(?)))"""


def take_over(ledger: Ledger, source: Path, collections: Collection[str] | None = None) -> list[str]:
    """Make what a ledger says of sources what another file says, of some collections or all of them.

    Only rows that differ are written, in one transaction; the mapped index is told which documents changed, and what
    was derived from documents that are gone goes with them: their ids are returned. While the source is forgetting,
    nothing is taken over. NoStore where it does not exist, PkbError where a newer pkb wrote it.
    """
    names = None if collections is None else sorted(collections)
    with _attached(ledger, source):
        if _state(ledger, names) == _before(ledger):
            return []
        with ledger.transaction():
            now, before = _state(ledger, names), _before(ledger)
            return [] if now.epoch % 2 or now == before else _copy(ledger, now, before)


@contextmanager
def _attached(ledger: Ledger, source: Path) -> Iterator[None]:
    if not exists(source):
        raise NoStore
    ledger.rows.execute("ATTACH ? AS source", (f"{source.as_uri()}?mode=ro",))
    try:
        version = int(ledger.rows.execute("PRAGMA source.user_version").fetchone()[0])
        if version > NEWEST:
            raise PkbError("the home that this one reads was written by a newer pkb", "upgrade pkb")
        if version < NEWEST:
            open_ledger(source).close()  # which migrates it
        yield
    finally:
        ledger.rows.execute("DETACH source")


def _state(ledger: Ledger, names: list[str] | None) -> _State:
    sql = """SELECT (SELECT value FROM source.meta WHERE name = 'generation'),
                    (SELECT value FROM source.meta WHERE name = ?),
                    (SELECT count(*) || ' ' || total(crc) FROM source.table_files) || ' ' ||
                    (SELECT count(*) || ' ' || total(row_checksum(path, CAST(collection AS BLOB), CAST(read AS BLOB)))
                     FROM source.roots)"""
    generation, epoch, rest = ledger.rows.execute(sql, (EPOCH,)).fetchone()
    return _State(int(generation or 0), int(epoch or 0), rest, names)


def _before(ledger: Ledger) -> _State | None:
    return decode(found, type=_State) if (found := ledger.get(TAKEN)) else None


def _of_source(ledger: Ledger, name: str) -> int:
    row = ledger.rows.execute("SELECT value FROM source.meta WHERE name = ?", (name,)).fetchone()
    return int(row[0]) if row else -1


def _copy(ledger: Ledger, now: _State, before: _State | None) -> list[str]:
    """Copy rows, inside the caller's transaction; returns the documents that are gone."""
    rows, since = ledger.rows, _of_source(ledger, CHANGED_SINCE)
    # From which generation on the source knows what changed, in places apart; below 0 all rows are compared.
    is_known = before and before.collections == now.collections and 0 <= since <= before.generation <= now.generation
    start = before.generation if before and is_known else -1
    names = None if now.collections is None else json.dumps(now.collections)
    values = {"names": names, "start": start, "own": ledger.generation}
    there = {one for (one,) in rows.execute("SELECT id FROM main.documents")}
    for table, inside in _COPIED.items():
        columns = [name for (name,) in rows.execute("SELECT name FROM pragma_table_info(?)", (table,))]
        listed, same = ", ".join(columns), " AND ".join(f"other.{name} IS one.{name}" for name in columns)
        some = f"one.{_NAMED[table]} IN {_CHANGED}" if table in _NAMED and start >= 0 else "true"
        old = f"SELECT 1 FROM source.{table} AS other WHERE {same} AND {inside.format('other')}"
        new = f"SELECT 1 FROM main.{table} AS other WHERE {same}"
        rows.execute(f"DELETE FROM main.{table} AS one WHERE {some} AND NOT EXISTS ({old})", values)
        source = f"source.{table} AS one WHERE {some} AND {inside.format('one')} AND NOT EXISTS ({new})"
        sql = f"INSERT INTO {table} ({listed}) SELECT {listed} FROM {source} RETURNING {columns[0]}"
        ids = [one for (one,) in rows.execute(sql, values)]
        if table == "provenance":
            count_people(ledger, ids)
    if gone := sorted(there.difference(one for (one,) in rows.execute("SELECT id FROM main.documents"))):
        for table in ("answers", "rejected_answers"):  # in a part of an archive, any may have counted what is gone
            rows.execute(f"DELETE FROM {table} WHERE {_DERIVED} OR ?", (json.dumps(gone), names is not None))
        for table in ("refresh_candidates", "predictions", "jobs"):
            rows.execute(f"DELETE FROM {table}")
        ledger.set(EPOCH, str((ledger.count(EPOCH) | 1) + 1))  # what other processes derive from them now is not kept
    _note(ledger, now, before, start)
    return gone


def _note(ledger: Ledger, now: _State, before: _State | None, start: int) -> None:
    """Note what was taken over, and the documents whose chunks or vectors may have changed."""
    sql = """INSERT OR REPLACE INTO changed_documents SELECT id, ?1 FROM main.documents
             WHERE ?2 < 0 OR id IN (SELECT document FROM source.changed_documents WHERE generation >= ?2)"""
    ledger.rows.execute(sql, (ledger.generation, start))
    (chunks,) = ledger.rows.execute("SELECT coalesce(sum(chunks), 0) FROM main.documents").fetchone()
    missing = _of_source(ledger, "chunks") - _of_source(ledger, "embedded")
    sql = "INSERT OR REPLACE INTO meta SELECT * FROM source.meta WHERE name IN ('vectors', ?)"
    ledger.rows.execute(sql, (PLACE,))
    ledger.set("chunks", str(chunks))
    ledger.set("embedded", str(max(0, chunks - missing)))
    if before is None or replace(now, rest=before.rest) != before:
        ledger.set("generation", str(max(ledger.generation + 1, now.generation)))
    ledger.set(TAKEN, encode(now).decode())


class User(Struct, frozen=True):
    """Who sees some collections of an archive, by name; the digest of their token, and their own addresses."""

    name: str
    collections: tuple[str, ...]
    addresses: str = ""
    digest: str = ""


_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")


class UserBook:
    """The users of a home, in a file that only its owner can read."""

    def __init__(self, home: Home) -> None:
        self._home, self._path = home, home.book

    def users(self) -> list[User]:
        """Return all users, by name; PkbError where the file is damaged."""
        try:
            return decode(self._path.read_bytes(), type=list[User])
        except FileNotFoundError:
            return []
        except ValueError:
            raise PkbError(f"{self._path} is damaged", f"rm {self._path}, then pkb user add NAME") from None

    def find(self, name: str) -> User:
        """Return a user; UsageError if there is none of that name."""
        if found := next((one for one in self.users() if one.name == name), None):
            return found
        raise UsageError(f"there is no user {name}", "pkb user list")

    def of_token(self, token: str) -> User | None:
        """Return whose token it is, if anybody's."""
        given = _digest(token)
        return next((one for one in self.users() if secrets.compare_digest(one.digest, given)), None)

    def put(self, user: User, *, renew: bool = False) -> str | None:
        """Add or change a user and their home, and return their token if it is made, or made anew; UsageError."""
        if not _NAME.fullmatch(user.name):
            raise UsageError(f"{user.name} is no name like ann-2", "pkb user add ann --in Choir")
        users, token = {one.name: one for one in self.users()}, secrets.token_urlsafe(32)
        is_known, home = user.name in users, self._home.of_user(user.name)
        is_kept = is_known and not renew
        users[user.name] = replace(user, digest=users[user.name].digest if is_kept else _digest(token))
        if not is_known:
            reset(home)  # something may be left of a former user of that name
        self._write([users[name] for name in sorted(users)])
        home.create()
        with closing(open_own(home)) as ledger:
            follow(home, ledger, is_new=True)
        return None if is_kept else token

    def remove(self, name: str) -> Home:
        """Remove a user, and return what is left of them: their home; UsageError if there is none."""
        home = self._home.of_user(name)
        if not (_NAME.fullmatch(name) and home.data.is_dir()):
            self.find(name)
        self._write([one for one in self.users() if one.name != name])
        return home

    def homes(self) -> list[Home]:
        """Return the homes of all users, and of former ones of whom something is left."""
        return [self._home.of_user(folder.name) for folder in sorted(self._home.users.glob("*/"))]

    def _write(self, users: list[User]) -> None:
        with replacing(self._path, lasting=True) as file:
            file.write(encode(users))


def _digest(token: str) -> str:
    """Return what is kept of a token, which is random and too long to be guessed from it."""
    return blake2b(token.encode(), digest_size=32, person=b"pkb user").hexdigest()


def open_own(home: Home) -> Ledger:
    """Open a user's ledger, an empty one in place of one that is damaged: nothing but questions and answers is lost."""
    try:
        return open_ledger(home.ledger, create=True)
    except DamagedLedger:
        reset(home)
        return open_ledger(home.ledger)


def reset(home: Home) -> None:
    """Remove all that a user's home holds, and make an empty one."""
    shutil.rmtree(home.data, ignore_errors=True)
    home.create()
    open_ledger(home.ledger, create=True).close()


def user_of(home: Home) -> User:
    """Return whose home it is; UsageError where it is no user's any more."""
    return UserBook(Home(home.bank, home.cache, home.config)).find(home.data.name)


def follow(home: Home, ledger: Ledger, *, is_new: bool = False) -> None:
    """Take over what the home that this one reads has by now; what rests on documents that are gone goes for good.

    For one that `is_new`, the index is made. UsageError where this home is no user's any more.
    """
    if home.source is None or ledger.temporary:
        return
    if take_over(ledger, home.source / home.ledger.name, user_of(home).collections) or is_new:
        from store.kv_index import KvFolder
        from store.mapped_index import MappedIndex
        from store.tables import Tables

        if ledger.has_nodes:
            KvFolder(ledger, home.kv).remove_unlinked()
        MappedIndex(home, ledger, lambda: Tables(home.tables, ledger)).update(erase=True)
