"""The parts of one open home, each opened when first used: settings, ledger, tables, embedder, model, answers.

Wires them together and knows nothing of commands. Imports stand inside functions: `--help` and an exact hit must not
wait for LanceDB, numpy or a model.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any

from store.errors import NoModel, UsageError

if TYPE_CHECKING:
    from engine.ask.pipeline import Asker
    from engine.ask.prepare import BankBudget
    from engine.ask.semantic import SemanticRules
    from engine.llm.generate import GenerateOptions
    from engine.llm.prefill import KvBinding, PromptReader
    from engine.llm.prompt import Order
    from engine.llm.resident import ResidentModel
    from engine.models.lookup import LocalModel
    from engine.models.mlx import Mlx
    from engine.models.types import Embedder
    from engine.settings import Experiment, KvSettings, Settings
    from engine.text.question import Question
    from engine.types import AskOptions, Backend, Evidence, GeneratedAnswer, OnText, Trace
    from store.catalog import Catalog
    from store.database import Ledger
    from store.documents import Knowledge
    from store.hits import Vectors
    from store.home import Home
    from store.kv_store import KvStore
    from store.locks import Locks
    from store.question_index import QuestionVectors
    from store.search import Reader
    from store.tables import Tables
    from store.vectors import VectorStore


def choose_embedder(
    home: "Home", settings: "Settings", ledger: "Callable[[], Ledger]", environ: Mapping[str, str]
) -> "Embedder":
    """Return the configured embedder; NoModel where it is not installed, UsageError where the model is none."""
    notes = home.cache / "digests"
    if settings.embed.model == "minilm":
        from engine.models.minilm import MiniLM

        return MiniLM(workers=settings.embed.workers or os.cpu_count() or 1, notes=notes)
    from engine.models.qwen3 import Qwen3, find_model
    from engine.models.runtime import threads_of

    found, share = find_model(settings.embed.model, environ), settings.model.memory_share
    return Qwen3(found, cache=home.cache, notes=notes, threads=threads_of(ledger()), memory_share=share)


class Session:
    """One command's view of a home."""

    def __init__(self, environ: Mapping[str, str], experiment: "Experiment | None" = None) -> None:
        from store.home import locate

        self.environ, self.home = environ, locate(environ)
        self.keeps_tensors = True  # use and fill the KV cache, unless the settings turn it off
        self.on_notice: Callable[[str], None] = lambda _: None  # called with what the user should know, once
        self._create, self._experiment = False, experiment

    @cached_property
    def settings(self) -> "Settings":
        """Read the config file; UsageError naming a wrong key or value."""
        from engine.settings import load, retired

        settings = load(self.home.config)
        if old := retired(self.home.config):
            self.on_notice(f"{self.home.config}: ignored retired settings: {', '.join(old)}")
        return replace(settings, experiment=self._experiment) if self._experiment else settings

    def override(self, key: str, value: object) -> None:
        """Change a setting for this session alone."""
        from engine.settings import put

        self.settings = put(self.settings, key, value, "this command")

    def make(self) -> None:
        """Create the home if it does not exist."""
        self.home.create()
        self._create = True

    @property
    def there(self) -> bool:
        """Return whether the home exists."""
        from store.database import exists

        return exists(self.home.ledger)

    @cached_property
    def now(self) -> "datetime":
        """Return the time at which questions are asked."""
        return now(self.environ)

    @cached_property
    def ledger(self) -> "Ledger":
        """Open the ledger; NoStore where there is none."""
        from store.database import open_ledger

        return open_ledger(self.home.ledger, create=self._create, durable=self._create)

    @cached_property
    def catalogue(self) -> "Catalog":
        """Return the catalog of sources."""
        from store.catalog import Catalog

        return Catalog(self.ledger)

    @cached_property
    def tables(self) -> "Tables":
        """Open LanceDB."""
        from store.tables import Tables

        return Tables(self.home.tables)

    @cached_property
    def knowledge(self) -> "Knowledge":
        """Return the writing side of the knowledge bank."""
        from store.documents import Knowledge

        return Knowledge(self.ledger, lambda: self.tables)

    @cached_property
    def reader(self) -> "Reader":
        """Return the reading side of the knowledge bank."""
        from store.search import Reader

        return Reader(self.ledger, self.tables)

    @cached_property
    def vectors(self) -> "VectorStore":
        """Return the vectors."""
        from store.vectors import VectorStore

        return VectorStore(self.ledger, self.tables)

    @cached_property
    def locks(self) -> "Locks":
        """Return the locks."""
        from store.locks import Locks

        return Locks(self.home.locks)

    @cached_property
    def embedder(self) -> "Embedder":
        """Return the configured embedder; NoModel where its weights are not installed."""
        return choose_embedder(self.home, self.settings, lambda: self.ledger, self.environ)

    @property
    def question_embedder(self) -> "Embedder | None":
        """Return the embedder if it made the stored vectors, else None: then search goes by keywords alone."""
        from store.vectors import table_of

        made = self.ledger.get("vectors")
        try:
            fits = made is not None and made == table_of(self.embedder.fingerprint)
        except NoModel:
            return None
        return self.embedder if fits else None

    @cached_property
    def asker(self) -> "Asker":
        """Return the asker, which answers questions."""
        from engine.ask.pipeline import Asker

        return Asker(self.ledger, self.backend, self.room, self.rules)

    @cached_property
    def room(self) -> "BankBudget":
        """Return the limits of the answer cache."""
        from engine.ask.prepare import BankBudget

        return BankBudget(self.settings.bank.bytes, self.settings.experiment.refresh_k)

    @cached_property
    def backend(self) -> "Backend":
        """Return the backend of answers; it opens tables, embedder and model when it needs them."""
        from engine.types import Backend

        writer = self.writer
        parts = (writer.write, writer.read, writer.entails, lambda: self.questions, writer.fingerprint)
        return Backend(self._embed, self._gather, *parts)

    def _embed(self, text: str, trace: "Trace") -> "Vectors | None":
        """Return the vector of a question, None where there are no vectors to compare it with."""
        embedder = self.question_embedder
        if embedder is None:
            return None
        with trace.step("embed"):
            return embedder.embed_question(text)

    def _gather(
        self, question: "Question", vector: "Vectors | None", options: "AskOptions", trace: "Trace"
    ) -> "Evidence":
        """Retrieve for a question."""
        with ExitStack() as held:
            with trace.step("open"):
                from engine.retrieval.evidence import find

                parts = (self.reader, self.catalogue, vector)
                held.enter_context(self.locks.reader())
            return find(*parts, question, options.scope, options.k, trace)

    @property
    def questions(self) -> "QuestionVectors | None":
        """Return the vectors of cached questions; None without the embedder that made them."""
        return self.question_vectors if self.question_embedder else None

    @cached_property
    def question_vectors(self) -> "QuestionVectors":
        """Return the vectors of cached questions by the embedder; NoModel where its weights are not installed."""
        from store.question_index import QuestionVectors

        return QuestionVectors(self.ledger, self.embedder.fingerprint, self.embedder.width)

    def rules(self) -> "SemanticRules | None":
        """Return the rules of the semantic tier; None where it is off."""
        if not (parts := self.settings.experiment).semantic:
            return None
        from engine.ask.semantic import SemanticRules

        tau = max(self.settings.bank.tau, float(self.ledger.get("tau") or 0.0))
        return SemanticRules(
            tau, self.settings.ask.decline_below, parts.guard, parts.evidence, parts.verify, parts.check
        )

    @cached_property
    def writer(self) -> "AnswerWriter":
        """Return the writer of answers: the configured language model, or quotes."""
        kept = self.keeps_tensors and self.settings.kv.reuse != "off"
        parts = (self.home, self.settings, lambda: self.ledger, self.now, self.environ)
        return choose_writer(*parts, models=lambda: self.models, kept=kept, order=lambda: self.order)

    @cached_property
    def order(self) -> "Order":
        """Return the order of the chunks in a prompt."""
        from engine.llm.prompt import in_document_order

        return in_document_order

    @cached_property
    def models(self) -> "ResidentModel":
        """Return the holder of this process's language model."""
        from engine.llm.resident import ResidentModel

        return ResidentModel(self.home.locks)


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


