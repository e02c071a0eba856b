"""The index of documents, chunks and their vectors, which a kill at any moment neither loses nor duplicates.

Rows are written to LanceDB; then one transaction of the ledger acknowledges them, and old text gives way to new. An
unacknowledged change is undone: the next ingest reads its files. Knows no files: the caller's `record` writes
the rows of the catalogue, in that transaction.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from heapq import nsmallest
from itertools import islice
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from store import catalog
from store.answers import drop_derived, mark_removed, unmark_removed
from store.catalog import BUG, CHANGED, Catalog, FormerNames
from store.database import DOUBTFUL, HIDDEN, UNCOMPACTED, Ledger
from store.types import OWN_ROLES, IndexedDocument, Kind, among, chunk_rows, document_row, table_of, text_names

if TYPE_CHECKING:
    from store.tables import Alone, Tables
    from store.types import Row, Vectors

    Publishing = Callable[[Sequence[Row]], AbstractContextManager[Callable[[], None] | None]]

_TRIED_BY = "tried_by"  # the small value of the ledger that names the version of pkb that read files last
_DECODED_BY = "decoded_by"  # the small value of the ledger that names the version of the parsers


def owners(ledger: Ledger, digests: Iterable[bytes]) -> Mapping[bytes, str]:
    """Return the document that each passage is indexed under, for those that are known."""
    sql = "SELECT document FROM passages WHERE digest = ?"
    found = ((digest, ledger.rows.execute(sql, (digest,)).fetchone()) for digest in set(digests))
    return {digest: row[0] for digest, row in found if row}


def claim(ledger: Ledger, document: str, digests: Iterable[bytes]) -> None:
    """Index passages under this document, unless they already are under another one."""
    ledger.rows.executemany("INSERT OR IGNORE INTO passages VALUES (?, ?)", [(d, document) for d in digests])


_QUOTING = "SELECT quoting.document FROM quoting JOIN passages USING (digest) WHERE passages.document = ?"
_UNTIDY, _PART = 100, 20  # rows written or deleted since the tables were last rewritten: so many, and one chunk in 20


def quoting(ledger: Ledger, documents: Iterable[str]) -> set[str]:
    """Return the documents that quote a passage that is indexed under one of these."""
    return {row[0] for document in documents for row in ledger.rows.execute(_QUOTING, (document,))}


def own_texts(tables: "Tables", documents: Sequence[str], files: bool = True) -> dict[str, list[str]]:
    """Return the texts of documents' own chunks, in order; without their quotes and signatures, or attached `files`."""
    found: dict[str, list[str]] = {}
    condition = f"{among('document', documents)} AND {among('role', OWN_ROLES)}"
    condition += "" if files else " AND (role <> 'attachment' OR author IS NULL OR author = '')"
    rows = tables.select("chunks", condition, ["document", "position", "text"]) if documents else []
    for row in sorted(rows, key=lambda row: int(row["position"])):
        found.setdefault(row["document"], []).append(row["text"])
    return found


def names_of_text(tables: "Tables", documents: Sequence[str]) -> list[tuple[str, str]]:
    """Return the names by which copies of stored messages are recognised, each with its document."""
    columns, own = ["id", "message_id", "title", "sender"], own_texts(tables, documents, files=False)
    rows = tables.select("documents", among("id", documents), columns) if documents else []
    return [(row["id"], name) for row in rows for name in text_names(row, "\n".join(own.get(row["id"], ())))]


def release(ledger: Ledger, documents: Iterable[str]) -> set[str]:
    """Release the passages of removed documents; returns the documents that quote them, which must index them now."""
    orphaned: set[str] = set()
    for document in sorted(documents):
        orphaned |= quoting(ledger, [document])
        for table in ("passages", "quoting"):
            ledger.rows.execute(f"DELETE FROM {table} WHERE document = ?", (document,))
    return orphaned


