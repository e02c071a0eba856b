"""Full disks, unreadable folders, other processes and signals: one line, the right exit code, nothing lost."""

import ctypes
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from store.locks import Locks
from tests.cli.conftest import Pkb
from tests.cli.serving import served
from tests.cli.test_watch import finds, turn, watcher, write
from tests.demo import DATA, environment
from tests.effort import PATIENCE_S

KEY = "Who has the spare key to the workshop?"
FULL = re.compile(
    r"(pkb: warning: .* GB free; try: .*\n)?"
    r"pkb: (no space left on (the disk|device)|the (disk is|ledger cannot be read.*) full or failing).*; try: pkb .*\n"
)
# Bits that let root read and write what its modes forbid; without them root is like anybody.
_DROP_BOUND, _DAC_OVERRIDE, _DAC_READ_SEARCH = 24, 1, 2


def _as_anybody() -> None:
    if os.geteuid() == 0 and sys.platform == "linux":
        for bit in (_DAC_OVERRIDE, _DAC_READ_SEARCH):
            ctypes.CDLL(None).prctl(_DROP_BOUND, bit, 0, 0, 0)


def as_anybody(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run pkb in a process that file modes hold back, whoever runs the tests."""
    command = [sys.executable, "-m", "cli.app", *words]
    return subprocess.run(
        command, env=environment(folder), capture_output=True, text=True, check=False, preexec_fn=_as_anybody
    )


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a disk of 30 MB that can be made smaller, or skip."""
    disk = tmp_path / "disk"
    disk.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=30m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(words, capture_output=True, check=False).returncode != 0:
        pytest.skip("only root can mount the small disk that this test fills")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def _fill(disk: Path) -> None:
    """Leave no room on a disk."""
    with suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
        while filler.write(bytes(1 << 12)):
            pass


def resize(disk: Path, size: str) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size}", str(disk)], check=True)


@pytest.mark.parametrize("size", ["120k", "300k", "400k"])  # the ledger is full, the tables are
def test_a_full_disk_loses_nothing_and_the_next_run_finishes(fresh: Pkb, small_disk: Path, size: str) -> None:
    folder, home = str(DATA / "mail" / "single"), {"PKB_HOME": f"{small_disk}/home", "PKB_CACHE": f"{small_disk}/cache"}
    resize(small_disk, size)
    ran = fresh("ingest", folder, "--vectors", "later", env=home)
    assert (ran.code, ran.out) == (1, "")
    assert FULL.fullmatch(ran.err)
    resize(small_disk, "30m")
    assert fresh("ingest", folder, "--vectors", "later").code in (0, 3)  # 3 where the picture had not been named yet
    assert fresh("doctor", "--data", "--read-data").code == 0
    assert fresh("stats", "--json").row["index"]["documents"] == 15


def test_on_a_full_disk_reading_and_answering_go_on(fresh: Pkb, small_disk: Path) -> None:
    home = {"PKB_HOME": f"{small_disk}/home", "PKB_CACHE": f"{small_disk}/cache"}
    fresh("ingest", str(DATA / "mail" / "mh"), "--vectors", "later", env=home)
    question = "when is the general meeting?"
    kept, other = fresh("ask", question), fresh("ask", "who is the treasurer?", "--cache=off")
    _fill(small_disk)
    full = "pkb: no space left on the disk: nothing is cached or counted; try: pkb doctor\n"
    again = fresh("ask", question)
    assert (again.code, again.out.splitlines()[0], full in again.err) == (0, kept.out.splitlines()[0], True)
    new = fresh("ask", "who is the treasurer?")
    assert (new.code, new.out.splitlines()[0], full in new.err) == (other.code, other.out.splitlines()[0], True)
    path = next((DATA / "mail" / "mh").glob("1*"))
    assert [fresh(*words).code for words in (("search", "meeting"), ("show", str(path)), ("stats",))] == [0, 0, 0]


@pytest.mark.parametrize("words", [("wrong",), ("doctor", "--data", "--repair"), ("idle", "--force")])
def test_a_change_that_must_last_is_refused_on_a_full_disk(
    fresh: Pkb, small_disk: Path, words: tuple[str, ...]
) -> None:
    home = {"PKB_HOME": f"{small_disk}/home", "PKB_CACHE": f"{small_disk}/cache"}
    fresh("ingest", str(DATA / "mail" / "mh"), "--vectors", "later", env=home)
    fresh("ask", "when is the general meeting?")
    _fill(small_disk)
    ran = fresh(*words)
    assert (ran.code, ran.out) == (1, "")
    assert FULL.fullmatch(ran.err.splitlines(keepends=True)[-1])


