"""The identity that client and resident process compare changes with the code and with nothing else."""

import os
from pathlib import Path

import pytest

from engine.serve.process import code


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Make a folder with a project's file and packages."""
    (tmp_path / "pyproject.toml").touch()
    for name in ("cli", "engine/ask", "store", "prompts"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "engine" / "ask" / "parse.py").write_text("x = 1\n", "utf-8")
    return tmp_path


def test_a_changed_file_of_a_checkout_changes_the_identity(checkout: Path) -> None:
    before, path = code(checkout), checkout / "engine" / "ask" / "parse.py"
    path.write_text("x = 2\n", "utf-8")
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))
    assert code(checkout) != before


def test_a_new_file_of_a_checkout_changes_the_identity(checkout: Path) -> None:
    before = code(checkout)
    (checkout / "prompts" / "answer.txt").touch()
    assert code(checkout) != before


def test_compiled_files_do_not_change_the_identity(checkout: Path) -> None:
    before = code(checkout)
    (checkout / "store" / "__pycache__").mkdir()
    (checkout / "store" / "__pycache__" / "bank.cpython-311.pyc").touch()
    assert code(checkout) == before


def test_an_installation_changes_the_identity(tmp_path: Path) -> None:
    os.utime(tmp_path, ns=(0, 0))
    before = code(tmp_path)
    assert code(tmp_path) == before
    (tmp_path / "pkb-2.dist-info").mkdir()
    assert code(tmp_path) != before
