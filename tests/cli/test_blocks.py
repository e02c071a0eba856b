"""`kv.reuse = "blocks"` on the command line, with the model that the repository trains."""

from pathlib import Path

import pytest

from tests.cli.conftest import Pkb, Ran
from tests.demo import NANO
from tests.engine.llm.kit import FIXED
from tests.engine.models.shapes import make

HEAD = "From: Ann Bell <ann@example.org>\nTo: Ben Cole <ben@example.org>\nDate: Mon, {day} Jun 2024 09:30:00 +0000\n"
MAIL = {
    "picnic": "The picnic is on Friday at 6pm in the park.",
    "workshop": "Marie has the spare key to the workshop.",
    "concert": "The concert is on Sunday at 7pm in the church.",
}


@pytest.fixture
def blocks(fresh: Pkb, tmp_path: Path) -> Pkb:
    """Return pkb that has read three mails and answers in words from blocks."""
    (tmp_path / "mail").mkdir()
    for day, (subject, text) in enumerate(MAIL.items(), 3):
        mail = f"{HEAD.format(day=day)}Message-ID: <{subject}@example.org>\nSubject: {subject}\n\n{text}\n"
        (tmp_path / "mail" / f"{subject}.eml").write_text(mail, "utf-8")
    fresh("ingest", str(tmp_path / "mail"), "--vectors", "later")
    fresh("config", "set", "model.name", str(NANO))
    fresh("config", "set", "kv.reuse", "blocks")
    return fresh


def reused(ran: Ran) -> list[int]:
    """Return how many tokens of each segment were reused."""
    notes = [step["note"] for step in ran.row["explain"] if step["name"] == "prefill"]
    shares = " ".join(note.removesuffix(" reused") for note in notes).split()
    return [int(share.split("/")[0]) for share in shares]


def test_a_message_read_for_one_question_is_loaded_for_another_at_another_place(blocks: Pkb) -> None:
    first = blocks("ask", "When is the concert?", "--json", "-k", "1").row
    assert (first["tier"], first["tokens"]["reused"]) == ("full", 0)
    ran = blocks("ask", "When are the picnic and the concert?", "--json", "--explain", "-k", "2")
    assert (ran.row["tier"], ran.row["writer"]) == ("blocks", "model")
    found = reused(ran)
    assert list(map(bool, found)) == [True, False, False, False, True]  # the system segment, [1], one, [2], the other
    assert ran.row["tokens"]["reused"] == sum(found)
    assert next(step["note"] for step in ran.row["explain"] if step["name"] == "model") == "in blocks"


@pytest.mark.slow
def test_what_is_kept_changes_no_answer(blocks: Pkb) -> None:
    asked = ["When is the picnic?", "Where is the concert?", "Who has the spare key to the workshop?"]
    without = [blocks("ask", one, "--json", "--cache=off").row for one in asked]
    made = [blocks("ask", one, "--json").row for one in asked]
    again = [blocks("ask", one, "--json", "--cache=refresh").row for one in asked]
    assert [row["tier"] for row in without] == ["full"] * 3
    assert [row["tier"] for row in again] == ["blocks"] * 3
    answers = [[row["answer"] for row in rows] for rows in (without, made, again)]
    assert answers[0] == answers[1] == answers[2]
    assert [row["tokens"]["generated"] for row in without] == [row["tokens"]["generated"] for row in again]


def test_an_answer_from_blocks_is_another_answer(blocks: Pkb) -> None:
    blocks("ask", "When is the picnic?")
    blocks("config", "set", "kv.reuse", "prefix")
    assert blocks("ask", "When is the picnic?", "--json").row["tier"] in ("full", "prefix")
    blocks("config", "set", "kv.reuse", "off")
    assert blocks("ask", "When is the picnic?", "--json").row["tier"] == "exact"  # prefix and off are one
    blocks("config", "set", "kv.reuse", "blocks")
    assert blocks("ask", "When is the picnic?", "--json").row["tier"] == "exact"


def test_a_model_whose_keys_cannot_be_moved_is_refused_by_name_and_doctor_says_why(blocks: Pkb, tmp_path: Path) -> None:
    config, why = FIXED["yarn"]
    folder = make(tmp_path / "yarn", config)
    checks = {check["name"]: check for check in blocks("doctor", "--json").row["checks"]}
    assert (checks["kv"]["state"], checks["kv"]["next"]) == ("ok", None)
    blocks("config", "set", "model.name", str(folder))
    ran = blocks("ask", "When is the picnic?", "--json")
    assert ran.code == 1
    assert ran.row["error"]["message"] == f"{folder} cannot reuse blocks: {why}"
    assert ran.row["error"]["next"] == "pkb config set kv.reuse prefix"
    checks = {check["name"]: check for check in blocks("doctor", "--json").row["checks"]}
    assert (checks["kv"]["state"], checks["kv"]["next"]) == ("bad", "pkb config set kv.reuse prefix")
    assert why in checks["kv"]["found"]


@pytest.mark.slow
def test_what_idle_reads_ahead_comes_back_as_a_block_at_its_place(blocks: Pkb) -> None:
    for question in ("When is the picnic?", "When is the concert?"):
        assert blocks("ask", question, "--json", "--cache=off", "-k", "1").row["tier"] == "full"
    done = blocks("idle", "--force", "--json")
    assert done.code == 0
    ran = blocks("ask", "When are the picnic and the concert?", "--json", "--explain", "-k", "2")
    assert ran.row["tier"] == "blocks"
    assert list(map(bool, reused(ran)))[::2] == [True, True, True]  # but no number lines
