"""The catalogue of sources: roots, files, where documents are, problems; who sent each document, and its first day.

Knows paths, ids and names, no text. Names are compared as the engine folds them: they come in as plain text.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from store.database import Ledger, LedgerRows, intact, path_key, row_checksum_of
from store.errors import DamagedLedger
from store.types import ASIDE, FileState, PersonFilter, Place, Scope, fold

_PLACE = "path, item, document, message_id, lines_before, collection"
_STATE = "size, mtime_ns, inode, ctime_ns, digest"
# As many as the index has entries; one at least, unless the document is removed or about to be, see `drop`.
_EXPECTED = """max((SELECT count(*) FROM places WHERE document = ?1),
                   EXISTS (SELECT 1 FROM documents WHERE id = ?1 AND NOT rechunk))"""


class FormerNames(LedgerRows):
    """What documents were recognised by where they are no longer: keyed digests, changed inside a transaction."""

    def add(self, names: Iterable[tuple[str, str]]) -> None:
        """Remember documents by a name of each."""
        found = ((document, self.digest(name)) for document, name in names)
        self._rows.executemany("INSERT OR IGNORE INTO former_names VALUES (?, ?)", found)

    def leave(self, places: Iterable[tuple[str | bytes, str, str | None]]) -> None:
        """Remember documents by path, folders and Message-ID of a place that is about to be removed."""
        for path, document, message_id in places:
            file = os.fsdecode(path)
            names = [f"path\0{one}" for one in (file, *map(str, Path(file).parents))]
            self.add((document, name) for name in (*names, f"id\0{message_id}"))

    def remove(self, documents: Iterable[str]) -> None:
        """Forget the former names of documents."""
        self._rows.executemany("DELETE FROM former_names WHERE document = ?", [(one,) for one in documents])

    def exist(self) -> bool:
        """Return whether anything was remembered; to ask writes nothing."""
        return self.ledger.get(_KEY) is not None

    def documents(self, name: str | None = None, *, removed: bool = True) -> list[str]:
        """Return the documents that had a name, or any: those removed from the index, or those that are still in it."""
        sql = f"""SELECT DISTINCT document FROM former_names WHERE coalesce(name = ?, true)
                  AND document {"NOT" if removed else ""} IN (SELECT id FROM documents) ORDER BY document"""
        return [document for (document,) in self._rows.execute(sql, (name and self.digest(name),))]

    def digest(self, name: str) -> bytes:
        """Return the digest of a name."""
        data = name.encode("utf-8", "surrogatepass")
        return blake2b(data, key=self._key, digest_size=16, person=b"pkb forgotten").digest()

    @cached_property
    def _key(self) -> bytes:
        if (text := self.ledger.get(_KEY)) is None:
            self.ledger.set(_KEY, text := token_hex(32))
        return bytes.fromhex(text)


@dataclass(frozen=True, slots=True)
class SourceRoot:
    """A folder or file named to `pkb ingest`, its collection, and the kind given for it, if any."""

    path: str
    collection: str
    kind: str | None


@dataclass(frozen=True, slots=True)
class Problem:
    """An item of a file that could not be read completely, looks misread, or was left out."""

    path: str
    item: int
    reason: str  # for which it was not read completely, in words that quote no content; else empty
    kinds: tuple[str, ...] = ()  # what looks misread in it, or the state for which it was left out


BUG = "bug in pkb:"  # what the reason of a problem begins with if the file is to be read again by another version
_KEY = "forget.key"  # a small value of the ledger
_BELOW = "(path = ? OR (path > ? AND path < ?))"
# Of few documents each is looked up, in order of their ids; of many, both tables are read in that order.
_OF_FEW = f"(SELECT +document AS id FROM places WHERE {_BELOW} GROUP BY 1) CROSS JOIN documents USING (id)"
_OF_MANY = f"documents WHERE EXISTS (SELECT 1 FROM places WHERE document = id AND {_BELOW})"
_Row = tuple[bytes, int, str, str | None, int | None, str]  # of a place
CHANGED = -1  # the mtime of a file to read again


def _below(root: str) -> tuple[bytes, bytes, bytes]:
    """Return the values for `_BELOW`: the path itself, and the open range of all paths inside it."""
    key = path_key(root)
    folder = key.rstrip(b"/")
    return key, folder + b"/", folder + b"0"  # "0" follows "/"


def follow_mail(ledger: Ledger, mail: Path) -> None:
    """Bring the paths of mail accounts up to date, whose folder was moved, or copied, with its home."""
    roots = [Path(os.fsdecode(path)) for (path,) in ledger.rows.execute("SELECT path FROM roots")]
    former = set[Path]()
    for root, place in ((one, above) for one in roots for above in (one.parent, one.parent.parent)):
        account, is_own = root.relative_to(place), root.exists() and not (place.parent / "ledger.db").exists()
        is_account = place.name == mail.name and "@" in account.parts[0] and (mail / account).is_dir()
        if is_account and place != mail and not is_own:
            former.add(place)
    for before in former:
        with ledger.transaction():
            for table in ("roots", "files", "places", "problems"):
                sql = f"UPDATE OR REPLACE {table} SET path = CAST(? || substr(path, ?) AS BLOB) WHERE {_BELOW}"
                ledger.rows.execute(sql, (path_key(mail), len(path_key(before)) + 1, *_below(str(before))))
            digest = FormerNames(ledger).digest
            for folder in (one.relative_to(mail) for one in (mail, *mail.glob("*/"), *mail.glob("*/*/"))):
                named = [digest(f"path\0{above / folder}") for above in (mail, before)]
                ledger.rows.execute("UPDATE OR IGNORE former_names SET name = ? WHERE name = ?", named)
            ledger.raise_generation()  # sources of cached answers are looked up again


class Catalog:
    """The ledger's rows about files; every method that changes rows is called inside a transaction.

    One that is limited to a collection knows roots and places of that one alone.
    """

    def __init__(self, ledger: Ledger, collection: str | None = None) -> None:
        self.ledger, self._rows, self.collection = ledger, ledger.rows, collection

    def within(self, scope: Scope) -> "Catalog":
        """Return the catalogue as a question of a scope may see it."""
        return Catalog(self.ledger, self.collection or scope.collection)

    def _shows(self, collection: str) -> bool:
        return self.collection in (None, collection)

    def roots(self) -> list[SourceRoot]:
        """Return every root, in order of its path."""
        rows = self._rows.execute("SELECT path, collection, kind FROM roots ORDER BY path")
        return [SourceRoot(os.fsdecode(path), name, kind) for path, name, kind in rows if self._shows(name)]

    def put_root(self, root: SourceRoot) -> None:
        """Add a root, or change its collection and kind; roots inside it keep theirs."""
        key, below = path_key(root.path), _below(root.path)
        row = self._rows.execute("SELECT collection, kind FROM roots WHERE path = ?", (key,)).fetchone()
        collection, kind = row or (root.collection, root.kind)
        if collection != root.collection:  # inner roots of the same collection change with this one
            sql = f"UPDATE roots SET collection = ? WHERE {_BELOW} AND collection = ?"
            self._rows.execute(sql, (root.collection, *below, collection))
        if kind != root.kind:
            self._rows.execute(f"UPDATE files SET mtime_ns = {CHANGED} WHERE {_BELOW}", below)
        sql = """INSERT INTO roots (path, collection, kind) VALUES (?, ?, ?)
                 ON CONFLICT (path) DO UPDATE SET collection = excluded.collection, kind = excluded.kind"""
        self._rows.execute(sql, (key, root.collection, root.kind))
        roots = self.roots()
        for one in roots:
            if _inside(one, root):
                self._move(one, [inner for inner in roots if inner != one and _inside(inner, one)])

    def root_counts(self) -> list[tuple[SourceRoot, dict[str, Any]]]:
        """Count what each root holds, inner roots too: files, documents, the first and the last date, the last read."""
        sql = f"""SELECT (SELECT count(*) FROM files WHERE {_BELOW}), count(*), min(date), max(date),
                         (SELECT read FROM roots WHERE path = ?) FROM """
        names, found = ("files", "documents", "first", "last", "read"), []
        every = self._one("SELECT count(*) FROM places")
        for root, own in [(one, _below(one.path)) for one in self.roots()]:
            is_few = 4 * self._one(f"SELECT count(*) FROM places WHERE {_BELOW}", *own) < every
            row = self._rows.execute(sql + (_OF_FEW if is_few else _OF_MANY), (*own, own[0], *own)).fetchone()
            found.append((root, dict(zip(names, row, strict=True))))
        return found

    def mark_read(self, root: str, now: datetime) -> None:
        """Note when a root was last brought up to date."""
        self._rows.execute("UPDATE roots SET read = ? WHERE path = ?", (now.isoformat(), path_key(root)))

    def drop_root(self, root: str) -> None:
        """Remove a root and its inner roots."""
        self._rows.execute(f"DELETE FROM roots WHERE {_BELOW}", _below(root))

    def files(self, root: str) -> dict[bytes, FileState]:
        """Return the state of every indexed file at or below a path, keyed by the file's path as bytes."""
        sql = f"SELECT path, {_STATE} FROM files WHERE {_BELOW}"
        return {path: FileState(*state) for path, *state in self._rows.execute(sql, _below(root))}

    def changed(self) -> list[bytes]:
        """Return the files to read again."""
        return [path for (path,) in self._rows.execute(f"SELECT path FROM files WHERE mtime_ns = {CHANGED}")]

    def state(self, path: str) -> FileState | None:
        """Return the state in which a file was read; its mtime is that of no file if it is to be read again."""
        row = self._rows.execute(f"SELECT {_STATE} FROM files WHERE path = ?", (path_key(path),)).fetchone()
        return FileState(*row) if row else None

    def put_file(self, path: str, state: FileState, places: Sequence[Place], problems: Sequence[Problem]) -> None:
        """Record a file that was read completely, with its places and problems in place of the former ones.

        Documents that are gone from it are removed later, by `drop`, after `count_removed` was checked; `replace` has
        removed those of which it has new versions.
        """
        key, here = path_key(path), {place.document for place in places}
        former = self._rows.execute(f"SELECT {_PLACE} FROM places WHERE path = ? ORDER BY item", (key,)).fetchall()
        aside = [row for row in former if row[2] not in here]
        rows = [(key, -number, *row[2:4], None, row[5]) for number, row in enumerate(reversed(aside), 1)]
        rows = [*reversed(rows), *sorted(map(_row, places))]
        if rows != former:
            self._rows.execute("DELETE FROM places WHERE path = ?", (key,))
            self._insert(rows)
        self._rows.execute("DELETE FROM problems WHERE path = ?", (key,))
        found = [(key, problem.item, problem.reason, " ".join(problem.kinds)) for problem in problems]
        self._rows.executemany("INSERT OR REPLACE INTO problems VALUES (?, ?, ?, ?)", found)
        self.put_state(key, state)

    def replace(self, gone: Sequence[Place]) -> None:
        """Remove the places of documents that were replaced."""
        FormerNames(self.ledger).leave((place.path, place.document, place.message_id) for place in gone)
        rows = [(path_key(place.path), place.document) for place in gone]
        self._rows.executemany("DELETE FROM places WHERE path = ? AND document = ?", rows)
        noted = [(path_key(place.path), place.item) for place in gone]
        self._rows.executemany("DELETE FROM problems WHERE path = ? AND item = ? AND reason = ''", noted)

    def put_places(self, path: str, places: Sequence[Place]) -> None:
        """Add places of a file that is not read completely yet, and mark it as changed."""
        key = path_key(path)
        for place in places:
            self._replace(key, place)
        self._insert(map(_row, places))
        self.put_state(key, FileState(0, CHANGED, 0))

    def _going(self, root: str, gone: Collection[bytes]) -> "set[tuple[bytes, int, str, str | None]]":
        """Return the places in missing files, and the former ones in changed files at or below the root."""
        sql = "SELECT path, item, document, message_id FROM places WHERE"
        former = self._rows.execute(f"{sql} item < 0 AND {_BELOW}", _below(root))
        return {*former}.union(*(self._rows.execute(f"{sql} path = ?", (path,)) for path in gone))

    def drop(self, root: str, gone: Collection[bytes]) -> None:
        """Remove missing files, and the former places in changed files at or below the root."""
        keys = [(path,) for path in gone]
        places = self._going(root, gone)
        FormerNames(self.ledger).leave((path, document, message_id) for path, _, document, message_id in places)
        self._rows.executemany("DELETE FROM places WHERE path = ? AND item = ?", [place[:2] for place in places])
        for table in ("files", "problems"):
            self._rows.executemany(f"DELETE FROM {table} WHERE path = ?", keys)
        if places:
            sql = "UPDATE documents SET rechunk = 1 WHERE id = ?1 AND id NOT IN (SELECT document FROM places)"
            self._rows.executemany(sql, {(place[2],) for place in places})
            self.ledger.raise_generation()  # a document without a place is not retrieved any more

    def count_removed(self, root: str, gone: Collection[bytes]) -> tuple[int, int]:
        """Count the documents that `drop` would leave without a place, and all documents at or below the root."""
        going = Counter(document for _, _, document, _ in self._going(root, gone))
        places = "SELECT count(*) FROM places WHERE document = ?"
        lost = sum(self._one(places, document) == here for document, here in going.items())
        # In the order of that index no set of all ids is needed.
        every = f"SELECT count(DISTINCT document) FROM places INDEXED BY places_document WHERE {_BELOW}"
        return lost, self._one(every, *_below(root)) if lost else 0

    def mark_changed(self, documents: Iterable[str]) -> None:
        """Mark the files that contain these documents as changed, to be read again."""
        sql = f"UPDATE files SET mtime_ns = {CHANGED} WHERE path IN (SELECT path FROM places WHERE document = ?)"
        self._rows.executemany(sql, [(document,) for document in documents])

    def mark_below_changed(self, root: str) -> None:
        """Mark the files at or below a path as changed, to be read again."""
        self._rows.execute(f"UPDATE files SET mtime_ns = {CHANGED} WHERE {_BELOW}", _below(root))

    def places(self, document: str) -> list[Place]:
        """Return every place of a document, those with line numbers of the file itself first, then by path."""
        # One statement, so that a writer cannot come between what is compared.
        sql = f"""SELECT {_EXPECTED}, {intact("places")}, {_PLACE} FROM (SELECT 1) LEFT JOIN places ON document = ?1
                  ORDER BY item < 0, lines_before IS NULL, path, item"""
        rows = self._rows.execute(sql, (document,)).fetchall()
        places = [Place(os.fsdecode(path), *rest) for _, sound, path, *rest in rows if sound]
        if len(places) < rows[0][0]:
            raise DamagedLedger("the ledger (ledger.db)")
        return [place for place in places if self._shows(place.collection)]

    def places_in(self, path: str) -> list[Place]:
        """Return the places of one file, in order."""
        return [place for place in self.former_places(path) if place.item >= 0 and self._shows(place.collection)]

    def former_places(self, path: str) -> list[Place]:
        """Return the places of one file, in order, after those of documents that are gone from it (an item below 0)."""
        sql = f"SELECT {_PLACE} FROM places WHERE path = ? ORDER BY item"
        return [Place(os.fsdecode(path), *rest) for path, *rest in self._rows.execute(sql, (path_key(path),))]

    def documents_below(self, path: str) -> list[str]:
        """Return the documents at or below a path."""
        sql = f"SELECT DISTINCT document FROM places WHERE {_BELOW} ORDER BY document"
        return [document for (document,) in self._rows.execute(sql, _below(path))]

    def documents_with_message_id(self, message_id: str) -> list[str]:
        """Return the documents with a Message-ID; more than one where it was used twice."""
        sql = "SELECT DISTINCT document FROM places WHERE message_id = ? ORDER BY document"
        return [document for (document,) in self._rows.execute(sql, (message_id,))]

    def problems(self, root: str) -> list[Problem]:
        """Return the problems at or below a path, in order of path and item."""
        sql = f"SELECT path, item, reason, kinds FROM problems WHERE {_BELOW} ORDER BY path, item"
        rows = self._rows.execute(sql, _below(root))
        return [Problem(os.fsdecode(path), item, reason, tuple(kinds.split())) for path, item, reason, kinds in rows]

    def collections(self, document: str) -> list[str]:
        """Return the collections that a document belongs to, by its places."""
        sql = "SELECT DISTINCT collection FROM places WHERE document = ? ORDER BY collection"
        return [name for (name,) in self._rows.execute(sql, (document,))]

    def by_collection(self) -> dict[str, int]:
        """Count the documents of each collection."""
        # +: sorts them, which takes less time than a set of so many ids, or an index that leads all over the table.
        sql = """SELECT collection, count(*) FROM (SELECT +document, collection FROM places GROUP BY 1, 2)
                 GROUP BY collection ORDER BY collection"""
        return {name: count for name, count in self._rows.execute(sql) if self._shows(name)}

    def counts(self) -> dict[str, int]:
        """Count files, documents, places and problems."""
        tables = ("files", "documents", "places", "problems WHERE reason != ''")
        return {name.split()[0]: self._one(f"SELECT count(*) FROM {name}") for name in tables}

    def kinds(self) -> tuple[bool, bool]:
        """Return whether any document is mail, and whether any is not."""
        some = "SELECT EXISTS (SELECT 1 FROM places WHERE message_id IS {} NULL)"
        return bool(self._one(some.format("NOT"))), bool(self._one(some.format("")))

    def _move(self, root: SourceRoot, inner: Sequence[SourceRoot]) -> None:
        """Put all places in a root, but not in its inner roots, into its collection."""
        sql = f"collection <> ? AND {_BELOW}" + f" AND NOT {_BELOW}" * len(inner)
        values = (root.collection, *(value for one in (root, *inner) for value in _below(one.path)))
        if self._rows.execute(f"UPDATE places SET collection = ? WHERE {sql}", (root.collection, *values)).rowcount:
            self.ledger.raise_generation()  # a view of the former collection shows them no longer

    def _replace(self, key: bytes, place: Place) -> None:
        """Set another document's place at the same path and item aside, at its position, until the file is read."""
        there = self._rows.execute("SELECT document FROM places WHERE path = ? AND item = ?", (key, place.item))
        row = there.fetchone()
        if row and row[0] != place.document:
            sql = f"""UPDATE places SET lines_before = NULL, item = -?2 - 1 - {ASIDE} * (
                          SELECT coalesce(max((-item - 1) / {ASIDE}), 0) + 1 FROM places
                          WHERE path = ?1 AND item < -{ASIDE} AND (-item - 1) % {ASIDE} = ?2)
                      WHERE path = ?1 AND item = ?2"""
            self._rows.execute(sql, (key, place.item))

    def _insert(self, rows: Iterable[_Row]) -> None:
        self._rows.executemany(f"INSERT OR REPLACE INTO places ({_PLACE}) VALUES (?, ?, ?, ?, ?, ?)", rows)
        self.ledger.raise_generation()  # a document that had no place, as after a kill, is retrieved again

    def put_state(self, key: bytes, state: FileState) -> None:
        """Record the state of a file."""
        sql = f"INSERT OR REPLACE INTO files (path, {_STATE}) VALUES (?, ?, ?, ?, ?, ?)"
        self._rows.execute(sql, (key, *astuple(state)))

    def _one(self, sql: str, *values: bytes | str) -> int:
        return int(self._rows.execute(sql, values).fetchone()[0])


