"""Shared by tests of the ingest pipeline: a folder of mail, and a home to ingest it into."""

import json
import os
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from engine.ingest.files import read
from engine.ingest.pipeline import Guard, Ingest, Summary
from engine.ingest.quotes import passage_digests
from engine.ingest.scan import ignorable
from engine.ingest.types import ParseLimits
from engine.text.words import words
from store.catalog import SourceRoot
from store.types import Document, Scope
from tests.store.kit import Fuse, Opened, home_in

LIMITS = ParseLimits()


def mail(
    path: Path, body: str, *, day: int = 1, subject: str = "", name: str = "", answers: str = "", sender: str = "ann"
) -> Path:
    """Write one message; `name` is its Message-ID, `answers` that of the message it replies to."""
    lines = [f"From: {sender}@x.org", "To: bob@x.org", f"Date: {day} May 2024 10:00:00 +0000", f"Subject: {subject}"]
    lines += [f"Message-ID: <{name}@x.org>"] if name else []
    lines += [f"In-Reply-To: <{answers}@x.org>"] if answers else []
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*lines, "", body, ""]), "utf-8")
    return path


@dataclass(slots=True)
class Box:
    """A home, and a folder of mail next to it."""

    folder: Path
    fuse: Fuse = field(default_factory=lambda: Fuse(0))
    opened: Opened = field(init=False)

    def __post_init__(self) -> None:
        self.opened = Opened(home_in(self.folder), self.fuse)
        self.mail.mkdir(exist_ok=True)

    @property
    def mail(self) -> Path:
        """Return the folder of mail."""
        return self.folder / "mail"

    def ingest(self, *roots: Path, prune: bool = False, collection: str = "", kind: str | None = None) -> Summary:
        """Ingest some roots, or all mail, each into a collection of its name by default."""
        run = Ingest(self.opened.ledger, self.opened.knowledge, LIMITS, Guard(0.2, 50, prune))
        for root in roots or (self.mail,):
            for _ in run.run(SourceRoot(str(root), collection or root.name, kind)):
                pass
        if self.opened.knowledge.is_untidy:
            self.opened.knowledge.compact()
        return run.summary

    def again(self, length: int = 0) -> "Box":
        """Open the same home as another process would, with its own fuse."""
        self.opened.ledger.close()
        return Box(self.folder, Fuse(length))

    def texts(self) -> list[str]:
        """Return the texts of all chunks, sorted."""
        return sorted(self.opened.chunks().values())

    def collections(self) -> Counter[tuple[str, ...]]:
        """Count the chunks of each set of collections, as a search sees them."""
        opened, found = self.opened, defaultdict[str, list[str]](list)
        for name in opened.catalogue.by_collection():
            for chunk in opened.mapped.view().chunks_of([*opened.documents()], Scope(collection=name)):
                found[chunk.chunk.id].append(name)
        return Counter(map(tuple, found.values()))

    def places(self) -> set[tuple[str, int, str]]:
        """Return all places as file, item and document."""
        rows = self.opened.ledger.rows.execute("SELECT path, item, document FROM places")
        return {(os.fsdecode(path), item, document) for path, item, document in rows}

    def missing_words(self) -> set[str]:
        """Return the words that are in a file but in no chunk; attribution lines are ignored."""
        said = {word for document in naive(self.mail)[1].values() for word in _words(document)}
        return said - set(self.opened.frequencies())


def naive(folder: Path) -> tuple[set[tuple[str, int, str]], dict[str, Document]]:
    """Parse all files of a folder naively: places, and documents by id."""
    places, documents = set(), {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and not ignorable(path)):
        for reading in read(path, LIMITS):
            if reading.document:
                places.add((str(path), reading.item, reading.document.id))
                documents[reading.document.id] = reading.document
    return places, documents


def passages(folder: Path) -> set[bytes]:
    """Return the digests of all passages of all files."""
    return {digest for document in naive(folder)[1].values() for digest in passage_digests(document)}


def _words(document: Document) -> set[str]:
    lines = [line for passage in document.passages for line in passage.text.split("\n")]
    return {word for line in lines if not line.endswith("wrote:") for word in words(line)}


def whisper(path: Path, text: str) -> Path:
    """Write a transcript in Whisper's JSON."""
    segment = {"id": 0, "start": 0.0, "end": 4.0, "text": text}
    path.write_text(json.dumps({"text": text, "segments": [segment], "language": "en"}), "utf-8")
    return path