def test_a_missing_temporary_folder_is_not_reported_as_damage(tmp_path: Path) -> None:
    environ = {**environment(tmp_path), "TMPDIR": str(tmp_path / "gone")}
    command = [sys.executable, "-m", "cli.app", "ingest", str(DATA / "mail" / "mh"), "--vectors", "later"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, "damaged" in done.stderr) == (0, False)


def test_an_unreadable_folder_is_named_and_the_rest_is_ingested(tmp_path: Path, closed: list[Path]) -> None:
    folder = tmp_path / "mail" / "private"
    folder.mkdir(parents=True)
    for place in (folder / "1.eml", folder.parent / "2.eml"):
        place.write_bytes((DATA / "mail" / "single" / "programme.eml").read_bytes().replace(b"@", place.name.encode()))
    (folder.parent / "3.eml").write_text("From: x\n\nnot for all\n")
    for path in (folder, folder.parent / "3.eml"):
        path.chmod(0)
        closed.append(path)
    ran = as_anybody(tmp_path, "ingest", str(folder.parent), "--vectors", "later")
    assert (ran.returncode, ran.stderr) == (3, "")
    assert re.search(f"^skipped {folder}: .*permission denied$", ran.stdout, re.MULTILINE)
    assert f"skipped {folder.parent}/3.eml: permission denied" in ran.stdout
    assert "1 document added" in ran.stdout


def test_a_read_only_home_is_one_line(pkb: Pkb, closed: list[Path]) -> None:
    home = pkb.folder / "home"
    for path in (home, *home.rglob("*")):
        path.chmod(0o500 if path.is_dir() else 0o400)
        closed.append(path)
    for words in (["ask", KEY], ["ingest", str(DATA / "mail" / "mh")]):
        ran = as_anybody(pkb.folder, *words)
        assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (1, "", 1)
        assert "bug" not in ran.stderr


def test_a_home_that_cannot_be_created_is_one_line(tmp_path: Path, closed: list[Path]) -> None:
    parent = tmp_path / "closed"
    parent.mkdir(mode=0o500)
    closed.append(parent)
    ran = as_anybody(parent, "ingest", str(DATA / "mail" / "mh"))
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == f"pkb: cannot write to {parent}/home: Permission denied; try: pkb doctor\n"


@pytest.mark.slow  # waits out a lock; store/test_locks holds the short form
def test_a_second_writer_exits_11_and_asking_goes_on(pkb: Pkb) -> None:
    with Locks(pkb.folder / "home" / "locks").writer():
        said = pkb("ingest").err
        ran = pkb("ingest", "--json")
        asked = pkb("ask", KEY)
    assert (ran.code, ran.row["error"]["code"]) == (11, 11)
    assert ran.row["error"]["message"] == "another pkb is writing"
    assert said == "pkb: another pkb is writing; try: again when it is done\n"
    assert asked.code == 0


def _interruptible() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _documents(ledger: Path) -> int:
    try:
        with sqlite3.connect(f"file:{ledger}?mode=ro", uri=True) as rows:
            return int(rows.execute("SELECT count(*) FROM documents").fetchone()[0])
    except sqlite3.Error:
        return 0
    finally:
        if "rows" in locals():
            rows.close()


@pytest.mark.parametrize(
    ("sent", "code"), [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow)]
)
def test_a_signal_ends_ingest_with_its_code_and_loses_nothing(
    fresh: Pkb, tmp_path: Path, sent: signal.Signals, code: int
) -> None:
    head = "From x Mon Jun  3 10:00:00 2024\nFrom: Ida <ida@example.org>\nDate: Mon, 3 Jun 2024 10:00:00 +0000\n"
    mbox = tmp_path / "many.mbox"
    mbox.write_text("".join(f"{head}Message-ID: <{n}@x>\nSubject: {n}\n\nboat {n} is dry\n\n" for n in range(300)))
    command = [sys.executable, "-m", "cli.app", "ingest", str(mbox)]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, env=environment(fresh.folder), stdout=pipe, stderr=pipe, preexec_fn=_interruptible
    ) as process:
        while not _documents(fresh.folder / "home" / "ledger.db"):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(sent)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (code, b"")
    acknowledged = _documents(fresh.folder / "home" / "ledger.db")
    assert fresh("ingest", "--vectors", "later").code == 0
    assert acknowledged <= _documents(fresh.folder / "home" / "ledger.db") == 300
    assert fresh("doctor", "--data", "--read-data").code == 0


