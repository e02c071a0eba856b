"""A killed replay repeats no finished unit and restarts the interrupted one."""

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench import harness
from tests.bench.lines import Work
from tests.bench.policies import POLICIES
from tests.bench.test_harness import RIGHT, query, read, user

MANY = tuple(query(f"Where does the choir rehearse in week {number}?", RIGHT) for number in range(6))


def both(folder: Path) -> None:
    """Replay two units with quotes; run in a process of its own."""
    for name in ("naive", "meancache"):
        harness.replay(Work(user(folder, MANY), POLICIES[name], "quote", len(MANY)), folder)


def group(folder: Path) -> None:
    """Replay the two in turns; run in a process of its own."""
    works = [Work(user(folder, MANY), POLICIES[name], "quote", len(MANY)) for name in ("naive", "meancache")]
    harness.together(works, folder, lambda: False)


def killed_group(folder: Path) -> None:
    """Replay the two in turns until the kill; run in a process of its own."""
    sys.stderr = Deadly()
    group(folder)


class Deadly(io.StringIO):
    """Kills its process when the third question of the second unit is told of."""

    def write(self, text: str) -> int:
        if "meancache" in text and "question 3 of" in text:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().write(text)


def killed(folder: Path) -> None:
    """Replay the two units until the kill; run in a process of its own."""
    sys.stderr = Deadly()
    both(folder)


def run(name: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Call one of these in a process of its own."""
    code = f"from pathlib import Path; from tests.bench.test_resuming import {name}; {name}(Path({str(folder)!r}))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_one_that_is_killed_repeats_no_unit_that_is_done_and_begins_the_other_anew(tmp_path: Path) -> None:
    first = run("killed", tmp_path)
    assert first.returncode == -signal.SIGKILL, first.stderr
    done, undone = (tmp_path / "lines" / f"made-up.ann.{name}.quote.jsonl" for name in ("naive", "meancache"))
    assert not undone.exists()
    assert len(undone.with_suffix(".part").read_text("utf-8").splitlines()) == 3
    before = done.stat()
    second = run("both", tmp_path)
    assert second.returncode == 0, second.stderr
    assert "naive" not in second.stderr
    assert "question 1 of 6" in second.stderr
    assert (done.stat().st_ino, done.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert [line["number"] for line in read(undone)] == list(range(1, 7))
    assert not undone.with_suffix(".part").exists()
    assert list((tmp_path / "homes").iterdir()) == []


@pytest.mark.slow
def test_units_that_take_turns_are_killed_together_and_begin_anew_together(tmp_path: Path) -> None:
    assert run("killed_group", tmp_path).returncode == -signal.SIGKILL
    files = [tmp_path / "lines" / f"made-up.ann.{name}.quote.jsonl" for name in ("naive", "meancache")]
    assert [file.exists() for file in files] == [False, False]
    second = run("group", tmp_path)
    assert second.returncode == 0, second.stderr
    assert [[line["number"] for line in read(file)] for file in files] == [list(range(1, 7))] * 2
    assert list((tmp_path / "homes").iterdir()) == []
