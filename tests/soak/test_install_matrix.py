"""Every way to install pkb, with each extra in each order: nothing goes, models stay, and `man` finds the page.

Needs a package registry and minutes: `pytest -m soak tests/soak/test_install_matrix.py`. What an extra for a graphics
card would remove is only planned, since it is gigabytes.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
NAMES = "import importlib.metadata as m, json; print(json.dumps(sorted({d.name for d in m.distributions()})))"
WAYS = {
    "uv": "uv tool install -q --force {project}",
    "pipx": "pipx install -q --force {project}",
    "pip": "{python} -m venv {place}/venv && {place}/venv/bin/pip install -q {project}",
}
PYTHONS = {"uv": "tools/pkb/bin/python", "pipx": "pipx/venvs/pkb/bin/python", "pip": "venv/bin/python"}

pytestmark = [pytest.mark.soak, pytest.mark.skipif(sys.platform != "linux", reason="extras are for Linux")]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with uv and pipx in it; skip where no registry can be reached."""
    folder = tmp_path_factory.mktemp("install")
    subprocess.run([sys.executable, "-m", "venv", folder / "ways"], check=True)
    if subprocess.run([folder / "ways/bin/pip", "install", "-q", "uv", "pipx"], check=False).returncode:
        pytest.skip("no package registry can be reached")
    return folder


def environment(place: Path) -> dict[str, str]:
    own = {"UV_TOOL_DIR": "tools", "UV_TOOL_BIN_DIR": "bin", "PIPX_HOME": "pipx", "PIPX_BIN_DIR": "bin"}
    own |= {"HOME": ".", "PKB_HOME": "home", "PKB_CACHE": "cache", "PKB_CONFIG": "config.toml"}
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV", "MANPATH")}
    path = f"{place}/bin:{place}/.local/bin:{place}/ways/bin:{os.environ['PATH']}"
    return kept | {name: f"{place}/{folder}" for name, folder in own.items()} | {"PATH": path}


def run(place: Path, command: str) -> str:
    done = subprocess.run(["sh", "-c", command], env=environment(place), capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout + done.stderr


def removed(place: Path, python: Path, extra: str) -> list[str]:
    """Return what would go if an extra came."""
    planned = run(place, f"uv pip install --dry-run --python {python} '{PROJECT}[{extra}]'")
    return [line for line in planned.splitlines() if line.strip().startswith("- ") and "pkb==" not in line]


@pytest.mark.parametrize("way", WAYS)
def test_nothing_goes_when_an_extra_comes_or_pkb_is_installed_again(place: Path, way: str) -> None:
    install = WAYS[way].format(project=PROJECT, python=sys.executable, place=place)
    python, pkb = place / PYTHONS[way], (place / PYTHONS[way]).parent / "pkb"
    run(place, install)
    before = set(json.loads(run(place, f"{python} -c {shlex.quote(NAMES)}")))
    model = place / "home" / "models" / "kept"
    for folder in (model.parents[1], model.parent, model):
        folder.mkdir(mode=0o700, exist_ok=True)
    (compute,) = [one for one in json.loads(run(place, f"{pkb} doctor --json"))["checks"] if one["name"] == "compute"]
    assert [removed(place, python, extra) for extra in ("cuda13", "cpu")] == [[], []]
    run(place, f"{compute['next']} -q")  # as pkb says
    assert before <= set(json.loads(run(place, f"{python} -c {shlex.quote(NAMES)}")))
    assert removed(place, python, "cuda13") == []
    run(place, install)
    assert model.exists()
    run(place, f"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION=1 {pkb} --install-completion bash")
    assert not shutil.which("man") or run(place, "man -w pkb").strip().endswith("pkb.1")
