"""The job `maintenance`: short tasks that are due once a day, such as compacting the search tables.

A ledger value says when each was done last. Knows no task.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from engine.idle.types import Job, Outcome
from store.database import Ledger

_DAY_S = 86_400.0
_TASK_S = 1.0  # estimated
_PREFIX = "maintenance."  # of the ledger values that say when a task was done last


@dataclass(frozen=True, slots=True)
class MaintenanceTask:
    """Something to do once a day: `is_needed` tells whether there is anything to do, `do` does it."""

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
