"""Measuring costs without questions."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from engine.kv.calibrate import calibrate
from engine.kv.costs import MeasuredCosts, known_costs, spoken
from engine.models.load import load
from store.database import open_ledger
from tests.demo import NANO


@pytest.mark.slow
def test_prefill_and_loading_are_measured_and_kept(tmp_path: Path) -> None:
    model = replace(load(NANO, name="nano", cache=tmp_path, memory_share=0.9), sub_step=64)
    seen = list[int]()
    with closing(open_ledger(tmp_path / "ledger.db", create=True)) as ledger:
        done = calibrate(model, 256, tmp_path / "kv", MeasuredCosts(ledger, "root", "nano"), seen.append)
        assert (done.tokens, seen[-1]) == (768, 768)
        costs = MeasuredCosts(ledger, "root").costs
        assert (costs.prefill_s(0, 64) or 0) > 0
        assert (costs.load_s(1, 1 << 20, 1.0) or 0) > 0
        assert spoken(known_costs(ledger)).startswith("nano: prefill")
    assert list((tmp_path / "kv").iterdir()) == []