_NEVER = sys.maxsize  # longer than any segment: no prefix of one is reused


def open_kv(
    model: "Mlx",
    fingerprint: str,
    home: "Home",
    ledger: "Ledger",
    settings: "KvSettings",
    threads: int,
    score: str = "value",
) -> "KvBinding":
    """Open the KV store of a model; its root names the model and this machine's arithmetic, which must not mix."""
    from importlib.metadata import version

    from engine.llm.prefill import KvBinding
    from engine.models.runtime import arithmetic
    from store.kv_tree import root_of

    form, sub_step = model.form, str(model.sub_step)
    store = open_store(home, ledger, settings, model.sub_step if form.shares_prefix else _NEVER, score)
    store.collect()
    parts = {"model": fingerprint, "dtype": model.dtype, "form": form.name, "sub_step": sub_step, "adapter": ""}
    parts |= {"mlx_lm": version("mlx-lm")} | arithmetic(home.cache, threads)
    return KvBinding(store, root_of(parts), model)


def open_store(
    home: "Home", ledger: "Ledger", settings: "KvSettings", sub_step: int = 1, score: str = "value"
) -> "KvStore":
    """Open the KV store; only matching prompts needs the sub-step."""
    from engine.settings import FREQUENCY_WEIGHT, HALF_LIFE_S, RECENCY_WEIGHT
    from store.kv_budget import EvictionWeights, KvLimits, scores
    from store.kv_store import KvStore

    return KvStore(
        ledger,
        home.tensors,
        limits=KvLimits(settings.bytes, settings.daily_bytes),
        score=scores(EvictionWeights(RECENCY_WEIGHT, FREQUENCY_WEIGHT, HALF_LIFE_S))[score],
        sub_step=sub_step,
        now=time.time,
        others=home.beside_tensors,
    )


