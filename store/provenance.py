"""Who sent each document and when it was first seen, and which addresses each name is known by.

Names are compared as the engine folds them: they come in as plain text, and so do warnings.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from store.database import Ledger
from store.filters import PersonFilter, fold

_COLUMNS = "document, seen, warnings, people"


@dataclass(frozen=True, slots=True)
class NamedAddress:
    """A folded name and the address that a document gives it, as its sender's or as a recipient's."""

    name: str
    address: str
    sends: bool


@dataclass(frozen=True, slots=True)
class Provenance:
    """When a document was first seen (in UTC), what is odd about its header, and the names in it."""

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


def first_seen(ledger: Ledger, documents: Iterable[str]) -> dict[str, datetime]:
    """Return when documents were first seen, for those that are known; a removed one is known until `prune`."""
    return {document: one.seen for document, one in provenance_of(ledger, list(documents)).items()}


def put(ledger: Ledger, document: str, known: Provenance) -> None:
    """Record a document's provenance in place of the former, inside the caller's transaction."""
    people = [[one.name, one.address, int(one.sends)] for one in known.people]
    row = (document, known.seen.astimezone(UTC).isoformat(), json.dumps(known.warnings), json.dumps(people))
    ledger.rows.execute("DELETE FROM provenance WHERE document = ?", (document,))
    ledger.rows.execute(f"INSERT INTO provenance ({_COLUMNS}) VALUES (?, ?, ?, ?)", row)


_REMOVED = "FROM provenance WHERE document NOT IN (SELECT id FROM documents)"


def prune(ledger: Ledger) -> None:
    """Forget the provenance of documents that are not stored, those among them that a killed process left."""
    if ledger.rows.execute(f"SELECT 1 {_REMOVED} LIMIT 1").fetchone():
        with ledger.transaction():
            ledger.rows.execute(f"DELETE {_REMOVED}")


def recount(ledger: Ledger) -> None:
    """Count the addresses of all names again, inside the caller's transaction."""
    ledger.rows.execute("DELETE FROM people")
    ledger.rows.execute("""INSERT INTO people (name, address, sends, seen, documents)
        SELECT value ->> 0, value ->> 1, value ->> 2, min(seen), count(*) FROM provenance, json_each(people)
        GROUP BY 1, 2, 3""")


def provenance_of(ledger: Ledger, documents: Sequence[str]) -> dict[str, Provenance]:
    """Return the provenance of documents, for those that were read since it is recorded."""
    found, sql = dict[str, Provenance](), f"SELECT {_COLUMNS} FROM intact_provenance WHERE document IN "
    for document, seen, warnings, people in ledger.rows.execute(
        f"{sql} (SELECT value FROM json_each(?))", (json.dumps(documents),)
    ):
        named = tuple(NamedAddress(name, address, bool(sends)) for name, address, sends in json.loads(people))
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
    values = {"collection": collection, "part": json.dumps(name), "name": name, "most": most}
    rows = ledger.rows.execute(sql, values)
    return [KnownAddress(address, bool(sends), datetime.fromisoformat(at), count) for address, sends, at, count in rows]


def senders_named(ledger: Ledger, collection: str | None, wanted: str) -> list[str]:
    """Return the addresses of senders with a name, those of most documents first."""
    person = PersonFilter.of(wanted)
    sql = f"""SELECT name, address FROM {_known(collection)} WHERE sends AND address != ''
              ORDER BY documents DESC, address"""
    rows = ledger.rows.execute(sql, {"collection": collection, "part": json.dumps(person.needle)[1:-1]})
    return list(dict.fromkeys(address for name, address in rows if person.accepts(fold(f"{name} <{address}>"))))
