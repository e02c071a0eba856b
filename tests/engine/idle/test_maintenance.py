"""Maintenance tasks run once a day, where there is anything to do."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.idle.plan import MaintenanceTask, maintenance
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
    tasks = {"tables": ("compact search tables", lambda: True, lambda: done.append("compacted"))}
    for at in (NOON, NOON + 60, NOON + DAY - 1, NOON + DAY):
        assert all(run().state == "done" for _, run in maintenance(ledger, tasks, at))
    assert done == ["compacted", "compacted"]


def test_a_task_that_is_not_needed_is_not_done(ledger: Ledger) -> None:
    tasks = {"tables": ("", lambda: False, lambda: None)}
    assert maintenance(ledger, tasks, NOON) == []


def test_a_task_that_failed_is_due_again(ledger: Ledger) -> None:
    def fail() -> None:
        raise OSError("disk")

    tasks: dict[str, MaintenanceTask] = {"slice": ("", lambda: True, fail)}
    ((_, run),) = maintenance(ledger, tasks, NOON)
    with pytest.raises(OSError, match="disk"):
        run()
    assert len(maintenance(ledger, tasks, NOON)) == 1
