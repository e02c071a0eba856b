"""What tests of the store share: a home with all of it open, documents to keep, and ways to die in the middle."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from store.catalog import Catalog
from store.database import Ledger, open_ledger
from store.documents import Knowledge, VectorStore
from store.home import Home
from store.integrity import Finding, examine
from store.locks import Locks
from store.mapped_index import MappedIndex
from store.search import Reader
from store.tables import Alone, Tables
from store.types import Chunk, Document, FileState, IndexedDocument, Place, Row, Vectors


class Killed(BaseException):
    """What a fuse raises that dies inside the process."""


def _die() -> None:
    raise Killed


def kill_process() -> None:
    """End this process as `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass(slots=True)
class Fuse:
    """Burns down by one at each step that leaves something on disk, and dies when it is at its end."""

    length: int
    end: Callable[[], None] = _die
    burnt: int = 0

    def tick(self) -> None:
        """Burn by one."""
        self.burnt += 1
        if self.burnt == self.length:
            self.end()


class FusedLedger(Ledger):
    """Burns before and after each transaction."""

    fuse = Fuse(0)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.fuse.tick()
        with super().transaction():
            yield
        self.fuse.tick()


class FusedTables(Tables):
    """Burns after each write to a table."""

    fuse = Fuse(0)

    def add(self, name: str, rows: Sequence[Row], width: int = 0) -> None:
        super().add(name, rows, width)
        self.fuse.tick()

    def delete(self, name: str, condition: str) -> None:
        super().delete(name, condition)
        self.fuse.tick()

    def rewrite(self, name: str, alone: Alone = nullcontext) -> None:
        super().rewrite(name, alone)
        self.fuse.tick()


@dataclass(slots=True)
class Opened:
    """One process's view of a home, all of it open."""

    home: Home
    fuse: Fuse = field(default_factory=lambda: Fuse(0))
    ledger: Ledger = field(init=False)
    tables: Tables = field(init=False)
    knowledge: Knowledge = field(init=False)
    vectors: VectorStore = field(init=False)
    reader: Reader = field(init=False)
    mapped: MappedIndex = field(init=False)
    catalogue: Catalog = field(init=False)
    locks: Locks = field(init=False)

    def __post_init__(self) -> None:
        self.home.create()
        ledger = FusedLedger(open_ledger(self.home.ledger, create=True).rows)
        tables = FusedTables(self.home.tables, ledger)
        ledger.fuse = tables.fuse = self.fuse
        self.ledger, self.tables = ledger, tables
        self.knowledge = Knowledge(self.ledger, lambda: self.tables)
        self.mapped = MappedIndex(self.home, self.ledger, lambda: self.tables)
        self.vectors, self.reader = (
            VectorStore(self.ledger, self.tables),
            Reader(self.ledger, lambda: self.tables, self.mapped),
        )
        self.catalogue, self.locks = Catalog(self.ledger), Locks(self.home.locks)

    def wrong(self) -> list[Finding]:
        """Return what a full examination finds wrong, file modes apart: the command sets the umask, a test does not."""
        found = examine(self.home, Ledger(self.ledger.rows), self.tables, read_data=True)  # it burns no fuse
        return [finding for finding in found if finding.wrong and finding.name != "privacy"]

    def chunks(self) -> dict[str, str]:
        """Return the text of every chunk, by id."""
        return {row["id"]: row["text"] for row in self.tables.select("chunks", "true", ["id", "text"])}

    def documents(self) -> set[str]:
        """Return the id of every document in LanceDB."""
        return {row["id"] for row in self.tables.select("documents", "true", ["id"])}

    def frequencies(self) -> dict[str, int]:
        """Return the frequency of every word."""
        held = {word for row in self.tables.select("chunks", "true", ["words"]) for word in row["words"].split(" ")}
        return dict(self.reader.frequencies(sorted(held)))

    def keep(self, *entries: IndexedDocument, removes: Sequence[str] = ()) -> None:
        """Keep entries, each as if from a file of its own, and remove documents with their files."""

        def record() -> None:
            self.catalogue.drop("/mail", [f"/mail/{name}".encode() for name in removes])
            for one in entries:
                path = f"/mail/{one.document.id}"
                places = [Place(path, i, one.document.id, None, None, name) for i, name in enumerate(one.collections)]
                self.catalogue.put_file(path, FileState(1, 1, 1), places, [])

        self.knowledge.commit(entries, record, removes)


def home_in(folder: Path) -> Home:
    """Return a home below a folder."""
    return Home(folder / "data", folder / "cache", folder / "config.toml")


def document(name: str, text: str = "", **about: Any) -> Document:
    """Make a document, a mail of no consequence unless said otherwise."""
    usual: dict[str, Any] = {
        "id": name, "kind": "mail", "title": "", "sender": "", "recipients": (), "message_id": None, "text": text,
        "date": datetime(2024, 5, 3, tzinfo=UTC), "passages": (),
    }  # fmt: skip
    return Document(**(usual | about))


def entry(name: str, *texts: str, collections: Sequence[str] = ("Mail",), **about: Any) -> IndexedDocument:
    """Make a document with a chunk for each text, found by the text's own words."""
    chunks = tuple(Chunk(f"{name}/{i}", name, i, "", text, 1, 1) for i, text in enumerate(texts))
    return IndexedDocument(document(name, "\n".join(texts), **about), chunks, texts, tuple(collections))


class HashEmbedder:
    """Adds up a random unit vector for each word; similar texts share words, and so direction."""

    def __init__(self, fingerprint: str = "hash-1", width: int = 16) -> None:
        self.fingerprint, self.width = fingerprint, width

    def embed(self, texts: Sequence[str]) -> Vectors:
        rows = [sum((self._word(word) for word in text.split()), np.ones(self.width)) for text in texts]
        matrix = np.array(rows, dtype=np.float32).reshape(len(texts), self.width)
        unit: Vectors = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
        return unit

    def knows(self, word: str) -> bool:
        return True

    def embed_question(self, text: str) -> Vectors:
        row: Vectors = self.embed([text])[0]
        return row

    def _word(self, word: str) -> "np.ndarray":
        return np.random.default_rng(crc32(f"{self.fingerprint} {word}".encode("utf-8", "replace"))).standard_normal(
            self.width
        )
