"""The backends that answer questions: quotes, a language model here, or one that a server runs. All retrieve alike.

Imports are inside functions: a cached answer must not wait for LanceDB, numpy or a model.
"""

import dataclasses
import json
import re
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import datetime
from functools import cached_property, partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Protocol

from engine.ask.keys import by_gate, by_model, by_quotes, by_roles, whole_of
from engine.settings import HALF_LIFE_S, LINKS, KvSettings, Settings
from engine.text.time_sensitive import meeting_question, plain_words
from engine.types import Answer, AskOptions, Backend, Evidence, OnText, Trace
from prompts import word_patterns
from store.database import Ledger
from store.errors import PkbError
from store.home import Home
from store.types import Scope, Vectors, replace

if TYPE_CHECKING:
    from engine.kv.restore import PromptReader
    from engine.llm.generate import GenerateOptions, Judge
    from engine.llm.resident import ResidentModel
    from engine.models.adapters import Adapter
    from engine.models.lookup import InstalledModel
    from engine.models.minilm import SpanReader
    from engine.models.mlx import Mlx
    from engine.models.served import ServerModel
    from engine.models.types import Embedder
    from engine.text.people import Ties
    from engine.text.question import Question
    from store.catalog import Catalog
    from store.kv_store import KvStore
    from store.locks import Locks
    from store.search import QuestionVectors, Reader


class _OpenHome(Protocol):
    """The parts of an open home that answer questions, each opened when it is first used: see `Session`."""

    environ: Mapping[str, str]
    home: Home
    keeps_tensors: bool

    @property
    def settings(self) -> Settings: ...
    @property
    def now(self) -> datetime: ...
    @property
    def me(self) -> tuple[str, ...]: ...
    @property
    def ties(self) -> "Ties": ...
    @property
    def ledger(self) -> Ledger: ...
    @property
    def reader(self) -> "Reader": ...
    @property
    def catalogue(self) -> "Catalog": ...
    @property
    def locks(self) -> "Locks": ...
    @property
    def question_embedder(self) -> "Embedder | None": ...
    @property
    def question_vectors(self) -> "QuestionVectors": ...
    @property
    def span_reader(self) -> "SpanReader | None": ...
    @property
    def reader_version(self) -> str: ...
    @property
    def models(self) -> "ResidentModel": ...
    def before_retrieval(self) -> None: ...


class Retriever:
    """Embeds questions and retrieves their evidence."""

    def __init__(self, opened: _OpenHome) -> None:
        self._opened, self._least = opened, opened.settings.ask.decline_below

    def embed(self, text: str, trace: Trace) -> Vectors | None:
        """Return the unit vector of a question, None if there are no vectors to compare it with."""
        embedder = self._opened.question_embedder
        if embedder is None:
            return None
        with trace.step("embed"):
            return embedder.embed_question(text)

    def count(self, question: "Question", options: AskOptions, trace: Trace) -> Evidence | None:
        """Return the answer to an exact question about the archive, a meeting or a person; None for any other."""
        asked, meeting, scope = {*plain_words(question.text)}, meeting_question(question.text), options.scope
        asking = (word_patterns(name)["asks"].split("|") for name in ("archive", "people"))
        of_archive, of_people = (not asked.isdisjoint(some) for some in asking)
        said = " ".join(plain_words(question.text)) if not asked.isdisjoint(("i", "me", "my")) else ""
        forms = word_patterns("open_questions").items() if said else ()
        of_open = next((kind for kind, form in forms if re.fullmatch(form, said)), None)
        if not (meeting or of_archive or of_people or of_open):
            return None
        self._opened.before_retrieval()
        catalog, ties = self._opened.catalogue.within(scope), self._opened.ties
        parts, found = (self._opened.reader, catalog), None
        quotes = not isinstance(self, Generative) or bool(self.roles)
        with self._opened.locks.reader():
            if of_open and self._opened.me:
                from engine.retrieval.open_loops import find_open

                found = find_open(*parts, of_open, scope, self._opened.now, self._opened.me)
            if meeting and not found:
                from engine.retrieval.reports import find_meeting

                found = find_meeting(*parts, meeting, scope, question.day, self._opened.me, quotes=quotes)
            if of_archive and not found:
                from engine.ask.archive import Archive

                own = Scope(collection=scope.collection)
                found = Archive(*parts, lambda: self._opened.me, own, ties).find(question, scope, trace)
            if of_people and not (found or meeting):
                from engine.ask.contacts import Directory

                own = scope.inside(catalog.collection)
                found = Directory(*parts, lambda: self._opened.me, own, ties).find(question, trace, quotes=quotes)
        return found

    def retrieve(self, question: "Question", vector: Vectors | None, options: AskOptions, trace: Trace) -> Evidence:
        """Retrieve the evidence for a question."""
        self._opened.before_retrieval()
        with ExitStack() as held:
            with trace.step("open"):
                from engine.retrieval.evidence import find, find_after

                catalog = self._opened.catalogue.within(options.scope)
                parts = (self._opened.reader, catalog, vector)
                held.enter_context(self._opened.locks.reader())
            if options.after:
                return find_after(*parts, question, options, trace)
            if document := options.scope.document:
                from engine.ask.extract import find_fact

                if found := find_fact(self._opened.reader, catalog, question, document, trace):
                    return found
            found = find(*parts, question, options, trace, self._opened.question_embedder)
        from engine.ask.updates import settled

        return settled(question, found)

    def reread(self, read: Sequence[str], scores: Sequence[float], scope: Scope | None = None) -> Evidence:
        """Return evidence once more by its fingerprint and the scores of its passages; empty if it is not all there."""
        from engine.retrieval.evidence import reread

        self._opened.before_retrieval()
        with self._opened.locks.reader():
            catalog = self._opened.catalogue.within(scope) if scope else self._opened.catalogue
            return reread(self._opened.reader, catalog, read[:-1], scores)

    def prefill(self, question: "Question", evidence: Evidence, trace: Trace) -> None:
        """Do nothing: quotes have no prompt, and no KV cache of a server's model is kept here."""

    def question_vectors(self) -> "QuestionVectors | None":
        """Return the vectors of cached questions; None without the embedder that made them."""
        return self._opened.question_vectors if self._opened.question_embedder else None


