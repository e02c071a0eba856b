"""The install commands of the README, into a fresh environment: it computes as fast as the development environment."""

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
ROUNDS, MOST = 40, 1.2
# One thread's processor seconds, which other processes hardly lengthen.
MEASURE = """
import sys
from time import process_time
from engine.models import runtime
runtime.load_blas(1)
import mlx.core as mx
square = mx.random.normal((runtime.SIDE, runtime.SIDE), key=mx.random.key(1))
mx.eval(square @ square)
for _ in sys.stdin:
    start = process_time()
    mx.eval(*[square @ square for _ in range(4)])
    print(8 * runtime.SIDE**3 / (process_time() - start) / 1e9, flush=True)
"""

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


def compute(uv: dict[str, str]) -> dict[str, Any]:
    """Return what the installed `pkb doctor` finds about computing."""
    ran = subprocess.run(["pkb", "doctor", "--json"], env=uv, capture_output=True, text=True, check=True)
    (found,) = [check for check in json.loads(ran.stdout)["checks"] if check["name"] == "compute"]
    return dict(found)


def fastest(*pythons: list[str], env: dict[str, str]) -> list[float]:
    """Return the best rate of each Python in GFLOP/s; they measure in turns."""
    processes = [
        subprocess.Popen([*words, "-c", MEASURE], env=env, stdin=-1, stdout=-1, text=True, cwd=PROJECT)
        for words in pythons
    ]
    rates: list[list[float]] = [[] for _ in processes]
    for _ in range(ROUNDS):
        for process, found in zip(processes, rates, strict=True):
            assert process.stdin
            assert process.stdout
            process.stdin.write("\n")
            process.stdin.flush()
            found.append(float(process.stdout.readline()))
    for process in processes:
        process.communicate()
    return [max(found) for found in rates]


def test_a_plain_install_names_the_command_that_makes_it_as_fast_as_the_development_environment(
    uv: dict[str, str],
) -> None:
    subprocess.run(["uv", "tool", "install", "-q", str(PROJECT)], env=uv, check=True)
    plain = compute(uv)
    python = f"{uv['UV_TOOL_DIR']}/pkb/bin/python"
    add = f"uv pip install --python {python} {shlex.quote(f'{PROJECT}[cpu]')}"
    assert (plain["state"], plain["next"]) == ("note", add)
    subprocess.run([*shlex.split(plain["next"]), "-q"], env=uv, check=True)
    assert (compute(uv)["state"], compute(uv)["next"]) == ("ok", None)
    fresh, ours = rates = fastest([f"{uv['UV_TOOL_DIR']}/pkb/bin/python", "-I"], [sys.executable], env=uv)
    print(f"fresh {fresh:.1f}, development {ours:.1f} GFLOP/s")
    assert max(rates) / min(rates) < MOST
