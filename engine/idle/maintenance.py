"""The job `upkeep`: the tables are tidied, and a slice of what `pkb check` looks at is looked at, once a day each.

Knows what is due by small values of the ledger; what a duty does is given to it. Each is short enough to be waited for.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from engine.idle.types import IdleJob, Outcome
from store.database import Ledger

_DAY_S = 86_400.0
_GUESSED_S = 1.0  # a duty
_PREFIX = "upkeep."  # of the small values that say when a duty was done last


@dataclass(frozen=True, slots=True)
class MaintenanceTask:
    """Something to be done now and then: `due` tells whether there is anything, `do` does it."""

    name: str
    what: str
    do: Callable[[], None]
    due: Callable[[], bool] = lambda: True


def plan_maintenance(ledger: Ledger, duties: Sequence[MaintenanceTask], now: float) -> list[IdleJob]:
    """Return a unit for each duty that is due."""
    return [_unit(ledger, duty, now) for duty in duties if _is_due(ledger, duty, now)]


def _is_due(ledger: Ledger, duty: MaintenanceTask, now: float) -> bool:
    return now - float(ledger.get(_PREFIX + duty.name) or 0.0) >= _DAY_S and duty.due()


def _unit(ledger: Ledger, duty: MaintenanceTask, now: float) -> IdleJob:
    do = partial(_do, ledger, duty, now)
    return IdleJob("upkeep", duty.name, duty.what, "daily", 0.0, 0.0, _GUESSED_S, do)


def _do(ledger: Ledger, duty: MaintenanceTask, now: float) -> Outcome:
    duty.do()
    ledger.set(_PREFIX + duty.name, str(now))
    return Outcome()