class Extractive(Retriever):
    """Answers with sentences of the evidence, which a reader chooses; declines where they have little support."""

    @property
    def fingerprint(self) -> str:
        """Name all that an answer depends on beside the evidence."""
        opened = self._opened
        return f"{by_quotes(self._least, opened.reader_version)}/{opened.settings.embed.model}"

    def generate(self, question: "Question", evidence: Evidence, trace: Trace, on_text: OnText | None) -> Answer:
        """Quote the answer from the evidence."""
        if evidence.fact:
            from engine.ask.extract import answer_fact

            return answer_fact(question, evidence, trace, None)
        with trace.step("import"):
            from engine.ask.extract import write

        return write(question, evidence, trace, self._least, self._opened.span_reader)

    def within(self, scope: Scope) -> Backend:
        """Return this backend: the scope does not change how it quotes."""
        return self


class Generative(Retriever, ABC):
    """Answers with a language model, as of the time when it was opened; the reader judges it, if there is one."""

    drafts = 0  # tokens at a time that are guessed from the evidence
    roles = False  # whether a role adapter fits the model
    adapter: "Adapter | None" = None  # the user's, which the model has on
    about = ""  # that adapter and the options of KV that are on, for users
    warning = ""  # told with all that it writes, where others can read what is sent
    name: str
    fingerprint: str

    def __init__(self, opened: _OpenHome) -> None:
        super().__init__(opened)
        self._now, self._most = opened.now, opened.settings.model.max_tokens
        self.by_task, self.by_collection = dict[str, Generative](), dict[str, Generative]()  # with other adapters
        self.problems: tuple[str, ...] = ()  # why an adapter that was chosen is not used

    def _named(self, identity: str, *options: str) -> str:
        """Return the fingerprint of a model with this identity, read in these ways."""
        named = by_model(identity, self._most, *options, by_gate(self._least, self._opened.reader_version))
        return f"{named}/{self._opened.settings.embed.model}"

    @abstractmethod
    def load(self) -> "PromptReader":
        """Return the model, which stays in memory."""

    def retrieve(self, question: "Question", vector: Vectors | None, options: AskOptions, trace: Trace) -> Evidence:
        """Retrieve the evidence for a question: all of the meeting or thread, where it is about that as a whole."""
        opened, found = self._opened, None
        if not self.roles:
            from engine.retrieval.evidence import find_whole

            opened.before_retrieval()
            if documents := whole_of(opened.ledger, question, options):
                with opened.locks.reader():
                    found = find_whole(opened.reader, opened.catalogue, documents, options, trace)
        return found or super().retrieve(question, vector, options, trace)

    def within(self, scope: Scope) -> Backend:
        """Return the backend for a scope, with the adapter of its collection if that has one."""
        return self.by_collection.get(scope.collection or "", self)

    def generate(self, question: "Question", evidence: Evidence, trace: Trace, on_text: OnText | None) -> Answer:
        """Have the model write the answer; `on_text` is given it while it is written."""
        if evidence.fact:
            from engine.ask.extract import answer_fact

            return answer_fact(question, evidence, trace, self.name)
        with trace.step("import"):
            from engine.ask.extract import write
            from engine.llm.generate import generate, synthesize
            from engine.text.question import synthesis

        with trace.step("choose"):
            evidence = self.narrow(question, evidence)
        about, adapter = (question, evidence, trace), self.adapter
        if self.roles and synthesis(question.text):  # a model so small writes nonsense
            return write(*about, self._least)
        if evidence.passages and synthesis(question.text):
            written = synthesize(*about, self._options())
        else:
            written = generate(*about, self._options(), on_text)
        return replace(written, adapter=adapter.name) if adapter else written

    def narrow(self, question: "Question", evidence: Evidence) -> Evidence:
        """Return the evidence, of which the model is shown the two sources that the reader finds likeliest to answer.

        It is shown all where there is no reader, or it knows no such questions.
        """
        reader = None if self.roles or evidence.fact else self._opened.span_reader
        if reader is None:
            return evidence
        from engine.ask.semantic import judge_of

        judge = judge_of(question, evidence, self._least, reader)
        # Of more than two, small models make less (docs/log/models.md).
        return replace(evidence, shown=judge.likeliest(2)) if judge else evidence

    def _options(self) -> "GenerateOptions":
        from engine.llm.generate import GenerateOptions

        return GenerateOptions(self.load, self.name, self._now, self._most, self.drafts, self.about, self._judge)

    def _judge(self, question: "Question", evidence: Evidence) -> "Judge | None":
        """Return what judges the answers to a question, None where words have to."""
        from engine.ask.semantic import judge_of, part_of_quote

        about, reader = (question, evidence, self._least), self._opened.span_reader
        judge = judge_of(*about, reader) if reader else None
        return judge or (partial(part_of_quote, *about) if self.roles else None)


