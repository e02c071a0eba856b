"""Whether the ledger, the tables and the kept KV files agree, and how to bring them back together. Knows no content."""

import sqlite3
import stat
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from store import catalog, documents
from store.catalog import Catalog
from store.database import Ledger
from store.documents import FrequencyDelta, Knowledge
from store.errors import PkbError
from store.home import Home
from store.kv_folder import KvFolder
from store.summaries import Abstracts
from store.tables import Tables


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: its name, what is wrong (empty where nothing is), and the documents it concerns.

    A `note` is of what is not wrong, and takes care of itself.
    """

    name: str
    wrong: str = ""
    documents: tuple[str, ...] = ()
    note: str = ""


def examine(home: Home, ledger: Ledger, tables: Tables, *, read_data: bool) -> Iterator[Finding]:
    """Look at everything; `read_data` reads every page and every word. Hold the writer lock, or see a writer's half."""
    file = _ledger_file(ledger, whole=read_data)
    yield file
    if file.wrong:
        return  # nothing read from it can be relied on
    begun = {
        document for change in documents.unfinished(ledger).values() for document in (*change.adds, *change.removes)
    }
    yield _journal(ledger)
    yield _privacy(home)
    yield _documents(ledger, tables, begun)
    yield _chunks(ledger, tables, begun)
    yield _places(ledger)
    yield _vectors(ledger, tables, begun)
    if not begun:
        yield _abstracts(ledger, tables)
    yield _kv(home, ledger, read_data=read_data)
    if read_data and not begun:
        yield _words(ledger, tables)
        yield _collections(ledger, tables)


def repair(home: Home, ledger: Ledger, tables: Tables, knowledge: Knowledge) -> int:
    """Mend what can be mended; returns the number of documents that the next `pkb ingest` will read again.

    What the ledger and the tables disagree about is removed from both, and its files are marked as changed.
    """
    knowledge.recover()
    home.remove_obsolete()
    for path in home.entries():
        with suppress(FileNotFoundError):
            path.chmod(0o700 if path.is_dir() else 0o600)
    torn = {d for finding in (_documents(ledger, tables), _chunks(ledger, tables)) for d in finding.documents}
    unread = {place for finding in (_places(ledger),) for place in finding.documents}
    with ledger.transaction():
        Catalog(ledger).read_again(torn | unread)
    if torn:
        knowledge.commit((), lambda: None, removes=sorted(torn))
    abstracts = Abstracts(ledger, tables)
    abstracts.drop(abstracts.strays())
    _recount(ledger, tables)
    _mend_kv(home, ledger)
    return len(torn | unread)


def _ledger_file(ledger: Ledger, *, whole: bool) -> Finding:
    try:
        found = ledger.rows.execute(f"PRAGMA {'integrity_check' if whole else 'quick_check'}(1)").fetchone()[0]
    except sqlite3.DatabaseError as error:
        found = str(error)
    return Finding("ledger", "" if found == "ok" else f"SQLite says: {found.splitlines()[-1]}")


def _journal(ledger: Ledger) -> Finding:
    said = "a write was interrupted: the next pkb ingest rolls it back and reads the files again"
    return Finding("journal", note=said if documents.unfinished(ledger) else "")


def _privacy(home: Home) -> Finding:
    count = sum(_is_open(path) for path in home.entries())
    return Finding("privacy", f"{count} files or folders can be read by other users" if count else "")


def _is_open(path: Path) -> bool:
    try:
        return bool(stat.S_IMODE(path.lstat().st_mode) & 0o077)
    except FileNotFoundError:
        return False  # a lock or a version that another process has let go of meanwhile


def _documents(ledger: Ledger, tables: Tables, begun: Collection[str] = ()) -> Finding:
    """Compare the documents of the ledger with those of the table, but for those that a change was begun for."""
    counted = {row[0] for row in ledger.rows.execute("SELECT id FROM documents")}
    found = {row["id"] for row in tables.select("documents", "true", ["id"])}
    apart = tuple(sorted((counted ^ found).difference(begun)))
    return Finding("documents", f"{len(apart)} are in only one of ledger and tables" if apart else "", apart)


def _chunks(ledger: Ledger, tables: Tables, begun: Collection[str] = ()) -> Finding:
    """Compare how many chunks each document should have with those that there are."""
    counted = dict(ledger.rows.execute("SELECT id, chunks FROM documents").fetchall())
    rows = tables.select("chunks", "true", ["id", "document"])
    found = Counter(row["document"] for row in rows)
    apart = {d for d in counted.keys() | found.keys() if counted.get(d, 0) != found[d]}
    doubled = {row["document"] for row in rows} if len({row["id"] for row in rows}) < len(rows) else set()
    wrong = tuple(sorted((apart | doubled).difference(begun)))
    return Finding("chunks", f"{len(wrong)} documents have too many or too few chunks" if wrong else "", wrong)


def _places(ledger: Ledger) -> Finding:
    """Find documents that stand in no file, and places of documents that are not kept."""
    lost = "SELECT document FROM places WHERE document NOT IN (SELECT id FROM documents)"
    homeless = "SELECT id FROM documents WHERE id NOT IN (SELECT document FROM places)"
    found = tuple(sorted({row[0] for sql in (lost, homeless) for row in ledger.rows.execute(sql)}))
    return Finding("places", f"{len(found)} documents and files do not match" if found else "", found)


