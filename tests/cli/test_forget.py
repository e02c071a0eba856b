"""`pkb forget` on a terminal: what it lists, asks and says, and that a running background server keeps nothing."""

from pathlib import Path

import pytest
from psutil import pid_exists

from tests.cli.conftest import Pkb
from tests.cli.serving import Served, wait
from tests.demo import DATA
from tests.engine.recovery import Secret, traces

KEY = "Who has the spare key to the workshop?"
MEETING = "2024-02-27"


def test_it_shows_what_it_would_forget_and_changes_nothing(pkb: Pkb) -> None:
    before = pkb("list", "--count").out
    shown = pkb("forget", "--from", "gus", "--since", "2024-06", "--dry-run")
    assert (shown.code, shown.out.count("\n")) == (0, 1)
    assert shown.out.startswith("2024-06-05  Gus Tindall")
    assert pkb("list", "--count").out == before


def test_it_asks_first_and_cannot_without_a_terminal(pkb: Pkb) -> None:
    refused = pkb("forget", "--from", "gus")
    assert (refused.code, "not a terminal" in refused.err) == (2, True)
    assert pkb("list", "--from", "gus", "--count").out != "0\n"


def test_it_says_what_went_and_what_no_file_holds_any_more(pkb: Pkb) -> None:
    pkb("ask", KEY)
    done = pkb("forget", "1", "--yes")
    assert done.code == 0
    assert "Forgot 1 document, " in done.out
    assert "none holds them any more" in done.out
    assert MEETING not in pkb("list", "workshop", "meeting").out
    assert "spare key" not in pkb("search", "spare key").out


def test_it_shows_the_questions_and_counts_the_answers_that_go(pkb: Pkb) -> None:
    asked = [KEY, "Who has a key?", "Who has the key to the workshop?", "Who keeps the spare key?", "Who has keys?"]
    for question in asked:
        pkb("ask", question)
    shown = pkb("forget", "1", "--dry-run")
    row = pkb("forget", "1", "--dry-run", "--json").row
    assert (row["questions"], row["answers"]) == (sorted(asked), len(asked))
    assert shown.out.endswith(
        "question: " + "\nquestion: ".join(sorted(asked)) + "\n5 questions in all, 5 cached answers\n"
    )
    assert pkb("forget", "1", "--yes").code == 0
    assert pkb("forget", "--question", KEY, "--dry-run").code == 4


def test_a_source_is_forgotten_as_it_is_printed_unless_its_file_holds_more(pkb: Pkb) -> None:
    pkb("ask", KEY)
    place = next(text.strip() for text in pkb("ask", KEY).out.splitlines() if MEETING in text and ".vtt:" in text)
    assert MEETING in pkb("forget", place, "--dry-run").out
    assert pkb("show", place).code == 0
    refused = pkb("forget", f"{DATA / 'mail' / 'archive.mbox'}, lines 1-4 of the message", "--dry-run")
    assert (refused.code, "holds several documents" in refused.err) == (2, True)


def test_files_of_a_killed_writer_go_with_what_is_forgotten(pkb: Pkb) -> None:
    stray = pkb.folder / "cache" / "kv" / f"{'f' * 32}.safetensors"
    stray.parent.mkdir(parents=True, exist_ok=True)
    stray.write_bytes(b"text")
    assert (pkb("forget", str(DATA / "mail" / "mh" / "3"), "--yes").code, stray.exists()) == (0, False)


def test_nothing_to_forget_is_said(pkb: Pkb) -> None:
    none = pkb("forget", "--question", "Was this ever asked?", "--yes")
    assert (none.code, none.out) == (4, "Nothing to forget.\n")


def test_a_question_and_messages_cannot_be_forgotten_together(pkb: Pkb) -> None:
    assert pkb("forget", "--question", KEY, "--from", "gus").code == 2


def test_ingest_says_what_it_kept_out(pkb: Pkb, tmp_path: Path) -> None:
    note = tmp_path / "mail" / "note.eml"
    note.parent.mkdir()
    note.write_text("From: Zora <zora@example.org>\nMessage-ID: <z@example.org>\n\nThe gate code changed.\n")
    pkb("ingest", str(note.parent))
    assert pkb("forget", "z@example.org", "--yes").code == 0
    note.write_text(f"{note.read_text()}\n")  # read again
    assert "kept out 1 forgotten document" in pkb("ingest", str(note.parent)).out
    assert pkb("ingest", "--restore").code == 2
    assert "1 document added" in pkb("ingest", str(note.parent), "--restore").out


def test_copies_elsewhere_are_named(pkb: Pkb) -> None:
    pkb("config", "set", "kv.remote", "https://127.0.0.1:9#desktop")
    told = pkb("forget", "--from", "gus", "--since", "2024-06", "--yes").err
    assert "a peer may hold KV of it" in told


@pytest.mark.slow
def test_the_background_server_is_stopped_with_what_it_remembers(home: Served) -> None:
    assert home.run("ask", KEY).returncode == 0
    wait(lambda: home.is_there)
    former = home.pid
    done = home.run("forget", "1", "--yes")
    assert (done.returncode, home.is_there) == (0, False)
    wait(lambda: not pid_exists(former))
    assert traces(home.home.data, Secret(("spare key to the workshop",))) == set()
