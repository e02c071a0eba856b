"""Has questions answered where that is fastest: what is kept here, all else by the resident process, if it is there.

Where it is not, it is started for the next question, and this one is answered here, as it also is where the process
ends, hangs, or declines. Light to import, for an exact hit comes by.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from engine.session import Session

if TYPE_CHECKING:
    from engine.ask.followup import Turn
    from engine.idle.plan import IdleReport, IdleRequest
    from engine.idle.scheduler import JobResult
    from engine.serve.process import ServerLink
    from engine.serve.worker import QueuedRequest
    from engine.types import AskOptions, AskResult, OnText


_TIMEOUT_S = 10.0  # until who has the model can be reached, or has let go of it
_SOON_S = 0.5  # in which a process leaves that has nothing to do; one that has is not waited for
_POLL_S = 0.05


class _Said:
    """What was shown of an answer so far."""

    def __init__(self, say: "OnText | None") -> None:
        self._say, self.text = say, ""

    @property
    def shows(self) -> bool:
        """Return whether an answer is shown while it is written."""
        return self._say is not None

    def more(self, text: str) -> None:
        """Show more of it."""
        self.text += text
        if self._say:
            self._say(text)

    def finish(self, answer: str | None) -> None:
        """Show what is left of an answer that was begun elsewhere; one in other words is shown below, whole."""
        if self.text and answer is not None:
            self.more(answer[len(self.text) :] if answer.startswith(self.text) else f"\n{answer}")


def answer(opened: Session, text: str, options: "AskOptions", say: "OnText | None" = None) -> "AskResult":
    """Answer one question; what is made anew is given to `say` while it is written."""
    said = _Said(say)
    if _may(opened) and not _is_kept(opened, text, options):
        found = _elsewhere(opened, text, options, said)
        if found is not None:
            return found
    made = opened.asker.ask(text, options, opened.now, None if said.text else say)
    said.finish(made.reply.text)
    return made


def wants(opened: Session) -> bool:
    """Return whether a resident process is wanted at all."""
    return "off" not in (opened.environ.get("PKB_DAEMON"), opened.settings.serve.daemon)


def _may(opened: Session) -> bool:
    """Return whether another process may answer: not once this one has opened by itself what it takes."""
    mine = "tables" in opened.__dict__ or ("models" in opened.__dict__ and opened.models.claimed)
    return opened.there and not mine and wants(opened)


def _is_kept(opened: Session, text: str, options: "AskOptions") -> bool:
    """Return whether there is an answer that needs nothing but to be shown; UsageError where there is no question."""
    from engine.ask.prepare import key_of
    from store.answers import AnswerBank

    key = key_of(opened.backend, text, options, opened.now)
    kept = AnswerBank(opened.ledger).find(key.digest) if options.read_bank else None
    return kept is not None and kept.state == "answered" and kept.generation == opened.ledger.generation


def _elsewhere(opened: Session, text: str, options: "AskOptions", said: _Said) -> "AskResult | None":
    """Have the resident process answer; None where this one must, which then has the right to load a model."""
    from engine.serve.process import TRIES, ConnectionLost, start

    until, started = time.monotonic() + _TIMEOUT_S, 0
    while (link := reach(opened)) is None:
        free = _may_load(opened)
        if started < TRIES:
            started += start(opened)
        if free or time.monotonic() > until:
            return None
        time.sleep(_POLL_S)
    try:
        with closing(link):
            return _follow(link, opened, text, options, said)
    except ConnectionLost:
        _may_load(opened)
        start(opened)
        return None


def _may_load(opened: Session) -> bool:
    """Whether a question may be answered here; to be asked before the process is started, which would load one."""
    return opened.writer.load is None or opened.models.claim()


def reach(opened: Session) -> "ServerLink | None":
    """Connect to the resident process; one of another version, or with other settings, is sent home."""
    from engine.serve.process import connect

    link = connect(opened.home)
    if link is None:
        return None
    from engine.serve.process import identity

    if link.hello.get("identity") == identity(opened.home, opened.environ):
        return link
    from engine.serve.process import stop

    link.close()
    stop(opened.home, _SOON_S)
    return None


def _follow(link: "ServerLink", opened: Session, text: str, options: "AskOptions", said: _Said) -> "AskResult | None":
    from engine.serve.process import ConnectionLost
    from engine.serve.protocol import Broken, answered, request

    link.send("ask", {"request": request(opened, text, options, streams=said.shows)})
    for frame in link.answers():
        if frame["kind"] == "piece":
            said.more(str(frame.get("text")))
        else:
            break
    try:
        return answered(frame.get("answer")) if frame["kind"] == "answered" else None
    except Broken:
        raise ConnectionLost from None


def complete(opened: "Session", text: str, requests: "Sequence[Turn]") -> str:
    """Have the resident process complete a question; empty where it does not."""
    from engine.serve.process import ConnectionLost
    from engine.serve.protocol import pack, request
    from engine.types import AskOptions

    link = reach(opened)
    if link is None:
        return ""
    try:
        with closing(link):
            asked = request(opened, text, AskOptions(), streams=False)
            link.send("complete", {"request": asked, "turns": pack(list(requests))})
            frame = next(link.answers())
    except ConnectionLost:
        return ""
    return str(frame.get("said")) if frame["kind"] == "completed" else ""


def completed(opened: "Session", text: str, requests: Any) -> str:
    """Complete a question in the resident process; Broken where the turns are none, empty where pkb quotes."""
    from engine.ask.followup import Turn, with_model
    from engine.serve.protocol import unpack

    before, load = unpack(list[Turn], requests), opened.writer.load
    return with_model(load)(text, before) if load else ""


def work(opened: Session, asked: "IdleRequest", here: "Callable[[], IdleReport]") -> "IdleReport":
    """Have a night's work done; `here` does it in this process."""
    link = reach(opened) if opened.there and wants(opened) and not asked.dry_run else None
    if link is not None:
        from engine.serve.process import ConnectionLost
        from engine.serve.protocol import Broken, pack

        try:
            with closing(link):
                link.send("idle", {"asked": pack(asked), "now": opened.now.isoformat()})
                return _report(next(link.answers()).get("report"))
        except (ConnectionLost, Broken):
            pass  # what was done is done, and what was begun is taken up again
    models = opened.models
    usual, models.yield_point = models.yield_point, models.yield_to_questions
    try:
        return here()
    finally:
        models.yield_point = usual  # which does not refer to them: they go when nobody needs them


