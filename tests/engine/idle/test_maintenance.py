"""Maintenance tasks run once a day, where there is anything to do."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.idle.plan import MaintenanceTask, maintain, plan_maintenance
from store.database import Ledger, open_ledger

DAY = 86_400.0
NOON = 20_000 * DAY


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """Yield an empty ledger."""
    found = open_ledger(tmp_path / "ledger.db", create=True)
    yield found
    found.close()


def test_a_task_is_done_once_a_day(ledger: Ledger) -> None:
    done: list[str] = []
    tasks = {"tables": MaintenanceTask("tables", "compact search tables", lambda: done.append("compacted"))}
    for at in (NOON, NOON + 60, NOON + DAY - 1, NOON + DAY):
        for job in plan_maintenance(ledger, list(tasks.values()), at):
            assert maintain(ledger, tasks, job, at).state == "done"
    assert done == ["compacted", "compacted"]


def test_a_task_that_is_not_needed_is_not_done(ledger: Ledger) -> None:
    assert plan_maintenance(ledger, [MaintenanceTask("tables", "", lambda: None, is_needed=lambda: False)], NOON) == []


def test_a_task_that_failed_is_due_again(ledger: Ledger) -> None:
    def fail() -> None:
        raise OSError("disk")

    task = MaintenanceTask("slice", "", fail)
    (job,) = plan_maintenance(ledger, [task], NOON)
    with pytest.raises(OSError, match="disk"):
        maintain(ledger, {"slice": task}, job, NOON)
    assert len(plan_maintenance(ledger, [task], NOON)) == 1