# A signal that comes after LanceDB has made its first coroutine and before it is begun.
_BETWEEN = """
import os, sys
from lancedb.background_loop import BackgroundEventLoop as Loop
run, number = Loop.run, int(sys.argv.pop())
Loop.run = lambda loop, begun: (os.kill(os.getpid(), number), run(loop, begun))
from cli.app import main
main()
"""

# One that comes while a thread waits for a table: `Condition.wait` has released the lock that `with` releases again.
_WAITING = """
import os, sys, threading
from lancedb.background_loop import BackgroundEventLoop as Loop
number = int(sys.argv.pop())
def wait(loop, begun):
    begun.close()
    lock = threading.Condition(threading.Lock())
    with lock:
        lock.release()
        os.kill(os.getpid(), number)
        threading.Event().wait()
Loop.run = wait
from cli.app import main
main()
"""


@pytest.mark.parametrize("moment", [_BETWEEN, _WAITING])
@pytest.mark.parametrize(
    ("sent", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
def test_a_signal_prints_nothing_of_unfinished_table_operations(
    tmp_path: Path, sent: signal.Signals, code: int, moment: str
) -> None:
    command = [sys.executable, "-c", moment, "ingest", str(DATA / "mail" / "mh"), str(int(sent))]
    done = subprocess.run(
        command, env=environment(tmp_path), capture_output=True, check=False, preexec_fn=_interruptible
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, b"", b"")


@pytest.mark.slow
def test_a_background_server_that_started_on_a_full_disk_caches_once_there_is_room(small_disk: Path) -> None:
    """It would answer from a copy of the ledger, without the mail that came since."""
    environ = environment(small_disk)
    with served(small_disk, environ) as home:
        home.run("ingest", str(DATA / "mail" / "mh"), "--vectors", "later")
        _leave(small_disk, 500_000)
        assert home.run("serve").returncode == 0
        asked = home.run("ask", "who is the treasurer?")
        assert (asked.returncode, b"nothing is cached or counted" in asked.stderr) == (4, True)
        resize(small_disk, "60m")
        assert home.run("ingest", str(DATA / "mail" / "single"), "--vectors", "later").returncode in (0, 3)
        asks = (("ask", KEY, "--json"), ("ask", KEY, "--no-daemon", "--json"))
        first, again = (json.loads(home.run(*words).stdout) for words in asks)
        assert (first["tier"], again["tier"], home.is_there) == ("full", "exact", True)


def test_indexing_on_an_almost_full_disk_writes_to_the_ledger_itself(fresh: Pkb, small_disk: Path) -> None:
    home = {"PKB_HOME": f"{small_disk}/home", "PKB_CACHE": f"{small_disk}/cache"}
    fresh("ingest", str(DATA / "mail" / "mh"), "--vectors", "later", env=home)
    _leave(small_disk, 900_000)
    mail = min((DATA / "mail" / "single").glob("*.eml"))
    ran = fresh("ingest", str(mail), "--vectors", "later")
    assert (ran.code, "1 document added" in ran.out) == (0, True)
    assert fresh("stats", "--json").row["index"]["documents"] == 4


def test_a_full_disk_is_named_with_the_command_that_goes_on(fresh: Pkb, small_disk: Path) -> None:
    home = {"PKB_HOME": f"{small_disk}/home", "PKB_CACHE": f"{small_disk}/cache"}
    fresh("ingest", str(DATA / "mail" / "mh"), "--vectors", "later", env=home)
    _fill(small_disk)
    ran = fresh("ingest", str(DATA / "mail" / "single"), "--vectors", "later")
    assert (ran.code, ran.out) == (1, "")
    assert re.search(rf"^pkb: .*: {small_disk}/home; try: pkb ingest, once there is room$", ran.err, re.MULTILINE)


def test_watching_a_folder_waits_for_room_and_goes_on(
    fresh: Pkb, small_disk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home, folder, said = {"PKB_HOME": f"{small_disk}/home", "PKB_CACHE": f"{small_disk}/cache"}, tmp_path / "in", [""]
    write(folder / "old.eml", "canoe")
    fresh("ingest", str(folder), "--vectors", "later", env=home)

    def is_postponed() -> bool:
        said.append(capsys.readouterr().out)
        return "waiting" in "".join(said)

    with watcher(folder) as one:
        _fill(small_disk)
        write(folder / "new.eml", "balloon")
        turn(one, is_postponed)
        (small_disk / "filler").unlink()
        turn(one, lambda: finds(fresh, "balloon"))


def _leave(disk: Path, size: int) -> None:
    """Leave so many bytes of room on a disk."""
    _fill(disk)
    with (disk / "filler").open("r+b") as filler:
        filler.truncate((disk / "filler").stat().st_size - size)
