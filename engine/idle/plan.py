"""The handler of each kind of idle job in an open session, in the order in which the kinds run.

Everything is opened lazily: if there is nothing to do, no model is loaded and no table is opened.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from engine.idle.types import Handler, Job, Outcome, check_time
from engine.operations import tidy
from engine.session import Session
from store.database import Ledger
from store.kv_index import has_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.idle.predict import Prediction, Strategy, View
    from engine.idle.prefetch import PrefetchContext, PrefetchPlan
    from engine.idle.refresh import Reasker
    from engine.idle.summarize import AskAbout, Summarizer, Write
    from engine.idle.types import Handlers, Kind
    from engine.kv.restore import PromptReader
    from engine.models.types import LanguageModel
    from store.answers import CachedAnswer
    from store.jobs import Abstract, Abstracts, JobCost
    from store.types import Chunk, Hit


_DAY_S = 86_400.0
_TASK_S = 1.0  # estimated
_PREFIX = "maintenance."  # of the ledger values that say when a task was done last


@dataclass(frozen=True, slots=True)
class MaintenanceTask:
    """A daily task: `is_needed` returns whether there is anything to do, `do` does it."""

    name: str
    what: str
    do: Callable[[], None]
    is_needed: Callable[[], bool] = lambda: True


def plan_maintenance(ledger: Ledger, tasks: Sequence[MaintenanceTask], now: float) -> list[Job]:
    """Return a job for each task that is due; `now` is in seconds since the epoch."""
    return [
        Job("maintenance", task.name, task.what, "daily", 0.0, 0.0, _TASK_S)
        for task in tasks
        if now - float(ledger.get(_PREFIX + task.name) or 0.0) >= _DAY_S and task.is_needed()
    ]


def maintain(ledger: Ledger, tasks: Mapping[str, MaintenanceTask], job: Job, now: float) -> Outcome:
    """Do the task of a job, and store when."""
    tasks[job.subject].do()
    ledger.set(_PREFIX + job.subject, str(now))
    return Outcome()


SUMMARY_TOKENS, PREDICTION_TOKENS = 120, 240  # that a model may write
_SUMMARIES = 4  # summaries take at most 1/4 of a model's context
_CHUNKS = 120  # of the newest that no question was about yet, that forms of questions are filled from
_DOCUMENTS = 200  # of the newest, in which these are looked for
_QUESTIONS = 2000  # of the latest, whose retrieved chunks are counted for prefetching
_NEW = 1000  # of the newest documents, and of their chunks not retrieved yet, that may be prefetched
_ENTRIES = 200  # stored answers, the most used, whose prompts are restored
_CHECKED = 50  # cache files that are checked in one run

LoadModel = Callable[[], "PromptReader"]


@dataclass(slots=True)
class IdlePlanner:
    """Makes the handlers of one idle run; `reader` is the model once it is loaded."""

    session: Session
    force: bool  # summarize and predict even if a question was just asked
    predictions: int  # predicted questions to precompute, at most
    begin_planning: Callable[[], Callable[[], bool]]  # returns a function that is true once planning must end
    is_over: Callable[[], bool]  # true once the run must end
    reader: "PromptReader | None" = field(default=None, init=False)

    def handlers(self) -> "Handlers":
        """Return the handler of each kind of job, in the order in which they run."""
        is_local = self.session.load_model is not None and not self.session.settings.model.is_served
        prefills = is_local and self.session.settings.kv.reuse != "off"
        from engine.idle.predict import quota

        prefetch: Kind = "blocks" if self.session.settings.kv.reuse == "blocks" else "prefetch"
        handlers: Handlers = {
            "refresh": self._refresh(),
            "verify": self._verify(),
            "summarize": self._summarize(),
            "predict": self._predict(),
            "populate": self._populate(is_used_up := quota(self.predictions)),
            "standing": self._standing(is_used_up),
            "convert": self._convert(),
            **({prefetch: self._prefetch(), "restore": self._restore()} if prefills else {}),
            "maintenance": self._maintenance(),
        }
        return handlers

    def measure(self) -> "JobCost":
        """Return the model's work so far, and the bytes written to the KV cache."""
        from engine.models.types import flops
        from store.jobs import JobCost
        from store.kv_index import KvCounts

        size = sum(KvCounts(self.session.ledger).written_by_day().values())
        if self.reader is None:
            return JobCost(bytes=size)
        meter = self.reader.model.meter
        work = flops(self.reader.model.size, meter)
        return JobCost(read=meter.prefilled, written=meter.generated, flops=work, bytes=size)

    def load(self) -> "PromptReader":
        """Return the model, loaded."""
        assert self.session.load_model, "a quote needs no model"
        self.reader = self.session.load_model()
        return self.reader

    def _refresh(self) -> Handler:
        from engine.idle.refresh import plan_refreshes, refresh

        return Handler(lambda: self._load_for(plan_refreshes(self._reasker)), lambda job: refresh(self._reasker, job))

    def _verify(self) -> Handler:
        from engine.idle.refresh import plan_verifications, verify

        tau, max_error = self.session.settings.bank.tau, self.session.settings.experiment.max_error
        return Handler(
            lambda: self._load_for(plan_verifications(self._reasker)),
            lambda job: verify(self._reasker, job, tau, max_error),
        )

    def _summarize(self) -> Handler:
        summarizer = _summarizer(self.session, self._load_for_task("abstract"), self.is_over)
        return Handler(
            lambda: plan_summaries(self.session, summarizer) if self._may_use_model() else [], summarizer.run
        )

    def _predict(self) -> Handler:
        from engine.idle.predict import View, has_similar, plan_predictions, predict

        planned = dict[str, View]()

        def plan() -> list[Job]:
            if not self._may_use_model():
                return []
            load_model = self._load_for_task("predict")
            planned.update((view.name, view) for view in views(self.session, load_model, self.is_over))
            return plan_predictions(self._reasker, planned.values())

        def run(job: Job) -> "Outcome":
            def is_similar(question: str) -> bool:
                check_time(self.is_over)
                return has_similar(self._reasker, self._strategy, question)

            return predict(self._reasker, planned[job.subject], self.session.settings.experiment.stride, is_similar)

        return Handler(plan, run)

    def _populate(self, is_used_up: Callable[[], bool]) -> Handler:
        from engine.idle.predict import plan_population, populate

        return Handler(
            lambda: self._load_for(plan_population(self._reasker, self._strategy)),
            lambda job: populate(self._reasker, self._strategy, job, is_used_up),
        )

    def _standing(self, is_used_up: Callable[[], bool]) -> Handler:
        from engine.idle.predict import MEETINGS, plan_standing, prepare_standing, standing_questions
        from store.documents import titled_documents

        session = self.session
        questions = standing_questions(session.settings.predict.standing)

        def plan() -> list[Job]:
            if not questions or not session.ledger.count("chunks"):
                return []
            meetings = titled_documents(session.ledger, ("transcript",))[:MEETINGS]
            quotes = session.load_model is None or session.has_roles
            return plan_standing(self._reasker, self._strategy, questions, meetings, quotes=quotes)

        return Handler(plan, lambda job: prepare_standing(self._reasker, self._strategy, job, is_used_up))

    def _convert(self) -> Handler:
        from engine.idle.refresh import convert, plan_conversions

        return Handler(
            lambda: self._load_for(plan_conversions(self._reasker, decode=self._strategy.decode)),
            lambda job: convert(self._reasker, job),
        )

    def _prefetch(self) -> Handler:
        def plan() -> "PrefetchPlan | None":
            from store.history import RetrievalLog

            lists = RetrievalLog(self.session.ledger).lists(_QUESTIONS)
            retrieved = frozenset(chain.from_iterable(lists))
            new = [hit.chunk for hit in new_chunks(self.session, _NEW, _NEW) if hit.chunk.id not in retrieved]
            if not lists and not new:
                return None
            from engine.idle.prefetch import RetrievalCounts, plan_prefetch

            context = self._prefetch_context()
            return plan_prefetch(context, RetrievalCounts(lists, self._chunks, new)) if context else None

        return _handler(plan)

    def _restore(self) -> Handler:
        def plan() -> "PrefetchPlan | None":
            from store.kv_index import KvCounts

            counts = KvCounts(self.session.ledger)
            refused = bool(counts.of("refused"))
            if not counts.ghosts() and not refused:
                return None
            from engine.idle.prefetch import plan_restores

            context = self._prefetch_context()
            return plan_restores(context, self._most_used(), refused=refused) if context else None

        return _handler(plan)

    def _maintenance(self) -> Handler:
        ledger, tasks, now = self.session.ledger, _tasks(self.session, self.is_over), self.session.now.timestamp()
        return Handler(
            lambda: plan_maintenance(ledger, tasks, now),
            lambda job: maintain(ledger, {task.name: task for task in tasks}, job, now),
        )

    @property
    def _reasker(self) -> "Reasker":
        return _reasker(self.session)

    @property
    def _strategy(self) -> "Strategy":
        """Return how predicted questions are precomputed: quotes always whole, as they have nothing to prefill."""
        from engine.idle.predict import Strategy
        from engine.types import AskOptions

        settings = self.session.settings
        keeps_none = self.session.load_model is None or settings.model.is_served  # then there is no KV to prefill
        decode = keeps_none or settings.bank.tau <= settings.experiment.cutoff
        return Strategy(AskOptions(k=settings.ask.k), decode, settings.bank.tau)

    def _load_for_task(self, task: str) -> LoadModel | None:
        """Return a function that loads the model with the adapter of a task; None if pkb quotes."""
        model = self.session.model_for(task)
        if model is None:
            return None

        def load() -> "PromptReader":
            self.reader = model.load()
            return self.reader

        return load

    def _load_for(self, jobs: list[Job]) -> list[Job]:
        """Load the model if jobs ask questions, so that its loading time counts as planning."""
        if jobs and self.session.load_model:
            self.load()
        return jobs

    def _may_use_model(self) -> bool:
        return self.force or is_quiet(self.session)

    def _prefetch_context(self) -> "PrefetchContext | None":
        """Return the model and the cache to prefetch with; None if nothing of this model can be cached."""
        from engine.idle.prefetch import PrefetchContext

        session, reader = self.session, self.load()
        settings = session.settings
        if reader.kept is None:
            return None
        parts = (session.order, settings.model.max_tokens, settings.ask.k, settings.idle.ahead)
        return PrefetchContext(reader, self._reasker, *parts, session.locks.reader, self.begin_planning())

    def _chunks(self, ids: Sequence[str]) -> "dict[str, Chunk]":
        return {hit.chunk.id: hit.chunk for hit in self.session.reader.chunks(ids)}

    def _most_used(self) -> "Iterator[tuple[CachedAnswer, float]]":
        """Yield the stored answers whose prompts may be needed again, and how often they were requested."""
        from engine.idle.refresh import demand
        from store.answers import AnswerBank, most_used

        bank = AnswerBank(self.session.ledger)
        found = (bank.find(key) for key in most_used(self.session.ledger, self._reasker.writer_key, _ENTRIES))
        return ((cached, demand(cached)) for cached in found if cached)


