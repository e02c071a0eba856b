"""Facts that a newer mail changes: the answer is the newer one, among mails that are not about it."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from engine.app import Pkb
from engine.ask.updates import says_change

CASES = Path(__file__).parents[2] / "data" / "updates.txt"
FIRST = datetime(2024, 5, 10, 9, tzinfo=UTC)
# "this weekend" limits the question to days that neither mail speaks of; "meeting" is read as a question for a summary;
# the sentence that takes back what was said is preferred to the one behind it; "library" is in two mails.
MISSED = {
    "Who is on call this weekend?",
    "What is the meeting link for the seminar?",
    "Where do I hand in the forms?",
    "When does the library close?",
}


@dataclass(frozen=True, slots=True)
class Case:
    """A question, subjects and texts of the older and the newer mail, and what the answer must and must not hold."""

    question: str
    older: tuple[str, str]
    newer: tuple[str, str]
    holds: str
    lacks: str


def cases() -> Iterator[Case]:
    text = "\n".join(line for line in CASES.read_text("utf-8").splitlines() if not line.startswith("#"))
    for block in text.strip().split("\n\n"):
        lines = {line[0]: line[2:] for line in block.splitlines()}
        older, newer = (lines[sign].partition(": ")[::2] for sign in "-+")
        yield Case(lines["?"], older, newer, lines["="], lines["!"])


def write(folder: Path, number: int, mail: tuple[str, str], days: int) -> None:
    sent = FIRST + timedelta(days=days, minutes=number)
    fields = (
        f"From: Club {number} <club{number}@club.example>",
        "To: Ben Ode <ben@choir.example>",
        f"Subject: {mail[0]}",
        f"Date: {format_datetime(sent)}",
        f"Message-ID: <{number}.{days}@club.example>",
        "Content-Type: text/plain; charset=utf-8",
    )
    text = "\n".join((*fields, "", "Hello all,", "", mail[1], "", "Best wishes,", "the club", ""))
    (folder / f"{number:02}-{days}.eml").write_text(text, "utf-8")


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Pkb]:
    """Yield pkb with the mails of all cases."""
    folder = tmp_path / "mail"
    folder.mkdir()
    for number, case in enumerate(cases()):
        write(folder, number, case.older, 0)
        write(folder, number, case.newer, 9)
    with Pkb(tmp_path / "home", environ={**os.environ, "PKB_NOW": "2024-05-22T08:00"}) as pkb:
        pkb.ingest([folder], embed=False)
        yield pkb


def test_the_newer_fact_is_answered(archive: Pkb) -> None:
    wrong = {}
    for case in cases():
        text = archive.ask(case.question).text or ""
        if case.holds.lower() not in text.lower() or case.lacks.lower() in text.lower():
            wrong[case.question] = text
    assert set(wrong) <= MISSED, wrong


@pytest.mark.parametrize(
    "text",
    ["The fair is now on Friday.", "It is no longer open.", "Die Probe ist verschoben.", "La visite est reportée."],
)
def test_a_message_says_that_something_has_changed(text: str) -> None:
    assert says_change(text)


@pytest.mark.parametrize("text", ["The fair is on Friday.", "Die Probe ist am Montag.", "We know the news."])
def test_a_message_says_how_it_is(text: str) -> None:
    assert not says_change(text)