@dataclass(frozen=True, slots=True)
class AnswerWriter:
    """A writer of answers; `fingerprint` names all that an answer depends on beside the evidence.

    `read` prefills a prompt without answering, `entails` checks whether the evidence entails an answer, and `load`
    returns the model, if there is one.
    """

    fingerprint: str
    write: "Callable[[Question, Evidence, Trace, OnText | None], GeneratedAnswer]"
    read: "Callable[[Question, Evidence, Trace], None]"
    entails: "Callable[[Question, Evidence, str, Trace], bool]"
    load: "Callable[[], PromptReader] | None" = None


def choose_writer(
    home: "Home",
    settings: "Settings",
    ledger: "Callable[[], Ledger]",
    now: "datetime",
    environ: Mapping[str, str],
    *,
    models: "Callable[[], ResidentModel]",
    kept: bool = True,
    order: "Callable[[], Order]",
) -> AnswerWriter:
    """Return the configured writer: quotes for "" and "quote", else a model; NoModel where it is not installed.

    With `kept` the model uses and fills the KV cache.
    """
    chosen = settings.model
    if chosen.name in ("", "quote"):
        return _quotes(settings.ask.decline_below)
    from engine.models.lookup import find, fingerprint

    found = find(chosen.name, chosen.revision or None, environ)
    digest = fingerprint(found, home.cache / "digests")
    load = cache(lambda: _load_model(found, digest, home, ledger(), settings, models(), kept=kept))
    return _model(found.name, digest, load, now, settings, order)


def _quotes(least: float) -> AnswerWriter:
    from engine.ask.keys import by_quotes

    def write(question: "Question", evidence: "Evidence", trace: "Trace", _: "OnText | None") -> "GeneratedAnswer":
        with trace.step("import"):
            from engine.ask.extract import write

        return write(question, evidence, trace, least)

    # Quotes have no prompt to prefill, and the semantic tier compares the quotes themselves.
    return AnswerWriter(by_quotes(least), write, lambda *_: None, lambda *_: True)


