"""The handler of each kind of idle job in an open session, in the order in which the kinds run.

Everything is opened lazily: if there is nothing to do, no model is loaded and no table is opened.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, chain
from typing import TYPE_CHECKING

from engine.idle.types import Handler, Job, Outcome, check_time
from engine.operations import tidy
from engine.session import Session
from store.database import Ledger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.idle.predict import AskAbout, Prediction, Strategy, View, Write
    from engine.idle.prefetch import PrefetchContext, PrefetchPlan
    from engine.idle.refresh import Reasker
    from engine.idle.types import Handlers, Kind
    from engine.kv.restore import PromptReader
    from engine.models.types import LanguageModel
    from store.answers import CachedAnswer
    from store.jobs import JobCost
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


PREDICTION_TOKENS = 240  # that a model may write
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
    force: bool  # predict even if a question was just asked
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

    def _predict(self) -> Handler:
        from engine.idle.predict import View, has_similar, plan_predictions, predict

        planned = dict[str, View]()

        def plan() -> list[Job]:
            if not (self.force or is_quiet(self.session)):
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
        """Return how predicted questions are precomputed: quotes always whole, as they have nothing to prefill.

        A model's answers only as long as enough of those that had their time may have been used (PerCache 4.3.2).
        """
        from engine.idle.predict import WEEK_S, WEEKS, Strategy
        from engine.idle.refresh import upper
        from engine.types import AskOptions
        from store.answers import predicted_use

        settings = self.session.settings
        keeps_none = self.session.load_model is None or settings.model.is_served  # then there is no KV to prefill
        old = predicted_use(self.session.ledger, self.session.now.timestamp() - WEEKS * WEEK_S)
        decode = keeps_none or upper(*old) >= settings.experiment.cutoff
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


def _ask_about(load_model: LoadModel, most: int, is_over: Callable[[], bool]) -> "AskAbout":
    """Return a function that asks a model about chunks; it raises OutOfTime once `is_over`."""

    def ask(chunks: "Sequence[Chunk]", said: str) -> str:
        from engine.llm.generate import ask_about

        check_time(is_over)
        return ask_about(load_model(), chunks, said, most, partial(check_time, is_over))

    return ask


def writer(model: "LanguageModel", most: int, is_over: Callable[[], bool]) -> "Write":
    """Return a function that writes at most `most` tokens.

    It raises OutOfTime before a segment or token once `is_over`. Middle segments that do not fit the context are left
    out, the last ones first.
    """
    from engine.llm.stopping import complete, timed

    def write(segments: Sequence[str]) -> str:
        system, *middle, cue = segments
        first = (*model.frame.opening, *model.tokens(system), *model.frame.turning)
        last = (*model.tokens(cue), *model.frame.closing)
        left = model.context - most - len(first) - len(last)
        cache = model.begin()
        found = [model.tokens(one) for one in middle]
        fitting = [ids for ids, end in zip(found, accumulate(map(len, found)), strict=True) if end <= left]
        for ids in (first, *fitting):
            check_time(is_over)
            model.prefill(cache, ids)
        check_time(is_over)
        return complete(timed(model.decode(cache, last, most), partial(check_time, is_over)), most).text

    return write


def views(session: Session, load_model: LoadModel | None, is_over: Callable[[], bool]) -> "list[View]":
    """Return the views to predict questions from: the history and, if a model writes, the newest chunks too."""
    from engine.idle.predict import SOURCES, View, from_chunks, from_forms, from_history
    from store.history import History, latest

    newest, model = History(session.ledger).newest(), session.model_for("predict")
    asked, reason = str(newest or ""), "new questions since the last run"

    def of_history(count: int) -> "Sequence[Prediction]":
        past = latest(session.ledger, session.settings.experiment.history)[::-1]  # the oldest first
        by_forms = from_forms(new_chunks(session), past, is_over)
        if not (writes and load_model):
            return by_forms
        write = writer(load_model().model, PREDICTION_TOKENS, is_over)
        counted = zip(("mail", "meeting notes"), session.catalogue.counts_by_kind(), strict=True)
        kind = " and ".join(name for name, number in counted if number) or "documents"
        return [*from_history(past, kind, count, write), *by_forms]

    def of_chunks(count: int) -> "Sequence[Prediction]":
        assert load_model, "a quote asks nothing about chunks"
        return from_chunks(new_chunks(session, count), count, _ask_about(load_model, PREDICTION_TOKENS, is_over))

    writes = not (model and model.roles)  # a role adapter does not know how
    if load_model is None:
        return [View("history", reason, asked, SOURCES, of_history)]
    by_history = View("history", reason, asked, ("history/model", *SOURCES) if writes else SOURCES, of_history)
    mail = str(session.ledger.generation) if session.ledger.count("chunks") else ""
    return [by_history, View("chunks", "new mail since the last run", mail, ("chunks/model",), of_chunks)]


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
        MaintenanceTask("slice", "verify part of the ledger and KV cache", check, lambda: ledger.has_nodes),
    ]