def read_anew(ledger: Ledger, parsers: str, version: str) -> None:
    """Mark what others read to be read again: everything by other `parsers`, what failed by another version of pkb."""
    if ledger.get(_DECODED_BY) != parsers:
        with ledger.transaction():
            Catalog(ledger).mark_below_changed("/")
            ledger.rows.execute("UPDATE documents SET rechunk = 1")
            ledger.set(_DECODED_BY, parsers)
    if ledger.get(_TRIED_BY) != version:
        with ledger.transaction():
            failed = "SELECT path FROM problems WHERE substr(reason, 1, length(?1)) = ?1"
            ledger.rows.execute(f"UPDATE files SET mtime_ns = {CHANGED} WHERE path IN ({failed})", (BUG,))
            ledger.set(_TRIED_BY, version)


@dataclass(frozen=True, slots=True)
class TitledDocument:
    """A document as people refer to it: its kind, title and day."""

    id: str
    kind: Kind
    title: str
    day: date | None


def titled_documents(
    ledger: Ledger, kinds: Sequence[Kind], accepts: Callable[[str, str], bool] = lambda _id, _title: True
) -> list[TitledDocument]:
    """Return the documents of these kinds whose id and title are accepted, newest first."""
    sql = f"""SELECT document, kind, title, day FROM titles JOIN documents ON id = document
              WHERE kind IN ({", ".join("?" * len(kinds))}) ORDER BY date DESC, id"""
    rows = (row for row in ledger.rows.execute(sql, kinds) if accepts(row[0], row[2]))
    return [TitledDocument(id, kind, title, date.fromisoformat(day) if day else None) for id, kind, title, day in rows]


_AT_ONCE = 5000  # documents in one condition


def differing_documents(ledger: Ledger, tables: "Tables") -> set[str]:
    """Return the documents that are in only one of ledger and tables."""
    counted = {row[0] for row in ledger.rows.execute("SELECT id FROM documents")}
    return counted ^ {row["id"] for row in tables.select("documents", "true", ["id"])}


def differing_chunks(ledger: Ledger, tables: "Tables") -> set[str]:
    """Return the documents of which the tables have too many or too few chunks."""
    counted = dict(ledger.rows.execute("SELECT id, chunks FROM documents").fetchall())
    rows = tables.select("chunks", "true", ["id", "document"])
    found = Counter(row["document"] for row in rows)
    doubled = {row["document"] for row in rows} if len({row["id"] for row in rows}) < len(rows) else set()
    return doubled | {one for one in counted.keys() | found.keys() if counted.get(one, 0) != found[one]}


