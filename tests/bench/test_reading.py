"""Figures of answers by a model: what is a right source, and how two runs differ."""

from pathlib import Path

import pytest

from tests.bench.indexed import load
from tests.bench.reading import Asked, answered, by_quotes, compare, difference, questions, rows

MAIL = """From: Ann Lee <ann@example.org>
To: choir@example.org
Date: Fri, 03 May 2024 10:00:00 +0000
Subject: rehearsal
Message-ID: <{id}@example.org>

{text}
"""
ROW = '{{"question": "{question}", "answer": "{answer}", "doc_ids": ["mail/1.eml"]}}'


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name, text in (("1", "The rehearsal is on Friday at six in the parish hall."), ("2", "Bring your folders.")):
        path = tmp_path / "choir" / "mail" / f"{name}.eml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(MAIL.format(id=name, text=text))
    asked = [ROW.format(question="Where is the rehearsal?", answer="in the parish hall")]
    (tmp_path / "choir" / "questions.jsonl").write_text("\n".join(asked))
    return tmp_path


def test_quotes_are_graded_against_gold_answers_and_sources(data: Path) -> None:
    users = list(load(data, "choir"))
    (one,) = questions("choir", users, [], 5)
    row = answered(one, by_quotes)
    assert row["own"]["f1"] > 0
    assert row["own"]["source"]
    assert (row["set"], row["group"], row["gold"]) == ("choir", "answerable", "in the parish hall")


def test_a_source_that_holds_the_answer_is_right_wherever_it_stands(data: Path) -> None:
    users = list(load(data, "choir"))
    (one,) = questions("choir", users, [], 5)
    moved = Asked(one.set, one.number, one.group, one.row | {"doc_ids": ["mail/9.eml"]}, one.user)
    absent = Asked(one.set, one.number, one.group, moved.row | {"answer": "Monday", "answers": []}, one.user)
    assert answered(moved, by_quotes)["own"]["source"]
    assert not answered(absent, by_quotes)["own"]["source"]


def test_whole_documents_stand_for_their_passages(data: Path) -> None:
    (one,) = questions("choir", list(load(data, "choir")), [], 5)
    assert answered(one, by_quotes, whole=True)["own"] == answered(one, by_quotes)["own"]


def _row(number: int, f1: float, seconds: float, *, group: str = "answerable") -> dict[str, object]:
    own = {"answer": f"answer {f1}", "em": 0.0, "f1": f1, "rouge": f1, "source": True}
    return {
        "name": f"choir {number} {group}", "set": "choir", "group": group, "seconds": seconds,
        "tokens": {"generated": 10, "guessed": number}, "own": own,
    }  # fmt: skip


def test_two_runs_are_compared_question_by_question() -> None:
    usual, other = [_row(1, 0.5, 2.0), _row(2, 1.0, 4.0)], [_row(1, 0.5, 1.0), _row(2, 0.0, 2.0)]
    said = difference(usual, other)
    assert "equal 0.50, F1 -0.500 [-1.000, +0.000], answered +0.000 [+0.000, +0.000], right source" in said
    assert "seconds x 0.50" in said
    assert "guessed right 0.15, 0.15" in said


def test_only_questions_in_both_files_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from json import dumps

    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    one.write_text("\n".join(dumps(_row(number, 1.0, 1.0)) for number in (1, 2, 3)))
    two.write_text("\n".join(dumps(_row(number, 1.0, 1.0)) for number in (2, 3, 4)))
    compare(one, two)
    assert "    2  0.000  1.000" in capsys.readouterr().out
    assert len(rows(one)) == 3
