"""The two backends that answer questions: quotes from the evidence, or a language model. Both retrieve the same way.

Imports stand inside functions: a cached answer must not wait for LanceDB, numpy or a model.
"""

import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.llm.generate import GenerateOptions
    from engine.llm.prefill import KvBinding, PromptReader
    from engine.llm.prompt import Order
    from engine.llm.resident import ResidentModel
    from engine.models.lookup import InstalledModel
    from engine.models.mlx import Mlx
    from engine.models.role_adapter import RoleAdapter
    from engine.models.types import Embedder
    from engine.settings import KvSettings, Settings
    from engine.text.question import Question
    from engine.types import AskOptions, Evidence, GeneratedAnswer, OnText, Trace
    from store.catalog import Catalog
    from store.database import Ledger
    from store.hits import Vectors
    from store.home import Home
    from store.kv_store import KvStore
    from store.locks import Locks
    from store.question_index import QuestionVectors
    from store.search import Reader


@dataclass(frozen=True, slots=True)
class Retriever:
    """Embeds questions and retrieves their evidence; each part is opened when it is first used.

    `embedder` returns None where another one made the stored vectors, and `question_vectors`, those of cached
    questions, then does too. `before_retrieval` is called before each retrieval.
    """

    embedder: "Callable[[], Embedder | None]"
    reader: "Callable[[], Reader]"
    catalog: "Callable[[], Catalog]"
    locks: "Callable[[], Locks]"
    question_vectors: "Callable[[], QuestionVectors | None]"
    before_retrieval: Callable[[], None]
    embedder_name: str  # as the settings name it

    def embed(self, text: str, trace: "Trace") -> "Vectors | None":
        """Return the unit vector of a question, None if there are no vectors to compare it with."""
        embedder = self.embedder()
        if embedder is None:
            return None
        with trace.step("embed"):
            return embedder.embed_question(text)

    def retrieve(
        self, question: "Question", vector: "Vectors | None", options: "AskOptions", trace: "Trace"
    ) -> "Evidence":
        """Retrieve the evidence for a question."""
        self.before_retrieval()
        with ExitStack() as held:
            with trace.step("open"):
                from engine.retrieval.evidence import find, find_after

                parts = (self.reader(), self.catalog(), vector)
                held.enter_context(self.locks().reader())
            if options.after:
                return find_after(*parts, question, options, trace)
            return find(*parts, question, options.scope, options.k, trace)


@dataclass(frozen=True, slots=True)
class _Retrieving:
    """The half that both backends share."""

    retriever: Retriever

    def embed(self, text: str, trace: "Trace") -> "Vectors | None":
        """Return the unit vector of a question, None if there are no vectors to compare it with."""
        return self.retriever.embed(text, trace)

    def retrieve(
        self, question: "Question", vector: "Vectors | None", options: "AskOptions", trace: "Trace"
    ) -> "Evidence":
        """Retrieve the evidence for a question."""
        return self.retriever.retrieve(question, vector, options, trace)

    def question_vectors(self) -> "QuestionVectors | None":
        """Return the vectors of cached questions; None without the embedder that made them."""
        return self.retriever.question_vectors()


@dataclass(frozen=True, slots=True)
class Extractive(_Retrieving):
    """Answers with sentences of the evidence; declines where the support is below `decline_below`."""

    decline_below: float

    @property
    def fingerprint(self) -> str:
        """Name all that an answer depends on beside the evidence."""
        from engine.ask.keys import by_quotes

        return f"{by_quotes(self.decline_below)}/{self.retriever.embedder_name}"

    def generate(
        self, question: "Question", evidence: "Evidence", trace: "Trace", on_text: "OnText | None"
    ) -> "GeneratedAnswer":
        """Quote the answer from the evidence."""
        with trace.step("import"):
            from engine.ask.extract import write

        return write(question, evidence, trace, self.decline_below)

    def prefill(self, question: "Question", evidence: "Evidence", trace: "Trace") -> None:
        """Do nothing: quotes have no prompt."""

    def entails(self, question: "Question", evidence: "Evidence", answer: str, trace: "Trace") -> bool:
        """Return True: the semantic tier compares the quotes themselves."""
        return True


