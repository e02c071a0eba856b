"""The backends that answer questions: quotes, a language model here, or one that a server runs. All retrieve alike.

Imports stand inside functions: a cached answer must not wait for LanceDB, numpy or a model.
"""

import dataclasses
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from engine.ask.keys import by_gate, by_model, by_quotes, by_roles, whole_of
from engine.settings import HALF_LIFE_S
from store.errors import PkbError
from store.types import replace

if TYPE_CHECKING:
    from engine.kv.restore import KvBinding, PromptReader
    from engine.llm.generate import GenerateOptions, Judge
    from engine.llm.prompt import Order
    from engine.llm.resident import ResidentModel
    from engine.models.adapters import Adapter
    from engine.models.endpoint import Endpoint
    from engine.models.lookup import InstalledModel
    from engine.models.mlx import Mlx
    from engine.models.openai import ServerModel
    from engine.models.reader import SpanReader
    from engine.models.role_adapter import RoleAdapter
    from engine.models.types import Embedder
    from engine.settings import KvSettings, ModelSettings, Settings
    from engine.text.question import Question
    from engine.types import Answer, AskOptions, Backend, Evidence, GeneratedAnswer, OnText, Trace
    from store.catalog import Catalog
    from store.database import Ledger
    from store.hits import Vectors
    from store.home import Home
    from store.kv_store import KvStore
    from store.locks import Locks
    from store.question_index import QuestionVectors
    from store.search import Reader
    from store.types import Scope

_SHOWN = 2  # sources in a prompt: of more, small models make less (docs/log/models.md)


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
    span_reader: "Callable[[], SpanReader | None]" = lambda: None
    version: str = ""  # of the reader of spans, empty if there is none

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

                catalog = self.catalog().within(options.scope)
                parts = (self.reader(), catalog, vector)
                held.enter_context(self.locks().reader())
            if options.after:
                return find_after(*parts, question, options, trace)
            if options.scope.document and (found := self._fact(catalog, question, options.scope.document, trace)):
                return found
            found = find(*parts, question, options.scope, options.k, trace)
        from engine.ask.updates import settled

        return settled(question, found)

    def whole(self, question: "Question", options: "AskOptions", trace: "Trace") -> "Evidence | None":
        """Return all of the meeting, mail or thread that a question is about as a whole; None if it is about none."""
        from engine.retrieval.evidence import find_whole

        self.before_retrieval()
        catalog = self.catalog()
        if not (documents := whole_of(catalog.ledger, question, options)):
            return None
        with self.locks().reader():
            return find_whole(self.reader(), catalog, documents, options, trace)

    def _fact(self, catalog: "Catalog", question: "Question", document: str, trace: "Trace") -> "Evidence | None":
        """Return the answer of a document's header, if it has one."""
        from engine.ask.extract import find_fact

        return find_fact(self.reader(), catalog, question, document, trace)

    def reread(self, read: Sequence[str], scores: Sequence[float], scope: "Scope | None" = None) -> "Evidence":
        """Return evidence once more by its fingerprint and the scores of its passages; empty if it is not all there."""
        from engine.retrieval.evidence import reread

        self.before_retrieval()
        with self.locks().reader():
            catalog = self.catalog().within(scope) if scope else self.catalog()
            return reread(self.reader(), catalog, read[:-1], scores)


@dataclass(frozen=True, slots=True)
class _Retrieving:
    """The half that all backends share."""

    retriever: Retriever

    def embed(self, text: str, trace: "Trace") -> "Vectors | None":
        """Return the unit vector of a question, None if there are no vectors to compare it with."""
        return self.retriever.embed(text, trace)

    def retrieve(
        self, question: "Question", vector: "Vectors | None", options: "AskOptions", trace: "Trace"
    ) -> "Evidence":
        """Retrieve the evidence for a question."""
        return self.retriever.retrieve(question, vector, options, trace)

    def reread(self, read: Sequence[str], scores: Sequence[float]) -> "Evidence":
        """Return evidence once more by its fingerprint and the scores of its passages; empty if it is not all there."""
        return self.retriever.reread(read, scores)

    def question_vectors(self) -> "QuestionVectors | None":
        """Return the vectors of cached questions; None without the embedder that made them."""
        return self.retriever.question_vectors()


