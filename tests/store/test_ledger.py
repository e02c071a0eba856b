"""The ledger: made once, opened by many, refused where it is not ours."""

import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from store.database import NEWEST, Ledger, open_ledger, path_key
from store.errors import NoStore, PkbError


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with closing(open_ledger(tmp_path / "l.db", create=True)) as made:
        yield made


def test_a_new_ledger_has_the_newest_schema(ledger: Ledger) -> None:
    assert ledger.rows.execute("PRAGMA user_version").fetchone()[0] == NEWEST


def test_a_ledger_of_a_newer_program_is_refused(tmp_path: Path, ledger: Ledger) -> None:
    ledger.rows.execute(f"PRAGMA user_version = {NEWEST + 1}")
    with pytest.raises(PkbError, match="newer pkb"):
        open_ledger(tmp_path / "l.db")


def test_without_a_ledger_there_is_no_store_and_none_is_made(tmp_path: Path) -> None:
    with pytest.raises(NoStore):
        open_ledger(tmp_path / "l.db")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database_is_an_error_for_the_user(tmp_path: Path) -> None:
    (tmp_path / "l.db").write_text("not a database, but long enough to be taken for a header of one" * 20)
    with pytest.raises(PkbError, match="damaged"):
        open_ledger(tmp_path / "l.db")


def test_another_programs_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    foreign = sqlite3.connect(tmp_path / "l.db")
    foreign.execute("CREATE TABLE theirs (a)")
    foreign.close()
    with pytest.raises(PkbError, match="another program"):
        open_ledger(tmp_path / "l.db", create=True)
    found = sqlite3.connect(tmp_path / "l.db")
    assert found.execute("SELECT name FROM sqlite_schema").fetchall() == [("theirs",)]
    found.close()


def test_a_foreign_database_with_our_schema_number_is_refused(tmp_path: Path) -> None:
    foreign = sqlite3.connect(tmp_path / "l.db")
    foreign.execute(f"PRAGMA user_version = {NEWEST}")
    foreign.close()
    with pytest.raises(PkbError, match="another program"):
        open_ledger(tmp_path / "l.db", create=True)


def test_a_folder_in_the_ledgers_place_is_not_called_damage(tmp_path: Path) -> None:
    (tmp_path / "l.db").mkdir()
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        open_ledger(tmp_path / "l.db", create=True)


_OPEN = """
import sys, time
from pathlib import Path
from store.database import open_ledger
time.sleep(max(0, float(sys.argv[2]) - time.time()))
open_ledger(Path(sys.argv[1]), create=True).rows.execute("SELECT count(*) FROM answers")
"""


def test_processes_may_open_a_new_home_at_once(tmp_path: Path) -> None:
    at = str(time.time() + 1)
    words = [sys.executable, "-c", _OPEN, str(tmp_path / "l.db"), at]
    opening = [subprocess.Popen(words, stderr=subprocess.PIPE) for _ in range(4)]
    assert [process.communicate()[1] for process in opening] == [b""] * 4


def _interrupted(ledger: Ledger) -> None:
    with ledger.transaction():
        ledger.set("a", "1")
        raise KeyboardInterrupt


def test_what_a_failed_transaction_wrote_is_gone(ledger: Ledger) -> None:
    with pytest.raises(KeyboardInterrupt):
        _interrupted(ledger)
    assert ledger.get("a") is None


def test_a_counter_that_was_never_raised_is_0(ledger: Ledger) -> None:
    assert ledger.count("generation") == 0


def test_raising_counts_one_at_a_time(ledger: Ledger) -> None:
    ledger.raise_generation()
    ledger.raise_generation()
    assert ledger.generation == 2


def test_the_ledger_is_private_whatever_the_umask(tmp_path: Path, ledger: Ledger) -> None:
    ledger.set("a", "1")
    assert {oct(path.stat().st_mode & 0o777) for path in tmp_path.iterdir()} == {"0o600"}


def test_a_path_that_is_no_text_is_kept_as_its_bytes() -> None:
    assert path_key("/a/\udcff\n") == b"/a/\xff\n"
