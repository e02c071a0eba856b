"""Temporary homes for measurements, used through the command line or in this process."""

import os
import subprocess
import sys
from pathlib import Path

from engine.session import Session


def environment(folder: Path) -> dict[str, str]:
    """Return the variables of a home below a folder."""
    places = {"PKB_HOME": f"{folder}/home", "PKB_CACHE": f"{folder}/cache", "PKB_CONFIG": f"{folder}/config.toml"}
    return places | {"PKB_DAEMON": "off"}  # each command is measured by itself


def pkb(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run one pkb command in a process of its own."""
    command = [sys.executable, "-m", "cli.app", *words]
    return subprocess.run(
        command, env={**os.environ, **environment(folder)}, capture_output=True, text=True, check=False
    )


def opened(folder: Path) -> Session:
    """Open a home for writing in this process."""
    session = Session(environment(folder))
    session.make()
    return session
