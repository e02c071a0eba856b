"""Opens a file or a message in the program that the system, or the user, has for it; never through a shell."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.text.terminal import line, message_uri
from store.errors import PkbError, UsageError

_OPENER = "PKB_OPENER"
_SYSTEM = {"darwin": "open", "linux": "xdg-open"}


def opening(path: str, message_id: str | None, instead: str, environ: Mapping[str, str], platform: str) -> list[str]:
    """Return the command that opens a source; PkbError if its file is missing, or nothing here opens files.

    On macOS a message is opened in Mail, elsewhere its file. A program named by PKB_OPENER is given the file.
    `instead` is what to type where it cannot be opened.
    """
    named = environ.get(_OPENER)
    program = _found(_words(named) if named else [_SYSTEM.get(platform, "xdg-open")], environ, instead)
    if platform == "darwin" and message_id and not named:
        return [*program, message_uri(message_id)]
    if not Path(path).is_file():
        raise PkbError(f"{line(path)} is missing", "pkb ingest")
    if os.access(path, os.X_OK) and not named:
        raise PkbError(f"{line(path)} is executable, so that the system may run it", instead)
    # No "--" before the path, which xdg-open refuses: an absolute path is never taken for an option.
    assert path.startswith("/"), "sources have absolute paths"
    return [*program, path]


def run_opener(command: Sequence[str], instead: str) -> None:
    """Run such a command to its end, on this terminal; PkbError if it fails."""
    name = line(Path(command[0]).name)
    try:
        code = subprocess.run(command, check=False).returncode
    except OSError as error:
        raise PkbError(f"cannot run {name}: {(error.strerror or '').lower()}", instead) from None
    if code:
        raise PkbError(f"{name} failed with exit code {code}", instead)


def _words(named: str) -> list[str]:
    try:
        words = shlex.split(named)
    except ValueError:
        words = []
    if not words:
        raise UsageError(f"{_OPENER} is not a command", f"{_OPENER}='code -r' pkb open 1")
    return words


def _found(words: Sequence[str], environ: Mapping[str, str], instead: str) -> list[str]:
    """Return a command with the path of its program; PkbError if it is not installed."""
    program = shutil.which(words[0], path=environ.get("PATH"))
    if program is None:
        raise PkbError(f"{line(words[0])} is not installed", f"set {_OPENER} to a program, or: {instead}")
    return [program, *words[1:]]