def _handler(plan: "Callable[[], PrefetchPlan | None]") -> Handler:
    """Return a handler that runs the jobs of its last plan."""
    last: PrefetchPlan | None = None

    def jobs() -> list[Job]:
        nonlocal last
        last = plan()
        return last.jobs if last else []

    def run(job: Job) -> "Outcome":
        assert last, "a job that was not planned"
        return last.run(job)

    return Handler(jobs, run)


def _reasker(session: Session) -> "Reasker":
    from engine.idle.refresh import Reasker

    return Reasker(session.ledger, session.backend, session.room, session.now)


def is_quiet(session: Session) -> bool:
    """Return whether no question was asked for a while; one in the future was asked before the clock was set back."""
    from store.history import History

    last = History(session.ledger).last()
    return last is None or abs(session.now.timestamp() - last.at) >= session.settings.experiment.quiet_s


def plan_summaries(session: Session, summarizer: "Summarizer") -> list[Job]:
    """Return jobs that summarize new chunks."""
    from store.jobs import is_up_to_date

    if is_up_to_date(session.ledger) or not session.ledger.count("chunks"):
        return []
    from engine.idle.summarize import MOST

    with session.locks.reader():
        wanted = _abstracts(session).unsummarized(MOST)
    return summarizer.plan(wanted) if wanted else []


