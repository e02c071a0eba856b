"""Questions about all of a meeting or thread, by a model: all is read in order, and each line names its source."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.utils import format_datetime
from pathlib import Path

import pytest

from engine.app import Pkb
from engine.ask.keys import understood, whole_of
from engine.types import AskOptions
from tests.demo import NANO
from tests.engine.models.chatserver import ChatServer, chatting, streamed

_TURNS = 150
_FACTS = {3: "The choir buys a harpsichord for 900 euros.", 77: "Bob orders 40 chairs.", 149: "The party is in June."}


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chatting() as found:
        yield found


def turn(number: int) -> str:
    plain = f"Item number {number} was about the weather, the coffee and the way to the station, as on every evening."
    return _FACTS.get(number, plain)


def mail(folder: Path, number: int, subject: str, text: str, sender: str = "ann@example.org") -> None:
    """Write the mail of a day."""
    made = EmailMessage()
    made["From"], made["To"], made["Subject"] = sender, "choir@example.org", subject
    made["Date"] = format_datetime(datetime(2024, 5, 1, tzinfo=UTC) + timedelta(days=number))
    made["Message-ID"] = f"<{number}@example.org>"
    made.set_content(text)
    (folder / f"{number}.eml").write_bytes(bytes(made))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a long meeting and a thread of three mails, each of which quotes the one before it."""
    (found := tmp_path / "files").mkdir()
    turns = "\n".join(f"{('Ann Lee', 'Bob Roy')[n % 2]}: {turn(n)}" for n in range(_TURNS))
    (found / "budget.txt").write_text(f"Budget meeting\nDate: 2024-05-03\nAttendees: Ann Lee, Bob Roy\n\n{turns}\n")
    mail(found, 1, "Roof of the hall", "The roof leaks above the stage.\n")
    answer = "The roofer comes on Monday.\n\n> The roof leaks above the stage.\n"
    mail(found, 2, "Re: Roof of the hall", answer, "bob@example.org")
    mail(found, 3, "RE: Roof of the hall", "It cost 300 euros.\n\n> The roofer comes on Monday.\n")
    mail(found, 4, "Boats", "The roof of the boat is green.\n")
    return found


def opened(tmp_path: Path, folder: Path, model: str) -> Pkb:
    """Return a home that has read the files."""
    pkb = Pkb(tmp_path / "home")
    pkb.ingest([folder], embed=False)
    pkb.session.override("model.name", model)
    return pkb


def notes_of(user: str) -> str:
    """Return what a careful reader notes of a part: the sentences with a fact."""
    return " ".join(fact for fact in _FACTS.values() if fact in user) or "not found"


def test_a_long_meeting_is_read_from_its_first_turn_to_its_last_in_parts_and_answered_from_notes(
    tmp_path: Path, folder: Path, server: ChatServer
) -> None:
    server.write = lambda user: streamed(notes_of(user))
    with opened(tmp_path, folder, server.name) as pkb:
        found = pkb.ask("Summarize the budget meeting")
    *parts, last = [body["messages"][1]["content"] for body in server.completions()]
    read = [int(number) for part in parts for number in re.findall(r"Item number (\d+)", part)]
    assert (len(parts) > 2, read) == (True, [number for number in range(_TURNS) if number not in _FACTS])
    assert "Item number" not in last
    assert all(fact in last for fact in _FACTS.values())
    assert found.text is not None
    lines = found.text.splitlines()
    assert [re.sub(r"^- | \[\d+\]$", "", line) for line in lines] == list(_FACTS.values())
    for line in lines:
        number = int(line.rpartition("[")[2][:-1])
        assert found.sources[number - 1].quote in line


def test_lines_that_no_source_says_are_left_out_and_counted(tmp_path: Path, folder: Path, server: ChatServer) -> None:
    said = "The choir buys a harpsichord for 800 euros.\n- Bob orders 40 chairs.\n- The mayor was elected in Paris."
    said += (
        "\n- Bob Roy orders 40 chairs at http://evil.example.\n- The choir buys a harpsichord from eve@evil.example."
    )
    server.write = lambda user: streamed(said)
    with opened(tmp_path, folder, server.name) as pkb:
        result = pkb.answer("What was decided at the budget meeting?", AskOptions())
    assert result.reply.text == "Bob orders 40 chairs. [1]"
    assert result.reply.sources[0].quote.endswith("Bob orders 40 chairs.")
    assert "4 lines left out: no source says so" in result.trace.notices


