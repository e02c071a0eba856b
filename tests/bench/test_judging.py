"""Counts of answers by a model that are let pass."""

import pickle
from argparse import Namespace
from pathlib import Path

import pytest

from engine.text.question import understand
from engine.types import Evidence
from tests.bench.judging import NOW, fitting, report
from tests.engine.ask.passages import of_text
from tests.engine.models.test_minilm import find_weights_or_skip


def test_wrong_answers_caught_and_right_ones_lost_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    find_weights_or_skip()
    mail = of_text("From: Ann", "The supper is on Friday at 7 pm in the parish hall.", None, "Ann", 1.0)
    asked, found = understand("Where is the supper?", NOW), Evidence((mail,), ("a0",), 1.0)
    said = ("in the parish hall [1]", "in the hall of Leeds [1]", "not found")
    records = [(str(number), asked, found, (0,), text) for number, text in enumerate(said)]
    (tmp_path / "out.pkl").write_bytes(pickle.dumps(records))
    (tmp_path / "verdicts").write_text("0 R\n1 W\n", "utf-8")
    report(Namespace(out=tmp_path / "out.pkl", verdicts=tmp_path / "verdicts"))
    printed = capsys.readouterr().out
    assert "wrong, caught by the words: 0 of 1" in printed
    assert "wrong, caught by the reader: 1 of 1" in printed
    assert "right, lost by the reader: 0 of 1" in printed


def test_one_chunk_is_shown_at_least() -> None:
    assert list(fitting([], 10)) == []
