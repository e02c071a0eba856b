"""Duties are done once a day, where there is anything to do."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.idle.maintenance import MaintenanceTask, plan_maintenance
from store.database import Ledger, open_ledger

DAY = 86_400.0
NOON = 20_000 * DAY


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """Yield an empty ledger."""
    found = open_ledger(tmp_path / "ledger.db", create=True)
    yield found
    found.close()


def test_a_duty_is_done_once_a_day(ledger: Ledger) -> None:
    done: list[str] = []
    duties = [MaintenanceTask("tables", "compact search tables", lambda: done.append("tidied"))]
    for at in (NOON, NOON + 60, NOON + DAY - 1, NOON + DAY):
        for unit in plan_maintenance(ledger, duties, at):
            assert unit.do().state == "done"
    assert done == ["tidied", "tidied"]


def test_what_there_is_no_need_for_is_not_done(ledger: Ledger) -> None:
    assert plan_maintenance(ledger, [MaintenanceTask("tables", "", lambda: None, due=lambda: False)], NOON) == []


def test_a_duty_that_did_not_succeed_is_due_again(ledger: Ledger) -> None:
    def fail() -> None:
        raise OSError("disk")

    duties = [MaintenanceTask("slice", "", fail)]
    with pytest.raises(OSError, match="disk"):
        plan_maintenance(ledger, duties, NOON)[0].do()
    assert len(plan_maintenance(ledger, duties, NOON)) == 1