def _model(
    name: str,
    fingerprint: str,
    load: "Callable[[], PromptReader]",
    now: "datetime",
    settings: "Settings",
    order: "Callable[[], Order]",
) -> AnswerWriter:
    from engine.ask.keys import by_model

    most = settings.model.max_tokens

    def draft(*parts: "Any") -> "list[list[int]]":
        from engine.ask.extract import draft_answers  # imported after the first token, which must not wait for it

        return draft_answers(*parts)

    def options() -> "GenerateOptions":
        from engine.llm.generate import GenerateOptions

        return GenerateOptions(name, now, most, order(), settings.experiment.drafts, draft)

    def write(question: "Question", evidence: "Evidence", trace: "Trace", say: "OnText | None") -> "GeneratedAnswer":
        with trace.step("import"):
            from engine.llm.generate import generate

        return generate(load, question, evidence, trace, options(), say)

    def read(question: "Question", evidence: "Evidence", trace: "Trace") -> None:
        from engine.llm.generate import prefill_prompt

        prefill_prompt(load, question, evidence, trace, options())

    def check_entailment(question: "Question", evidence: "Evidence", answer: str, trace: "Trace") -> bool:
        from engine.ask.semantic import entails

        return entails(load, question, evidence, answer, trace, now, most, order())

    return AnswerWriter(by_model(fingerprint, most, *_options(settings)), write, read, check_entailment, load)


def _options(settings: "Settings") -> list[str]:
    """Name the non-default settings that a generated answer depends on."""
    experiment = settings.experiment
    usual = type(experiment)()
    return [
        "" if settings.kv.reuse != "blocks" else "blocks",
        f"{bits} bits" if (bits := _bits(settings)) else "",
        "" if experiment.drafts == usual.drafts else f"{experiment.drafts} guessed",
    ]


def _bits(settings: "Settings") -> int:
    """Return the bits of a value in the KV cache, 0 for full precision."""
    return settings.kv.bits if settings.kv.reuse != "off" else 0


def _load_model(
    found: "LocalModel",
    fingerprint: str,
    home: "Home",
    ledger: "Ledger",
    settings: "Settings",
    models: "ResidentModel",
    *,
    kept: bool,
) -> "PromptReader":
    """Load a language model, unless it is in memory, and open its KV store."""
    from engine.models.load import load
    from engine.models.runtime import fix_threads

    threads, share = fix_threads(ledger), settings.model.memory_share

    def loaded() -> "Mlx":
        return load(found.folder, name=found.name, cache=home.cache, memory_share=share, threads=threads)

    model = models.get((fingerprint, threads, share), loaded)
    opened = partial(_open, model, fingerprint, home, ledger, settings, threads, kept=kept)
    return models.reading((settings.kv, settings.experiment.score, kept), opened)


def _open(
    model: "Mlx", fingerprint: str, home: "Home", ledger: "Ledger", settings: "Settings", threads: int, *, kept: bool
) -> "PromptReader":
    from engine.llm.prefill import PromptReader
    from engine.models.rope import movable

    model = replace(model, bits=_bits(settings))
    ropes = movable(model) if settings.kv.reuse == "blocks" else None
    if not kept or not model.form.name:
        return PromptReader(model, None, ropes)
    return PromptReader(
        model, open_kv(model, fingerprint, home, ledger, settings.kv, threads, settings.experiment.score), ropes
    )


def now(environ: Mapping[str, str]) -> datetime:
    """Return the aware local time; UsageError where PKB_NOW is no ISO date and time."""
    given = environ.get("PKB_NOW")
    if not given:
        return datetime.now().astimezone()
    try:
        return datetime.fromisoformat(given).astimezone()
    except ValueError:
        raise UsageError("PKB_NOW must be like 2024-06-19T08:00", None) from None