def _summarizer(session: Session, load_model: LoadModel | None, is_over: Callable[[], bool]) -> "Summarizer":
    from engine.idle.summarize import Summarizer, by_model, by_quotes, writer

    def by_a_model(batch: "Sequence[Hit]") -> str:
        assert load_model
        return by_model(batch, _kind(session), writer(load_model().model, SUMMARY_TOKENS, is_over))

    def keep(made: "Sequence[Abstract]") -> int:
        with session.locks.writer():
            return _abstracts(session).put(made)

    # A small model's summaries keep no more than quotes do, and take seconds a chunk: docs/log/idle.md.
    model = session.model_for("abstract")
    summarize = by_a_model if load_model and not (model and model.roles) else by_quotes
    writer_name = model.fingerprint if model else session.backend.fingerprint
    return Summarizer(partial(embedded, session), summarize, keep, writer_name, session.now.timestamp())


def _ask_about(load_model: LoadModel, most: int, is_over: Callable[[], bool]) -> "AskAbout":
    """Return a function that asks a model with a role adapter; it raises OutOfTime once `is_over`."""

    def ask(chunks: "Sequence[Chunk]", said: str) -> str:
        from engine.llm.generate import ask_about

        check_time(is_over)
        return ask_about(load_model(), chunks, said, most, partial(check_time, is_over))

    return ask


def embedded(session: Session, ids: Sequence[str]) -> "list[Hit]":
    """Return chunks with their vectors, if they have any."""
    from store.types import among

    with session.locks.reader():
        hits = session.reader.chunks(ids)
        there = among("id", (hit.chunk.id for hit in hits))
        vectors = session.tables.vectors(session.ledger.get("vectors") or "vectors", there)
    return [replace(hit, vector=vectors.get(hit.chunk.id)) for hit in hits]