def _row(place: Place) -> _Row:
    return (path_key(place.path), *astuple(place)[1:])


def _inside(inner: SourceRoot, outer: SourceRoot) -> bool:
    return Path(inner.path).is_relative_to(outer.path)


_COLUMNS = "document, seen, warnings, people"


class NamedAddress(Struct, frozen=True, array_like=True):
    """A folded name and the address that a document gives it, as its sender's or as a recipient's."""

    name: str
    address: str
    sends: bool


@dataclass(frozen=True, slots=True)
class Provenance:
    """When a document was first seen (in UTC), the warnings about its header, and the names in it."""

    seen: datetime
    warnings: tuple[str, ...] = ()
    people: tuple[NamedAddress, ...] = ()


@dataclass(frozen=True, slots=True)
class KnownAddress:
    """An address that a name is known by: since when (in UTC), and in how many documents."""

    address: str
    sends: bool
    seen: datetime
    documents: int


def put_provenance(ledger: Ledger, known: Mapping[str, Provenance]) -> None:
    """Record the provenance of documents in place of the former, inside the caller's transaction."""
    ledger.rows.executemany("DELETE FROM provenance WHERE document = ?", [(document,) for document in known])
    for document, one in known.items():
        seen, people = one.seen.astimezone(UTC).isoformat(), json.dumps(msgspec.to_builtins(one.people))
        row = (document, seen, json.dumps(one.warnings), people)
        ledger.rows.execute(f"INSERT INTO provenance ({_COLUMNS}) VALUES (?, ?, ?, ?)", row)
    count_people(ledger, [*known])


