"""The install commands of the README, into a fresh environment: it computes with what the development one does."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.models import runtime

PROJECT = Path(__file__).resolve().parents[1]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux" or not runtime.wheel_library(), reason="only Linux needs OpenBLAS"),
]


@pytest.fixture(scope="module")
def uv(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment in which uv installs below a temporary folder; skip where no package can be had."""
    folder = tmp_path_factory.mktemp("uv")
    fetch = [sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), "uv"]
    got = None if shutil.which("uv") else subprocess.run(fetch, capture_output=True, text=True, check=False)
    if got and got.returncode:
        pytest.skip(f"no package registry can be reached: {''.join(got.stderr.splitlines()[-1:])}")
    path = f"{folder}/bin:{os.environ['PATH']}"
    own = {"UV_CACHE_DIR": "cache", "UV_TOOL_DIR": "tools", "UV_TOOL_BIN_DIR": "bin", "HF_HOME": "hf"}
    own |= {"PKB_HOME": "home", "PKB_CACHE": "home/cache", "PKB_CONFIG": "config.toml"}
    shell = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return shell | {name: f"{folder}/{place}" for name, place in own.items()} | {"PATH": path}


def compute(uv: dict[str, str], *command: str) -> dict[str, Any]:
    """Return what `pkb doctor` finds about computing, the installed one by default."""
    words = [*(command or ("pkb",)), "doctor", "--json"]
    ran = subprocess.run(words, env=uv, capture_output=True, text=True, check=True, cwd=PROJECT)
    (found,) = [check for check in json.loads(ran.stdout)["checks"] if check["name"] == "compute"]
    return dict(found)


def test_a_plain_install_names_the_command_that_gives_it_the_library_of_the_development_environment(
    uv: dict[str, str],
) -> None:
    subprocess.run(["uv", "tool", "install", "-q", str(PROJECT)], env=uv, check=True)
    plain = compute(uv)
    python = f"{uv['UV_TOOL_DIR']}/pkb/bin/python"
    add = f"uv pip install --python {python} {shlex.quote(f'{PROJECT}[cpu]')}"
    assert (plain["state"], plain["next"]) == ("note", add)
    subprocess.run([*shlex.split(plain["next"]), "-q"], env=uv, check=True)
    fresh, ours = compute(uv), compute(uv, sys.executable, "-m", "cli.app")
    assert (fresh["state"], fresh["next"]) == ("ok", None)
    assert "OpenBLAS" in fresh["found"]
    assert fresh["found"] == ours["found"] != plain["found"]