def _vectors(ledger: Ledger, tables: Tables, begun: Collection[str]) -> Finding:
    """Find chunks that should have a vector and have none, and vectors of no chunk."""
    columns, name = ("id", "document"), ledger.get("vectors") or "vectors"
    chunks = {row["id"] for row in tables.select("chunks", "true", columns) if row["document"] not in begun}
    waiting = {row[0] for row in ledger.rows.execute("SELECT chunk FROM pending")}
    found = [row["id"] for row in tables.select(name, "true", columns) if row["document"] not in begun]
    missing, stray = chunks - waiting - set(found), len(found) - len(chunks & set(found))
    return Finding("vectors", f"{len(missing)} missing, {stray} orphaned" if missing or stray else "")


def _abstracts(ledger: Ledger, tables: Tables) -> Finding:
    strays = Abstracts(ledger, tables).strays()
    return Finding("abstracts", f"{len(strays)} summarize deleted chunks" if strays else "")


def _kv(home: Home, ledger: Ledger, *, read_data: bool) -> Finding:
    """Find kept KV nodes whose file is not whole (looked at, or read if it changed or `read_data`), and stray files."""
    folder = KvFolder(ledger, home.tensors)
    bad = [entry.node.key for entry in folder.index.entries() if folder.wrong_with(entry.node, read_data=read_data)]
    still = sum((entry := folder.index.find(key)) is not None and entry.state == "whole" for key in bad)
    with ledger.transaction():
        stray = len(folder.strays())
    return Finding("kv", f"{still} damaged KV cache entries, {stray} orphaned files" if still or stray else "")


def _mend_kv(home: Home, ledger: Ledger) -> None:
    folder = KvFolder(ledger, home.tensors)
    for entry in folder.index.entries():
        folder.check(entry.node, read_data=True)
    folder.collect()
    folder.owner.close()


def _words(ledger: Ledger, tables: Tables) -> Finding:
    counted = dict(ledger.rows.execute("SELECT word, chunks FROM frequencies").fetchall())
    tally = FrequencyDelta().count(row["words"] for row in tables.select("chunks", "true", ["words"]))
    same = counted == tally.frequencies and ledger.count("words") == tally.words
    return Finding("words", "" if same else "word frequencies do not match the chunks")


def _collections(ledger: Ledger, tables: Tables) -> Finding:
    """Compare the collections that the tables filter by with those of the places."""
    told = {one.document for one in catalog.marked(ledger)}
    wrong = set()
    for name, column in (("documents", "id"), ("chunks", "document"), (ledger.get("vectors") or "vectors", "document")):
        for row in tables.select(name, "true", [column, "collections"]):
            if row[column] not in told and row["collections"] != Catalog(ledger).collections(row[column]):
                wrong.add(row[column])
    return Finding("collections", f"{len(wrong)} documents are in the wrong collection" if wrong else "")


def _recount(ledger: Ledger, tables: Tables) -> None:
    """Count words and missing vectors anew from the chunks."""
    rows = tables.select("chunks", "true", ["id", "document", "date", "words"])
    name = ledger.get("vectors") or "vectors"
    there = {row["id"] for row in tables.select(name, "true", ["id"])}
    missing = [(r["id"], r["document"], r["date"] and r["date"].isoformat()) for r in rows if r["id"] not in there]
    with ledger.transaction():
        ledger.rows.execute("DELETE FROM frequencies")
        ledger.set("chunks", "0")
        ledger.set("words", "0")
        documents.apply(ledger, FrequencyDelta().count(row["words"] for row in rows), 1)
        ledger.rows.execute("DELETE FROM pending")
        ledger.rows.executemany("INSERT INTO pending VALUES (?, ?, ?)", missing)
        ledger.raise_generation()


_AT = "slice.at"  # the small value of the ledger that says how far the last slice went


def check_slice(home: Home, ledger: Ledger, count: int) -> int:
    """Read the files of the next so many kept nodes, removing what is damaged; returns their number.

    When all were read it looks at the ledger's own pages, and begins again; PkbError where those are damaged.
    """
    at = bytes.fromhex(ledger.get(_AT) or "")
    sql = "SELECT key FROM kv_nodes WHERE state = 'whole' AND key > ? ORDER BY key LIMIT ?"
    keys = [key for (key,) in ledger.rows.execute(sql, (at, count))]
    folder, removed = KvFolder(ledger, home.tensors), 0
    for key in keys:
        if (entry := folder.index.find(key)) is not None:
            removed += not folder.check(entry.node, read_data=True)
    folder.owner.close()
    ledger.set(_AT, keys[-1].hex() if len(keys) == count else "")
    if len(keys) < count:
        _pages(ledger)
    return removed


def _pages(ledger: Ledger) -> None:
    try:
        found = ledger.rows.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.DatabaseError as error:
        found = str(error)
    if found != "ok":
        raise PkbError("the ledger is damaged", "pkb check --read-data")