def count_people(ledger: Ledger, documents: Sequence[str]) -> None:
    """Count the people of documents whose provenance was added, inside the caller's transaction."""
    ledger.rows.execute(_COUNT_PEOPLE.format(_OF_SOME), (json.dumps(documents),))


_OF_SOME = "(SELECT people, seen FROM provenance WHERE document IN (SELECT value FROM json_each(?)))"
# With their checksums: a trigger would look for each row again.
_COUNT_PEOPLE = f"""INSERT INTO people (name, address, sends, seen, documents, crc)
    SELECT counted.*, {row_checksum_of("people", "counted")} FROM (
        SELECT value ->> 0 AS name, value ->> 1 AS address, value ->> 2 AS sends, min(seen) AS seen,
        count(*) AS documents FROM {{}}, json_each(people) GROUP BY 1, 2, 3) AS counted WHERE true
    ON CONFLICT (name, address, sends)
    DO UPDATE SET documents = documents + excluded.documents, seen = min(seen, excluded.seen)"""


UNPRUNED = "unpruned"  # the small value that is "0" where all provenance is that of documents that are stored


def prune_provenance(ledger: Ledger, *, always: bool = False) -> None:
    """Forget the provenance of documents that were removed; it is all looked through, if there may be any or always."""
    if always or ledger.get(UNPRUNED) != "0":
        with ledger.transaction():
            ledger.rows.execute("DELETE FROM provenance WHERE document NOT IN (SELECT id FROM documents)")
            ledger.set(UNPRUNED, "0")