@dataclass(frozen=True, slots=True)
class Extractive(_Retrieving):
    """Answers with sentences of the evidence, which a reader chooses; declines below a support of `decline_below`."""

    decline_below: float

    @property
    def fingerprint(self) -> str:
        """Name all that an answer depends on beside the evidence."""
        return f"{by_quotes(self.decline_below, self.retriever.version)}/{self.retriever.embedder_name}"

    def generate(
        self, question: "Question", evidence: "Evidence", trace: "Trace", on_text: "OnText | None"
    ) -> "GeneratedAnswer":
        """Quote the answer from the evidence."""
        if evidence.fact:
            return _of_header(question, evidence, trace, None)
        with trace.step("import"):
            from engine.ask.extract import write

        return write(question, evidence, trace, self.decline_below, self.retriever.span_reader())

    def prefill(self, question: "Question", evidence: "Evidence", trace: "Trace") -> None:
        """Do nothing: quotes have no prompt."""

    def entails(self, question: "Question", evidence: "Evidence", answer: str, trace: "Trace") -> bool:
        """Return True: the semantic tier compares the quotes themselves."""
        return True

    def within(self, scope: "Scope") -> "Backend":
        """Return this backend: the scope does not change how it quotes."""
        return self


@dataclass(frozen=True, slots=True)
class LocalModel(_Retrieving):
    """Answers with a language model, as of `now`, in at most `max_tokens` tokens.

    What it writes is judged by the reader, if there is one: a quote needs a support of `decline_below`. `load` returns
    the model, which stays in memory. Up to `drafts` tokens at a time are guessed from the evidence.
    """

    fingerprint: str
    name: str
    load: "Callable[[], PromptReader]"
    now: datetime
    max_tokens: int
    order: "Callable[[], Order]"
    decline_below: float
    drafts: int
    roles: bool  # whether a role adapter fits the model
    adapter: "Adapter | None" = field(default=None, kw_only=True)  # the user's, which the model has on
    by_task: "Mapping[str, LocalModel]" = field(default_factory=dict, kw_only=True)  # with another adapter
    by_collection: "Mapping[str, LocalModel]" = field(default_factory=dict, kw_only=True)
    problems: tuple[str, ...] = field(default=(), kw_only=True)  # why an adapter that was chosen is not used

    def retrieve(
        self, question: "Question", vector: "Vectors | None", options: "AskOptions", trace: "Trace"
    ) -> "Evidence":
        """Retrieve the evidence for a question: all of the meeting or thread, where it is about that as a whole."""
        found = None if self.roles else self.retriever.whole(question, options, trace)
        return found or self.retriever.retrieve(question, vector, options, trace)

    def within(self, scope: "Scope") -> "Backend":
        """Return what answers questions of a scope: with the adapter of its collection, if that has one."""
        return self.by_collection.get(scope.collection or "", self)

    def for_task(self, task: str) -> "LocalModel":
        """Return the model with the adapter of a task other than answering: abstract, predict or condense."""
        return self.by_task.get(task, self)

    def generate(
        self, question: "Question", evidence: "Evidence", trace: "Trace", on_text: "OnText | None"
    ) -> "GeneratedAnswer":
        """Have the model write the answer; `on_text` is given it while it is written."""
        if evidence.fact:
            return _of_header(question, evidence, trace, self.name)
        with trace.step("import"):
            from engine.ask.extract import write
            from engine.llm.generate import generate, synthesize
            from engine.text.question import synthesis

        with trace.step("choose"):
            evidence = self.narrow(question, evidence)
        about, adapter = (question, evidence, trace), self.adapter
        if self.roles and synthesis(question.text):  # a model so small writes nonsense
            return write(*about, self.decline_below)
        if evidence.passages and synthesis(question.text):
            written = synthesize(self.load, *about, self._options())
        else:
            written = generate(self.load, *about, self._options(), on_text)
        return replace(written, reply=replace(written.reply, adapter=adapter.name)) if adapter else written

    def prefill(self, question: "Question", evidence: "Evidence", trace: "Trace") -> None:
        """Compute and keep the KV tensors of the prompt without answering."""
        from engine.llm.generate import prefill_prompt
        from engine.text.question import synthesis

        if not evidence.fact and not synthesis(question.text):  # which is read in parts, by other prompts
            prefill_prompt(self.load, question, self.narrow(question, evidence), trace, self._options())

    def entails(self, question: "Question", evidence: "Evidence", answer: str, trace: "Trace") -> bool | None:
        """Ask the model whether the evidence entails an answer; None if the KV cache lacks its prompt."""
        from engine.ask.semantic import entails

        narrow = self.narrow(question, evidence)
        return entails(self.load, question, narrow, answer, trace, self.now, self.max_tokens, self.order())

    def narrow(self, question: "Question", evidence: "Evidence") -> "Evidence":
        """Return the evidence, of which the model is shown the two sources that the reader finds likeliest to answer.

        It is shown all where there is no reader, or it knows no such questions.
        """
        reader = None if self.roles or evidence.fact else self.retriever.span_reader()
        if reader is None:
            return evidence
        from engine.ask.gate import judge_of

        judge = judge_of(question, evidence, self.decline_below, reader)
        return replace(evidence, shown=judge.likeliest(_SHOWN)) if judge else evidence

    def _options(self) -> "GenerateOptions":
        from engine.llm.generate import GenerateOptions

        options = GenerateOptions(self.name, self.now, self.max_tokens, self.order(), self.drafts, drafts_of)
        return replace(options, adapter=self.adapter.name if self.adapter else None, gate=self._judge)

    def _judge(self, question: "Question", evidence: "Evidence") -> "Judge | None":
        """Return what judges the answers to a question, None where words have to."""
        from engine.ask.gate import judge_of, part_of_quote

        about, reader = (question, evidence, self.decline_below), self.retriever.span_reader()
        judge = judge_of(*about, reader) if reader else None
        return judge or (partial(part_of_quote, *about) if self.roles else None)


