"""What a night works on in an open session: the plan of each kind of work, in order. Prints nothing.

Nothing is opened before a plan needs it: where there is nothing to do, no model and no table is.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, cast

from engine.operations import OnProgress
from engine.session import Session
from store.errors import Locked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.idle.conditions import Machine
    from engine.idle.maintenance import MaintenanceTask
    from engine.idle.predict import Prediction, Strategy, View
    from engine.idle.prefetch import PrefetchContext
    from engine.idle.refresh import Reasker
    from engine.idle.scheduler import JobResult, Plan
    from engine.idle.summarize import SummaryBank, Write
    from engine.idle.types import IdleJob, Kind
    from engine.llm.prefill import PromptReader
    from engine.models.mlx import Mlx
    from engine.models.types import LanguageModel
    from store.answers import CachedAnswer
    from store.hits import Hit
    from store.jobs import JobBenefit, JobCost
    from store.summaries import Abstract, Abstracts
    from store.types import Chunk


_CHUNKS = 120  # of the newest that no question retrieved, that forms of questions are filled from
_DOCUMENTS = 200  # of the newest, at most, in which those are looked for
_ABSTRACT, _RECENT_QUESTIONS = 120, 240  # tokens that a model may write
_SHOWN = 4  # one part in so many of a model's context shows it abstracts


def quiet(opened: Session) -> bool:
    """Return whether nothing was asked for a while; what was asked in the future was before the clock was put back."""
    from store.history import History

    last = History(opened.ledger).latest_time()
    return last is None or abs(opened.now.timestamp() - last) >= opened.settings.experiment.quiet_s


def abstracts(
    opened: Session, model: "Callable[[], LanguageModel] | None", late: Callable[[], bool]
) -> "list[IdleJob]":
    """Plan what sums new chunks up."""
    from store.summaries import is_up_to_date

    if is_up_to_date(opened.ledger) or not opened.ledger.count("chunks"):
        return []
    from engine.idle.summarize import MOST, plan_summaries

    with opened.locks.reader():
        wanted = _abstracts(opened).unsummarized(MOST)
    return plan_summaries(_bank(opened, model, late), wanted) if wanted else []


def views(opened: Session, model: "Callable[[], LanguageModel] | None", late: Callable[[], bool]) -> "list[View]":
    """Return what predicts questions: from those asked so far, and, where a model writes, from abstracts too."""
    from engine.idle.predict import View
    from engine.idle.templates import SOURCES, from_forms
    from store.history import History

    newest = History(opened.ledger).newest()
    asked, why = str(newest or ""), "new questions since the last run"
    if model is None:
        return [View("history", why, asked, SOURCES, lambda _: from_forms(little_asked(opened), asked_before(opened)))]
    from engine.idle.predict import from_abstracts, from_history
    from engine.idle.summarize import writer

    def write() -> "Write":
        return writer(model(), _RECENT_QUESTIONS, late)

    def of_history(count: int) -> "Sequence[Prediction]":
        past = asked_before(opened)
        by_model = from_history(past, _kind(opened), count, write())
        return [*by_model, *from_forms(little_asked(opened), past)]

    def of_abstracts(count: int) -> "Sequence[Prediction]":
        return from_abstracts(_shown(opened, model()), _kind(opened), count, write())

    mail = str(opened.ledger.generation) if opened.ledger.count("chunks") else ""
    return [
        View("history", why, asked, ("history/model", *SOURCES), of_history),
        View("abstracts", "mail came since the last time", mail, ("abstracts/model",), of_abstracts),
    ]


def _shown(opened: Session, model: "LanguageModel") -> "list[Abstract]":
    """Return the abstracts that a model is shown, and count them as drawn."""
    from engine.idle.predict import choose
    from store.history import RetrievalLog

    known = _abstracts(opened)
    with opened.locks.writer():
        known.recount(RetrievalLog(opened.ledger).frequencies())
    with opened.locks.reader():
        chosen = choose(known.all(), model.context // _SHOWN, lambda text: len(model.tokens(text)))
    with opened.locks.writer():
        known.count_drawn([one.id for one in chosen])
    return chosen


def _bank(opened: Session, model: "Callable[[], LanguageModel] | None", late: Callable[[], bool]) -> "SummaryBank":
    from engine.idle.summarize import SummaryBank, by_model, by_quotes, writer

    def by_a_model(batch: "Sequence[Hit]") -> str:
        assert model
        return by_model(batch, _kind(opened), writer(model(), _ABSTRACT, late))

    def keep(made: "Sequence[Abstract]") -> int:
        with opened.locks.writer():
            return _abstracts(opened).put(made)

    parts = (by_a_model if model else by_quotes, keep, opened.writer.fingerprint, opened.now.timestamp())
    return SummaryBank(partial(embedded, opened), *parts)


def embedded(opened: Session, ids: Sequence[str]) -> "list[Hit]":
    """Return chunks with their vectors, as far as there are any."""
    with opened.locks.reader():
        hits = opened.reader.chunks(ids)
        vectors = opened.tables.vectors(opened.ledger.get("vectors") or "vectors", [hit.chunk.id for hit in hits])
    return [replace(hit, vector=vectors.get(hit.chunk.id)) for hit in hits]


def _abstracts(opened: Session) -> "Abstracts":
    from store.summaries import Abstracts

    return Abstracts(opened.ledger, opened.tables)


def asked_before(opened: Session) -> list[str]:
    """Return the last questions, the oldest first."""
    from store.history import latest

    return latest(opened.ledger, opened.settings.experiment.history)[::-1]


def little_asked(opened: Session, most: int = _CHUNKS, documents: int = _DOCUMENTS) -> "list[Hit]":
    """Return the newest chunks that no question has retrieved, newest first, out of so many documents."""
    from store.documents import newest_documents
    from store.history import RetrievalLog
    from store.types import Scope

    newest = newest_documents(opened.ledger, documents)
    places, retrieved = {name: at for at, name in enumerate(newest)}, RetrievalLog(opened.ledger).frequencies()
    with opened.locks.reader():
        hits = opened.reader.chunks_of(newest, Scope()) if newest else []
    new = [hit for hit in hits if hit.chunk.id not in retrieved]
    return sorted(new, key=lambda hit: (places[hit.chunk.document], hit.chunk.position))[:most]


def _kind(opened: Session) -> str:
    """Name what the home holds, for a prompt."""
    from engine.idle.summarize import kind_of

    return kind_of(*opened.catalogue.counts_by_kind())


_PLANNED = 4  # one part in so many of the time, at most, goes into planning each kind that is read ahead
_ENDS_IT = ("done", "there", "room", "failed", "given up")  # what comes of a unit that another night would not change
_FURTHER = ("first", "blocks")  # kinds that, where anything was done, may go further back the next time


@dataclass(frozen=True, slots=True)
class IdleRequest:
    """What a command line asks for: when to stop, on the monotonic clock, and whether to do anything at all."""

    began: float
    seconds: float
    units: int
    predictions: int
    dry_run: bool
    force: bool

    @property
    def until(self) -> float:
        """Return when to stop."""
        return self.began + self.seconds


@dataclass(slots=True)
class IdleReport:
    """What was done and what was left; what it took by kind; what the kinds took and brought in all nights so far."""

    done: "list[JobResult]" = field(default_factory=list)
    reason: str | None = None
    spent: "dict[Kind, JobCost]" = field(default_factory=dict)
    so_far: "dict[str, JobBenefit]" = field(default_factory=dict)


def work(opened: Session, asked: IdleRequest, on_progress: OnProgress = lambda *_: None) -> IdleReport:
    """Work as the only one to; whatever keeps it from working is a reason, and no error."""
    ledger, locks, report = opened.ledger, opened.locks, IdleReport()  # NoStore before a lock file is made
    with locks.idle() as alone:
        if not alone and not asked.dry_run:
            report.reason = "another pkb idle is running"
            return report
        from store.jobs import JobAccount, is_finished

        if is_finished(ledger, *_about(opened, asked)):
            report.reason = "nothing has changed since the last complete run"
        else:
            try:
                _plan_and_work(opened, asked, report, on_progress)
            except Locked as busy:  # another day
                report.reason = busy.message
        account = JobAccount(ledger)
        if not asked.dry_run:
            account.update(opened.now.timestamp())
        report.so_far = account.by_kind()
    return report


def _about(opened: Session, asked: IdleRequest) -> tuple[str, ...]:
    """Return what there is to do depends on, beside the ledger: once a day it is looked at anyway."""
    from engine.settings import keys

    about = (opened.now.date().isoformat(), asked.force, quiet(opened))
    return (repr(keys(opened.settings)), opened.writer.fingerprint, repr(about))


def _may_go_on(opened: Session, asked: IdleRequest, machine: "Machine") -> "Callable[[], str | None]":
    """Return what tells, at any moment, why the machine is to be left alone; None where it may be used."""
    if asked.force or opened.settings.idle.when == "always":
        return lambda: None
    from engine.idle.conditions import IdleConditions, why_not
    from engine.session import now
    from store.history import History

    experiment = opened.settings.experiment
    limits = IdleConditions(experiment.load, experiment.away_s)

    def reason() -> str | None:
        last = History(opened.ledger).latest_time()
        return why_not(machine.facts(None if last is None else now(opened.environ).timestamp() - last), limits)

    return reason


def _plan_and_work(opened: Session, asked: IdleRequest, report: IdleReport, on_progress: OnProgress) -> None:
    """Do what there is to do; where all of it is done, the next night need not look before something changes."""
    from engine.idle.conditions import Machine
    from engine.idle.scheduler import PlanningBudget

    def over() -> bool:
        return time.monotonic() > asked.until

    planning, machine = PlanningBudget(asked.seconds / _PLANNED, over), Machine()
    may_go_on = _may_go_on(opened, asked, machine)
    planner = IdlePlanner(
        opened,
        force=asked.force,
        predictions=asked.predictions,
        late=planning.begin,
        over=over,
    )
    if asked.dry_run:
        report.done = _only_planned(planner)
        if not report.done:
            report.reason = "the time is up" if over() else "nothing to do"
        return
    report.reason = may_go_on()
    if report.reason is not None:
        return
    _work(opened, asked, planner, may_go_on, report, on_progress)
    if all(map(_ends_it, report.done)) and not planning.cut and not over():
        from store.jobs import mark_finished

        mark_finished(opened.ledger, *_about(opened, asked))


def _ends_it(done: "JobResult") -> bool:
    """Return whether a next run would find nothing more to do of this; chunks are read further back each time."""
    return done.state in _ENDS_IT and not (done.state == "done" and done.unit.kind in _FURTHER)


def _only_planned(planner: "IdlePlanner") -> "list[JobResult]":
    from engine.idle.scheduler import JobResult

    return [JobResult(unit, "planned") for plan in planner.plans().values() for unit in plan()]


def _work(
    opened: Session,
    asked: IdleRequest,
    planner: "IdlePlanner",
    may_go_on: "Callable[[], str | None]",
    report: IdleReport,
    on_progress: OnProgress,
) -> None:
    """Do units, and note what became of each: of one that was planned again, the last."""
    from engine.idle.scheduler import JobRunner, RunContext, RunLimits, stopping
    from engine.idle.types import OutOfTime
    from store.jobs import JobAccount, Jobs

    ledger = opened.ledger
    world = RunContext(
        clock=time.monotonic,
        began=asked.began,
        may_go_on=may_go_on,
        generation=lambda: ledger.generation,
        measure=planner.measure,
        now=opened.now.timestamp(),
    )
    runner = JobRunner(Jobs(ledger), JobAccount(ledger), world, RunLimits(asked.until, asked.units))
    report.spent, found = runner.spent, dict[tuple[str, str], "JobResult"]()
    try:
        with stopping(opened.models, planner.over):
            for one in runner.work(planner.plans()):
                name = (one.unit.kind, one.unit.subject)
                known = found.get(name)
                if known is None or known.state != "done":
                    found[name] = one
                report.reason = one.reason if one.state == "stopped" else report.reason
                on_progress(one.unit.kind, sum(other.unit.kind == one.unit.kind for other in found.values()), None)
    except OutOfTime:
        pass  # while a plan waited for the model
    finally:
        report.done = list(found.values())
    if report.reason is None and planner.over():
        report.reason = "the time is up"
    elif report.reason is None and not report.done:
        report.reason = "nothing to do"


_QUESTIONS = 2000  # of the latest, whose chunks are counted
_BACK = 1000  # of the newest documents, and of their chunks that no question retrieved: how far is looked back
_WANTED = 200  # entries of the bank, the most used, whose prompts are read again
_SLICE = 50  # kept tensors whose files are read through in a night
_UNTIDY = 100  # rows written since the tables were tidied, from which they are tidied again


@dataclass(slots=True)
class IdlePlanner:
    """What the plans of one night share; `reading` is the model once it is loaded."""

    opened: Session
    force: bool  # not only after a quiet time
    predictions: int  # foreseen questions that are readied
    late: Callable[[], Callable[[], bool]]  # gives, as planning begins, what tells that it has taken long enough
    over: Callable[[], bool]  # the night is
    reading: "PromptReader | None" = field(default=None, init=False)

    def plans(self) -> "Mapping[Kind, Plan]":
        """Return the plan of each kind of work, in the order in which they are done."""
        from engine.idle.predict import quota

        reads = self.opened.writer.load is not None and self.opened.settings.kv.reuse != "off"
        ahead: dict[Kind, Plan] = {
            "blocks" if self.opened.settings.kv.reuse == "blocks" else "first": self._hottest,
            "refill": self._refill,
        }
        return {
            "refresh": partial(self._asks, _refresh),
            "owed": partial(self._asks, _verify),
            "abstract": self._abstract,
            "predict": self._predict,
            "populate": partial(self._asks, partial(_populate, taken=quota(self.predictions))),
            "convert": partial(self._asks, _convert),
            **(ahead if reads else {}),
            "upkeep": self._upkeep,
        }

    def measure(self) -> "JobCost":
        """Return what the model did so far, and the bytes of tensors written."""
        from engine.models.types import flops
        from store.jobs import JobCost
        from store.kv_index import KvCounts

        size = sum(KvCounts(self.opened.ledger).written_by_day().values())
        if self.reading is None:
            return JobCost(bytes=size)
        model = cast("Mlx", self.reading.model)
        meter = model.meter
        return JobCost(read=meter.read, written=meter.written, flops=flops(model.size, meter), bytes=size)

    def load(self) -> "PromptReader":
        """Load the model, unless it is there."""
        assert self.opened.writer.load, "a quote needs no model"
        self.reading = self.opened.writer.load()
        return self.reading

    def _asks(self, plan: "Callable[[Session, Reasker], list[IdleJob]]") -> "list[IdleJob]":
        """Plan a kind that asks questions anew; where there is one to ask the model is loaded now, and counted here."""
        units = plan(self.opened, self._reasker)
        if units and self.opened.writer.load:
            self.load()
        return units

    def _abstract(self) -> "list[IdleJob]":
        return abstracts(self.opened, self._model, self.over) if self._quiet() else []

    def _predict(self) -> "list[IdleJob]":
        opened = self.opened
        if not self._quiet():
            return []
        from engine.idle.predict import is_near, plan_predictions

        near = partial(is_near, self._reasker, _strategy(opened))
        return plan_predictions(
            self._reasker, views(opened, self._model, self.over), opened.settings.experiment.stride, near
        )

    @property
    def _reasker(self) -> "Reasker":
        """Return what asks questions anew."""
        from engine.idle.refresh import Reasker

        return Reasker(self.opened.ledger, self.opened.backend, self.opened.room, self.opened.now)

    def _quiet(self) -> bool:
        return self.force or quiet(self.opened)

    @property
    def _model(self) -> "Callable[[], LanguageModel] | None":
        """Return what loads the model, None where pkb quotes."""
        return (lambda: self.load().model) if self.opened.writer.load else None

    def _hottest(self) -> "list[IdleJob]":
        from store.history import RetrievalLog as Lists

        opened, lists = self.opened, Lists(self.opened.ledger).lists(_QUESTIONS)
        new = [hit.chunk for hit in little_asked(opened, _BACK, _BACK)]
        if not lists and not new:
            return []
        from engine.idle.prefetch import RetrievalCounts, plan

        def chunks(ids: "Sequence[str]") -> "dict[str, Chunk]":
            return {hit.chunk.id: hit.chunk for hit in opened.reader.chunks(ids)}

        found = RetrievalCounts(lists, chunks, new)
        ahead = self._ahead()
        return plan(ahead, found) if ahead else []

    def _refill(self) -> "list[IdleJob]":
        from store.kv_index import KvCounts

        counts = KvCounts(self.opened.ledger)
        refused = bool(counts.of("refused"))
        if not counts.ghosts() and not refused:
            return []
        from engine.idle.prefetch import plan_restores_of

        ahead = self._ahead()
        return plan_restores_of(ahead, self._wanted(), refused=refused) if ahead else []

    def _wanted(self) -> "Iterator[tuple[CachedAnswer, float]]":
        """Return the entries of the bank whose prompts may be wanted again, and how often they were."""
        from engine.idle.refresh import worth
        from store.answers import AnswerBank, most_used

        bank = AnswerBank(self.opened.ledger)
        found = (bank.find(key) for key in most_used(self.opened.ledger, self._reasker.writer_key, _WANTED))
        return ((kept, worth(kept)) for kept in found if kept)

    def _ahead(self) -> "PrefetchContext | None":
        """Return what is read ahead with; None where what this model reads cannot be kept."""
        from engine.idle.prefetch import PrefetchContext

        opened, reading = self.opened, self.load()
        settings = opened.settings
        if reading.kept is None:
            return None
        parts = (opened.order, settings.model.max_tokens, settings.ask.k, settings.idle.ahead)
        return PrefetchContext(reading, self._reasker, *parts, opened.locks.reader, self.late())

    def _upkeep(self) -> "list[IdleJob]":
        from engine.idle.maintenance import plan_maintenance

        return plan_maintenance(self.opened.ledger, _duties(self.opened), self.opened.now.timestamp())


def _refresh(opened: Session, reasker: "Reasker") -> "list[IdleJob]":
    from engine.idle.refresh import plan_refreshes

    return plan_refreshes(reasker)


def _verify(opened: Session, reasker: "Reasker") -> "list[IdleJob]":
    from engine.idle.refresh import plan_verifications

    return plan_verifications(reasker, opened.settings.bank.tau, opened.settings.experiment.max_error)


def _populate(opened: Session, reasker: "Reasker", taken: Callable[[], bool]) -> "list[IdleJob]":
    from engine.idle.predict import plan_population

    return plan_population(reasker, _strategy(opened), taken)


def _convert(opened: Session, reasker: "Reasker") -> "list[IdleJob]":
    from engine.idle.refresh import plan_conversions

    return plan_conversions(reasker, decode=_strategy(opened).decode)


def _strategy(opened: Session) -> "Strategy":
    """Return how foreseen questions are readied: quotes always whole, for there is nothing to read ahead."""
    from engine.idle.predict import Strategy, decodes
    from engine.types import AskOptions

    settings = opened.settings
    decode = opened.writer.load is None or decodes(settings.bank.tau, settings.experiment.cutoff)
    return Strategy(AskOptions(k=settings.ask.k), decode, settings.bank.tau)


def _duties(opened: Session) -> "list[MaintenanceTask]":
    """Return what is to be done now and then."""
    from engine.idle.maintenance import MaintenanceTask

    ledger = opened.ledger

    def tidy() -> None:
        with opened.locks.writer():
            opened.knowledge.compact()

    def look() -> None:
        from store.integrity import check_slice

        check_slice(opened.home, ledger, _SLICE)

    def any_kept() -> bool:
        from store.kv_index import has_nodes

        return has_nodes(ledger)

    return [
        MaintenanceTask("tables", "compact search tables", tidy, lambda: opened.knowledge.uncompacted >= _UNTIDY),
        MaintenanceTask("slice", "verify part of the ledger and KV cache", look, any_kept),
    ]


def queue(opened: Session) -> None:
    """Note what `pkb idle` has to do since mail came in; nothing is done, and no model is loaded."""
    from engine.idle.refresh import Reasker, plan_refreshes
    from store.jobs import Job, Jobs

    model, at = opened.writer.load, opened.now.timestamp()
    asked = plan_refreshes(Reasker(opened.ledger, opened.backend, opened.room, opened.now))
    units = [*asked, *abstracts(opened, (lambda: model().model) if model else None, lambda: False)]
    Jobs(opened.ledger).offer([Job(u.kind, u.subject, u.seconds, u.gain, at, u.source) for u in units])
