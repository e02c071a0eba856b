"""A signal ends a command, whatever Python is doing when it comes: removing an object, or importing a module."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Pkb
from tests.demo import environment

LOSING = """
import os, signal, sys, time
from cli.app import handle_signals
handle_signals()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
class Slow:
    def __del__(self):
        os.kill(os.getpid(), signal.{name})
        time.sleep(0.01)
one = Slow()
del one
print("it went on", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGINT", -signal.SIGINT)])
def test_a_signal_that_was_lost_comes_again(name: str, code: int) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", LOSING.format(name=name)], env=os.environ, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (code, "it went on\n")
    assert "Exception ignored" not in ran.stderr


def test_other_mistakes_in_destructors_are_still_told_of() -> None:
    code = "from cli.app import handle_signals; handle_signals()\nclass Bad:\n    def __del__(self): 1 / 0\nBad()\n"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "ZeroDivisionError" in ran.stderr


_INTERRUPTED = """
import cli.app
cli.app._invoke = lambda args: exec("raise KeyboardInterrupt")
cli.app.main()
"""


def test_an_interrupt_while_a_module_is_imported_exits_with_130(tmp_path: Path) -> None:
    (tmp_path / "interrupted.py").write_text(_INTERRUPTED)
    path = os.pathsep.join((str(tmp_path), str(Path(__file__).parents[2])))
    env = {**os.environ, "PYTHONPATH": path}
    ran = subprocess.run([sys.executable, "-m", "interrupted", "list"], env=env, check=False)
    assert ran.returncode == 130


_IN_A_CHECKSUM = """
import os, signal, sys
from cli.app import main
def once(frame, event, _):
    if event == "call" and frame.f_code.co_name == "row_checksum":
        sys.setprofile(None)
        os.kill(os.getpid(), int(os.environ["SENT"]))
sys.setprofile(once)
main()
"""


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_sqlite_computes_a_checksum_ends_with_its_code(
    fresh: Pkb, tmp_path: Path, sent: signal.Signals, code: int
) -> None:
    (tmp_path / "one.eml").write_text("From: ann@example.org\nSubject: tea\n\nTea is at four.\n")
    command = [sys.executable, "-c", _IN_A_CHECKSUM, "ingest", str(tmp_path / "one.eml"), "--vectors", "later"]
    ran = subprocess.run(
        command, env=environment(fresh.folder) | {"SENT": str(int(sent))}, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr.count("bug")) == (code, 0), ran.stderr
    assert fresh("ingest", str(tmp_path / "one.eml"), "--vectors", "later").code == 0
    assert "four" in fresh("ask", "When is tea?").out