@dataclass(frozen=True, slots=True)
class ServedModel(LocalModel):
    """Answers with a language model that a server runs, whose KV cache is the server's own.

    `warning` is told with each answer that it writes, where others can read what is sent.
    """

    served: "Callable[[], ServerModel]"
    warning: str

    def generate(
        self, question: "Question", evidence: "Evidence", trace: "Trace", on_text: "OnText | None"
    ) -> "GeneratedAnswer":
        """Have the server write the answer; its own figures take the place of estimates."""
        written = LocalModel.generate(self, question, evidence, trace, on_text)
        if not written.reply.tokens:
            return written  # nothing was retrieved, and so nothing sent
        notices, last, window = trace.notices, self.served().last, self.served().window
        is_one = sum(step.name == "decode" for step in trace.steps) == 1  # else `last` tells of the last part alone
        if last.prompt and is_one:
            prefill = next(step for step in reversed(trace.steps) if step.name == "prefill")
            prefill.note = f"{last.reused} of {last.prompt} tokens from the server's own cache"
            if last.prompt > self.served().context:  # more than was estimated; Ollama cuts what is too long
                notices.append(f"the prompt took {last.prompt} of {window} tokens: the server may have left out some")
        notices += [self.warning] if self.warning else []
        cut = f"the answer was cut at {self.max_tokens} tokens"
        is_cut = last.is_cut and written.reply.writer == "model"
        notices += [cut] if is_cut and not any(told.startswith(cut) for told in notices) else []
        if not is_one:
            return written
        return replace(written, reply=_counted(written.reply, last.prompt, last.generated, last.reused))

    def prefill(self, question: "Question", evidence: "Evidence", trace: "Trace") -> None:
        """Do nothing: no KV cache of the model is kept here."""

    def entails(self, question: "Question", evidence: "Evidence", answer: str, trace: "Trace") -> bool | None:
        """Ask the server whether the evidence entails an answer; if not, it has the prompt in its own prefix cache."""
        from engine.models.openai import OnlyReasoning

        with suppress(OnlyReasoning):
            return LocalModel.entails(self, question, evidence, answer, trace)
        return None


def narrowed(backend: "Backend", question: "Question", evidence: "Evidence") -> "Evidence":
    """Return evidence as a backend would show it to its model, if it has one."""
    return backend.narrow(question, evidence) if isinstance(backend, LocalModel) else evidence


def _of_header(question: "Question", evidence: "Evidence", trace: "Trace", model: str | None) -> "GeneratedAnswer":
    """Return an answer that a document's header gives."""
    from engine.ask.extract import answer_fact

    return answer_fact(question, evidence, trace, model)