class Knowledge:
    """Changes to the index; every method but `stored` and `is_indexed` needs the writer lock."""

    def __init__(
        self,
        ledger: Ledger,
        open_tables: "Callable[[], Tables]",
        words_of: Callable[[str], Set[str]] = lambda _: frozenset(),
        count_words: Callable[[Sequence[str]], Mapping[str, int]] = lambda _: {},
        publishing: "Publishing" = lambda _: nullcontext(),
    ) -> None:
        """`words_of` returns the words of a question as the index has them, `count_words` how many chunks have some.

        `publishing` is that of the mapped index.
        """
        self._ledger, self._open_tables = ledger, open_tables
        self._words_of, self._count_words, self._publishing = words_of, count_words, publishing

    def stored(self, documents: Iterable[str]) -> set[str]:
        """Return which of these documents are stored."""
        sql = "SELECT id FROM documents WHERE id = ?"
        return {d for d in documents if self._ledger.rows.execute(sql, (d,)).fetchone()}

    def commit(
        self, entries: Sequence[IndexedDocument], record: Callable[[], None], removes: Sequence[str] = ()
    ) -> None:
        """Add or replace documents with their chunks, and remove others that are not among them, all or nothing."""
        stored = self.stored(entry.document.id for entry in entries)
        removes = sorted({*removes} - {entry.document.id for entry in entries})
        if not entries and not removes:
            with self._ledger.transaction():
                record()
            return
        rewritten = sorted(stored)
        going, columns = among("document", [*rewritten, *removes]), ["id", "document", "words"]
        same = among("id", [chunk.id for entry in entries if entry.document.id in stored for chunk in entry.chunks])
        old = self._tables.select("chunks", going, columns) if rewritten or removes else []
        former_names = names_of_text(self._tables, removes)
        linked = self._asked_of([row for row in old if row["document"] in removes], old, entries)
        fresh = [row for entry in entries for row in chunk_rows(entry)]
        ready = self._publishing([row for row in fresh if row["document"] not in stored])
        with self._tables.change() as acknowledge, ready as publish:
            if rewritten or removes:
                self._tables.delete("documents", among("id", [*rewritten, *removes]))
                self._tables.delete("chunks", going)
                self._tables.delete(self._ledger.vectors, f"{going} AND NOT {same}")
            if entries:
                self._tables.add("documents", [document_row(entry) for entry in entries])
                self._tables.add("chunks", fresh)
            with acknowledge():
                FormerNames(self._ledger).add(former_names)
                record()
                if removes:
                    self._ledger.set(catalog.UNPRUNED, "1")
                gone = [(d,) for d in (*rewritten, *removes)]
                self._ledger.rows.executemany("DELETE FROM documents WHERE id = ?", gone)
                quoting = release(self._ledger, removes)  # which hold what these had: they are read again
                self._ledger.rows.executemany("UPDATE documents SET rechunk = 1 WHERE id = ?", [(d,) for d in quoting])
                Catalog(self._ledger).mark_changed(quoting)
                mark_removed(self._ledger, (row["id"] for row in old if row["document"] not in rewritten), time.time())
                for entry in entries:
                    self._insert_rows(entry)
                catalog.put_provenance(
                    self._ledger, {one.document.id: one.provenance for one in entries if one.provenance}
                )
                drop_derived(self._ledger, time.time())
                note_counts(self._ledger, self._tables)
                self._ledger.rows.executemany("INSERT OR IGNORE INTO question_documents VALUES (?, ?)", linked)
                self._ledger.add(UNCOMPACTED, len(entries) + len(removes))
                self._ledger.raise_generation()
                if publish:
                    publish()

    def _asked_of(
        self, removed: "Sequence[Row]", old: "Sequence[Row]", entries: Sequence[IndexedDocument]
    ) -> list[tuple[bytes, str]]:
        """Return the keys of questions of the history with a word that only removed chunks have: they go with these."""
        sql = "SELECT DISTINCT coalesce(key, CAST(id AS BLOB)), question FROM history"
        if not removed or not (asked := self._ledger.rows.execute(sql).fetchall()):
            return []
        own = [(row["document"], {*row["words"].split(" ")}) for row in removed]
        every = set[str]().union(*(words for _, words in own))
        going = Counter(word for row in old for word in {*row["words"].split(" ")})
        there = self._count_words(sorted(every))
        lost = {word for word in every if going[word] >= there.get(word, 0)}
        lost -= {word for entry in entries for tokens in entry.tokens for word in tokens.split(" ")}
        held = [(key, lost & self._words_of(text)) for key, text in asked]
        return sorted({(key, one) for key, some in held if some for one, words in own if words & some})

    def recover(self) -> None:
        """Do what a killed writer left to do."""
        if self._ledger.get(DOUBTFUL):
            self.reconcile()

    def reconcile(self) -> list[str]:
        """Remove documents on which ledger and tables disagree from both; returns them: their files are read again."""
        torn = sorted(differing_documents(self._ledger, self._tables) | differing_chunks(self._ledger, self._tables))
        with self._ledger.transaction():
            Catalog(self._ledger).mark_changed(torn)
        if torn:
            self.commit((), lambda: None, removes=torn)
        with self._ledger.transaction():
            self._ledger.rows.execute("DELETE FROM meta WHERE name = ?", (DOUBTFUL,))
            note_counts(self._ledger, self._tables)
            self._ledger.raise_generation()
        return torn

    def remove_leftovers(self, cache: Path) -> None:
        """Remove what still hangs on documents that were removed: rows, and nodes of the KV cache in that folder."""
        if self._ledger.rows.execute("SELECT 1 FROM removed_chunks LIMIT 1").fetchone():
            with self._ledger.transaction():
                drop_derived(self._ledger, time.time())
        if self._ledger.has_nodes:
            from store.kv_index import KvFolder  # few homes have a KV cache

            KvFolder(self._ledger, cache).remove_unlinked()

    def is_indexed(self, document: str) -> bool:
        """Return whether a document is stored and need not be split into chunks again."""
        sql = "SELECT 1 FROM documents WHERE id = ? AND NOT rechunk"
        return self._ledger.rows.execute(sql, (document,)).fetchone() is not None

    def orphans(self) -> list[str]:
        """Return the documents that are in no file any more."""
        sql = "SELECT id FROM documents WHERE id NOT IN (SELECT document FROM places) ORDER BY id"
        return [row[0] for row in self._ledger.rows.execute(sql)]

    @property
    def is_untidy(self) -> bool:
        """Return whether enough rows were written or deleted for rewriting the tables to pay off."""
        return self._ledger.count(UNCOMPACTED) >= max(_UNTIDY, self._ledger.count("chunks") // _PART)

    def compact(self, alone: "Alone" = nullcontext) -> None:
        """Rewrite the tables after many small changes, each of which takes an instant in which nobody reads."""
        for name in self._tables.names():
            self._tables.rewrite(name, alone)
        with self._ledger.transaction():
            self._ledger.set(UNCOMPACTED, "0")

    @cached_property
    def _tables(self) -> "Tables":
        return self._open_tables()  # opened on the first change, since LanceDB takes long to import

    def _insert_rows(self, entry: IndexedDocument) -> None:
        one = entry.document
        row = (one.id, entry.date, len(entry.chunks), json.dumps(entry.names))
        self._ledger.rows.execute("INSERT INTO documents (id, date, chunks, names) VALUES (?, ?, ?, ?)", row)
        titled = (one.id, one.kind, one.title, one.date and one.date.date().isoformat())
        self._ledger.rows.execute("INSERT OR REPLACE INTO titles VALUES (?, ?, ?, ?)", titled)
        unmark_removed(self._ledger, (chunk.id for chunk in entry.chunks))
        claim(self._ledger, one.id, entry.owned)
        self._ledger.rows.execute("DELETE FROM quoting WHERE document = ?", (one.id,))
        quoted = [(digest, one.id) for digest in entry.quoted]
        self._ledger.rows.executemany("INSERT OR IGNORE INTO quoting VALUES (?, ?)", quoted)


def note_counts(ledger: Ledger, tables: "Tables") -> None:
    """Note how many chunks and vectors the tables have, inside the caller's transaction."""
    ledger.set("chunks", str(tables.count("chunks")))
    ledger.set("embedded", str(tables.count(ledger.vectors)))


_AHEAD, _QUEUED = 4_096, 100_000  # chunks without a vector that are read at once, and whose ids are


class VectorStore:
    """The vectors of chunks, in a table of each embedder: a change of embedder creates a table and changes no column.

    Filled by one process at a time (the embedder lock); each `put` needs the writer lock.
    """

    def __init__(self, ledger: Ledger, tables: "Tables") -> None:
        self._ledger, self._tables = ledger, tables
        self._queue, self._generation = dict[str, None](), -1  # ids of chunks without a vector, and when that was so
        self._ahead, self._is_cut = dict[str, "Row"](), False  # the next of these, and whether there are more of them

    def use(self, fingerprint: str) -> bool:
        """Make this embedder the one in use; where another was, mark all vectors as missing and return True."""
        name = table_of(fingerprint)
        before = self._ledger.get("vectors")
        if before == name:
            return False
        self._tables.delete(name, "true")  # from an earlier time, of other chunks
        with self._ledger.transaction():
            self._ledger.set("vectors", name)
            if self._ledger.count("embedded"):
                self._ledger.set("index", "")  # which has vectors of the former, and may have earlier ones of this one
            note_counts(self._ledger, self._tables)
            self._ledger.raise_generation()
        return before is not None

    @property
    def former(self) -> list[str]:
        """Name the tables of embedders that were in use before."""
        return [n for n in self._tables.names() if n.startswith("vectors") and n != self._ledger.get("vectors")]

    def drop_former(self) -> None:
        """Remove the tables of former embedders; breaks readers, so be alone."""
        for name in self.former:
            self._tables.drop(name)

    @property
    def missing(self) -> int:
        """Count the chunks that have no vector."""
        return self._ledger.unembedded

    @contextmanager
    def keeping_chunks(self) -> Iterator[None]:
        """Keep what is wanted through a block that raises the generation and removes no chunk; have the writer lock."""
        known = self._ledger.count("chunks") if self._generation == self._ledger.generation else -1
        yield
        if known == self._ledger.count("chunks"):
            self._generation = self._ledger.generation

    def wanted(self, limit: int, but: Collection[str] = ()) -> "list[Row]":
        """Return up to `limit` chunks without a vector, newest first, but those of some ids, as id, header and text."""
        generation, is_over = self._ledger.generation, self._is_cut and len(self._queue) <= len(but)
        if self._generation != generation or is_over:
            there = {row["id"] for row in self._tables.each(self._ledger.vectors, ["id"])}
            there |= {*but}
            missing = (row for row in self._tables.each("chunks", ["id", "date"]) if row["id"] not in there)
            dated = ((-row["date"].timestamp() if row["date"] else inf, row["id"]) for row in missing)
            self._queue = dict.fromkeys(one for _, one in nsmallest(_QUEUED, dated))
            self._generation, self._is_cut, self._ahead = generation, len(self._queue) == _QUEUED, {}
        ids = [*islice((one for one in self._queue if one not in but), max(limit, _AHEAD))]
        if not all(one in self._ahead for one in ids[:limit]):  # each look-up reads the ids of all chunks
            rows = self._tables.select("chunks", among("id", ids), ["id", "header", "text"])
            self._ahead = {row["id"]: row for row in rows}
        return [self._ahead[one] for one in ids[:limit] if one in self._ahead]

    def put(self, ids: Sequence[str], vectors: "Vectors", *, shows: bool = True) -> None:
        """Store unit vectors, one row an id; ids whose chunk was removed meanwhile are left out.

        Questions find them at once, or unless it `shows` them once the index lists them: until then, no question has to
        look for them in the tables, and answers stay valid.
        """
        columns = ["id", "document", "date", "local", "sender", "recipients", "collections"]
        there = {row["id"]: row for row in self._tables.select("chunks", among("id", ids), columns)}
        rows = [{**there[i], "vector": v} for i, v in zip(ids, vectors, strict=True) if i in there]
        mark = self._ledger.generation if shows else HIDDEN
        changed = [(one, mark) for one in sorted({row["document"] for row in rows})]
        with self.keeping_chunks(), self._tables.change() as acknowledge:
            if rows:
                self._tables.add(self._ledger.vectors, rows, width=vectors.shape[1])
            with acknowledge():
                note_counts(self._ledger, self._tables)
                self._ledger.rows.executemany("INSERT OR REPLACE INTO changed_documents VALUES (?, ?)", changed)
                self._ledger.add(UNCOMPACTED, len(rows))
                if shows:
                    self._ledger.raise_generation()
        for one in ids:
            self._queue.pop(one, None)

    def show(self) -> None:
        """Have questions find all vectors that were stored."""
        with self._ledger.transaction():
            self._ledger.show_vectors()