class LocalModel(Generative):
    """Answers with an installed language model, known by the digest of its files, and an adapter of the user's."""

    def __init__(
        self, opened: _OpenHome, found: "InstalledModel", digest: str, role: "Adapter | None", adapter: "Adapter | None"
    ) -> None:
        super().__init__(opened)
        kv, usual = opened.settings.kv, type(opened.settings.experiment)()
        self._found, self._digest, self._role, self.adapter = found, digest, role, adapter
        self._bits = kv.bits if kv.reuse != "off" else 0
        self._keeps = opened.keeps_tensors and kv.reuse != "off" and not opened.ledger.temporary
        self._rounding = f"a peer's KV in {kv.remote_bits} bits" if kv.remote and kv.remote_bits and self._keeps else ""
        self.name, self.drafts = found.name, opened.settings.experiment.drafts
        self.roles = role is not None and (adapter is None or adapter.activated)
        options = [
            by_roles(role.digest) if role and self.roles else "",
            f"blocks, {LINKS} links" if kv.reuse == "blocks" else "",
            f"{self._bits} bits" if self._bits else "",
            f"{self.drafts} guessed" if self.drafts != usual.drafts else "",
            f"adapter {adapter.digest}" if adapter else "",
            self._rounding,
        ]
        self.fingerprint = self._named(digest, *options)
        shown = [
            f"with adapter {adapter.name}" if adapter else "",
            "in blocks" if kv.reuse == "blocks" else "",
            f"KV in {self._bits} bits" if self._bits else "",
            self._rounding or ("a peer's KV" if kv.remote and self._keeps else ""),
        ]
        self.about = ", ".join(filter(None, shown))

    def load(self) -> "PromptReader":
        """Return the model, which stays in memory, with its KV store."""
        return self._loaded

    def prefill(self, question: "Question", evidence: Evidence, trace: Trace) -> None:
        """Compute and keep the KV tensors of the prompt without answering."""
        from engine.llm.generate import prefill_prompt
        from engine.text.question import synthesis

        if not evidence.fact and not synthesis(question.text):  # which is read in parts, by other prompts
            prefill_prompt(question, self.narrow(question, evidence), trace, self._options())

    @cached_property
    def _loaded(self) -> "PromptReader":
        from engine.models.load import load
        from engine.models.runtime import threads_of

        opened, found, role, settings = self._opened, self._found, self._role, self._opened.settings
        threads, share = threads_of(opened.ledger), settings.model.memory_share
        opened.ledger.set("threads", str(threads))  # for good

        def loaded() -> "Mlx":
            about, cache = (found.folder, found.name), opened.home.cache
            return load(*about, cache=cache, memory_share=share, threads=threads, adapter=role)

        model = self._calibrated(opened.models.get((self._digest, role, threads, share), loaded))
        model = dataclasses.replace(model, wears=self.adapter, bits=self._bits)
        key = (settings.kv, settings.experiment.score, self._keeps, self.adapter)
        return opened.models.reading(key, lambda: self._read_by(model))

    def _calibrated(self, model: "Mlx") -> "Mlx":
        """Have a model compute in the steps found at its first load on this GPU; on a processor they are fixed."""
        from engine.kv.costs import calibrate, calibration
        from engine.models.load import compute_s, restore_s
        from engine.models.runtime import device
        from store.kv_files import root_key

        if device() == "cpu":
            return model
        root = root_key(self._arithmetic(model)).hex()
        tried = dataclasses.replace(model, yield_point=lambda: None)
        ways = (partial(compute_s, tried), partial(restore_s, tried, self._opened.home.cache))
        found = calibration(self._opened.ledger, root, lambda: calibrate(model.name, model.context, *ways))
        self._keeps = self._keeps and found.saves_time  # else computing KV is sooner than loading it
        return dataclasses.replace(model, sub_step=found.sub_step)

    def _arithmetic(self, model: "Mlx") -> dict[str, str]:
        """Return what the KV of a model depends on here, whatever its form and adapter."""
        from importlib.metadata import version

        from engine.models.runtime import arithmetic

        return {"model": self._digest, "dtype": model.dtype, "mlx_lm": version("mlx-lm")} | arithmetic()

    def _read_by(self, model: "Mlx") -> "PromptReader":
        """Open the KV store on this machine's arithmetic; KV of another model or arithmetic is never reused."""
        from engine.kv.costs import MeasuredCosts
        from engine.kv.restore import KvBinding, PromptReader
        from engine.models import kv_cache
        from engine.models.load import movable
        from store.kv_files import root_of
        from store.remote import open_remote

        opened, settings, form = self._opened, self._opened.settings, kv_cache.form(model.begin(), model.bits)
        ropes = movable(model) if settings.kv.reuse == "blocks" else None
        if not (self._keeps and form.name):
            return PromptReader(model, None, ropes)
        sub_step = model.sub_step if form.name == "tokens" else sys.maxsize  # else no prefix of a segment is reused
        store = open_store(opened.home, opened.ledger, settings.kv, sub_step, settings.experiment.score)
        store.collect()
        parts = {"form": form.name, "sub_step": str(model.sub_step), "adapter": model.kv_adapter}
        exact = root_of(parts | self._arithmetic(model))
        root = root_of(parts | self._arithmetic(model) | {"remote": self._rounding}) if self._rounding else exact
        if model.kv_adapter:
            store.note_adapter(root, model.kv_adapter)
        costs = MeasuredCosts(opened.ledger, exact.key.hex())
        where = (settings.kv.remote, opened.home.share, settings.kv.remote_bits)
        remote = open_remote(*where) if settings.kv.remote else None
        return PromptReader(model, KvBinding(store, root, model, costs, remote=remote, exact=exact), ropes)


