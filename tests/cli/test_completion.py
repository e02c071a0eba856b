"""Completion in the shell: the scripts that `pkb --install-completion` installs, run by the shells there are."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli.app import run
from tests.demo import environment as of_home
from tests.effort import PATIENCE_S

SHELLS = ("bash", "zsh", "fish")
BASH = """
source "$SCRIPT"
COMP_WORDS=({words}) COMP_CWORD={last}
_pkb_completion pkb
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which `pkb` is this program, and no file of the user's is touched."""
    program = tmp_path / "bin" / "pkb"
    program.parent.mkdir()
    project = Path(__file__).parents[2]
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{project}" exec "{sys.executable}" -m cli.app "$@"\n')
    program.chmod(0o755)
    return {"PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(tmp_path), "TERM": "dumb"}


def said(environment: dict[str, str], *words: str, **more: str) -> str:
    """Return what a program prints."""
    done = subprocess.run(
        words, env={**environment, **more}, capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    assert done.stderr == ""
    return done.stdout


def script(environment: dict[str, str], shell: str) -> Path:
    """Return the completion script of a shell in a file."""
    path = Path(environment["HOME"], f"pkb.{shell}")
    path.write_text(said(environment, "pkb", _PKB_COMPLETE=f"source_{shell}"))
    return path


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("pkb", "se"), ["search", "serve"]),
        (("pkb", "ask", "--m"), ["--model", "--max-tokens"]),
        (("pkb", "ask", "--cache", ""), ["refresh", "off", "stale"]),
        (("pkb", "config", "s"), ["set", "show"]),
        (("pkb", "ingest", "--vectors", ""), ["auto", "now", "background", "later"]),
        (("pkb", "serve", "--l"), []),  # an option of its own use
    ],
)
def test_bash_completes_commands_options_and_choices(
    words: tuple[str, ...], expected: list[str], environment: dict[str, str]
) -> None:
    if not (bash := shutil.which("bash")):
        pytest.skip("bash is not installed")
    typed = " ".join(f"'{word}'" for word in words)
    code = BASH.format(words=typed, last=len(words) - 1)
    environment["SCRIPT"] = str(script(environment, "bash"))
    assert said(environment, bash, "--norc", "-c", code).split() == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("pkb", "ask", "--from", "gus"), ["gus.tindall@example.com"]),
        (("pkb", "list", "--in", "t"), ["transcripts"]),
        (("pkb", "people", "gus"), ["gus.tindall@example.com"]),
        (("pkb", "ask", "--doc", "wor"), ["workshop\\ meeting"]),
        (("pkb", "meeting", "wor"), ["workshop\\ meeting"]),
        (("pkb", "config", "get", "ask."), ["ask.k", "ask.decline_below"]),
        (("pkb", "model", "use", "qu"), ["quote"]),
        (("pkb", "ask", "--model", "qu"), ["quote"]),
        (("pkb", "ask", "--to", "%"), [""]),
    ],
)
def test_bash_completes_people_collections_titles_settings_and_models(
    words: tuple[str, ...], expected: list[str], environment: dict[str, str], made: Path
) -> None:
    about = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1), "_PKB_COMPLETE": "complete_bash"}
    assert said(of_home(made) | environment, "pkb", **about).splitlines() == expected


def test_with_completion_man_finds_the_page(environment: dict[str, str]) -> None:
    said(environment, "pkb", "--install-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    link, page = Path(environment["HOME"], ".local/share/man/man1/pkb.1"), Path(sys.prefix, "share/man/man1/pkb.1")
    assert link.exists() == page.exists()
    assert not link.exists() or link.samefile(page)


def test_before_anything_is_ingested_no_value_is_completed(environment: dict[str, str], tmp_path: Path) -> None:
    about = {"COMP_WORDS": "pkb ask --from g", "COMP_CWORD": "3", "_PKB_COMPLETE": "complete_bash"}
    assert said(of_home(tmp_path) | environment, "pkb", **about).split() == []


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_understands_its_script(shell: str, environment: dict[str, str]) -> None:
    path = script(environment, shell)
    assert "_PKB_COMPLETE" in path.read_text()
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    assert said(environment, shell, "-n", str(path)) == ""


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_answer_to_a_shell_names_the_commands_with_their_help(shell: str, environment: dict[str, str]) -> None:
    answer = said(
        environment, "pkb", _PKB_COMPLETE=f"complete_{shell}", _TYPER_COMPLETE_ARGS="pkb se",
        _TYPER_COMPLETE_FISH_ACTION="get-args",
    )  # fmt: skip
    assert "search" in answer
    assert "Show the best matching passages" in answer


def test_a_shell_that_is_not_known_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_PKB_COMPLETE", "complete_nosh")
    assert run([]) == 1
    assert capsys.readouterr().err == "Shell nosh not supported.\n"
