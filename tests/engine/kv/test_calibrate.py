"""Calibration of a real model, kept in a ledger."""

from contextlib import closing
from pathlib import Path

from engine.kv.calibrate import calibrate, keep, kept
from engine.kv.unit_times import UnitShape
from engine.models.load import load
from store.database import open_ledger
from tests.bench.home import NANO


def test_a_fit_is_kept_for_the_model_that_was_measured(tmp_path: Path) -> None:
    found = calibrate(load(NANO, name="nano", cache=tmp_path, memory_share=0.9), 400)
    with closing(open_ledger(tmp_path / "ledger.db", create=True)) as ledger:
        assert kept(ledger, "nano") is None
        keep(ledger, found)
        assert kept(ledger, "nano") == found.line
        assert kept(ledger, "another") is None
    assert found.units == 3 * 12 * 3 * 3
    assert found.line(UnitShape(128, 300)) > 0


def test_no_unit_is_measured_beyond_the_context_of_the_model(tmp_path: Path) -> None:
    model = load(NANO, name="nano", cache=tmp_path, memory_share=0.9)
    assert calibrate(model, 1 << 20).longest == model.context - 128
