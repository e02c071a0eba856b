"""The resident process is ready when it starts, or is given up; it exits when its answers were read."""

import fcntl
import json
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from threading import Timer

import pytest

from engine.serve.process import TRIES, Broken
from store.locks import Lease
from tests.cli.serving import Served, wait
from tests.demo import NANO

KEY = "Who has the spare key to the workshop?"
REPAIRED = "How many bicycles were repaired on the repair day?"  # which the bundled model answers
FIRST = """
import os, sys
from engine.serve.server import WorkerState
from engine.serve.process import Request, answer, request, unpack
from engine.session import Session
from engine.types import AskOptions

desk, opened = WorkerState(os.environ, lambda: None), Session(os.environ)
desk.warm()
desk.load()
ready = set(sys.modules)
for model in ("quote", opened.settings.model.name):
    opened.override("model.name", model)
    asked = unpack(Request, request(opened, sys.argv[1], AskOptions(), streams=False))
    with desk.session(asked) as made:
        answered = made.asker.ask(asked.text, asked.options, asked.now, None)
        answer(answered)
        answered.keep()
own = ("cli", "engine", "store", "prompts")
print(sorted(name for name in set(sys.modules) - ready if name.split(".")[0] in own))
"""


@pytest.fixture
def failing(home: Served, tmp_path: Path) -> Path:
    """Have every resident process end at once; returns the file in which each leaves a line."""
    folder, starts = tmp_path / "site", tmp_path / "starts"
    folder.mkdir()
    lines = ("import os, sys", "if '--lock' in sys.orig_argv:", f"    open({str(starts)!r}, 'a').write('.')")
    (folder / "sitecustomize.py").write_text("\n".join((*lines, "    os._exit(1)", "")))
    starts.touch()
    home.environ["PYTHONPATH"] = str(folder)
    return starts


@pytest.mark.slow
def test_imports_are_done_before_the_first_question(home: Served) -> None:
    home.run("config", "set", "model.name", str(NANO))
    ran = subprocess.run([sys.executable, "-c", FIRST, KEY], env=home.environ, capture_output=True, check=True)
    assert ran.stdout == b"[]\n"


def test_a_server_that_does_not_start_is_given_up_after_a_few_tries(home: Served, failing: Path) -> None:
    ran = home.run("serve", "--json")
    assert ran.returncode == 1
    assert json.loads(ran.stdout)["error"]["next"] == "pkb serve --foreground"
    assert len(failing.read_text()) == TRIES


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [["ask", KEY, "--cache=off"], ["search", "gazebo", "-k", "2"], ["search", "x", "--to", "y"]]
)
def test_a_command_does_the_work_itself_where_no_server_starts(home: Served, failing: Path, words: list[str]) -> None:
    alone = home.run(*words)
    tries = len(failing.read_text())
    home.environ["PKB_DAEMON"] = "off"
    here = home.run(*words)
    assert (alone.returncode, alone.stdout, tries >= TRIES) == (here.returncode, here.stdout, True)


@pytest.mark.slow
def test_a_question_that_waits_for_the_model_does_not_start_one_for_ever(home: Served, failing: Path) -> None:
    home.run("config", "set", "model.name", str(NANO))
    elsewhere = Lease(home.home.locks / "model.lock")
    assert elsewhere.acquire()
    asking = home.start("ask", REPAIRED)
    wait(lambda: len(failing.read_text()) == TRIES)
    time.sleep(1)
    elsewhere.release()
    asking.communicate()
    assert (asking.returncode, len(failing.read_text())) == (0, TRIES)


def test_it_exits_when_its_answers_were_read(home: Served) -> None:
    assert home.run("serve").returncode == 0
    asked = 5000  # more than a socket holds of what is said to them
    with closing(home.link()) as link:
        for _ in range(asked):
            link.send("status", {})
        link.send("stop", {})
        assert [link.receive()["kind"] for _ in range(asked)] == ["status"] * asked
        with pytest.raises(Broken):
            link.receive()
    wait(lambda: not home.is_there)


def test_taking_a_lease_waits_for_processes_that_only_probe_it(tmp_path: Path) -> None:
    path = tmp_path / "model.lock"
    path.touch()
    with path.open() as look:
        fcntl.flock(look, fcntl.LOCK_SH)
        done = Timer(0.05, fcntl.flock, (look, fcntl.LOCK_UN))
        done.start()
        taken = Lease(path).acquire()
        done.join()
        assert taken
