"""The parts of one open home, each opened when first used: settings, ledger, tables, embedder, model, answers.

Wires them together and knows no commands. Imports are inside functions: `--help` and an exact hit must not
wait for LanceDB, numpy or a model.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from engine.settings import AdapterSettings, Experiment, MeSettings, Settings, load, put, unknown
from prompts import word_patterns
from store.errors import DamagedLedger, DiskFull, NoModel, UnsafePlace, UsageError, disk_failure
from store.home import ELSEWHERE, has_tables, is_full, locate, unsafe_place
from store.types import fold, replace, table_of

if TYPE_CHECKING:
    from engine.ask.pipeline import Asker
    from engine.ask.semantic import SemanticRules
    from engine.backends import Generative
    from engine.ingest.chunking import Cluster
    from engine.llm.resident import ResidentModel
    from engine.models.minilm import SpanReader
    from engine.models.types import Embedder
    from engine.text.people import Ties
    from engine.types import AskOptions, Backend
    from store.catalog import Catalog, Guess
    from store.database import Ledger
    from store.documents import Knowledge
    from store.locks import Locks
    from store.mapped_index import MappedIndex
    from store.search import QuestionVectors, Reader
    from store.tables import Tables


_ON_LEDGER = (
    "ledger", "tables", "catalogue", "knowledge", "reader", "mapped", "asker", "backend", "model",
    "question_vectors",
)  # fmt: skip


class Session:
    """One command's view of a home."""

    def __init__(self, environ: Mapping[str, str], experiment: "Experiment | None" = None) -> None:
        self.environ, self.home = environ, locate(environ)
        self.keeps_tensors = True  # use and fill the KV cache, unless the settings turn it off
        self.on_notice: Callable[[str], None] = lambda _: None  # called with what the user should know, once
        self.on_wait: Callable[[], None] = lambda: None  # called before what may take longer than a cached answer
        self.on_beat: Callable[[], None] = lambda: None  # called now and then while the background server answers
        self.before_retrieval: Callable[[], None] = lambda: None
        self.collection: str | None = None  # that everything here is limited to
        self.cluster: Cluster | None = None  # that parses and embeds, if not this process
        self.read_only = False  # questions are not stored: no history, no answer, no count
        self._create, self._told, self._experiment, self._file = False, False, experiment, 0

    @cached_property
    def settings(self) -> "Settings":
        """Read the config file; UsageError naming a wrong key or value."""
        settings = load(self.home.config)
        if others := unknown(self.home.config):
            self.on_notice(f"{self.home.config}: ignored unknown settings: {', '.join(others)}")
        if self.home.source:  # of a user: nothing that was made from what others wrote
            from store.readers import user_of

            own, kv = MeSettings(user_of(self.home).addresses), replace(settings.kv, remote="")
            settings = replace(settings, me=own, adapter=AdapterSettings(), kv=kv)
        return replace(settings, experiment=self._experiment) if self._experiment else settings

    @property
    def me(self) -> tuple[str, ...]:
        """Return the user's addresses and names, folded: those of the settings, else those that are a clear guess."""
        chosen = tuple(fold(one.strip()) for one in self.settings.me.addresses.split(";") if one.strip())
        return chosen or tuple(one.address for one in self.guesses if one.is_clear)

    @property
    def ties(self) -> "Ties":
        """Return who is the same person, and who is not, by the settings."""
        from engine.text.people import Ties

        return Ties.of(self.settings.people.same, self.settings.people.apart)

    @property
    def guesses(self) -> "list[Guess]":
        """Return addresses that may be the user's, the likeliest first."""
        from store.catalog import guess_me

        if not self.there or self.home.source:  # of a user: the mail was sent by another
            return []
        return guess_me(self.ledger, word_patterns("archive")["sent"].split("|"))

    def override(self, key: str, value: object) -> None:
        """Change a setting for this session alone."""
        self.settings = put(self.settings, key, value, "this command")

    @cached_property
    def unsafe(self) -> str:
        """Return why nothing may be written to the home: a network disk or a synced folder; empty if it may."""
        why = unsafe_place(self.home.data)
        return "" if why and self.settings.home.place == "any" else why

    def make(self) -> None:
        """Create the home if it does not exist; the ledger is opened for writing from now on, never a copy of it.

        UnsafePlace if nothing may be written there, UsageError where another home is the one to write to.
        """
        self.refuse_unsafe()
        self.refuse_reader()
        self.home.create()
        if not self._create:
            self.reopen()
        self._create = True

    def refuse_unsafe(self) -> None:
        """Raise UnsafePlace if nothing may be written to the home."""
        if self.unsafe:
            raise UnsafePlace(self.unsafe, ELSEWHERE)

    def refuse_reader(self) -> None:
        """Raise UsageError in the home of a user: what is indexed is the matter of the home that it reads."""
        if self.home.source:
            raise UsageError("this home shows a part of another one, which indexes and forgets", "unset PKB_HOME")

    @property
    def there(self) -> bool:
        """Return whether the home exists."""
        from store.database import exists

        return exists(self.home.ledger)

    def look_again(self) -> None:
        """Reopen if the open ledger is no longer that of the home, which was removed or replaced."""
        is_open = self._file and "ledger" in vars(self) and not self.ledger.temporary
        if is_open and not (self.there and self.home.ledger.stat().st_ino == self._file):
            self.reopen()
            self._create = False

    @cached_property
    def now(self) -> "datetime":
        """Return the time at which questions are asked."""
        return now(self.environ)

    @cached_property
    def ledger(self) -> "Ledger":
        """Open the ledger, on a full disk a copy; NoStore if there is none, DamagedLedger where it was lost."""
        from sqlite3 import OperationalError

        from store.checksums import settle_place
        from store.database import open_ledger

        if self.there and self.unsafe:
            return self._copy(self.unsafe)
        if not self._create and self.there and is_full(self.home):
            return self._copy("no space left on the disk")
        if not self.there and has_tables(self.home):
            raise DamagedLedger(self.home.ledger, "is missing")
        try:
            if self.home.source:
                from store.readers import follow, open_own

                opened = open_own(self.home)
                follow(self.home, opened)
                opened.renew()
            else:
                opened = open_ledger(self.home.ledger, create=self._create, durable=self._create)
                if self._create:
                    settle_place(opened, self.settings.home.tables)
            self._file = self.home.ledger.stat().st_ino
            if self.home.source is None and self.home.mail.is_dir():
                from store.catalog import follow_mail

                follow_mail(opened, self.home.mail)
            return opened
        except OperationalError as error:
            if self._create or (why := disk_failure(error, self.home.data)) is None:
                raise
            return self._copy(why)

    def _copy(self, why: str) -> "Ledger":
        from store.database import open_copy

        if not self._told:
            self.on_notice(f"{why}: nothing is cached or counted; try: pkb doctor")
        self._told = True
        return open_copy(self.home.ledger)

    def stop_writing(self, why: str) -> None:
        """Go on with a copy of the ledger, since the disk is full or failing."""
        self.reopen()
        self.ledger = self._copy(why)

    def reopen(self) -> None:
        """Close the ledger and everything that uses it; each opens again when it is next used."""
        opened = vars(self)
        if "models" in opened:
            self.models.close()
        if "ledger" in opened:
            self.ledger.close()
        for name in _ON_LEDGER:
            opened.pop(name, None)

    def limited(self, options: "AskOptions") -> "AskOptions":
        """Return the options for questions here: within the collection, and leaving nothing if read-only."""
        if self.collection is None and not self.read_only:
            return options
        scope, writes = options.scope.inside(self.collection), options.write_bank and not self.read_only
        return replace(options, scope=scope, write_bank=writes, record=not self.read_only)

    @property
    def lasting_ledger(self) -> "Ledger":
        """Return the ledger for a change that must last; PkbError if the disk is full or no safe place."""
        self.refuse_unsafe()
        if self.ledger.temporary:
            raise DiskFull(f"no space left on the disk: {self.home.data}", "pkb doctor")
        return self.ledger

    @cached_property
    def catalogue(self) -> "Catalog":
        """Return the catalog of sources."""
        from store.catalog import Catalog

        return Catalog(self.ledger, self.collection)

    @cached_property
    def tables(self) -> "Tables":
        """Open LanceDB."""
        self.on_wait()
        from store.tables import Tables

        return Tables(self.home.tables, self.ledger)

    @cached_property
    def knowledge(self) -> "Knowledge":
        """Return the writing side of the knowledge bank."""
        from engine.text.words import content_words
        from store.documents import Knowledge

        reads = (content_words, lambda some: self.reader.frequencies(some))
        return Knowledge(self.ledger, lambda: self.tables, *reads, lambda rows: self.mapped.publishing(rows))

    @cached_property
    def reader(self) -> "Reader":
        """Return the reading side of the knowledge bank."""
        from store.search import Reader

        return Reader(self.ledger, lambda: self.tables, self.mapped, self.collection)

    @cached_property
    def mapped(self) -> "MappedIndex":
        """Return the mapped index."""
        from store.mapped_index import MappedIndex

        return MappedIndex(self.home, self.ledger, lambda: self.tables)

    @cached_property
    def locks(self) -> "Locks":
        """Return the locks."""
        from store.locks import Locks

        if self.home.source is None:
            return Locks(self.home.shared)
        from store.readers import follow

        return Locks(self.home.shared, lambda: follow(self.home, self.ledger))  # which lists the files of the tables

    @cached_property
    def embedder(self) -> "Embedder":
        """Return the configured embedder; NoModel if its weights are not installed."""
        notes, name = self.home.cache / "digests", self.settings.embed.model
        if name == "minilm":
            from engine.models.minilm import MiniLM

            return MiniLM(workers=os.cpu_count() or 1, notes=notes)
        from engine.models.lookup import is_e5
        from engine.models.minilm import E5, Qwen3, find_model
        from engine.models.runtime import threads_of

        if is_e5(name, (found := find_model(name, self.environ)).config):
            return E5(found, workers=os.cpu_count() or 1, notes=notes)
        share, threads = self.settings.model.memory_share, threads_of(self.ledger)
        return Qwen3(found, cache=self.home.cache, notes=notes, threads=threads, memory_share=share)

    @property
    def question_embedder(self) -> "Embedder | None":
        """Return the embedder if it made the stored vectors, else None: then search goes by keywords alone."""
        made = self.ledger.get("vectors")
        if self.embeddings_damaged:
            return None
        try:
            fits = made is not None and made == table_of(self.embedder.fingerprint)
        except NoModel:
            return None
        return self.embedder if fits else None

    @cached_property
    def embeddings_damaged(self) -> bool:
        """Return whether files of the vectors are damaged; if so, warn that search uses keywords alone."""
        from store.checksums import TableFiles

        damaged = bool(TableFiles(self.ledger, self.home.tables).damaged(self.ledger.vectors))
        if damaged:
            self.on_notice("the embeddings are damaged, so search uses keywords alone; try: pkb doctor --data --repair")
        return damaged

    @cached_property
    def asker(self) -> "Asker":
        """Return the asker, which answers questions."""
        from engine.ask.pipeline import Asker

        return Asker(self.ledger, self.backend, self.settings, self.rules)

    @cached_property
    def backend(self) -> "Backend":
        """Return the backend that answers questions, a model or quotes; NoModel if the one configured is not there."""
        from engine.backends import Extractive

        return self.model or Extractive(self)

    @cached_property
    def reader_version(self) -> str:
        """Return the version of the reader; empty if the embedder's weights, which it needs, are not installed."""
        from engine.models.lookup import reader_version

        try:
            return reader_version(self.home.cache / "digests")
        except NoModel:
            return ""

    @cached_property
    def span_reader(self) -> "SpanReader | None":
        """Return the reader, which marks answers in texts; None without the embedder's weights."""
        from engine.models.minilm import E5, open_reader

        if not self.reader_version:
            return None
        reader, embedder = open_reader(self.reader_version), self.question_embedder
        reader.languages = embedder if isinstance(embedder, E5) else None
        return reader

    def model_for(self, task: str) -> "Generative | None":
        """Return the language model with the adapter of a task, such as predict; None if pkb quotes."""
        return self.model.by_task.get(task, self.model) if self.model else None

    @cached_property
    def model(self) -> "Generative | None":
        """Return the language model that answers, here or at a server; None if pkb quotes."""
        chosen = self.settings.model
        if not chosen.is_local and not chosen.is_served:
            return None
        from engine.backends import ServedModel, local_model

        found = local_model(self) if chosen.is_local else ServedModel(self)
        for problem in found.problems:
            self.on_notice(problem)
        return found

    @cached_property
    def question_vectors(self) -> "QuestionVectors":
        """Return the vectors of cached questions by the embedder; NoModel if its weights are not installed."""
        from store.search import QuestionVectors

        return QuestionVectors(self.ledger, self.embedder.fingerprint, self.embedder.width)

    @property
    def tau(self) -> float | None:
        """Return the minimum cosine similarity of a paraphrase, set or learned; None if the semantic tier is off."""
        if not self.settings.experiment.semantic:
            return None
        return max(self.settings.bank.tau, float(self.ledger.get("tau") or 0.0))

    def rules(self) -> "SemanticRules | None":
        """Return the rules of the semantic tier; None if it is off."""
        if (tau := self.tau) is None:
            return None
        from engine.ask.semantic import SemanticRules

        parts, least = self.settings.experiment, self.settings.ask.decline_below
        return SemanticRules(tau, least, parts.guard, parts.verify, lambda: self.span_reader)

    @cached_property
    def models(self) -> "ResidentModel":
        """Return the holder of this process's language model."""
        from engine.llm.resident import ResidentModel

        return ResidentModel(self.home.shared)


@contextmanager
def session(environ: Mapping[str, str] = os.environ) -> Iterator[Session]:
    """Open a home, by default that of this process's environment, and close it."""
    opened = Session(environ)
    try:
        yield opened
    finally:
        models, ledger = (vars(opened).get(name) for name in ("models", "ledger"))
        vars(opened).clear()  # it refers to itself
        if models:
            models.forget()  # before another process may load one
            models.free()
        if ledger:
            ledger.close()


def now(environ: Mapping[str, str]) -> datetime:
    """Return the local time, with its zone; UsageError if PKB_NOW is not an ISO date and time."""
    given = environ.get("PKB_NOW")
    if not given:
        return datetime.now().astimezone()
    try:
        return datetime.fromisoformat(given).astimezone()
    except ValueError:
        raise UsageError("PKB_NOW must be like 2024-06-19T08:00", None) from None