def recount_people(ledger: Ledger) -> None:
    """Count the addresses of all names again, inside the caller's transaction."""
    ledger.rows.execute("DELETE FROM people")
    ledger.rows.execute(_COUNT_PEOPLE.format("provenance"))


def provenance_of(ledger: Ledger, documents: Sequence[str]) -> dict[str, Provenance]:
    """Return the provenance of documents that are known; a removed one is known until `prune_provenance`."""
    found = dict[str, Provenance]()
    sql = f"SELECT {_COLUMNS} FROM intact_provenance WHERE document IN (SELECT value FROM json_each(?))"
    for document, seen, warnings, people in ledger.rows.execute(sql, (json.dumps(documents),)):
        named = msgspec.json.decode(people, type=tuple[NamedAddress, ...], strict=False)  # 0 and 1 were written before
        found[document] = Provenance(datetime.fromisoformat(seen), tuple(json.loads(warnings)), named)
    return found


# Who is known by which name and address in the documents of a collection whose people hold a text: few are read.
_PEOPLE_OF = """SELECT value ->> 0 AS name, value ->> 1 AS address, value ->> 2 AS sends, min(seen) AS seen,
    count(*) AS documents FROM intact_provenance AS known, json_each(known.people) WHERE document IN (
        SELECT document FROM provenance JOIN places USING (document)
        WHERE collection = :collection AND instr(people, :part))
    GROUP BY 1, 2, 3"""


