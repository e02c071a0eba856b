"""Forgetting documents and questions: everything derived from them goes too, and no file keeps deleted text.

A database leaves deleted text in old files, free pages and logs. So every file that held any is rewritten from the rows
that stay, and what is left is examined. Tombstones (keyed digests) keep a forgotten document out when its file is read
again. A kill at any moment leaves the mark of an unfinished run, and `finish` does all of it again.
"""

import json
import os
import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from store.answers import OF_REMOVED, drop_derived, mark_removed
from store.catalog import Catalog, FormerNames, prune_provenance
from store.database import BUSY_MS, DAMAGE, EPOCH, Ledger, exists, open_ledger
from store.documents import Knowledge, VectorStore
from store.errors import DamagedLedger
from store.home import Home
from store.kv_index import NODES_OF_REMOVED, PATIENT_S, KvFolder
from store.readers import UserBook, reset
from store.types import OWN_ROLES, Document, among, batches, is_rewritten, text_names

if TYPE_CHECKING:
    from store.mapped_index import MappedIndex
    from store.tables import Tables

_PENDING = "forget.pending"  # a small value of the ledger
_AT_ONCE, _SELECTED = 500, 5000  # documents in one commit, and in one condition
_PATIENCE_S = 10.0  # for which readers of the ledger are waited for
_EXAMINED = 200  # ids that files are searched for
_BLOCK = 1 << 24
_ADDRESS = re.compile(rb"(?:\\n)?([\w.+-]{1,64}@[\w.-]{1,255})")  # in JSON, maybe behind the end of a line