def _counted(reply: "Answer", prompt: int | None, generated: int | None, reused: int) -> "Answer":
    """Return an answer with the tokens that a server counted, as far as it did."""
    tokens = reply.tokens or {}
    count = prompt or tokens["prompt"]
    found = {"prompt": count, "reused": min(reused, count), "computed": count - min(reused, count)}
    return replace(reply, tokens=tokens | found | {"generated": generated or tokens["generated"]})


def drafts_of(*parts: "Any") -> "list[list[int]]":
    """Return the texts that an answer may repeat, as token ids."""
    from engine.ask.extract import draft_answers  # imported after the first token, which must not wait for it

    return draft_answers(*parts)


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
    from engine.models.adapters import wardrobe_of
    from engine.models.lookup import find, fingerprint
    from engine.models.role_adapter import find_adapter

    chosen, least = settings.model, settings.ask.decline_below
    found = find(chosen.name, chosen.revision or None, environ)
    notes = home.cache / "digests"
    digest, role = fingerprint(found, notes), find_adapter(found.folder, notes)

    def wearing(adapter: "Adapter | None") -> LocalModel:
        roles = role is not None and (adapter is None or adapter.activated)
        load = cache(lambda: _load_model(found, digest, role, adapter, home, ledger(), settings, models(), kept=kept))
        options = (by_roles(role.digest) if role and roles else "", *_options(settings))
        options = (*options, f"adapter {adapter.digest}" if adapter else "", by_gate(least, retriever.version))
        named = f"{by_model(digest, chosen.max_tokens, *options)}/{retriever.embedder_name}"
        parts = (named, found.name, load, now, chosen.max_tokens, order, least, settings.experiment.drafts, roles)
        return LocalModel(retriever, *parts, adapter=adapter)

    wardrobe = wardrobe_of(home, settings.adapter, found.folder, digest)
    answering = wearing(wardrobe.tasks.get("answer"))
    others = {task: wardrobe.tasks.get(task) for task in ("abstract", "predict", "condense")}  # no key for the last
    by_task = {task: wearing(one) for task, one in others.items() if one != answering.adapter}
    by_collection = {name: wearing(one) for name, one in wardrobe.collections.items()}
    return dataclasses.replace(answering, by_task=by_task, by_collection=by_collection, problems=wardrobe.problems)


def served_model(
    retriever: Retriever,
    settings: "Settings",
    ledger: "Callable[[], Ledger]",
    now: datetime,
    environ: Mapping[str, str],
    *,
    models: "Callable[[], ResidentModel]",
    order: "Callable[[], Order]",
) -> ServedModel:
    """Return the backend of the configured server; UsageError where mail text may not be sent there.

    The server is reached when it is to write, and before that only to learn whether the model's files have changed.
    """
    from engine.models.endpoint import endpoint_of, exposure

    chosen, endpoint = settings.model, endpoint_of(settings.model)

    def serve() -> "ServerModel":
        from engine.models.openai import reach

        model = reach(chosen, environ, lambda: models().yield_point())
        _note(endpoint, model, ledger())
        return model

    served = cache(serve)
    load = cache(lambda: _reader(served()))
    name, digest = _known(chosen, endpoint, served, ledger(), environ)
    found, limited = dataclasses.replace(endpoint, name=name), f"context {chosen.context}" if chosen.context else ""
    least = settings.ask.decline_below
    named = by_model(_identity(found, digest), chosen.max_tokens, limited, by_gate(least, retriever.version))
    parts = (f"{named}/{retriever.embedder_name}", found.shown, load, now, chosen.max_tokens, order, least)
    return ServedModel(retriever, *parts, drafts=0, roles=False, served=served, warning=exposure(endpoint))


def _reader(model: "ServerModel") -> "PromptReader":
    from engine.kv.restore import PromptReader

    return PromptReader(model, caches_prefixes=True)


