"""An idle run in an open session: whether it may start, how long it may last, and its report.

may this machine be used? -> plan and run kind by kind -> where nothing is left, remember that until something changes.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from engine.idle.plan import IdlePlanner, is_quiet
from engine.idle.types import IdleReport, IdleRequest, JobResult, OutOfTime
from engine.operations import OnProgress
from engine.session import Session
from store.errors import Locked
from store.jobs import JobAccount, Jobs, is_finished, mark_finished

if TYPE_CHECKING:
    from engine.idle.conditions import Machine


_PLANNING = 4  # planning one kind takes at most one part in so many of the time
_FINAL = ("done", "cached", "no space", "failed", "gave up")  # states that another run would not change
_OPEN_ENDED = ("prefetch", "blocks")  # kinds of which the next run does more where this one did any

WhyStop = Callable[[], str | None]


def run_idle(session: Session, request: IdleRequest, on_progress: OnProgress = lambda *_: None) -> IdleReport:
    """Run the jobs there are, unless another process does; whatever prevents it is a reason and no error."""
    ledger, locks, report = session.lasting_ledger, session.locks, IdleReport()  # NoStore before a lock file is made
    with locks.idle() as alone:
        if not alone and not request.dry_run:
            report.reason = "another pkb idle is running"
            return report
        if is_finished(ledger, *_inputs(session, request)):
            report.reason = "nothing has changed since the last complete run"
        else:
            try:
                _plan_and_run(session, request, report, on_progress)
            except Locked as busy:
                report.reason = busy.message
        account = JobAccount(ledger)
        if not request.dry_run:
            account.update(session.now.timestamp())
        report.so_far = account.by_kind()
    return report


def _inputs(session: Session, request: IdleRequest) -> tuple[str, ...]:
    """Return what the plans depend on besides the ledger; the date is part of it, so that each day they are made."""
    from engine.settings import keys

    about = (session.now.date().isoformat(), request.force, is_quiet(session))
    return (repr(keys(session.settings)), session.backend.fingerprint, repr(about))


def _plan_and_run(session: Session, request: IdleRequest, report: IdleReport, on_progress: OnProgress) -> None:
    """Run all jobs; where none is left, remember that for the next run."""
    from engine.idle.conditions import Machine
    from engine.idle.scheduler import PlanningBudget

    def is_over() -> bool:
        return time.monotonic() > request.until

    planning, why_stop = PlanningBudget(request.seconds / _PLANNING, is_over), _why_stop(session, request, Machine())
    planner = IdlePlanner(
        session,
        force=request.force,
        predictions=request.predictions,
        begin_planning=planning.begin,
        is_over=is_over,
    )
    if request.dry_run:
        report.results = [
            JobResult(job, "planned") for handler in planner.handlers().values() for job in handler.plan()
        ]
        if not report.results:
            report.reason = "the time is up" if is_over() else "nothing to do"
        return
    report.reason = why_stop()
    if report.reason is not None:
        return
    _run(session, request, planner, why_stop, report, on_progress)
    if all(map(_is_final, report.results)) and not planning.exceeded and not is_over():
        mark_finished(session.ledger, *_inputs(session, request))


def _why_stop(session: Session, request: IdleRequest, machine: "Machine") -> WhyStop:
    """Return a function that tells, at any time, why the machine must not be used; None if it may."""
    if request.force or session.settings.idle.when == "always":
        return lambda: None
    from engine.idle.conditions import IdleConditions, why_not
    from engine.session import now
    from store.history import History

    experiment = session.settings.experiment
    limits = IdleConditions(experiment.load, experiment.away_s)

    def reason() -> str | None:
        last = History(session.ledger).latest_time()
        return why_not(machine.facts(None if last is None else now(session.environ).timestamp() - last), limits)

    return reason


def _is_final(result: JobResult) -> bool:
    """Return whether a next run would have no more to do of this; each run prefetches further back."""
    return result.state in _FINAL and not (result.state == "done" and result.job.kind in _OPEN_ENDED)


def _run(
    session: Session,
    request: IdleRequest,
    planner: IdlePlanner,
    why_stop: WhyStop,
    report: IdleReport,
    on_progress: OnProgress,
) -> None:
    """Run jobs and report the result of each: of one that was planned again, the last."""
    from engine.idle.scheduler import JobRunner, RunContext, RunLimits, stopping

    ledger = session.ledger
    with suppress(Locked), session.locks.writer():
        session.knowledge.remove_leftovers(session.home.kv)  # where a writer is at work, it removes them itself
    context = RunContext(
        clock=time.monotonic,
        began=request.began,
        why_stop=why_stop,
        generation=lambda: ledger.generation,
        measure=planner.measure,
        now=session.now.timestamp(),
    )
    runner = JobRunner(Jobs(ledger), JobAccount(ledger), context, RunLimits(request.until, request.jobs))
    report.spent, results = runner.spent, dict[tuple[str, str], JobResult]()
    try:
        with stopping(session.models, planner.is_over):
            for result in runner.run(planner.handlers()):
                kind, name = result.job.kind, (result.job.kind, result.job.subject)
                known = results.get(name)
                if known is None or known.state != "done":
                    results[name] = result
                report.reason = result.reason if result.state == "stopped" else report.reason
                on_progress(kind, sum(one.job.kind == kind for one in results.values()), None)
    except OutOfTime:
        pass  # while a plan waited for the model
    finally:
        report.results = list(results.values())
    if report.reason is None and planner.is_over():
        report.reason = "the time is up"
    elif report.reason is None and not report.results:
        report.reason = "nothing to do"