def open_store(home: Home, ledger: Ledger, settings: KvSettings, sub_step: int = 1, score: str = "value") -> "KvStore":
    """Open the KV store; only matching prompts needs the sub-step."""
    from store.kv_store import KvStore, scores

    return KvStore(
        ledger,
        home.kv,
        budget=settings.bytes,
        daily=settings.daily_bytes,
        score=scores(HALF_LIFE_S)[score],
        sub_step=sub_step,
        now=time.time,
        others=home.other_cache_bytes,
    )


def local_model(opened: _OpenHome) -> LocalModel:
    """Return the backend of the configured model, with those of other tasks and collections; NoModel without it."""
    from engine.models.adapters import find_adapter, wardrobe_of
    from engine.models.lookup import find, fingerprint

    chosen, notes = opened.settings.model, opened.home.cache / "digests"
    found = find(chosen.name, chosen.revision, opened.environ)
    digest, role = fingerprint(found, notes), find_adapter(found.folder, notes)
    tasks, collections, problems = wardrobe_of(opened.home, opened.settings.adapter, found.folder, digest)
    made = partial(LocalModel, opened, found, digest, role)
    answering = made(tasks.get("answer"))
    others = {task: tasks.get(task) for task in ("predict", "condense")}  # no key for the last
    answering.by_task |= {task: made(one) for task, one in others.items() if one != answering.adapter}
    answering.by_collection |= {name: made(one) for name, one in collections.items()}
    answering.problems = problems
    return answering


