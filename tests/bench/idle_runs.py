"""A user's documents and questions in chronological order, and the answer cache that grows with them.

Knows nothing that a user could not know on that day: retrieval reads the documents that have come, and no others.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np

from engine.ask.keys import normalise
from engine.ask.paraphrase import why_different
from engine.ingest.chunking import chunk
from engine.ingest.files import read
from engine.ingest.types import ParseLimits
from engine.models.types import Embedder
from engine.retrieval.retrieve import RetrievalLimits, retrieve
from engine.text.question import Question, understand
from store.hits import Hit, Vectors
from store.types import Scope
from tests.bench.retrieval import kept
from tests.engine.retrieval.memory_bank import Item, MemoryBank, embedded
from tests.engine.retrieval.memory_bank import hits as hits_of

K, TAU, NEAR, MOST_NIGHTS = 5, 0.85, 0.95, 40
NOW = datetime(2024, 5, 15, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Asked:
    """What one question found: an answer (of which entry) or not, and how much of its prompt had been read before."""

    text: str
    how: Literal["exact", "semantic", "none"]
    entry: int | None
    top: str | None  # the chunk that came first
    same_top: bool  # for an earlier or predicted question too
    slots: int
    found: int  # of these, from the start of the prompt


class Stream:
    """One user: the chunks that come each night, and the questions of each day."""

    def __init__(self, idle_runs: Sequence[Sequence[Hit]], days: Sequence[Sequence[str]], embedder: Embedder) -> None:
        self._nights, self.days, self._embedder = idle_runs, days, embedder
        self._bank, self._texts = MemoryBank([]), dict[str, Vectors]()
        self._seen = dict[tuple[int, str], tuple[str, ...]]()
        self._number = 0

    def live(self, number: int) -> None:
        """Let the documents of a night come."""
        self._number = number
        self._bank = MemoryBank([hit for runner in self._nights[: number + 1] for hit in runner])

    def hits(self) -> list[Hit]:
        """Return the chunks that have come, newest first."""
        return [hit for runner in reversed(self._nights[: self._number + 1]) for hit in runner]

    def vector(self, text: str) -> Vectors:
        """Embed a question, once."""
        if text not in self._texts:
            self._texts[text] = self._embedder.embed_question(text)
        return self._texts[text]

    def retrieved(self, text: str) -> tuple[str, ...]:
        """Return the chunks for a question as things are, best first."""
        key = (self._number, text)
        if key not in self._seen:
            found = retrieve(self._bank, self.vector(text), understand(text, NOW), Scope(), K, RetrievalLimits())
            self._seen[key] = tuple(one.chunk.id for one in found.ranked[:K])
        return self._seen[key]

    def in_order(self, chunks: Sequence[str]) -> list[str]:
        """Put chunks in order of date."""
        place = {hit.chunk.id: (hit.date or NOW, hit.chunk.document, hit.chunk.position) for hit in self._bank.hits}
        return sorted(chunks, key=place.__getitem__)


class Bank:
    """Questions, asked or predicted, and the beginnings of prompts that were read for them; nothing ever goes."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._exact = dict[str, int]()
        self._questions, self._vectors = list[Question](), np.empty((0, 384), np.float32)
        self._tops, self._beginnings, self._retrieved = set[str](), set[tuple[str, ...]](), set[str]()

    def ask(self, text: str) -> Asked:
        """Ask a question, and keep it."""
        how, entry = self._find(text)
        chunks = self._stream.retrieved(text)
        order = self._stream.in_order(chunks)
        found = sum(tuple(order[:end]) in self._beginnings for end in range(1, len(order) + 1))
        top = chunks[0] if chunks else None
        asked = Asked(text, how, entry, top, top in self._tops, len(order), found)
        self._retrieved.update(chunks)
        self.keep(text, predicted=False)
        return asked

    def keep(self, text: str, *, predicted: bool) -> tuple[int, str | None]:
        """Keep a question and what was read for it; returns its number and the chunk that came first."""
        chunks = self._stream.retrieved(text)
        order = self._stream.in_order(chunks)
        self._beginnings.update(tuple(order[:end]) for end in range(1, len(order) + 1))
        self._tops.update(chunks[:1])
        number = self._exact.setdefault(normalise(text), len(self._questions))
        if number == len(self._questions):
            self._questions.append(understand(text, NOW))
            self._vectors = np.vstack([self._vectors, self._stream.vector(text)])
        return number, chunks[0] if chunks else None

    def known(self) -> set[str]:
        """Return every question, normalised."""
        return set(self._exact)

    def is_near(self, text: str) -> bool:
        """Return whether a question says the same as one that is kept."""
        return bool(len(self._vectors)) and float((self._vectors @ self._stream.vector(text)).max()) >= NEAR

    def little_asked(self, hits: Sequence[Hit]) -> list[Hit]:
        """Put the chunks that no question retrieved before the others."""
        return sorted(hits, key=lambda hit: hit.chunk.id in self._retrieved)

    def _find(self, text: str) -> tuple[Literal["exact", "semantic", "none"], int | None]:
        if (number := self._exact.get(normalise(text))) is not None:
            return "exact", number
        if len(self._vectors):
            asked, similar = understand(text, NOW), self._vectors @ self._stream.vector(text)
            for place in np.argsort(-similar)[:8]:
                if similar[place] >= TAU and why_different(asked, self._questions[int(place)]) is None:
                    return "semantic", int(place)
        return "none", None


def streams(folder: Path, embedder: Embedder, vectors: Path | None) -> Iterator[Stream]:
    """Read every user of a set."""
    for file in sorted(folder.rglob("questions.jsonl")):
        yield stream(file, embedder, vectors)


def stream(file: Path, embedder: Embedder, vectors: Path | None) -> Stream:
    """Read one user; a question is asked on the day on which the last of its documents has come."""
    items, paths = documents(file.parent)
    found = hits_of(items)
    found = embedded(found, kept([hit.chunk for hit in found], embedder, vectors))
    order = {item.document.id: place for place, item in enumerate(items)}
    idle_runs = min(len(items), MOST_NIGHTS)
    night_of = {name: place * idle_runs // len(items) for name, place in order.items()}
    groups: list[list[Hit]] = [[] for _ in range(idle_runs)]
    for hit in found:
        groups[night_of[hit.chunk.document]].append(hit)
    days: list[list[str]] = [[] for _ in range(idle_runs)]
    for row in rows(file):
        come = [night_of[paths[name]] for name in row["doc_ids"] if name in paths]
        if come and row["question"] not in days[max(come)]:
            days[max(come)].append(row["question"])
    return Stream(groups, days, embedder)


def documents(folder: Path) -> tuple[list[Item], dict[str, str]]:
    """Read a user's documents in the order of their dates, then of their names; and which document a path is."""
    items, paths = dict[str, Item](), dict[str, str]()
    for path in sorted(path for name in ("docs", "mail") for path in (folder / name).rglob("*") if path.is_file()):
        for document in (reading.document for reading in read(path, None, ParseLimits())):
            if document is not None:
                items.setdefault(document.id, Item(document, tuple(chunk(document, document.passages))))
                paths[path.relative_to(folder).as_posix()] = document.id
    early = datetime.min.replace(tzinfo=UTC)
    return sorted(items.values(), key=lambda item: item.document.date or early), paths


def rows(file: Path) -> list[dict[str, Any]]:
    """Return the questions that make sense alone and whose documents are known."""
    found = [json.loads(line) for line in file.read_text("utf-8").split("\n") if line.strip()]
    return [row for row in found if row.get("standalone", True) and row.get("doc_ids")]
