"""The command that adds what is missing to an installation of pkb, by uv, pipx or pip, and removes nothing from it."""

import json
import shlex
import sys
from importlib.metadata import Distribution
from importlib.util import find_spec
from pathlib import Path

import pytest

from engine.models import runtime

LAYOUTS = {"uv tool": "uv-receipt.toml", "pipx": "pipx_metadata.json", "a plain environment": None}


class Installed(Distribution):
    """pkb as it was installed from a checkout."""

    def __init__(self, url: str, *, editable: bool) -> None:
        self.origin = json.dumps({"url": url, "dir_info": {"editable": editable}})

    def read_text(self, filename: str) -> str:
        """Return where it is from."""
        return self.origin

    def locate_file(self, path: object) -> Path:
        """Return nothing that is there."""
        return Path("/nowhere")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "my pkb"
    found = Installed(folder.as_uri(), editable=False)
    monkeypatch.setattr("importlib.metadata.distribution", lambda name: found)
    return folder


@pytest.mark.parametrize("receipt", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("has_pip", [True, False])
def test_a_backend_is_added_to_the_environment_that_runs(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, receipt: str | None, has_pip: bool
) -> None:
    venv = tmp_path / "venvs" / "pkb 2"
    venv.mkdir(parents=True)
    if receipt:
        (venv / receipt).write_text("", "utf-8")
    monkeypatch.setattr(sys, "prefix", str(venv))
    monkeypatch.setattr(sys, "executable", str(venv / "bin" / "python"))

    def found(name: str) -> object:
        return (has_pip or None) if name == "pip" else find_spec(name)

    monkeypatch.setattr("engine.models.runtime.find_spec", found)
    said = shlex.split(runtime.install_command())
    assert said[-2] == "install" or said[:5] == ["uv", "pip", "install", "--python", str(venv / "bin" / "python")]
    assert said[-1] == f"{checkout}{'[cpu]' if sys.platform == 'linux' else ''}"
    assert not {"tool", "--force", "clean", "setup", "--reinstall", "uninstall"} & set(said)


def test_an_editable_installation_stays_editable(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Installed("file:///src/pkb", editable=True)
    monkeypatch.setattr("importlib.metadata.distribution", lambda name: found)
    said = shlex.split(runtime.install_command())
    assert said[-2] == "-e"
    assert said[-1].startswith("/src/pkb")


def test_beside_cuda_no_other_backend_is_installed(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "_cuda_wheels", lambda: True)
    assert shlex.split(runtime.install_command())[-1] == str(checkout)
