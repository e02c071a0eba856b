"""`pkb bench`: cold, warm and exact answers timed over a copy of a home, with quotes and with the small model."""

import hashlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from filelock import FileLock

from cli.app import run
from engine.bench import Spread, copied, measure, questions, spread
from engine.session import session
from store.database import open_ledger
from store.history import History, HistoryEntry
from tests.cli.conftest import Pkb
from tests.demo import NANO, environment
from tests.effort import slow_only

QUESTIONS = ("When is the summer concert?", "How many bicycles were repaired on the repair day?")
LINES = 24  # of a screen


def rows(pkb: Pkb) -> dict[str, list[tuple[object, ...]]]:
    """Return all rows of all tables of the ledger."""
    with closing(sqlite3.connect(pkb.folder / "home" / "ledger.db")) as ledger:
        names = [name for (name,) in ledger.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {name: ledger.execute(f"SELECT * FROM {name}").fetchall() for name in names}


def files(folder: Path) -> dict[str, str]:
    """Return the digest of every file that is neither the ledger nor a lock."""
    found = (path for path in folder.rglob("*") if path.is_file())
    kept = (path for path in found if not path.name.startswith("ledger.db") and path.parent.name != "locks")
    return {str(path): hashlib.blake2b(path.read_bytes()).hexdigest() for path in kept}


@pytest.fixture
def asked(pkb: Pkb) -> Pkb:
    """Return pkb that was asked three questions, two different ones."""
    for question in (*QUESTIONS, QUESTIONS[0]):
        pkb("ask", question)
    return pkb


@pytest.fixture(scope="module")
def answered(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home in which a model has answered two questions, and their KV cache is stored."""
    folder = Path(shutil.copytree(made, tmp_path_factory.mktemp("answered") / "demo"))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(folder).items():
            patch.setenv(name, value)
        for words in (["config", "set", "model.name", str(NANO)], *(["ask", question] for question in QUESTIONS)):
            assert run(words) == 0
    return folder


@pytest.fixture
def words(answered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Pkb:
    """Return pkb in a copy of that home."""
    return Pkb(Path(shutil.copytree(answered, tmp_path / "demo")), monkeypatch, capsys)


def test_without_a_model_there_is_no_kv_cache_to_reuse(asked: Pkb) -> None:
    row = asked("bench", "--json").row
    assert (row["model"], row["questions"], row["warm"], row["tokens"]) == (None, 2, None, None)
    assert (row["cold"]["total_ms"]["n"], row["exact"]["total_ms"]["n"]) == (2, 6)
    assert (row["compared"], row["same"]) == (0, 0)


@pytest.mark.slow
def test_with_a_model_warm_answers_reuse_the_kv_cache_and_are_the_same(words: Pkb) -> None:
    row = words("bench", "--json").row
    assert (row["model"], row["questions"]) == (str(NANO), 2)
    assert (row["cold"]["first_token_ms"]["n"], row["warm"]["first_token_ms"]["n"]) == (2, 2)
    assert (row["compared"], row["same"]) == (2, 2)
    assert 0 < row["tokens"]["reused"]["low"] < row["tokens"]["prompt"]["low"]


@pytest.mark.parametrize("reuse", ["prefix", *slow_only("blocks")])
@pytest.mark.slow
def test_cold_reuses_nothing_warm_the_kv_cache_and_exact_the_answer(words: Pkb, reuse: str) -> None:
    words("config", "set", "kv.reuse", reuse)
    with (
        session() as opened,
        copied(opened.home, opened.ledger, opened.locks) as home,
        session({**os.environ, "PKB_HOME": str(home.data), "PKB_CACHE": str(home.cache)}) as own,
    ):
        assert own.load_model
        kept = own.load_model().kept
        assert kept
        timed = list(measure(own.asker, QUESTIONS, own.settings.ask.k, own.now, kept.store))
    assert [one.cold.tier for one in timed] == ["full", "full"]
    assert [one.warm.tier for one in timed if one.warm] == [reuse, reuse]
    assert [hit.tier for one in timed for hit in one.exact] == ["exact"] * 6


def test_where_the_kv_cache_is_off_nothing_is_warm(words: Pkb) -> None:
    words("config", "set", "kv.reuse", "off")
    row = words("bench", "--questions", "1", "--json").row
    assert (row["questions"], row["warm"], row["tokens"]["reused"], row["compared"]) == (1, None, None, 0)


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), *slow_only(("--model", "quote"))])
def test_no_row_of_the_ledger_and_no_file_is_another_one_afterwards(words: Pkb, flags: tuple[str, ...]) -> None:
    before, data, tensors = rows(words), files(words.folder / "home"), files(words.folder / "cache" / "kv")
    assert tensors
    assert words("bench", "--questions", "1", *flags).code == 0
    assert rows(words) == before
    assert files(words.folder / "home") == data
    assert files(words.folder / "cache" / "kv") == tensors


def test_a_copy_that_a_killed_process_left_is_private_harms_nothing_and_goes_at_the_next_start(
    words: Pkb, tmp_path: Path
) -> None:
    left, elsewhere = words.folder / "home" / "trying", tmp_path / "elsewhere"
    elsewhere.mkdir()
    command = [sys.executable, "-m", "cli.app", "bench", "--model", "quote"]
    with subprocess.Popen(command, env={**os.environ, "TMPDIR": str(elsewhere)}) as running:
        while not (left / "data" / "ledger.db").exists():
            assert running.poll() is None, "it ended before anything was copied"
            time.sleep(0.01)
        running.send_signal(signal.SIGKILL)
    assert (left / "data" / "ledger.db").exists()
    assert not [path for path in elsewhere.rglob("*") if path.is_file() and not path.is_symlink()]
    assert left.stat().st_mode & 0o077 == 0
    assert words("check").code == 0
    assert words("bench", "--questions", "1", "--model", "quote").code == 0
    assert not left.exists()


def test_two_do_not_measure_each_other(asked: Pkb) -> None:
    with FileLock(asked.folder / "home" / "locks" / "bench.lock"):
        ran = asked("bench", "--json")
    assert ran.code == 11
    assert ran.row["error"]["message"] == "another pkb bench is running"


def test_where_nothing_was_asked_it_says_what_to_type(pkb: Pkb) -> None:
    ran = pkb("bench", "--json")
    assert ran.code == 1
    assert ran.row["error"]["message"] == "there are no questions to measure with yet"


def test_who_never_ingested_anything_still_has_no_home(fresh: Pkb) -> None:
    assert fresh("bench").code != 0
    assert not fresh.folder.exists()


@pytest.mark.slow  # a measurement with a model
@pytest.mark.parametrize("model", [(), ("--model", str(NANO))])
def test_what_it_says_fits_a_screen(asked: Pkb, model: tuple[str, ...]) -> None:
    ran = asked("bench", *model)
    assert "your latest 2 questions" in ran.out
    assert len(ran.out.splitlines()) < LINES
    assert max(map(len, ran.out.splitlines())) <= 120


def test_the_latest_questions_come_once_each_oldest_first(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "ledger.db", create=True)
    history = History(ledger)
    for at, question in enumerate(("When?", "Who?", "Where?", "who")):
        history.add(HistoryEntry(float(at), question, "full", True, 1.0, 0.0, key=question.encode()))
    assert questions(ledger, 2) == ["Where?", "who"]
    assert questions(ledger, 9) == ["When?", "Where?", "who"]
    ledger.close()


def test_a_spread_is_of_the_values_there_are() -> None:
    assert spread([3.0, None, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0, 3)
    assert spread([None]) is None
