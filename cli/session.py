"""All wiring: what a command needs of one home, made when first asked for and not before. Prints nothing.

Imports stand inside the functions: `--help` and an exact hit must not wait for LanceDB, numpy or a model.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from store.errors import NoModel

if TYPE_CHECKING:
    from datetime import datetime

    from cli.writers import Writer
    from engine.ask.pipeline import Asker
    from engine.ask.question import BankBudget
    from engine.ask.semantic import Rules
    from engine.llm.prompt import Order
    from engine.llm.resident import Models
    from engine.models.types import Embedder
    from engine.settings import Experiment, Settings
    from engine.text.question import Question
    from engine.types import Evidence, Manner, Means, Trace
    from store.catalog import Catalogue
    from store.database import Ledger
    from store.documents import Knowledge
    from store.hits import Vectors
    from store.locks import Locks
    from store.question_index import QuestionVectors
    from store.search import Reader
    from store.tables import Tables
    from store.vectors import VectorStore


class Session:
    """One command's view of a home."""

    def __init__(self, environ: Mapping[str, str], experiment: "Experiment | None" = None) -> None:
        from store.home import locate

        self.environ, self.home = environ, locate(environ)
        self.keeps_tensors = True  # what a model has read is kept and loaded, where the settings have it so
        self.on_notice: Callable[[str], None] = lambda _: None  # is told what the user should know, once
        self._create, self._experiment = False, experiment

    @cached_property
    def settings(self) -> "Settings":
        """Read the config file; UsageError naming what cannot be."""
        from engine.settings import load, retired

        settings = load(self.home.config)
        if old := retired(self.home.config):
            self.on_notice(f"{self.home.config}: ignored retired settings: {', '.join(old)}")
        return replace(settings, experiment=self._experiment) if self._experiment else settings

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
        from store.database import exists

        return exists(self.home.ledger)

    @cached_property
    def now(self) -> "datetime":
        """Give the time that the questions of this command are asked at."""
        from engine.clock import now

        return now(self.environ)

    @cached_property
    def ledger(self) -> "Ledger":
        """Open the ledger; NoStore where there is none."""
        from store.database import open_ledger

        return open_ledger(self.home.ledger, create=self._create, durable=self._create)

    @cached_property
    def catalogue(self) -> "Catalogue":
        """Give what was read from where."""
        from store.catalog import Catalogue

        return Catalogue(self.ledger)

    @cached_property
    def tables(self) -> "Tables":
        """Open LanceDB."""
        from store.tables import Tables

        return Tables(self.home.tables)

    @cached_property
    def knowledge(self) -> "Knowledge":
        """Give the writing side of the knowledge bank."""
        from store.documents import Knowledge

        return Knowledge(self.ledger, lambda: self.tables)

    @cached_property
    def reader(self) -> "Reader":
        """Give the reading side of the knowledge bank."""
        from store.search import Reader

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
        """Give the embedder that the settings name; NoModel where its weights are not here."""
        from cli.embedders import choose

        return choose(self.home, self.settings, lambda: self.ledger, self.environ)

    @property
    def question_embedder(self) -> "Embedder | None":
        """Give the embedder, None where it is not here or made none of the vectors: then words alone are searched."""
        from store.vectors import table_of

        made = self.ledger.get("vectors")
        try:
            fits = made is not None and made == table_of(self.embedder.fingerprint)
        except NoModel:
            return None
        return self.embedder if fits else None

    @cached_property
    def asker(self) -> "Asker":
        """Make what answers questions."""
        from engine.ask.pipeline import Asker

        return Asker(self.ledger, self.means, self.room, self.rules)

    @cached_property
    def room(self) -> "BankBudget":
        """Give what the bank may hold."""
        from engine.ask.question import BankBudget

        return BankBudget(self.settings.bank.bytes, self.settings.experiment.refresh_k)

    @cached_property
    def means(self) -> "Means":
        """Give the means of answering: the knowledge bank, the embedder and a model are opened when one needs them."""
        from engine.types import Means

        writer = self.writer
        parts = (writer.write, writer.read, writer.bears, lambda: self.questions, writer.fingerprint)
        return Means(self._embed, self._gather, *parts)

    def _embed(self, text: str, trace: "Trace") -> "Vectors | None":
        """Give the vector of a question, None where there is nothing to compare it with."""
        embedder = self.question_embedder
        if embedder is None:
            return None
        with trace.step("embed"):
            return embedder.embed_question(text)

    def _gather(self, question: "Question", vector: "Vectors | None", manner: "Manner", trace: "Trace") -> "Evidence":
        """Retrieve for a question."""
        with ExitStack() as held:
            with trace.step("open"):
                from engine.retrieval.evidence import find

                parts = (self.reader, self.catalogue, vector)
                held.enter_context(self.locks.reader())
            return find(*parts, question, manner.scope, manner.k, trace)

    @property
    def questions(self) -> "QuestionVectors | None":
        """Return the vectors of the bank's questions; None where no embedder is here that could search them."""
        return self.question_vectors if self.question_embedder else None

    @cached_property
    def question_vectors(self) -> "QuestionVectors":
        """Return the vectors of the bank's questions that the embedder made; NoModel where its weights are not here."""
        from store.question_index import QuestionVectors

        return QuestionVectors(self.ledger, self.embedder.fingerprint, self.embedder.width)

    def rules(self) -> "Rules | None":
        """Say when a question is given another one's answer; None where the settings want no such thing."""
        if not (parts := self.settings.experiment).semantic:
            return None
        from engine.ask.semantic import Rules

        tau = max(self.settings.bank.tau, float(self.ledger.get("tau") or 0.0))
        return Rules(tau, self.settings.ask.decline_below, parts.guard, parts.evidence, parts.verify, parts.check)

    @cached_property
    def writer(self) -> "Writer":
        """Give what writes answers: the language model that the settings name, else the quotes."""
        from cli.writers import choose

        kept = self.keeps_tensors and self.settings.kv.reuse != "off"
        parts = (self.home, self.settings, lambda: self.ledger, self.now, self.environ)
        return choose(*parts, models=lambda: self.models, kept=kept, order=lambda: self.order)

    @cached_property
    def order(self) -> "Order":
        """Return the order of the passages in a prompt."""
        from engine.llm.prompt import in_document_order

        return in_document_order

    @cached_property
    def models(self) -> "Models":
        """Give the language model that is in memory, if one is."""
        from engine.llm.resident import Models

        return Models(self.home.locks)


@contextmanager
def session(environ: Mapping[str, str] = os.environ) -> Iterator[Session]:
    """Open a home for one command, that of this process unless an environment names another."""
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
