"""All wiring: what a command needs of one home, made when first asked for and not before. Prints nothing.

Imports stand inside the functions: `--help` and an exact hit must not wait for LanceDB, numpy or a model.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from store.errors import NoModel, UsageError

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from cli.writers import Writer
    from engine.ask.answer import Asker, Manner
    from engine.ask.evidence import Evidence
    from engine.ask.question import Question
    from engine.ask.trace import Trace
    from engine.ingest.embed import Embedded
    from engine.ingest.ingest import Ingest
    from engine.models.protocols import Embedder
    from engine.settings import Settings
    from store.catalogue import Catalogue
    from store.home import Home
    from store.integrity import Finding
    from store.knowledge import Knowledge
    from store.ledger import Ledger
    from store.locks import Locks
    from store.reading import Reader
    from store.records import Scope
    from store.tables import Tables
    from store.vectors import VectorStore


class Session:
    """One command's view of a home; `closing` lets go of what it opened."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        from store.home import locate

        self._environ = environ
        self.home: Home = locate(environ)
        self._create = False

    @cached_property
    def settings(self) -> "Settings":
        """Read the config file; UsageError naming what cannot be."""
        from engine.settings import load

        return load(self.home.config)

    def override(self, key: str, value: object) -> None:
        """Change a setting for this command alone."""
        from engine.settings import put

        self.settings = put(self.settings, key, value, "this command")

    def make(self) -> None:
        """Allow this command to make a home that is not there yet."""
        self.home.create()
        self._create = True

    @property
    def there(self) -> bool:
        """Tell whether anything was ever kept here."""
        from store.ledger import exists

        return exists(self.home.ledger)

    @cached_property
    def now(self) -> "datetime":
        """Give the time that the questions of this command are asked at."""
        from engine.clock import now

        return now(self._environ)

    @cached_property
    def ledger(self) -> "Ledger":
        """Open the ledger; NoStore where there is none."""
        from store.ledger import open_ledger

        return open_ledger(self.home.ledger, create=self._create, durable=self._create)

    @cached_property
    def catalogue(self) -> "Catalogue":
        """Give what was read from where."""
        from store.catalogue import Catalogue

        return Catalogue(self.ledger)

    @cached_property
    def tables(self) -> "Tables":
        """Open LanceDB."""
        from store.tables import Tables

        return Tables(self.home.tables)

    @cached_property
    def knowledge(self) -> "Knowledge":
        """Give the writing side of the knowledge bank."""
        from store.knowledge import Knowledge

        return Knowledge(self.ledger, lambda: self.tables)

    @cached_property
    def reader(self) -> "Reader":
        """Give the reading side of the knowledge bank."""
        from store.reading import Reader

        return Reader(self.ledger, self.tables)

    @cached_property
    def vectors(self) -> "VectorStore":
        """Give the vectors."""
        from store.vectors import VectorStore

        return VectorStore(self.ledger, self.tables)

    @cached_property
    def locks(self) -> "Locks":
        """Give the locks."""
        from store.locks import Locks

        return Locks(self.home.locks)

    @cached_property
    def embedder(self) -> "Embedder":
        """Load the embedder that the settings name; NoModel where its weights are not here."""
        from engine.models.minilm import MiniLM

        if self.settings.embed.model != "minilm":
            raise UsageError(f"no such embedder: {self.settings.embed.model}", "pkb config set embed.model minilm")
        workers = self.settings.embed.workers or os.cpu_count() or 1
        return MiniLM(workers=workers, notes=self.home.cache / "digests")

    def missing_vectors(self) -> int:
        """Count the chunks without a vector of the embedder in use."""
        from store.pending import count

        return count(self.ledger)

    def embed(self) -> "Iterator[Embedded]":
        """Fill in missing vectors, then tidy the tables."""
        from engine.ingest.embed import embed

        yield from embed(self.vectors, self.embedder, self.locks)
        with self.locks.writer():
            self.knowledge.compact()

    @cached_property
    def question_embedder(self) -> "Embedder | None":
        """Give the embedder, None where it is not here or made none of the vectors: then words alone are searched."""
        from store.vectors import table_of

        try:
            fits = self.ledger.get("vectors") == table_of(self.embedder.fingerprint)
        except NoModel:
            return None
        return self.embedder if fits else None

    @cached_property
    def asker(self) -> "Asker":
        """Make what answers questions; the knowledge bank is opened when a question needs it."""
        from engine.ask.answer import Asker

        def gather(question: "Question", manner: "Manner", trace: "Trace") -> "Evidence":
            with trace.step("open"):
                from engine.ask.evidence import gather

                parts = (self.reader, self.catalogue, self.question_embedder)
            with self.locks.reader():
                return gather(*parts, question, manner.scope, manner.k, trace)

        return Asker(self.ledger, gather, self.writer.write, self.writer.fingerprint, self.settings.bank.bytes)

    @cached_property
    def writer(self) -> "Writer":
        """Give what writes answers: the language model that the settings name, else the quotes."""
        from cli.writers import choose

        return choose(self.home, self.settings, lambda: self.ledger, self.now, self._environ)

    def search(self, text: str, scope: "Scope", k: int) -> "Evidence":
        """Retrieve without answering."""
        from engine.ask.evidence import gather
        from engine.ask.question import understand
        from engine.ask.trace import Trace

        question, catalogue = understand(text, self.now), self.catalogue  # NoStore before a lock file is made
        with self.locks.reader():
            return gather(self.reader, catalogue, self.question_embedder, question, scope, k, Trace())

    def documents(self, path: "Path", message_id: str | None) -> "list[dict[str, Any]]":
        """Give the documents that a file holds, as kept, with the lines that sources name."""
        from engine.ask.shown import shown

        wanted = (message_id or "").strip("<>")
        places = [p for p in self.catalogue.standing_at(str(path)) if not wanted or p.message_id == wanted]
        with self.locks.reader():
            return shown(self.reader, places)

    def check(self, *, read_data: bool, repair: bool) -> "tuple[list[Finding], int]":
        """Examine the store, after mending it if asked to; gives the findings and the documents to read again."""
        ledger = self.ledger  # NoStore before LanceDB is imported and a lock file made
        from store import integrity

        again, parts = 0, (self.home, ledger, self.tables)
        with self.locks.writer():
            if repair:
                again = integrity.repair(*parts, self.knowledge)
            return list(integrity.examine(*parts, read_data=read_data)), again

    def ingest(self, *, prune: bool) -> "Ingest":
        """Make an ingest run."""
        from engine.ingest.ingest import Guard, Ingest
        from engine.ingest.limits import Limits

        chosen = self.settings.ingest
        limits = Limits(message_bytes=chosen.message_bytes, file_bytes=chosen.file_bytes)
        guard = Guard(chosen.gone_share, chosen.gone_count, prune)
        return Ingest(self.ledger, self.knowledge, limits, guard)


@contextmanager
def session() -> Iterator[Session]:
    """Open the home of this process for one command."""
    opened = Session(os.environ)
    try:
        yield opened
    finally:
        if "ledger" in opened.__dict__:
            opened.ledger.close()