def done_here(job: "QueuedRequest", opened: Session, here: "Callable[[Session, IdleRequest], IdleReport]") -> None:
    """Do a night's work for a command that asks this process for it."""
    from engine.idle.plan import IdleRequest
    from engine.serve.protocol import unpack

    asked = unpack(IdleRequest, job.frame.get("asked"))
    job.tell("done", {"report": _packed(here(opened, asked))})


def _packed(report: "IdleReport") -> Any:
    """Write a report down, without the means to do its units once more."""
    from engine.serve.protocol import pack

    about = {"reason": report.reason, "spent": pack(report.spent), "so_far": pack(report.so_far)}
    return about | {"done": [_row(one) for one in report.done]}


def _row(one: "JobResult") -> Any:
    from engine.serve.protocol import pack

    unit = {part.name: getattr(one.unit, part.name) for part in fields(one.unit) if part.name != "do"}
    return {"unit": unit, "state": one.state, "reason": one.reason, "spent": pack(one.spent)}


def _report(values: Any) -> "IdleReport":
    """Read a report; Broken where it is none."""
    from engine.idle.plan import IdleReport
    from engine.idle.scheduler import JobResult
    from engine.idle.types import DONE, IdleJob
    from engine.serve.protocol import Broken, unpack
    from store.jobs import JobBenefit, JobCost

    try:
        rows = [(IdleJob(**row["unit"], do=lambda: DONE), row) for row in values["done"]]
        done = [JobResult(unit, row["state"], unpack(JobCost, row["spent"]), row["reason"]) for unit, row in rows]
        spent = {kind: unpack(JobCost, one) for kind, one in values["spent"].items()}
        return IdleReport(done, values["reason"], spent, unpack(dict[str, JobBenefit], values["so_far"]))
    except (LookupError, TypeError, AttributeError):
        raise Broken("a report that is none") from None