class ServedModel(Generative):
    """Answers with a language model that a server runs, whose KV cache is the server's own.

    UsageError where mail text may not be sent there. The server is reached when it is to write, and before that only to
    learn whether the model's files have changed.
    """

    def __init__(self, opened: _OpenHome) -> None:
        from engine.models.served import endpoint_of, exposure

        super().__init__(opened)
        self._chosen, self._endpoint = opened.settings.model, endpoint_of(opened.settings.model)
        self.warning = exposure(self._endpoint)
        name, digest = self._known()
        found = dataclasses.replace(self._endpoint, name=name)
        identity = blake2b(f"{found}\n{digest}".encode(), digest_size=32).hexdigest()
        self.name = found.shown
        self.fingerprint = self._named(identity, f"context {self._chosen.context}" if self._chosen.context else "")

    def _known(self) -> tuple[str, str]:
        """Return the model's name and the digest of its files, as told last.

        A server that tells digests, which are Ollama's alone, or that may choose the model, is asked again, if it is
        there.
        """
        noted = self._opened.ledger.get(self._note)
        if noted is None or not self._endpoint.name:
            with suppress(PkbError):  # repeated, and reported, when it is to write
                return self._served.client.endpoint.name, self._served.digest
        if noted is None:
            return self._endpoint.name, ""
        name, digest = json.loads(noted)
        if not digest:
            return name, ""
        from engine.models.served import ServerClient, api_key, ollama_digest

        client = ServerClient(self._endpoint, api_key(self._chosen.key, self._opened.environ))
        return name, ollama_digest(client, name) or digest

    @property
    def _note(self) -> str:
        """Return the ledger's name for what identifies the model: its answers are found while its server is down."""
        return f"served.{self._endpoint}"

    @cached_property
    def _served(self) -> "ServerModel":
        from engine.models.served import reach

        opened = self._opened
        model = reach(self._chosen, opened.environ, lambda: opened.models.yield_point())
        noted = json.dumps([model.client.endpoint.name, model.digest])
        if opened.ledger.get(self._note) != noted:
            opened.ledger.set(self._note, noted)
        return model

    def load(self) -> "PromptReader":
        """Reach the server."""
        from engine.kv.restore import PromptReader

        return PromptReader(self._served)

    def generate(self, question: "Question", evidence: Evidence, trace: Trace, on_text: OnText | None) -> Answer:
        """Have the server write the answer; its own figures take the place of estimates."""
        written = super().generate(question, evidence, trace, on_text)
        if not written.tokens:
            return written  # nothing was retrieved, and so nothing sent
        notices, last, window = trace.notices, self._served.last, self._served.window
        is_one = sum(step.name == "decode" for step in trace.steps) == 1  # else `last` tells of the last part alone
        if last.prompt and is_one:
            prefill = next(step for step in reversed(trace.steps) if step.name == "prefill")
            prefill.note = f"{last.reused} of {last.prompt} tokens from the server's own cache"
            if last.prompt > self._served.context:  # more than was estimated; Ollama cuts what is too long
                notices.append(f"the prompt took {last.prompt} of {window} tokens: the server may have left out some")
        notices += [self.warning] if self.warning else []
        cut = f"the answer was cut at {self._most} tokens"
        is_cut = last.is_cut and written.writer == "model"
        notices += [cut] if is_cut and not any(told.startswith(cut) for told in notices) else []
        if not is_one:
            return written
        tokens = dict(written.tokens)  # estimates, which stay where the server does not count
        count = last.prompt or tokens["prompt"]
        reused, generated = min(last.reused, count), last.generated or tokens["generated"]
        tokens |= {"prompt": count, "reused": reused, "computed": count - reused, "generated": generated}
        return replace(written, tokens=tokens)