@dataclass(frozen=True, slots=True)
class LocalModel(_Retrieving):
    """Answers with a language model, as of `now`, in at most `max_tokens` tokens.

    `load` returns the model, which stays in memory. Up to `drafts` tokens at a time are guessed from the evidence.
    """

    fingerprint: str
    name: str
    load: "Callable[[], PromptReader]"
    now: datetime
    max_tokens: int
    order: "Callable[[], Order]"
    drafts: int
    roles: bool = False  # whether a role adapter fits the model

    def generate(
        self, question: "Question", evidence: "Evidence", trace: "Trace", on_text: "OnText | None"
    ) -> "GeneratedAnswer":
        """Have the model write the answer; `on_text` is given it while it is written."""
        with trace.step("import"):
            from engine.llm.generate import generate

        return generate(self.load, question, evidence, trace, self._options(), on_text)

    def prefill(self, question: "Question", evidence: "Evidence", trace: "Trace") -> None:
        """Compute and keep the KV tensors of the prompt without answering."""
        from engine.llm.generate import prefill_prompt

        prefill_prompt(self.load, question, evidence, trace, self._options())

    def entails(self, question: "Question", evidence: "Evidence", answer: str, trace: "Trace") -> bool:
        """Ask the model whether the evidence entails an answer; False where its KV tensors are not kept."""
        from engine.ask.semantic import entails

        return entails(self.load, question, evidence, answer, trace, self.now, self.max_tokens, self.order())

    def _options(self) -> "GenerateOptions":
        from engine.llm.generate import GenerateOptions

        return GenerateOptions(self.name, self.now, self.max_tokens, self.order(), self.drafts, drafts_of, support_of)


def drafts_of(*parts: "Any") -> "list[list[int]]":
    """Return the texts that an answer may repeat, as token ids."""
    from engine.ask.extract import draft_answers  # imported after the first token, which must not wait for it

    return draft_answers(*parts)


def support_of(question: "Question", evidence: "Evidence") -> float:
    """Return the probability that the evidence holds an answer, as the quote writer judges it."""
    from engine.ask.extract import QuoteSettings, quote

    return quote(question, evidence.passages, QuoteSettings(least=0.0, forced=True)).support


def local_model(
    retriever: Retriever,
    home: "Home",
    settings: "Settings",
    ledger: "Callable[[], Ledger]",
    now: datetime,
    environ: Mapping[str, str],
    *,
    models: "Callable[[], ResidentModel]",
    kept: bool,
    order: "Callable[[], Order]",
) -> LocalModel:
    """Return the backend of the configured model; NoModel if it is not installed.

    With `kept` the model uses and fills the KV cache.
    """
    from engine.ask.keys import by_model
    from engine.models.lookup import find, fingerprint
    from engine.models.role_adapter import find_adapter
    from prompts import version

    chosen = settings.model
    found = find(chosen.name, chosen.revision or None, environ)
    notes = home.cache / "digests"
    digest, adapter = fingerprint(found, notes), find_adapter(found.folder, notes)
    load = cache(lambda: _load_model(found, digest, adapter, home, ledger(), settings, models(), kept=kept))
    options = (f"{version('roles')} {adapter.digest}" if adapter else "", *_options(settings))
    named = f"{by_model(digest, chosen.max_tokens, *options)}/{retriever.embedder_name}"
    return LocalModel(
        retriever, named, found.name, load, now, chosen.max_tokens, order, settings.experiment.drafts, bool(adapter)
    )


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
    found: "InstalledModel",
    fingerprint: str,
    adapter: "RoleAdapter | None",
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
        return load(
            found.folder, name=found.name, cache=home.cache, memory_share=share, threads=threads, adapter=adapter
        )

    model = models.get((fingerprint, adapter, threads, share), loaded)
    opened = partial(_open, model, fingerprint, home, ledger, settings, kept=kept)
    return models.reading((settings.kv, settings.experiment.score, kept), opened)


def _open(
    model: "Mlx", fingerprint: str, home: "Home", ledger: "Ledger", settings: "Settings", *, kept: bool
) -> "PromptReader":
    from engine.llm.prefill import PromptReader
    from engine.models.rope import movable

    model = replace(model, bits=_bits(settings))
    ropes = movable(model) if settings.kv.reuse == "blocks" else None
    if not kept or not model.form.name:
        return PromptReader(model, None, ropes)
    return PromptReader(model, open_kv(model, fingerprint, home, ledger, settings.kv, settings.experiment.score), ropes)


_NEVER = sys.maxsize  # longer than any segment: no prefix of one is reused


def open_kv(
    model: "Mlx",
    fingerprint: str,
    home: "Home",
    ledger: "Ledger",
    settings: "KvSettings",
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
    parts |= {"mlx_lm": version("mlx-lm")} | arithmetic()
    return KvBinding(store, root_of(parts), model)


def open_store(
    home: "Home", ledger: "Ledger", settings: "KvSettings", sub_step: int = 1, score: str = "value"
) -> "KvStore":
    """Open the KV store; only matching prompts needs the sub-step."""
    from engine.settings import FREQUENCY_WEIGHT, HALF_LIFE_S, RECENCY_WEIGHT
    from store.kv_store import EvictionWeights, KvLimits, KvStore, scores

    return KvStore(
        ledger,
        home.kv,
        limits=KvLimits(settings.bytes, settings.daily_bytes),
        score=scores(EvictionWeights(RECENCY_WEIGHT, FREQUENCY_WEIGHT, HALF_LIFE_S))[score],
        sub_step=sub_step,
        now=time.time,
        others=home.other_cache_bytes,
    )