class Tombstones:
    """Which documents were forgotten; changed inside the caller's transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._digests = ledger, FormerNames(ledger)

    def __len__(self) -> int:
        return int(self._ledger.rows.execute("SELECT count(*) FROM forgotten").fetchone()[0])

    def add(self, names: Iterable[str], at: float) -> None:
        """Remember documents by what `names_of` returns."""
        rows = [(self._digests.digest(name), at) for name in names]
        self._ledger.rows.executemany("INSERT OR REPLACE INTO forgotten VALUES (?, ?)", rows)

    def remove(self, digests: Iterable[bytes]) -> None:
        """Let a document in again, by what was found of it."""
        self._ledger.rows.executemany("DELETE FROM forgotten WHERE digest = ?", [(digest,) for digest in digests])

    def found(self, document: Document, path: str) -> list[bytes]:
        """Return by what a document of a file is recognised as forgotten; empty if it is not."""
        day = document.date.date().isoformat() if document.date else ""
        is_message = document.message_id or document.kind == "mail"
        names = names_of(document.id, "" if is_message else f"{path}\0{document.title}\0{day}")
        if document.message_id:  # the first of tombstones that an older pkb made
            names.append(f"message\0{document.message_id}\0{document.sender.casefold()}")
            said = (one for one in document.passages if one.role in OWN_ROLES and not one.file)
            own = "\n".join(one.text for one in said)
            about = {"message_id": document.message_id, "title": document.title, "sender": document.sender}
            names += text_names(about, own)[: 1 + is_rewritten(document.sender, document.recipients)]
        digests = [self._digests.digest(name) for name in names]
        sql = f"SELECT digest FROM forgotten WHERE digest IN ({', '.join('?' * len(digests))})"
        return [row[0] for row in self._ledger.rows.execute(sql, digests)]


def names_of(document: str, kept_at: str = "") -> list[str]:
    """Return the names by which a document is recognised: digests of its content.

    `kept_at` is the path, title and day of a meeting, which has no Message-ID and may grow.
    """
    return [f"content\0{document}", *([f"meeting\0{kept_at}"] if kept_at else [])]


@dataclass(frozen=True, slots=True)
class Erased:
    """What was erased, in numbers; `left` says what could not be, and why."""

    documents: int = 0
    chunks: int = 0
    answers: int = 0
    questions: int = 0
    nodes: int = 0
    files: int = 0  # examined
    left: tuple[str, ...] = ()


def is_unfinished(ledger: Ledger) -> bool:
    """Return whether a run was begun and not finished."""
    return ledger.get(_PENDING) is not None


OnStep = Callable[[str, int, int | None], None]  # a step's name, how far it is, and how far it goes, if known


class Eraser:
    """Forgets, and proves it; everything needs the exclusive lock and that of benchmarks.

    `words_of` returns the words of a question as the index has them. In the home of a user the tables stay as they are:
    those of the home that it reads, in which all this is done, too.
    """

    def __init__(
        self,
        home: Home,
        ledger: Ledger,
        tables: "Tables",
        mapped: "MappedIndex",
        words_of: Callable[[str], Set[str]] = lambda _: frozenset(),
    ) -> None:
        self._home, self._ledger, self._tables, self._mapped = home, ledger, tables, mapped
        self._words_of, self._is_reader = words_of, home.source is not None
        self._knowledge = Knowledge(ledger, lambda: tables)

    def erase(
        self, documents: Sequence[str], names: Iterable[str], questions: Sequence[str], now: float, on_step: OnStep
    ) -> Erased:
        """Forget documents, recognised by names when their files are read again, and questions as they are kept.

        Without a question, the tables are rewritten even where no document is named: for what was removed before.
        """
        before = self._counts()
        with self._ledger.transaction():
            todo, _ = self._pending()
            tables = bool(documents or not questions) or is_unfinished(self._ledger)
            self._write_down({*todo, *documents}, tables=tables)
            Tombstones(self._ledger).add(names, now)
            sql = "INSERT OR REPLACE INTO forgotten SELECT name, ? FROM former_names WHERE document = ?"
            self._ledger.rows.executemany(sql, [(now, document) for document in documents])
            _drop_questions(self._ledger, questions)
            self._ledger.set(EPOCH, str(self._ledger.count(EPOCH) | 1))  # nothing read before can be stored any more
        return self.finish(now, on_step, before)

    def finish(self, now: float, on_step: OnStep, before: dict[str, int] | None = None) -> Erased:
        """Do all of an unfinished run (again); `before` counts what there was."""
        before = before or self._counts()
        documents, has_tables = self._pending()
        of_users = list[str]()
        if not self._is_reader:
            of_users = [*self._erase_of_users(documents, now, on_step)]
            self._knowledge.recover()
        for number, some in enumerate(batches(documents, _AT_ONCE)):
            on_step("remove", number * _AT_ONCE, len(documents))
            self._remove(some, now)
        with self._ledger.transaction():
            self._write_down((), tables=has_tables)  # what is examined must not hold the ids itself
            self._ledger.set(EPOCH, str((self._ledger.count(EPOCH) | 1) + 1))
        kept = {self._home.data / f"{self._home.ledger.name}{end}" for end in ("", "-wal", "-shm")}
        for path in {*self._home.data.glob("ledger.*")} - kept:  # copies that repairs left
            path.unlink(missing_ok=True)
        shutil.rmtree(self._home.opened, ignore_errors=True)
        left = self._rewrite(on_step) if has_tables else []
        left += [*of_users, *_shrink(self._ledger)]
        on_step("examine", 0, None)
        left += self._remains(documents)
        with self._ledger.transaction():
            if left:  # the next run must look for them again
                self._write_down(documents, tables=has_tables)
            else:
                self._ledger.rows.execute("DELETE FROM meta WHERE name = ?", (_PENDING,))
        counted = {name: max(0, before[name] - after) for name, after in self._counts().items()}
        return Erased(**counted, files=sum(1 for _ in _files(self._home)), left=tuple(left))

    def _erase_of_users(self, documents: Sequence[str], now: float, on_step: OnStep) -> Iterator[str]:
        """Erase documents in the homes of users, while the tables have them still; yields what could not be."""
        from store.mapped_index import MappedIndex

        ever = sorted(_with_earlier_versions(self._ledger, documents)) if documents else ()
        for home in (one for one in UserBook(self._home).homes() if ever and exists(one.ledger)):
            try:
                with closing(open_ledger(home.ledger)) as ledger:
                    mapped, asked = MappedIndex(home, ledger, lambda: self._tables), set[str]()
                    # With a word that only these have in what the user sees, or in the whole archive.
                    own = sorted(Knowledge(ledger, lambda: self._tables).stored(ever))
                    for seen, some in ((mapped, own), (self._mapped, ever)):
                        asked.update(questions_of(ledger, self._tables, self._words_of, seen.frequencies, some))
                    eraser = Eraser(home, ledger, self._tables, mapped)
                    yield from eraser.erase(ever, (), sorted(asked), now, on_step).left
            except (DamagedLedger, *DAMAGE):
                reset(home)

    def _pending(self) -> tuple[list[str], bool]:
        """Return the documents that a run has still to remove, and whether it rewrites the tables."""
        found = json.loads(self._ledger.get(_PENDING) or '{"documents": [], "tables": false}')
        return found["documents"], found["tables"]

    def _write_down(self, documents: Collection[str], *, tables: bool) -> None:
        self._ledger.set(_PENDING, json.dumps({"documents": sorted(documents), "tables": tables}))

    def _remove(self, documents: Sequence[str], now: float) -> None:
        """Remove documents from the index, with all that was made from them and the questions that retrieved them."""
        chunks = [row["id"] for row in self._tables.select("chunks", among("document", documents), ["id"])]
        catalogue = Catalog(self._ledger)
        places = [place for document in documents for place in catalogue.places(document)]

        def record() -> None:
            mark_removed(self._ledger, chunks, now)
            ever = _with_earlier_versions(self._ledger, documents)
            questions, named, rows = asked_of(self._ledger, ever), (json.dumps(sorted(ever)),), self._ledger.rows
            rows.execute(f"DELETE FROM rejected_answers WHERE key IN {_OF_THEM}", named)
            _drop_questions(self._ledger, sorted(questions))
            rows.execute("DELETE FROM question_documents WHERE document IN (SELECT value FROM json_each(?1))", named)
            rows.execute("DELETE FROM jobs")  # planned again
            rows.execute("DELETE FROM answers WHERE origin = 'predicted' AND uses = 0 AND source LIKE 'history/%'")
            drop_derived(self._ledger, now)
            catalogue.replace(places)
            FormerNames(self._ledger).remove(documents)

        if self._is_reader:
            with self._ledger.transaction():
                record()
                self._ledger.rows.executemany("DELETE FROM documents WHERE id = ?", [(one,) for one in documents])
                self._ledger.raise_generation()
        else:
            self._knowledge.commit((), record, documents)
        prune_provenance(self._ledger, always=True)

    def _rewrite(self, on_step: OnStep) -> list[str]:
        """Rewrite every file that may hold deleted text; returns the old files that are still there."""
        self._knowledge.remove_leftovers(self._home.kv)
        KvFolder(self._ledger, self._home.kv).collect(PATIENT_S)
        former = set[str]()
        if not self._is_reader:
            self._tables.files.settle()  # also what a writer that died left
            former = self._tables.stored()
            VectorStore(self._ledger, self._tables).drop_former()
            names = self._tables.names()
            for number, name in enumerate(names):
                on_step("rewrite", number, len(names) + 1)
                self._tables.rewrite(name)
            on_step("rewrite", len(names), len(names) + 1)
        self._mapped.update(erase=True)  # writes shards that hold removed chunks again, and removes all others
        self._ledger.rows.execute("DELETE FROM changed_documents WHERE document NOT IN (SELECT id FROM documents)")
        return sorted(former & self._tables.stored()) if former else []

    def _remains(self, documents: Sequence[str]) -> Iterator[str]:
        for name in self._tables.names() if documents and not self._is_reader else ():
            for some in batches(documents, _AT_ONCE):
                if self._tables.count(name, among("id" if name == "documents" else "document", some)):
                    yield f"rows of the table {name}"
        if count := self._ledger.rows.execute(f"SELECT count(*) FROM kv_nodes WHERE {NODES_OF_REMOVED}").fetchone()[0]:
            yield f"{count} nodes of the KV cache"
        yield from map(str, KvFolder(self._ledger, self._home.kv).orphans())
        wanted = [document.encode() for document in documents[:_EXAMINED]]
        # LanceDB compresses ids; KV files and mail hold none.
        apart = (self._home.tables, self._home.index, self._home.kv, self._home.mail)
        files = (path for path in _files(self._home) if not any(path.is_relative_to(folder) for folder in apart))
        yield from (str(path) for path in files if wanted and _holds(path, wanted))

    def _counts(self) -> dict[str, int]:
        tables, rows = ("documents", "answers", "history AS questions", "kv_nodes AS nodes"), self._ledger.rows
        counted = {one.split()[-1]: rows.execute(f"SELECT count(*) FROM {one}").fetchone()[0] for one in tables}
        return counted | {"chunks": self._ledger.count("chunks")}


def stored_questions(ledger: Ledger) -> dict[str, str]:
    """Return every question that is kept, asked or predicted, with the addresses in its cached answers."""
    sql = """SELECT question, x'' FROM history UNION SELECT question, x'' FROM predictions
             UNION SELECT subject, x'' FROM jobs UNION ALL SELECT question, CAST(reply AS BLOB) FROM answers"""
    found = dict[str, str]()
    for question, reply in ledger.rows.execute(sql):
        found[question] = " ".join([found.get(question, ""), *map(bytes.decode, _ADDRESS.findall(reply))])
    return found


def questions_of(
    ledger: Ledger,
    tables: "Tables",
    words_of: Callable[[str], Set[str]],
    count_words: Callable[[Sequence[str]], Mapping[str, int]],
    documents: Sequence[str],
) -> tuple[str, ...]:
    """Return the kept questions that documents ever answered, or with a word or an answer's address of theirs alone.

    `words_of` returns the words of a question as the index has them, `count_words` how many chunks have some.
    """
    if not documents:
        return ()
    several = (tables.select("chunks", among("document", some), ["words"]) for some in batches(documents, _SELECTED))
    theirs = Counter(word for rows in several for row in rows for word in {*row["words"].split(" ")})
    asked = {one: words_of(f"{one} {told}") for one, told in stored_questions(ledger).items()}
    counted = count_words([*set[str]().union(*asked.values())])
    lost = {word for found in asked.values() for word in found if 0 < theirs[word] >= counted.get(word, 0)}
    return tuple(sorted({one for one, found in asked.items() if found & lost} | asked_of(ledger, documents)))


def _drop_questions(ledger: Ledger, questions: Sequence[str]) -> None:
    for one in [(question,) for question in questions]:
        keys = ledger.rows.execute("SELECT key FROM answers WHERE question = ?", one).fetchall()
        keys += ledger.rows.execute("SELECT key FROM history WHERE question = ? AND key IS NOT NULL", one).fetchall()
        ledger.rows.executemany("DELETE FROM rejected_answers WHERE key = ?", keys)
        ledger.rows.executemany("DELETE FROM answers WHERE key = ?", keys)
        for table, column in (("history", "question"), ("predictions", "question"), ("jobs", "subject")):
            ledger.rows.execute(f"DELETE FROM {table} WHERE {column} = ?", one)


# The keys of questions that were ever answered from documents or removed chunks: in rows of an older pkb the chunks
# alone tell what a question was about.
_OF_THEM = f"""(SELECT key FROM question_documents WHERE document IN (SELECT value FROM json_each(?1))
    UNION SELECT coalesce(key, CAST(id AS BLOB)) FROM history JOIN retrievals ON retrievals.question = history.id
    WHERE {OF_REMOVED.format("chunks")} UNION SELECT key FROM answers WHERE {OF_REMOVED.format("evidence")})"""


def asked_of(ledger: Ledger, documents: Collection[str]) -> set[str]:
    """Return the kept questions that go with documents, as they or earlier versions of them ever answered these."""
    sql = f"""SELECT question FROM history WHERE coalesce(key, CAST(id AS BLOB)) IN {_OF_THEM}
              UNION SELECT question FROM answers WHERE key IN {_OF_THEM}"""
    named = (json.dumps(sorted(_with_earlier_versions(ledger, documents))),)
    return {question for (question,) in ledger.rows.execute(sql, named)}


def answers_to(ledger: Ledger, questions: Sequence[str]) -> int:
    """Count the cached answers to some questions."""
    sql = "SELECT count(*) FROM answers WHERE question IN (SELECT value FROM json_each(?))"
    return int(ledger.rows.execute(sql, (json.dumps(questions),)).fetchone()[0])


_FEW = 3  # removed documents with the same name: more suggest a mailbox


def _with_earlier_versions(ledger: Ledger, documents: Collection[str]) -> set[str]:
    """Add the removed documents that some are later versions of: by Message-ID, or by a file that was theirs alone."""
    former, catalogue = FormerNames(ledger), Catalog(ledger)
    if not former.exist():
        return {*documents}
    places = [place for document in documents for place in catalogue.places(document)]
    names = [f"id\0{place.message_id}" for place in places if place.message_id]
    names += [f"path\0{one.path}" for one in places if not one.message_id or len(catalogue.places_in(one.path)) == 1]
    found = {*documents, *(one for name in names for one in former.documents(name))}
    others, left = {former.digest("id\0None")}, [*found]
    had = "SELECT name FROM former_names WHERE document = ? AND length(name) = 16"
    while left:  # through files that they stood in before
        theirs = {name for (name,) in ledger.rows.execute(had, (left.pop(),))}
        if theirs and len(others) == 1:
            paths = {path.rpartition(b"/")[0] or b"/" for (path,) in ledger.rows.execute("SELECT path FROM places")}
            above = {one for path in map(Path, map(os.fsdecode, paths)) for one in (path, *path.parents)}
            others |= {former.digest(f"path\0{one}") for one in above}
        for name in theirs - others:
            sql = "SELECT document FROM former_names WHERE name = ? AND document NOT IN (SELECT id FROM documents)"
            more = {document for (document,) in ledger.rows.execute(sql, (name,))}
            left += more - found if len(more) <= _FEW else ()
            found |= more if len(more) <= _FEW else set()
    return found


def _shrink(ledger: Ledger) -> list[str]:
    """Rewrite the ledger without free pages, and empty its write-ahead log; says so where a reader prevents it."""
    ledger.rows.execute(f"PRAGMA busy_timeout = {round(_PATIENCE_S * 1000)}")
    try:
        ledger.rows.execute("VACUUM")
        busy, *_ = ledger.rows.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise
        busy = 1
    finally:
        ledger.rows.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
    return ["the ledger's log, which another process reads"] if busy else []


def _files(home: Home) -> Iterator[Path]:
    return (path for path in home.entries() if path.is_file() and not path.is_symlink())


def _holds(path: Path, wanted: Sequence[bytes]) -> bool:
    pattern, longest, tail = re.compile(b"|".join(map(re.escape, wanted))), max(map(len, wanted)), b""
    with suppress(FileNotFoundError), path.open("rb") as file:  # removed meanwhile
        while block := file.read(_BLOCK):
            if pattern.search(tail + block):
                return True
            tail = block[-longest:]
    return False
