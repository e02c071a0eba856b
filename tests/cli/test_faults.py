"""Disks that are full, failing or closed at any call, and deaths there: nothing acknowledged is lost, nothing is torn.

A question is answered all the same, if its disk is full or failing. Of all calls each form tries some, evenly spread.
"""

import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.effort import slow_only
from tests.faults import FAULTS, SCENARIOS, build, report

_SLOW = [
    *(("ask", "full", 2), ("ingest", "audited kill", 2), ("forget", "kill", 2)),
    *(
        (scenario, fault, 5 if scenario == "ingest" else 3)
        for scenario in SCENARIOS
        for fault in FAULTS
        if zlib.crc32(f"{scenario}{fault}".encode()) % 3 == 0  # a third of the pairs; the long form tries all
    ),
]
_SOAK = [(scenario, fault, 60) for scenario in SCENARIOS for fault in FAULTS]
_ALL = [*slow_only(*_SLOW), *(pytest.param(one, marks=pytest.mark.soak) for one in _SOAK)]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """Return the library that makes calls fail; None where it cannot be built."""
    return build(tmp_path_factory.mktemp("faults"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for homes, one after another at the same place."""
    return tmp_path_factory.mktemp("homes")


@pytest.mark.parametrize("trials", _ALL, ids=lambda trials: ", ".join(map(str, trials)))
def test_a_command_that_a_fault_ends_does_all_of_it_the_next_time(
    library: Path | None, folder: Path, trials: tuple[str, str, int]
) -> None:
    scenario, fault, calls = trials
    if library is None and not FAULTS[fault].audited:
        pytest.skip("faults are injected by LD_PRELOAD, which needs Linux and a C compiler")
    rows: list[dict[str, Any]] = report(library, folder, scenario, fault, calls)
    assert [row for row in rows if row["wrong"]] == []
    assert len(rows) == min(calls, rows[0]["of"])