def _known(collection: str | None) -> str:
    return "intact_people" if collection is None else f"({_PEOPLE_OF})"


def addresses_of(ledger: Ledger, collection: str | None, name: str, most: int = -1) -> list[KnownAddress]:
    """Return the addresses that a folded name is known by, as a sender's first, and the first seen first; or any."""
    order = "ORDER BY sends DESC, seen, documents DESC, address" if most < 0 else ""
    sql = f"SELECT address, sends, seen, documents FROM {_known(collection)} WHERE name = :name {order} LIMIT :most"
    rows = ledger.rows.execute(sql, {"collection": collection, "part": json.dumps(name), "name": name, "most": most})
    return [KnownAddress(address, bool(sends), datetime.fromisoformat(at), count) for address, sends, at, count in rows]


def senders_named(ledger: Ledger, collection: str | None, wanted: str) -> list[str]:
    """Return the addresses of senders with a name, those of most documents first."""
    person = PersonFilter.of(wanted)
    sql = f"""SELECT name, address FROM {_known(collection)} WHERE sends AND address != ''
              ORDER BY documents DESC, address"""
    rows = ledger.rows.execute(sql, {"collection": collection, "part": json.dumps(person.needle)[1:-1]})
    return list(dict.fromkeys(address for name, address in rows if person.accepts(fold(f"{name} <{address}>"))))


