"""Shared by tests of the semantic tier: a home of a few mails, a question, a paraphrase and a near twin."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from store.database import Ledger, open_ledger
from tests.cli.conftest import Pkb, prepared
from tests.cli.test_freshness import write
from tests.demo import copied

QUESTION = "Which colour has the tandem of the harbour museum?"
LIKE = "Which colour does the tandem of the harbour museum have?"
TWIN = "Which colour has the canoe of the harbour museum?"
ANSWER = "The tandem of the harbour museum is green."
MAIL = {
    "1.eml": ("The tandem", ANSWER),
    "2.eml": ("The canoe", "The canoe of the harbour museum is red."),
    "3.eml": ("Das Tretboot", "Das Tretboot des Hafenmuseums ist gelb."),
    "4.eml": ("Picnic", "The picnic is on Friday at 6pm in the park."),
}


@pytest.fixture(scope="module")
def shared(private: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the home that tests copy: a few mails with their vectors."""
    folder = tmp_path_factory.mktemp("paraphrases")
    for name, (subject, body) in MAIL.items():
        write(folder / "mail", name, subject, body)
    return prepared(folder, ("ingest", str(folder / "mail")))


@pytest.fixture
def bank(shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Pkb:
    """Return pkb in a home of its own that holds these mails."""
    return Pkb(copied(shared, tmp_path / "home"), monkeypatch, capsys)


def ask(pkb: Pkb, question: str, *words: str) -> dict[str, Any]:
    """Ask and give the row."""
    row: dict[str, Any] = pkb("ask", question, "--json", "--explain", *words).row
    return row


def note(row: dict[str, Any], name: str = "similar") -> str:
    """Return what a step found."""
    notes: list[str] = [step["note"] for step in row["explain"] if step["name"] == name]
    return "; ".join(notes)


def miss(row: dict[str, Any], reason: str) -> bool:
    """Return whether a question was answered by itself, and for this reason."""
    return row["tier"] in ("full", "prefix") and row["matched_question"] is None and reason in note(row)


@contextmanager
def ledger(pkb: Pkb) -> Iterator[Ledger]:
    """Open what is kept."""
    with closing(open_ledger(pkb.folder / "home" / "ledger.db")) as opened:
        yield opened


def put(pkb: Pkb, **values: str) -> None:
    """Change settings of the bank."""
    for name, value in values.items():
        assert pkb("config", "set", f"bank.{name}", value).code == 0
