"""The counting of judged answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.judged import VERDICTS, plain_verdict, read_lines, table, wilson

QUESTIONS = Path(__file__).parent / "judged"


@pytest.mark.parametrize(
    ("gold", "answer", "answered", "verdict"),
    [
        ("March 8th", "Friday, March 8th at nine", True, "right"),
        ("March 8th", "Friday, March 9th", True, "read"),
        ("15", "about 150", True, "read"),
        ("", "Anything", True, "read"),
        ("March 8th", "March 8th " + "and more " * 30, True, "read"),
        ("March 8th", "", False, "declined"),
    ],
)
def test_only_plain_answers_need_no_reader(gold: str, answer: str, answered: bool, verdict: str) -> None:
    assert plain_verdict(gold, answer, answered) == verdict


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_interval_holds_the_share(counted: tuple[int, int]) -> None:
    hits, n = counted
    low, high = wilson(hits, n)
    assert 0 <= low <= hits / n + 1e-9
    assert hits / n - 1e-9 <= high <= 1


def test_interval_of_a_known_share() -> None:
    assert wilson(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)


def test_table_counts_every_verdict() -> None:
    lines = table(["right", "right", "wrong", "invented"]).splitlines()
    assert [line.split(" | ")[1] for line in lines[2:]] == ["2", "0", "0", "1", "1", "0", "0"]
    assert len(lines) == 2 + len(VERDICTS)


def test_table_refuses_an_unknown_verdict() -> None:
    with pytest.raises(ValueError, match="rihgt"):
        table(["rihgt"])


@pytest.mark.parametrize("which", ["unseen", "heldout"])
@pytest.mark.parametrize("of", ["mail", "meetings"])
def test_unseen_questions_name_where_their_answer_stands(of: str, which: str) -> None:
    asked = read_lines(QUESTIONS / f"{of}_{which}.jsonl")
    assert len({question["id"] for question in asked}) == len(asked) == 30
    for question in asked:
        assert len(question["docs"]) == len(question["lines"])
        assert bool(question["docs"]) == bool(question["gold"]) == (question["kind"] != "none")
        assert all(path.startswith(question["folder"] + "/") for path in question["docs"])
    assert sum(question["kind"] == "none" for question in asked) == 6
