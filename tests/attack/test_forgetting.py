"""Nothing of a forgotten mail is found, whatever was being made of it meanwhile, and whatever became of it before."""

from pathlib import Path

import pytest

from tests.attack.forgetting import HISTORY, WRITES, attack

# All that are written in other ways; `python -m tests.attack.forgetting` runs the others, too.
OTHER_WAYS = (
    "a quote in another process", "a model's KV, stored after the answer", "a node whose file is being written",
    "an exact hit", "a paraphrase hit", "the resident process", "a chat and its follow-up",
    "a follow-up over HTTP", "an answer marked as wrong meanwhile", "new mail that is being embedded",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHER_WAYS)
def test_nothing_is_found_that_was_being_written(tmp_path: Path, name: str) -> None:
    assert name in WRITES
    assert attack(tmp_path / "lab", name) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", HISTORY)
def test_no_question_is_found_whatever_became_of_its_answer(tmp_path: Path, name: str) -> None:
    assert attack(tmp_path / "lab", name) == []