def _known(
    chosen: "ModelSettings",
    endpoint: "Endpoint",
    served: "Callable[[], ServerModel]",
    ledger: "Ledger",
    environ: Mapping[str, str],
) -> tuple[str, str]:
    """Return a served model's name and the digest of its files, as told last.

    A server that tells digests, which are Ollama's alone, or that may choose the model, is asked again, if it is there.
    """
    noted = ledger.get(_note_name(endpoint))
    if noted is None or not endpoint.name:
        with suppress(PkbError):  # repeated, and reported, when it is to write
            return served().client.endpoint.name, served().digest
    if noted is None:
        return endpoint.name, ""
    name, digest = json.loads(noted)
    if not digest:
        return name, ""
    from engine.models.endpoint import ServerClient, api_key, ollama_digest

    return name, ollama_digest(ServerClient(endpoint, api_key(chosen.key, environ)), name) or digest


def _note(endpoint: "Endpoint", model: "ServerModel", ledger: "Ledger") -> None:
    """Keep what identifies a served model, so that cached answers are found while its server is down."""
    noted = json.dumps([model.client.endpoint.name, model.digest])
    if ledger.get(_note_name(endpoint)) != noted:
        ledger.set(_note_name(endpoint), noted)


def _note_name(endpoint: "Endpoint") -> str:
    return f"served.{endpoint}"


def _identity(endpoint: "Endpoint", digest: str) -> str:
    """Return a digest of address, name and files of a served model, as far as they are known."""
    from hashlib import blake2b

    return blake2b(f"{endpoint}\n{digest}".encode(), digest_size=32).hexdigest()


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
    role: "RoleAdapter | None",
    adapter: "Adapter | None",
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
        return load(found.folder, name=found.name, cache=home.cache, memory_share=share, threads=threads, adapter=role)

    model = dataclasses.replace(models.get((fingerprint, role, threads, share), loaded), wears=adapter)
    opened = partial(_open, model, fingerprint, home, ledger, settings, kept=kept)
    return models.reading((settings.kv, settings.experiment.score, kept, adapter), opened)


def _open(
    model: "Mlx", fingerprint: str, home: "Home", ledger: "Ledger", settings: "Settings", *, kept: bool
) -> "PromptReader":
    from engine.kv.restore import PromptReader
    from engine.models.load import movable

    model = dataclasses.replace(model, bits=_bits(settings))
    ropes = movable(model) if settings.kv.reuse == "blocks" else None
    if not kept or not model.form.name:
        return PromptReader(model, None, ropes)
    kept_as = open_kv(model, fingerprint, home, ledger, settings.kv, settings.experiment.score)
    return PromptReader(model, kept_as, ropes)


_NEVER = sys.maxsize  # longer than any segment: no prefix of one is reused


def open_kv(
    model: "Mlx", fingerprint: str, home: "Home", ledger: "Ledger", settings: "KvSettings", score: str = "value"
) -> "KvBinding":
    """Open the KV store of a model on this machine's arithmetic; KV of another model or arithmetic is never reused."""
    from importlib.metadata import version

    from engine.kv.costs import MeasuredCosts, auto
    from engine.kv.restore import KvBinding, Planning
    from engine.models.runtime import arithmetic
    from store.kv_files import root_of
    from store.remote import open_remote

    form, sub_step = model.form, str(model.sub_step)
    store = open_store(home, ledger, settings, model.sub_step if form.shares_prefix else _NEVER, score)
    store.collect()
    parts = {"model": fingerprint, "dtype": model.dtype, "form": form.name, "sub_step": sub_step}
    parts |= {"adapter": model.kv_adapter}
    parts |= {"mlx_lm": version("mlx-lm")} | arithmetic()
    root = root_of(parts)
    if model.kv_adapter:
        store.note_adapter(root, model.kv_adapter)
    costs = MeasuredCosts(ledger, root.key.hex(), model.name)
    remote = open_remote(settings.remote, home.share) if settings.remote else None
    return KvBinding(store, root, model, Planning(costs, auto), remote)


def open_store(
    home: "Home", ledger: "Ledger", settings: "KvSettings", sub_step: int = 1, score: str = "value"
) -> "KvStore":
    """Open the KV store; only matching prompts needs the sub-step."""
    from store.kv_store import KvLimits, KvStore, scores

    return KvStore(
        ledger,
        home.kv,
        limits=KvLimits(settings.bytes, settings.daily_bytes),
        score=scores(HALF_LIFE_S)[score],
        sub_step=sub_step,
        now=time.time,
        others=home.other_cache_bytes,
    )
