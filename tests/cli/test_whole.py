"""Whole threads through the command line: what comes with what was found is read, named, and watched for changes."""

from pathlib import Path

import pytest

from tests.cli.conftest import Pkb
from tests.demo import NANO

QUESTION = "When is the picnic?"


def write(folder: Path, number: int, sender: str, text: str) -> None:
    """Write a message of one thread."""
    reply = f"In-Reply-To: <{number - 1}@x>\n" if number > 1 else ""
    head = f"From: {sender} <{sender.lower()}@example.org>\nTo: all@example.org\nSubject: plans\n{reply}"
    date = f"Date: Mon, {number:02} Jun 2024 10:00:00 +0000"
    folder.mkdir(exist_ok=True)
    (folder / f"{number}.eml").write_text(f"{head}Message-ID: <{number}@x>\n{date}\n\n{text}\n")


@pytest.fixture
def thread(fresh: Pkb, tmp_path: Path) -> Pkb:
    """Give pkb that has read a thread of two, answers in words from one source, and finds the first by its words."""
    write(tmp_path / "mail", 1, "Ann", "The picnic is on Friday at 6pm in the park.")
    write(tmp_path / "mail", 2, "Ben", "Lovely, we will bring salad.")
    fresh("ingest", str(tmp_path / "mail"), "--vectors", "later")
    fresh("config", "set", "model.name", str(NANO))
    fresh("config", "set", "ask.k", "1")
    return fresh


def read(pkb: Pkb, *flags: str) -> list[str]:
    """Give the names of the files that were read for an answer."""
    return [Path(source["path"]).name for source in pkb("ask", QUESTION, "--json", *flags).row["sources"]]


def test_the_rest_of_the_thread_is_read_behind_what_was_found(thread: Pkb) -> None:
    assert read(thread) == ["1.eml"]
    thread("config", "set", "ask.whole", "thread")
    row = thread("ask", QUESTION, "--json").row
    assert row["tier"] != "exact"  # more evidence, another answer
    assert [Path(source["path"]).name for source in row["sources"]] == ["1.eml", "2.eml"]
    assert row["sources"][0]["score"] > row["sources"][1]["score"] == 0
    assert read(thread, "--from", "ann", "--fresh") == ["1.eml"]


def test_a_kept_answer_is_made_anew_when_its_thread_goes_on_though_the_new_message_matches_nothing(
    thread: Pkb, tmp_path: Path
) -> None:
    for whole, tier in (("none", "exact"), ("thread", "prefix")):
        thread("config", "set", "ask.whole", whole)
        thread("ask", QUESTION)
        assert thread("ask", QUESTION, "--json").row["tier"] == "exact"
        write(tmp_path / "mail", 3 if whole == "none" else 4, "Cem", f"Sorry, not me {whole}.")
        thread("ingest", "--vectors", "later")
        assert thread("ask", QUESTION, "--json").row["tier"] == tier


def test_another_limit_of_what_comes_is_another_answer(thread: Pkb) -> None:
    thread("config", "set", "ask.whole", "thread")
    thread("ask", QUESTION)
    thread("config", "set", "ask.whole_tokens", "50")
    row = thread("ask", QUESTION, "--json").row
    assert (row["tier"] != "exact", len(row["sources"])) == (True, 1)
    thread("config", "set", "ask.whole", "none")
    thread("ask", QUESTION)
    thread("config", "set", "ask.whole_tokens", "60")
    assert thread("ask", QUESTION, "--json").row["tier"] == "exact"  # nothing comes, whatever the limit


def test_what_is_read_ahead_or_kept_changes_no_answer_from_a_whole_thread(thread: Pkb) -> None:
    thread("config", "set", "ask.whole", "thread")
    without = thread("ask", QUESTION, "--json", "--no-cache").row
    thread("ask", "Who will bring salad?")
    found = thread("ask", QUESTION, "--json").row
    assert (found["answer"], found["sources"]) == (without["answer"], without["sources"])
    assert found["tokens"]["reused"] > 0


def test_a_quote_and_a_search_need_no_more_than_what_was_found(thread: Pkb) -> None:
    thread("config", "set", "ask.whole", "thread")
    assert read(thread, "--model", "quote") == ["1.eml"]
    assert len(thread("search", "picnic", "-k", "1", "--json").row["sources"]) == 1
