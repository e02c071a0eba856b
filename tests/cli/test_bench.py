"""`pkb bench`: what each tier costs, over a copy of a home, with quotes and with the small model."""

import hashlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from filelock import FileLock

from cli.aside import NAME
from cli.prices import show
from engine.ask.tiers import in_other_words
from engine.idle.repeats import Repeats, repeats
from store.history import Asked, History
from store.ledger import open_ledger
from tests.cli.conftest import Pkb
from tests.demo import NANO

QUESTIONS = ("When is the summer concert?", "Who has the spare key to the workshop?")
LINES = 24  # of a screen


def rows(pkb: Pkb) -> dict[str, list[tuple[object, ...]]]:
    """Give all rows of all tables of the ledger."""
    with closing(sqlite3.connect(pkb.folder / "home" / "ledger.db")) as ledger:
        names = [name for (name,) in ledger.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {name: ledger.execute(f"SELECT * FROM {name}").fetchall() for name in names}


def files(folder: Path) -> dict[str, str]:
    """Give the digest of every file that is neither the ledger nor a lock."""
    found = (path for path in folder.rglob("*") if path.is_file())
    kept = (path for path in found if not path.name.startswith("ledger.db") and path.parent.name != "locks")
    return {str(path): hashlib.blake2b(path.read_bytes()).hexdigest() for path in kept}


@pytest.fixture
def asked(pkb: Pkb) -> Pkb:
    """Give pkb that was asked three questions, two different ones."""
    for question in (*QUESTIONS, QUESTIONS[0]):
        pkb("ask", question)
    return pkb


@pytest.fixture
def words(pkb: Pkb) -> Pkb:
    """Give pkb that answered two questions in words, and keeps what was read for them."""
    pkb("config", "set", "model.name", str(NANO))
    for question in QUESTIONS:
        pkb("ask", question)
    return pkb


def test_without_a_model_the_tiers_are_exact_similar_and_quoted(asked: Pkb) -> None:
    row = asked("bench", "--json").row
    assert (row["model"], row["own"], row["questions"], row["tokens"], row["blocks"]) == (None, True, 2, None, None)
    assert list(row["tiers"]) == ["exact", "semantic", "full"]
    assert row["tiers"]["exact"]["total_ms"]["runs"] == 6
    assert row["tiers"]["full"]["total_ms"]["runs"] == 2
    assert row["similar"] == {"tried": 2, "found": 2}
    assert (row["bytes"]["tensors"], row["cold"]["model_s"]) == (None, None)
    assert row["cold"]["command_ms"]["runs"] == 3


def test_tiers_and_repeats_of_the_past_are_those_of_the_history(asked: Pkb) -> None:
    row, stats = asked("bench", "--json").row, asked("stats", "--json").row
    assert {tier: count for tier, count in row["asked"].items() if count} == {
        one["tier"]: one["questions"] for one in stats["asked"]
    }
    past = row["history"]
    assert (past["questions"], past["repeated"], past["from_bank"]) == (3, 1, 1)
    assert (past["missed_s"], past["saved_s"]) == (0.0, stats["saved_s"])


def test_with_a_model_all_that_was_read_before_comes_back_and_the_answer_is_the_same(words: Pkb) -> None:
    row = words("bench", "--json").row
    assert (row["model"], row["own"], row["questions"]) == (str(NANO), True, 2)
    assert list(row["tiers"]) == ["exact", "semantic", "prefix", "full"]
    assert row["tiers"]["prefix"]["first_token_ms"]["runs"] == 2
    assert (row["answers"]["compared"], row["answers"]["same"]) == (2, 2)
    assert 0 < row["tokens"]["reused"]["low"] < row["tokens"]["prompt"]["high"]
    assert row["bytes"]["tensors"]["low"] > 0
    assert row["cold"]["model_s"] > 0


def test_in_blocks_the_tier_is_called_so(words: Pkb) -> None:
    words("config", "set", "kv.reuse", "blocks")
    row = words("bench", "--questions", "1", "--json").row
    assert list(row["tiers"]) == ["exact", "semantic", "blocks", "full"]
    assert (row["answers"]["compared"], row["answers"]["same"]) == (1, 1)


@pytest.mark.parametrize("flags", [(), ("--blocks",), ("--model", "quote")])
def test_no_row_of_the_ledger_and_no_file_is_another_one_afterwards(words: Pkb, flags: tuple[str, ...]) -> None:
    before, data, tensors = rows(words), files(words.folder / "home"), files(words.folder / "cache" / "kv")
    assert tensors
    assert words("bench", "--questions", "1", *flags).code == 0
    assert rows(words) == before
    assert files(words.folder / "home") == data
    assert files(words.folder / "cache" / "kv") == tensors


def test_a_copy_that_one_who_was_killed_left_is_private_harms_nothing_and_goes_at_the_next_start(
    words: Pkb, tmp_path: Path
) -> None:
    left, elsewhere = words.folder / "home" / NAME, tmp_path / "elsewhere"
    elsewhere.mkdir()
    command = [sys.executable, "-m", "cli.app", "bench", "--model", "quote"]
    with subprocess.Popen(command, env={**os.environ, "TMPDIR": str(elsewhere)}) as running:
        while not (left / "home" / "ledger.db").exists():
            assert running.poll() is None, "it ended before anything was copied"
            time.sleep(0.01)
        running.send_signal(signal.SIGKILL)
    assert (left / "home" / "ledger.db").exists()
    assert not [path for path in elsewhere.rglob("*") if path.is_file() and not path.is_symlink()]
    assert left.stat().st_mode & 0o077 == 0
    assert words("check").code == 0
    assert words("bench", "--questions", "1", "--model", "quote").code == 0
    assert not left.exists()


def test_two_do_not_measure_each_other(asked: Pkb) -> None:
    with FileLock(asked.folder / "home" / "locks" / f"{NAME}.lock"):
        ran = asked("bench", "--json")
    assert ran.code == 11
    assert ran.row["error"]["message"] == "another pkb bench is running"


def test_what_idle_would_do_is_what_its_dry_run_says(words: Pkb) -> None:
    for question in QUESTIONS:
        words("ask", question, "--fresh")
    found = words("bench", "--questions", "1", "--json").row["idle"]
    planned = words("idle", "--dry-run", "--json").row["units"]
    assert found["units"] == len(planned) > 0
    assert found["cost_s"] == pytest.approx(sum(unit["cost_s"] for unit in planned), abs=0.01)
    assert found["gain_s"] == pytest.approx(sum(unit["gain_s"] for unit in planned), abs=0.01)
    assert {kind["job"] for kind in found["kinds"]} == {unit["job"] for unit in planned}


def test_who_never_kept_anything_is_shown_an_example_and_still_has_no_home(fresh: Pkb) -> None:
    ran = fresh("bench")
    assert (ran.code, ran.err) == (0, "")
    assert "4 questions of a small example: you have asked none yet" in ran.out
    assert not fresh.folder.exists()


def test_who_has_asked_nothing_is_shown_an_example_and_what_idle_would_do(pkb: Pkb) -> None:
    row = pkb("bench", "--model", str(NANO), "--json").row
    assert (row["own"], row["questions"], row["history"]["questions"]) == (False, 4, 0)
    assert row["idle"] is not None


@pytest.mark.parametrize("model", [(), ("--model", str(NANO))])
def test_what_it_says_fits_a_screen(asked: Pkb, model: tuple[str, ...]) -> None:
    ran = asked("bench", *model)
    assert "on your latest 2 questions" in ran.out
    assert len(ran.out.splitlines()) < LINES
    assert max(map(len, ran.out.splitlines())) <= 120


@pytest.mark.soak
def test_answers_in_blocks_are_compared_where_that_is_wanted(words: Pkb) -> None:
    row = words("bench", "--blocks", "--json").row["blocks"]
    assert row["tokens"] > row["questions"] == 2
    assert row["equal_answers"] == 2 - len(row["different"])
    assert row["equal_answers"] <= row["same_words"] <= 2
    assert 0 < row["top_1"] <= 1
    assert row["kl"] >= 0
    assert row["reused"]["blocks"] >= row["reused"]["usual"] > 0
    assert min(row["first_token_ms"].values()) > 0


def test_blocks_need_a_language_model(fresh: Pkb) -> None:
    ran = fresh("bench", "--blocks", "--json")
    assert ran.code == 2
    assert ran.row["error"]["next"] == "pkb model pull"


def test_a_repeat_that_was_made_anew_is_what_idle_would_have_saved(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "ledger.db", create=True)
    history = History(ledger)
    history.add(Asked(1.0, "a", "full", True, 900.0, 0.0, key=b"a"))
    history.add(Asked(2.0, "a", "exact", True, 100.0, 800.0, key=b"a"))
    history.add(Asked(3.0, "a", "full", True, 1100.0, 0.0, key=b"a"))
    history.add(Asked(4.0, "b", "full", True, 5000.0, 0.0, key=b"b"))
    history.add(Asked(5.0, "b", "full", True, 5000.0, 0.0))  # past the bank
    assert repeats(ledger, 2.0) == Repeats(4, 2, 1, 0.8, 1.0)
    assert repeats(ledger, 6.0) == Repeats(0, 0, 0, 0.0, 0.0)
    ledger.close()


@pytest.mark.parametrize(
    ("question", "other"),
    [("When is it?", "When is it, please?"), ("Name it. ", "Name it, please."), ("几号？", "几号, please？")],
)
def test_other_words_are_the_same_and_one_more(question: str, other: str) -> None:
    assert in_other_words(question) == other


def test_a_model_that_reads_nothing_in_time_is_no_reason_to_fail(
    asked: Pkb, capsys: pytest.CaptureFixture[str]
) -> None:
    row = asked("bench", "--json").row
    capsys.readouterr()
    show(row | {"questions": 0, "history": None})
    assert "0 questions" in capsys.readouterr().out
