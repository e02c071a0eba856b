"""Patience with slow disks."""

import pytest

from tests.effort import PATIENCE_S


def give_up_after(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up a disk that does not answer within `seconds`."""
    for module in ("blocks", "restore"):
        monkeypatch.setattr(f"engine.kv.{module}.LEAST_S", seconds)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a slow disk, unless a test says otherwise: the usual second passes on a busy machine."""
    give_up_after(PATIENCE_S, monkeypatch)