@dataclass(frozen=True, slots=True)
class Guess:
    """An address that may be the user's: how many mails it is in, sent from folders of sent mail, and was delivered."""

    address: str
    mails: int
    sent: int
    is_clear: bool
    delivered: int = 0


def guess_me(ledger: Ledger, folders: Iterable[str]) -> list[Guess]:
    """Return the five likeliest addresses of the user.

    Clear are those with a tenth of the mail in `folders` of sent mail, or of that with a mailbox that it was delivered
    to, if people use them; else one in half of all mail, and in half as much again as any other.
    """
    inside = " OR ".join(f"CAST(places.path AS TEXT) LIKE '%/{name}%'" for name in folders)
    sql = f"""SELECT value ->> 1, count(DISTINCT document) FROM places
              JOIN provenance USING (document), json_each(people)
              WHERE ({inside}) AND value ->> 2 AND value ->> 0 LIKE '@%' GROUP BY 1"""
    sent = Counter[str](dict(ledger.rows.execute(sql).fetchall()))
    sql = """SELECT address, sum(documents) FROM people WHERE name LIKE '@%' AND name NOT LIKE '@ %'
             GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 20"""  # one look-alike for each address of a mail
    often = Counter[str](dict(ledger.rows.execute(sql).fetchall()))
    sql = """SELECT address, sum(documents) FROM people WHERE name LIKE '@ for %'
             AND address IN (SELECT address FROM people WHERE name LIKE '@%' AND name NOT LIKE '@ %') GROUP BY 1"""
    came = Counter[str](dict(ledger.rows.execute(sql).fetchall()))
    (every,) = ledger.rows.execute("SELECT count(*) FROM titles WHERE kind = 'mail'").fetchone()
    first, second, *_ = *often.values(), 0, 0
    alone = [*often][: first >= max(every / 2, 1.5 * second, 3)]
    clear = [one for own in (sent, came) for one in own if own[one] >= max(3, sum(own.values()) / 10)] or alone
    ranked = sorted({*often, *sent, *clear}, key=lambda one: (-sent[one], -came[one], -often[one], one))
    return [Guess(one, often[one], sent[one], one in clear, came[one]) for one in ranked[:5]]


_BEGINNINGS = {
    # At most so many rows are sorted: somebody waits, and who has typed a letter types another.
    "person": """SELECT address FROM (SELECT address, documents FROM people
                                      WHERE address LIKE ? ESCAPE '~' AND instr(address, '@') LIMIT 5000)
                 GROUP BY address ORDER BY sum(documents) DESC""",
    "collection": "SELECT DISTINCT collection FROM places WHERE collection LIKE ? ESCAPE '~' ORDER BY collection",
    "title": "SELECT title FROM titles WHERE title LIKE ? ESCAPE '~' ORDER BY day DESC",
}


def beginning_with(ledger: Ledger, kind: Literal["person", "collection", "title"], text: str) -> list[str]:
    """Return up to 20 addresses, collections or titles that begin with a text, in any case of its letters."""
    pattern = re.sub("([%_~])", r"~\1", text) + "%"
    return [one for (one,) in ledger.rows.execute(f"{_BEGINNINGS[kind]} LIMIT 20", (pattern,)) if one]