def test_a_thread_is_read_whole_by_its_subject_without_what_its_mails_quote(
    tmp_path: Path, folder: Path, server: ChatServer
) -> None:
    server.write = lambda user: streamed("The roof leaks above the stage. It cost 300 euros.")
    with opened(tmp_path, folder, server.name) as pkb:
        found = pkb.ask("Summarize the thread about the roof of the hall")
    (asked,) = (body["messages"][1]["content"] for body in server.completions())
    own = [asked.index(said) for said in ("roof leaks above", "roofer comes on", "cost 300 euros")]
    assert own == sorted(own)
    assert (asked.count("roof leaks above"), "boat" in asked) == (1, False)
    assert found.text == "- The roof leaks above the stage. [1]\n- It cost 300 euros. [3]"


def test_within_one_mail_nothing_of_its_thread_is_read(tmp_path: Path, folder: Path, server: ChatServer) -> None:
    server.write = lambda user: streamed("The roofer comes on Monday.")
    with opened(tmp_path, folder, server.name) as pkb:
        pkb.ask("What was it about?", document="roof", since="2024-05-03", until="2024-05-03")
    (asked,) = (body["messages"][1]["content"] for body in server.completions())
    assert ("roofer comes on" in asked, "300 euros" in asked) == (True, False)


@pytest.mark.slow
def test_another_question_about_a_meeting_loads_its_parts_from_the_cache(tmp_path: Path, folder: Path) -> None:
    with opened(tmp_path, folder, str(NANO)) as pkb:
        first = pkb.answer("Summarize the budget meeting", AskOptions())
        first.keep()
        second = pkb.answer("What was decided at the budget meeting?", AskOptions())
    assert first.reply.tokens
    assert second.reply.tokens
    assert first.reply.tokens["prompt"] > 1500
    assert second.reply.tokens["reused"] > 0.8 * second.reply.tokens["prompt"]
    assert second.reply.tier == "prefix"


def test_a_question_about_a_mail_that_needs_no_synthesis_reads_no_thread(tmp_path: Path, folder: Path) -> None:
    with opened(tmp_path, folder, "quote") as pkb:
        ledger, now = pkb.session.ledger, datetime(2024, 6, 1, tzinfo=UTC)
        asked = ("Summarize the mail about the roof of the hall", "Who sent the mail about the roof of the hall?")
        found = [whole_of(ledger, understood(ledger, one, now), AskOptions()) for one in asked]
    assert [len(one) for one in found] == [3, 0]


def test_of_a_thread_whose_status_is_asked_the_end_is_read(tmp_path: Path, folder: Path) -> None:
    for number in range(100, 108):
        mail(folder, number, "The new organ", f"Letter number {number}.\n")
    with opened(tmp_path, folder, "quote") as pkb:
        ledger, now = pkb.session.ledger, datetime(2024, 6, 1, tzinfo=UTC)
        asked = ("What is the status of the new organ?", "Summarize the mail about the new organ", "What is an organ?")
        found = [whole_of(ledger, understood(ledger, one, now), AskOptions()) for one in asked]
    assert [len(one) for one in found] == [5, 8, 0]
    assert found[0] == found[1][-5:]


def test_a_subject_of_very_many_mails_is_no_thread(tmp_path: Path, folder: Path) -> None:
    for number in range(100, 201):
        mail(folder, number, "Weekly letter", f"Letter number {number}.\n")
    with opened(tmp_path, folder, "quote") as pkb:
        ledger, now = pkb.session.ledger, datetime(2024, 6, 1, tzinfo=UTC)
        assert whole_of(ledger, understood(ledger, "Summarize the weekly letter", now), AskOptions()) == []
