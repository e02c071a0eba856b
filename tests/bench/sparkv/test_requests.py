"""Requests at a time: all of them are answered in every way, over one link."""

from pathlib import Path

import pytest

from tests.bench.compression import opened
from tests.bench.sparkv.links import Link
from tests.bench.sparkv.requests import Request, at_once
from tests.bench.sparkv.streaming import LOCAL, PLANNED, STREAM_USUAL, blocks_of, prepared, ways


@pytest.mark.slow
def test_requests_that_begin_together_are_answered_in_every_way(tmp_path: Path) -> None:
    file = tmp_path / "units"
    with opened("nano") as model:
        prompt = blocks_of([10 + number % 500 for number in range(306)], 256)
        known = prepared(model, prompt, file)
    some = [way for way in ways(known, [128, 128, 50], 100.0) if way.name in (LOCAL, STREAM_USUAL, PLANNED)]
    rows = list(at_once(Request("nano", prompt, some, 2), Link(100.0), file, 2, isolated=False))
    assert [(row["way"], row["at_once"], row["n"]) for row in rows] == [(way.name, 2, 2) for way in some]
    assert all(0 < row["seconds"] <= row["last"] for row in rows)
