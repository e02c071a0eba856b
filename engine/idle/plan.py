"""The plan of each kind of idle job in an open session, in the order in which the kinds run.

Everything is opened lazily: if there is nothing to do, no model is loaded and no table is opened.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain

from engine.backends import Generative
from engine.idle import predict, refresh
from engine.idle.prefetch import PrefetchContext, plan_prefetch, plan_restores
from engine.idle.refresh import Reasker
from engine.kv.restore import PromptReader
from engine.llm.generate import ask_about
from engine.llm.stopping import complete
from engine.models.types import LanguageModel
from engine.operations import tidy
from engine.session import Session
from store.answers import AnswerBank, predicted_use, upper
from store.database import Ledger
from store.documents import titled_documents
from store.history import History, RetrievalLog, latest
from store.jobs import Job, Outcome, Planned, Plans, check_time
from store.kv_index import LACKING
from store.types import Chunk, Hit, Scope

_PREFIX = "maintenance."  # of the ledger values that say when a task was done last


# What a daily task does, whether there is anything to do, and how it is done.
MaintenanceTask = tuple[str, Callable[[], bool], Callable[[], None]]


def maintenance(ledger: Ledger, tasks: Mapping[str, MaintenanceTask], now: float) -> list[Planned]:
    """Plan the tasks that are due, and store when each was done; `now` is in seconds since the epoch."""

    def run(name: str) -> Outcome:
        tasks[name][-1]()
        ledger.set(_PREFIX + name, str(now))
        return Outcome()

    return [
        (Job("maintenance", name, what, "daily", 0.0, cost_s=1.0), partial(run, name))
        for name, (what, is_needed, _) in tasks.items()
        if now - float(ledger.get(_PREFIX + name) or 0.0) >= 86_400.0 and is_needed()
    ]


PREDICTION_TOKENS = 240  # that a model may write
_CHUNKS = 120  # of the newest that no question was about yet, that forms of questions are filled from
_DOCUMENTS = 200  # of the newest, in which these are looked for
_QUESTIONS = 2000  # of the latest, whose retrieved chunks are counted for prefetching
_ENTRIES = 200  # stored answers, the most used, whose prompts are restored
_NEW = 1000  # of the newest documents, and of their chunks not retrieved yet, that may be prefetched
_TIME_S = 21 * 86_400.0  # that a predicted answer has, in which it may be asked for
_CHECKED = 50  # cache files that are checked in one run


@dataclass(frozen=True, slots=True)
class IdlePlanner:
    """Plans the jobs of one idle run."""

    session: Session
    may_predict: bool
    is_over: Callable[[], bool]  # true once the run must end

    def plans(self) -> Plans:
        """Return how each kind of job is planned, in the order in which they run."""
        settings = self.session.settings
        is_local = self.session.model is not None and not settings.model.is_served
        prefills: Plans = {"prefetch": self._prefetch, "restore": self._restore}
        return {
            "refresh": partial(self._asking, refresh.plan_refreshes, refresh.refresh),
            "verify": partial(self._asking, refresh.plan_verifications, refresh.verify),
            "predict": self._predict,
            "populate": partial(self._asking, predict.plan_population, predict.populate),
            "standing": partial(self._asking, self._standing, predict.prepare_standing),
            **(prefills if is_local and settings.kv.reuse != "off" else {}),
            "maintenance": self._maintain,
        }

    def load(self, model: Generative | None = None) -> PromptReader:
        """Return a model, loaded: the one that answers, unless another is given."""
        model = model or self.session.model
        assert model, "a quote needs no model"
        return model.load()

    def _asking(self, plan: Callable[[Reasker], list[Job]], run: Callable[[Reasker, Job], Outcome]) -> list[Planned]:
        """Plan jobs that ask questions: loading the model for them counts as planning."""
        reasker = self._reasker
        jobs = plan(reasker)
        if jobs and self.session.model:
            self.load()
        return [(job, partial(run, reasker, job)) for job in jobs]

    def _predict(self) -> list[Planned]:
        reasker, stride = self._reasker, self.session.settings.experiment.stride

        def is_similar(question: str) -> bool:
            check_time(self.is_over)
            return predict.has_similar(reasker, question)

        views = {view.name: view for view in (self._views() if self.may_predict else ())}
        jobs = predict.plan_predictions(reasker, views.values())
        return [(job, partial(predict.predict, reasker, views[job.subject], stride, is_similar)) for job in jobs]

    def _views(self) -> list[predict.View]:
        """Return the views to predict questions from: the history and, if a model writes, the newest chunks too."""
        session, is_over = self.session, self.is_over
        model = session.model_for("predict")
        writes = model is not None and not model.roles  # a role adapter does not know how

        def of_history(count: int) -> list[predict.Prediction]:
            past = latest(session.ledger, session.settings.experiment.history)[::-1]  # the oldest first
            by_forms = predict.from_forms(new_chunks(session), past, is_over)
            if not writes:
                return by_forms
            write = writer(self.load(model).model, PREDICTION_TOKENS, is_over)
            there = zip(("mail", "meeting notes"), session.catalogue.kinds(), strict=True)
            kind = " and ".join(name for name, is_there in there if is_there) or "documents"
            return [*predict.from_history(past, kind, count, write), *by_forms]

        def ask(chunks: Sequence[Chunk], said: str) -> str:
            check_time(is_over)
            return ask_about(self.load(model), chunks, said, PREDICTION_TOKENS, partial(check_time, is_over))

        sources = (*["history/model"] * writes, "history/form")
        asked = str(History(session.ledger).newest() or "")
        found = [predict.View("history", "new questions since the last run", asked, sources, of_history)]
        if model is not None:
            mail = str(session.ledger.generation) if session.ledger.count("chunks") else ""
            about = ("chunks", "new mail since the last run", mail, ("chunks/model",))
            found.append(predict.View(*about, lambda n: predict.from_chunks(new_chunks(session, n), n, ask)))
        return found

    def _standing(self, reasker: Reasker) -> list[Job]:
        session = self.session
        meetings = titled_documents(session.ledger, ("transcript",))[: predict.MEETINGS]
        return predict.plan_standing(reasker, meetings, quotes=session.model is None or session.model.roles)

    def _prefetch(self) -> list[Planned]:
        """Plan what to prefetch: nothing where no KV of this model can be cached."""
        session, lists = self.session, RetrievalLog(self.session.ledger).lists(_QUESTIONS)
        retrieved = frozenset(chain.from_iterable(lists))
        new = [hit.chunk for hit in new_chunks(session, _NEW, _NEW) if hit.chunk.id not in retrieved]
        if not (lists or new) or (context := self._prefetch_context()) is None:
            return []
        return plan_prefetch(context, session.reader, lists, new)

    def _restore(self) -> list[Planned]:
        """Plan the segments of the most used answers' prompts, once some had no room (PerCache 4.3.3)."""
        if not self.session.ledger.get(LACKING) or (context := self._prefetch_context()) is None:
            return []
        used = map(AnswerBank(self.session.ledger).find, context.reasker.most_used(_ENTRIES))
        return plan_restores(context, ((one, refresh.demand(one)) for one in used if one))

    def _prefetch_context(self) -> PrefetchContext | None:
        session, reader = self.session, self.load()
        if reader.kept is None:
            return None
        return PrefetchContext(reader, reader.kept, self._reasker, session.locks.reader, self.is_over)

    @property
    def _reasker(self) -> Reasker:
        """Return what asks stored and predicted questions.

        Those are answered with quotes, which have nothing to prefill; with a model only as long as enough of the
        answers that had their time may have been used (PerCache 4.3.2).
        """
        session, settings = self.session, self.session.settings
        keeps_none = session.model is None or settings.model.is_served  # then there is no KV to prefill
        old = predicted_use(session.ledger, session.now.timestamp() - _TIME_S).values()
        used, made = (sum(counts) for counts in zip((0, 0), *old, strict=True))
        decode = keeps_none or upper(used, made) >= settings.experiment.cutoff
        return Reasker(session.ledger, session.backend, settings, session.now, decode)

    def _maintain(self) -> list[Planned]:
        """Plan the maintenance tasks; once `is_over`, no further file is checked."""
        session, ledger = self.session, self.session.ledger

        def check() -> None:
            from store.integrity import check_slice

            check_slice(session.home, ledger, _CHECKED, self.is_over)

        def is_behind() -> bool:
            return session.knowledge.is_untidy or session.mapped.is_behind()

        tasks: dict[str, MaintenanceTask] = {
            "tables": ("compact tables, update the mapped index", is_behind, lambda: tidy(session)),
            "slice": ("verify part of the ledger and KV cache", lambda: ledger.has_nodes, check),
        }
        return maintenance(ledger, tasks, session.now.timestamp())


def writer(model: LanguageModel, most: int, is_over: Callable[[], bool]) -> predict.Write:
    """Return a function that writes at most `most` tokens.

    It raises OutOfTime before a segment or token once `is_over`. Middle segments that do not fit the context are left
    out, the last ones first.
    """

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
        return complete(model.decode(cache, last, most), most, partial(check_time, is_over)).text

    return write


def new_chunks(session: Session, most: int = _CHUNKS, documents: int = _DOCUMENTS) -> list[Hit]:
    """Return chunks that no question was about, newest first, out of at most `documents` documents."""
    asked = RetrievalLog(session.ledger).frequencies()
    with session.locks.reader():
        newest, _ = session.reader.by_date(Scope(), (), documents, oldest=False)
        hits = session.reader.chunks_of(newest, Scope())
    places = {name: at for at, name in enumerate(newest)}
    new = [hit for hit in hits if hit.chunk.id not in asked]
    return sorted(new, key=lambda hit: (places[hit.chunk.document], hit.chunk.position))[:most]
