"""Kept answers and new mail: served while their evidence is the same, made anew when it is not."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Pkb

QUESTION = "Which colour has the tandem of the harbour museum?"


def write(folder: Path, name: str, subject: str, body: str, day: int = 3) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    header = f"From: Ida Quist <ida@example.org>\nTo: mira@example.org\nSubject: {subject}\nMessage-ID: <{name}@x>\n"
    (folder / name).write_text(f"{header}Date: Mon, {day:02} Jun 2024 10:00:00 +0000\n\n{body}\n")


@pytest.fixture
def mail(fresh: Pkb, tmp_path: Path) -> Path:
    """Return a folder of one message that was ingested."""
    folder = tmp_path / "mail"
    write(folder, "1.eml", "The tandem", "The tandem of the harbour museum is green.")
    assert fresh("ingest", str(folder), "--vectors", "later").code == 0
    return folder


def ask(pkb: Pkb, *words: str) -> dict[str, Any]:
    row: dict[str, Any] = pkb("ask", QUESTION, "--json", *words).row
    return row


def test_new_mail_that_changes_the_evidence_makes_the_answer_anew(fresh: Pkb, mail: Path) -> None:
    before = ask(fresh)
    write(mail, "2.eml", "The tandem again", "The tandem of the harbour museum is blue since Saturday.", 10)
    fresh("ingest", "--vectors", "later")
    after = ask(fresh)
    assert "green" in before["answer"]
    assert (after["tier"], after["stale"]) == ("full", False)
    assert any("blue" in source["quote"] for source in after["sources"])


def test_unrelated_new_mail_keeps_the_answer_and_stamps_it(fresh: Pkb, mail: Path) -> None:
    for number in range(2, 8):
        write(mail, f"{number}.eml", "Tandem", f"The tandem of the harbour museum is green, said number {number}.")
    fresh("ingest", "--vectors", "later")
    ask(fresh)
    write(mail, "9.eml", "Jam", "Plum jam wants two kilos of sugar.", 12)
    fresh("ingest", "--vectors", "later")
    looked, again = (ask(fresh, "--explain") for _ in range(2))
    assert (looked["tier"], again["tier"]) == ("exact", "exact")
    assert [step["name"] for step in looked["explain"]] == ["key", "match", "understand", "open", "retrieve", "count"]
    assert [step["name"] for step in again["explain"]] == ["key", "match", "count"]  # known to be right


def test_a_kept_answer_names_its_source_where_it_was_moved_to(fresh: Pkb, mail: Path) -> None:
    ask(fresh)
    (mail / "1.eml").rename(mail / "moved.eml")
    fresh("ingest", "--vectors", "later")
    looked, again = ask(fresh), ask(fresh)
    assert (looked["tier"], Path(looked["sources"][0]["path"]).name) == ("exact", "moved.eml")
    assert again["sources"] == looked["sources"]


def test_a_stale_answer_is_shown_as_such_when_asked_for(fresh: Pkb, mail: Path) -> None:
    ask(fresh)
    write(mail, "2.eml", "The tandem again", "The tandem of the harbour museum is blue since Saturday.", 10)
    fresh("ingest", "--vectors", "later")
    stale = ask(fresh, "--cache=stale")
    assert (stale["tier"], stale["stale"]) == ("exact", True)
    assert "green" in stale["answer"]
    assert "may be stale" in fresh("ask", QUESTION, "--cache=stale").err
    assert ask(fresh)["tier"] == "full"


def test_an_answer_goes_when_its_mail_goes(fresh: Pkb, mail: Path) -> None:
    ask(fresh)
    (mail / "1.eml").unlink()
    fresh("ingest")
    row = ask(fresh)
    assert (row["tier"], row["answered"], row["sources"]) == ("full", False, [])


def test_a_declined_question_is_answered_when_the_answer_arrives(fresh: Pkb, mail: Path) -> None:
    question = "When is the boathouse roof repaired?"
    assert fresh("ask", question).code == 4
    write(mail, "2.eml", "Roof", "The boathouse roof is repaired on Friday 21 June at 9:00.", 10)
    fresh("ingest", "--vectors", "later")
    assert fresh("ask", question).code == 0