def _abstracts(session: Session) -> "Abstracts":
    from store.jobs import Abstracts

    return Abstracts(session.ledger, session.tables)


def _kind(session: Session) -> str:
    """Return the kind of documents in the home, as prompts name it."""
    from engine.idle.summarize import kind_of

    mails, others = session.catalogue.counts_by_kind()
    return kind_of(mails, others)


def views(session: Session, load_model: LoadModel | None, is_over: Callable[[], bool]) -> "list[View]":
    """Return the views to predict questions from: the history and, if a model writes, the summaries or chunks too."""
    from engine.idle.predict import SOURCES, View, from_forms
    from store.history import History

    newest = History(session.ledger).newest()
    asked, reason = str(newest or ""), "new questions since the last run"

    def of_forms(_: int) -> "Sequence[Prediction]":
        return from_forms(new_chunks(session), past_questions(session), is_over)

    by_forms = View("history", reason, asked, SOURCES, of_forms)
    if load_model is None:
        return [by_forms]
    mail = str(session.ledger.generation) if session.ledger.count("chunks") else ""
    new_mail, model = "new mail since the last run", session.model_for("predict")
    if model and model.roles:
        return [
            by_forms,
            View("chunks", new_mail, mail, ("chunks/model",), partial(_of_chunks, session, load_model, is_over)),
        ]
    from engine.idle.predict import from_abstracts, from_history
    from engine.idle.summarize import writer

    def write() -> "Write":
        return writer(load_model().model, PREDICTION_TOKENS, is_over)

    def of_history(count: int) -> "Sequence[Prediction]":
        past = past_questions(session)
        by_model = from_history(past, _kind(session), count, write())
        return [*by_model, *from_forms(new_chunks(session), past, is_over)]

    def of_abstracts(count: int) -> "Sequence[Prediction]":
        return from_abstracts(_drawn(session, load_model().model), _kind(session), count, write())

    return [
        View("history", reason, asked, ("history/model", *SOURCES), of_history),
        View("abstracts", new_mail, mail, ("abstracts/model",), of_abstracts),
    ]


def _of_chunks(
    session: Session, load_model: LoadModel, is_over: Callable[[], bool], count: int
) -> "Sequence[Prediction]":
    from engine.idle.predict import from_chunks

    return from_chunks(new_chunks(session, count), count, _ask_about(load_model, PREDICTION_TOKENS, is_over))


def _drawn(session: Session, model: "LanguageModel") -> "list[Abstract]":
    """Return the summaries that a model predicts from, and count them as drawn."""
    from engine.idle.predict import choose
    from store.history import RetrievalLog

    known = _abstracts(session)
    with session.locks.writer():
        known.recount(RetrievalLog(session.ledger).frequencies())
    with session.locks.reader():
        chosen = choose(known.all(), model.context // _SUMMARIES, lambda text: len(model.tokens(text)))
    with session.locks.writer():
        known.count_drawn([one.id for one in chosen])
    return chosen


def past_questions(session: Session) -> list[str]:
    """Return the last questions, the oldest first."""
    from store.history import latest

    return latest(session.ledger, session.settings.experiment.history)[::-1]


def new_chunks(session: Session, most: int = _CHUNKS, documents: int = _DOCUMENTS) -> "list[Hit]":
    """Return chunks that no question was about, newest first, out of at most `documents` documents."""
    from store.documents import newest_documents
    from store.history import RetrievalLog
    from store.types import Scope

    newest = newest_documents(session.ledger, documents)
    places, asked = {name: at for at, name in enumerate(newest)}, RetrievalLog(session.ledger).frequencies()
    with session.locks.reader():
        hits = session.reader.chunks_of(newest, Scope()) if newest else []
    new = [hit for hit in hits if hit.chunk.id not in asked]
    return sorted(new, key=lambda hit: (places[hit.chunk.document], hit.chunk.position))[:most]


def _tasks(session: Session, is_over: Callable[[], bool]) -> "list[MaintenanceTask]":
    """Return the maintenance tasks; once `is_over`, no further file is checked."""
    ledger = session.ledger

    def check() -> None:
        from store.integrity import check_slice

        check_slice(session.home, ledger, _CHECKED, is_over)

    return [
        MaintenanceTask("tables", "compact search tables", lambda: tidy(session), lambda: session.knowledge.is_untidy),
        MaintenanceTask("index", "update the mapped index", lambda: tidy(session), session.mapped.is_behind),
        MaintenanceTask("slice", "verify part of the ledger and KV cache", check, lambda: has_nodes(ledger)),
    ]
