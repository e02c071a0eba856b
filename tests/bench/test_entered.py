"""Calls are counted by file, function and edge in all threads; the product's size is that of its sources."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import prompts
from engine.ask import keys
from tests.bench.entered import product_file, size, watched
from tests.demo import DATA, NANO, environment

KEY = "Who has the spare key to the workshop?"
EXACT, PROMPTS = (product_file(Path(module.__file__ or "")) for module in (keys, prompts))


def test_a_call_within_a_file_is_no_edge() -> None:
    with watched() as found:
        keys.normalise("When?")
    assert found.to_json() == {"files": 1, "functions": 1, "edges": 0}


def test_a_call_into_another_file_is_an_edge_however_often() -> None:
    with watched() as found:
        keys.by_model("model", 10)
        keys.by_model("model", 10)
    assert found.edges == {(EXACT, PROMPTS)}
    assert {file for file, _, _ in found.functions} == {EXACT, PROMPTS}


def test_what_another_thread_enters_counts() -> None:
    with watched() as found:
        thread = threading.Thread(target=keys.normalise, args=("When?",))
        thread.start()
        thread.join()
    assert [name for _, name, _ in found.functions] == ["normalise"]


def test_tests_and_libraries_are_no_product() -> None:
    assert (product_file(Path(__file__)), product_file(Path(threading.__file__))) == (None, None)


@pytest.mark.slow
def test_the_product_has_more_lines_than_functions_and_more_functions_than_modules() -> None:
    sizes = size()
    assert sizes["lines"] > sizes["defined"] > sizes["modules"] > 0


# Files that each command enters, in a fresh home of the bundled mail; lower a limit when fewer are.
MOST_FILES = {"ingest": 45, "quote": 42, "exact": 19, "single": 19, "model": 59, "idle": 55}
COMMANDS = {
    "ingest": ("ingest", str(DATA)),
    "quote": ("ask", "when is rehearsal?", "--no-daemon"),
    "exact": ("ask", "when is rehearsal?", "--no-daemon"),  # another sender says otherwise
    "cached": ("ask", KEY, "--no-daemon"),
    "single": ("ask", KEY, "--no-daemon"),  # nobody else says anything
    "model": ("ask", "When was the spring concert?", "--model", str(NANO), "--no-daemon"),
    "idle": ("idle", "--force"),
}


@pytest.mark.slow
def test_a_command_enters_no_more_files_than_its_limit(tmp_path: Path) -> None:
    found = {}
    for name, words in COMMANDS.items():
        command = [sys.executable, "-m", "tests.bench.entered", *words]
        done = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True, check=True)
        found[name] = json.loads(done.stdout.splitlines()[-1])["files"]
    assert {name: files for name, files in found.items() if files > MOST_FILES.get(name, files)} == {}
