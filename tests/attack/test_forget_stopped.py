"""`pkb forget` beside a process that is stopped: it says which, does nothing by halves, and works once that goes on."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from engine.app import Pkb
from store.database import open_ledger
from store.erasure import is_unfinished
from store.errors import Locked, as_pkb_error
from store.locks import Locks, blocked
from store.types import Scope
from tests.attack.lab import Lab, mail
from tests.engine.recovery import Secret, traces

SECRET = Secret(("Zebulonite",))
MAILS = {
    "secret.eml": mail("The Zebulonite tricycle is blue.", title="Tricycle"),
    "rent.eml": mail("The rent is 900 euros."),
}
# What a process holds while it is stopped.
HELD = {
    "a transaction of the ledger": "rows.execute('BEGIN IMMEDIATE')",
    "a transaction that has written": "rows.execute('BEGIN IMMEDIATE'); rows.execute(\"DELETE FROM meta WHERE 0\")",
    "an idle run": "kept = locks.sole('idle'); kept.__enter__()",
    "the lock of writers": "kept = locks.writer(); kept.__enter__()",
    "the lock of readers": "kept = locks.reader(); kept.__enter__()",
}
HOLD = """import os, signal, sqlite3, sys
from pathlib import Path
from store.locks import Locks
rows, locks = sqlite3.connect(sys.argv[1], isolation_level=None), Locks(Path(sys.argv[2]))
...
os.kill(os.getpid(), signal.SIGSTOP)
"""


@contextmanager
def stopped(lab: Lab, held: str) -> Iterator[int]:
    """Run a process that stops itself while it holds something."""
    with lab.open() as pkb:
        places = [str(pkb.session.home.ledger), str(pkb.session.home.locks)]
    code = HOLD.replace("...", held)
    with subprocess.Popen([sys.executable, "-c", code, *places]) as process:
        try:
            os.waitpid(process.pid, os.WUNTRACED)
            yield process.pid
        finally:
            process.kill()


def forget(pkb: Pkb, path: Path) -> None:
    pkb.session.ledger.rows.execute("PRAGMA busy_timeout = 200")
    pkb.forget(pkb.plan_forgetting([str(path)], Scope()))


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="nothing tells there who holds a lock")
@pytest.mark.parametrize("held", HELD)
def test_forgetting_beside_a_stopped_process_names_it_and_does_nothing(lab: Lab, held: str) -> None:
    lab.read(MAILS)
    with stopped(lab, HELD[held]) as number, lab.open() as pkb:
        with pytest.raises(Locked, match=f"process {number}, which is stopped") as failed:
            forget(pkb, lab.mail / "secret.eml")
        assert (failed.value.code, failed.value.next_step) == (11, f"kill -CONT {number}")
    with lab.open() as pkb:
        assert not is_unfinished(pkb.session.ledger)
        assert len(pkb.show(lab.mail / "secret.eml")) == 1
        forget(pkb, lab.mail / "secret.eml")
    assert traces(lab.folder / "home", SECRET) == set()


def test_a_ledger_that_stays_locked_is_the_error_of_a_lock(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with closing(open_ledger(path, create=True)) as one, closing(open_ledger(path)) as other, one.transaction():
        other.rows.execute("PRAGMA busy_timeout = 0")
        with pytest.raises(Exception, match="locked") as failed:
            other.set("a", "b")
    assert as_pkb_error(failed.value).code == 11


def test_a_lock_that_this_process_holds_names_no_other(tmp_path: Path) -> None:
    with Locks(tmp_path).sole("idle"):
        assert str(blocked("it runs", tmp_path / "idle.lock")) == "it runs"
