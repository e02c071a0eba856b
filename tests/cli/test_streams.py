"""Standard streams that are closed, or take nothing: one line on what is left of them, and never a traceback."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Pkb
from tests.demo import environment
from tests.effort import slow_only

FULL = Path("/dev/full")
ASK = 'ask "Who has the spare key?" --json'
full = pytest.mark.skipif(not FULL.exists(), reason="no /dev/full on this system")


def typed(pkb: Pkb, line: str) -> subprocess.CompletedProcess[str]:
    """Have a shell run a command with its streams as the line has them."""
    env = environment(pkb.folder)
    env.pop("PYTHONUNBUFFERED", None)
    words = ["sh", "-c", f"{shlex.quote(sys.executable)} -m cli.app {line}"]
    return subprocess.run(words, env=env, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])


@full
@pytest.mark.parametrize("command", [ASK, "--help", *slow_only("stats")])
def test_a_full_device_is_one_line(pkb: Pkb, command: str) -> None:
    done = typed(pkb, f"{command} > {FULL}")
    assert done.returncode == 1
    assert done.stderr == "pkb: cannot write to standard output: no space left on device\n"


@full
def test_an_error_that_cannot_be_printed_as_json_is_said(fresh: Pkb) -> None:
    done = typed(fresh, f"stats --json > {FULL}")
    assert done.stderr.splitlines()[0] == "pkb: nothing has been ingested yet; try: pkb ingest FOLDER"
    assert done.stderr.count("\n") == 2


@pytest.mark.parametrize("command", ["stats", "--help", *slow_only(ASK)])
def test_a_closed_standard_output_is_as_good_as_none(pkb: Pkb, command: str) -> None:
    done = typed(pkb, f"{command} >&-")
    assert (done.returncode, done.stderr) == (0, "")


def test_errors_keep_their_code_without_any_stream(fresh: Pkb) -> None:
    assert [typed(fresh, f"stats {how}").returncode for how in (">&- 2>&-", "<&- >&- 2>&-", "2>&-")] == [10, 10, 10]


def test_no_questions_are_read_from_a_closed_standard_input(pkb: Pkb) -> None:
    done = typed(pkb, "ask - <&-")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@full
def test_a_command_whose_messages_go_nowhere_keeps_its_code(fresh: Pkb) -> None:
    done = typed(fresh, f"stats 2> {FULL}")
    assert (done.returncode, done.stdout) == (10, "")
