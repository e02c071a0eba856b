"""`pkb idle` as cron runs it, and as a person does: silent where nothing can be done, with a reason on request."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.conftest import Pkb
from tests.demo import environment


@pytest.fixture
def empty(pkb: Pkb, tmp_path: Path) -> Pkb:
    """Return pkb in a home into which an empty folder was read."""
    (tmp_path / "none").mkdir()
    pkb("ingest", str(tmp_path / "none"), env=environment(tmp_path / "empty"))
    return pkb


def test_a_dry_run_with_nothing_to_show_says_why(empty: Pkb) -> None:
    first = empty("idle", "--dry-run")
    empty("idle", "--force")
    then = empty("idle", "--dry-run", "--force")
    assert [(ran.code, ran.out) for ran in (first, then)] == [(0, "")] * 2
    assert first.err == "pkb: nothing done: nothing to do\n"
    assert then.err == "pkb: nothing done: nothing has changed since the last complete run\n"


def test_off_a_terminal_an_empty_home_is_a_reason_and_no_error(fresh: Pkb) -> None:
    silent, told = fresh("idle"), fresh("idle", "--json")
    assert (silent.code, silent.out, silent.err) == (0, "", "")
    assert (told.code, told.row["units"], told.row["reason"]) == (0, [], "nothing has been ingested yet")
    assert not fresh.folder.exists()


def test_off_a_terminal_a_model_that_is_gone_is_a_reason_and_no_error(pkb: Pkb) -> None:
    pkb("config", "set", "model.name", "/no/model")
    silent, told = pkb("idle"), pkb("idle", "--json")
    assert (silent.code, silent.out, silent.err) == (0, "", "")
    assert (told.code, told.row["reason"]) == (0, "the model folder /no/model does not exist")


def test_a_dry_run_in_an_empty_home_is_an_error(fresh: Pkb) -> None:
    ran = fresh("idle", "--dry-run")
    assert (ran.code, ran.err) == (10, "pkb: nothing has been ingested yet; try: pkb ingest FOLDER\n")


def at_terminal(home: Path, *words: str) -> tuple[int, bytes, str]:
    """Run `pkb idle` with a terminal for errors; return its exit code, output and errors."""
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "cli.app", "idle", *words]
    with subprocess.Popen(command, env=environment(home), stderr=theirs, stdout=subprocess.PIPE) as process:
        os.close(theirs)
        said = bytearray()
        with suppress(OSError):  # on Linux, how the end is told
            while some := os.read(ours, 4096):  # what nobody reads fills the terminal: the process would wait
                said += some
        printed, _ = process.communicate()
    os.close(ours)
    return process.returncode, printed, said.decode()


def test_at_a_terminal_an_empty_home_is_an_error(fresh: Pkb) -> None:
    step = "pkb: nothing has been ingested yet; try: pkb ingest FOLDER\r\n"
    assert at_terminal(fresh.folder) == (10, b"", step)


def test_at_a_terminal_a_run_that_does_nothing_says_why(empty: Pkb, tmp_path: Path) -> None:
    code, printed, said = at_terminal(tmp_path / "empty", "--force")
    assert (code, printed, said.endswith("pkb: nothing done: nothing to do\r\n")) == (0, b"", True)
