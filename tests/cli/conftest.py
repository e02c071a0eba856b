"""pkb run in this process, on copies of a home with the bundled mail and meetings."""

import io
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from typer.main import get_command

from cli.app import COMMANDS, app, run
from engine.session import Session
from engine.settings import Experiment
from tests.cli.serving import Served, served
from tests.demo import copied, environment


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Return the objects it printed."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def row(self) -> dict[str, Any]:
        """Return the one object it printed."""
        (row,) = self.rows
        return row


class Pkb:
    """Runs commands in one home, in this process."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]) -> None:
        self.folder, self._patch, self._capture = folder, patch, capture
        for name, value in environment(folder).items():
            patch.setenv(name, value)

    def __call__(self, *words: str, stdin: bytes = b"", env: Mapping[str, str] = MappingProxyType({})) -> Ran:
        """Run one command; the environment variables stay."""
        for name, value in env.items():
            self._patch.setenv(name, value)
        self._patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        self._capture.readouterr()
        code = run(list(words))
        return Ran(code, *self._capture.readouterr())

    def experiment(self, **values: Any) -> None:
        """Run later commands under an experiment."""
        self._patch.setattr("engine.session.Session", partial(Session, experiment=Experiment(**values)))

    def answers(self) -> int:
        """Count the answers that are kept."""
        return int(self("stats", "--json").row["answers"]["answered"])


def prepared(folder: Path, *commands: Sequence[str]) -> Path:
    """Run commands in a home that tests copy, or only read."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(folder).items():
            patch.setenv(name, value)
        for words in commands:
            assert run(list(words)) in (0, 3)
    return folder


def commands() -> dict[str, Any]:
    """Return the commands of pkb by name."""
    group: Any = get_command(app)
    return {name: group.get_command(None, name) for name in COMMANDS}


@pytest.fixture(autouse=True, scope="session")
def private() -> Iterator[None]:
    """Make files for their owner alone, as the program does when it starts."""
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.fixture
def pkb(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Pkb:
    """Return pkb in a home of its own that holds the bundled mail and meetings."""
    return Pkb(copied(made, tmp_path / "demo"), monkeypatch, capsys)


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Iterator[Served]:
    """Yield a home in which a resident process is wanted."""
    folder = copied(made, tmp_path / "demo")
    with served(folder, environment(folder)) as own:
        yield own


@pytest.fixture
def closed() -> Iterator[list[Path]]:
    """Collect folders and files whose modes are to be opened again."""
    paths: list[Path] = []
    yield paths
    for path in paths:
        path.chmod(0o700)


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Pkb:
    """Return pkb where nothing was ever ingested."""
    return Pkb(tmp_path / "fresh", monkeypatch, capsys)
