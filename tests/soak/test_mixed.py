"""Mixed commands on one home: a thousand killed at random moments, and eight processes for ten minutes.

Prints what it saw: run it with `pytest -m soak -s`.
"""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.soak


@pytest.mark.parametrize(
    "words", [("--kills", "1000", "--processes", "4"), ("--minutes", "10", "--processes", "8", "--each", "60")]
)
def test_nothing_acknowledged_is_lost_and_nothing_needs_a_repair(tmp_path: Path, words: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "tests.soak.mixed", str(tmp_path / "home"), *words]
    assert subprocess.run(command, check=False).returncode == 0
