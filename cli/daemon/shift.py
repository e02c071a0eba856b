"""Where a night's work is done: in the resident process, if it is there, for that has the model; else in this one.

Either gives way to questions: the first answers them between two steps, the second ends, for it can answer none.
"""

from collections.abc import Callable
from contextlib import closing
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from cli.daemon.parcel import pack, unpack
from cli.daemon.wire import Broken
from cli.session import Session

if TYPE_CHECKING:
    from cli.daemon.turns import Job
    from cli.idle_run import Asked, Report
    from engine.idle.night import Done


def work(opened: Session, asked: "Asked", here: "Callable[[], Report]") -> "Report":
    """Have a night's work done; `here` does it in this process."""
    from cli.daemon.client import reach, wants

    link = reach(opened) if opened.there and wants(opened) and not asked.dry_run else None
    if link is not None:
        from cli.daemon.link import Lost

        try:
            with closing(link):
                link.send("idle", {"asked": pack(asked), "now": opened.now.isoformat()})
                return _report(next(link.answers()).get("report"))
        except (Lost, Broken):
            pass  # what was done is done, and what was begun is taken up again
    models = opened.models
    usual, models.breathe = models.breathe, models.give_way
    try:
        return here()
    finally:
        models.breathe = usual  # which does not refer to them: they go when nobody needs them


def done_here(job: "Job", opened: Session, here: "Callable[[Session, Asked], Report]") -> None:
    """Do a night's work for a command that asks this process for it."""
    from cli.idle_run import Asked

    asked = unpack(Asked, job.frame.get("asked"))
    job.tell("done", {"report": _packed(here(opened, asked))})


def _packed(report: "Report") -> Any:
    """Write a report down, without the means to do its units once more."""
    about = {"reason": report.reason, "spent": pack(report.spent), "so_far": pack(report.so_far)}
    return about | {"done": [_row(one) for one in report.done]}


def _row(one: "Done") -> Any:
    unit = {part.name: getattr(one.unit, part.name) for part in fields(one.unit) if part.name != "do"}
    return {"unit": unit, "state": one.state, "reason": one.reason, "spent": pack(one.spent)}


def _report(values: Any) -> "Report":
    """Read a report; Broken where it is none."""
    from cli.idle_run import Report
    from engine.idle.night import Done
    from engine.idle.units import DONE, Unit
    from store.jobs import Paid, Spent

    try:
        rows = [(Unit(**row["unit"], do=lambda: DONE), row) for row in values["done"]]
        done = [Done(unit, row["state"], unpack(Spent, row["spent"]), row["reason"]) for unit, row in rows]
        spent = {kind: unpack(Spent, one) for kind, one in values["spent"].items()}
        return Report(done, values["reason"], spent, unpack(dict[str, Paid], values["so_far"]))
    except (LookupError, TypeError, AttributeError):
        raise Broken("a report that is none") from None
