"""Files read by processes ahead of what is committed: the same as in this process, whatever ends meanwhile."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from itertools import islice
from pathlib import Path

import psutil
import pytest

from engine.ingest import chunking
from engine.ingest.chunking import prepare, read_ahead
from engine.ingest.files import read_all
from engine.ingest.scan import state_of
from engine.ingest.types import ParseLimits
from store.types import FileState, ParsedItem, PreparedDocument, replace
from tests.demo import DATA, environment
from tests.engine.ingest.box import mail

_PROJECT = Path(__file__).parents[3]
_LIMITS = ParseLimits(attachments=True, root="/")
_ONE = (len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()) == 1
Files = list[tuple[bytes, FileState]]
Value = FileState | ParsedItem


@pytest.fixture(autouse=True)
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let two processes read, however few files there are, and send what they read in small parts."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    for name, value in (("_MANY", 0), ("_TASK_FILES", 7), ("_AHEAD", 2)):
        monkeypatch.setattr(chunking, name, value)


def archive(folder: Path, count: int = 60) -> Files:
    """Write messages, some of which quote, an mbox, and what cannot be read; return the files as a scan does."""
    for number in range(count):
        quote = f"On 1 May 2024 ann@x.org wrote:\n> word{number - 1}\n" if number % 5 == 0 else ""
        text = f"word{number} " * (number % 50 * 100 + 1) + f"\n\n{quote}"
        mail(folder / f"m{number:04}.eml", text, name=f"m{number}", day=number % 28 + 1)
    some = [path.read_bytes() for path in sorted(folder.glob("*.eml"))[:20]]
    (folder / "m0030.mbox").write_bytes(b"".join(b"From a@x Thu May  2 10:00:00 2024\n" + one + b"\n" for one in some))
    (folder / "broken.zip").write_bytes(b"PK\x03\x04 not a zip")
    (folder / "empty.eml").write_bytes(b"")
    return files_of(folder)


def files_of(folder: Path) -> Files:
    """Return the files of a folder as a scan does, in order."""
    found = sorted(os.fsencode(path) for path in folder.rglob("*") if path.is_file())
    return [(path, state) for path in found if (state := state_of(path))]


def reading(files: Files) -> Generator[Value, None, None]:
    """Yield what processes read, without what they prepared."""
    for one in read_ahead(files, _LIMITS):
        yield replace(one, prepared=None) if isinstance(one, ParsedItem) else one


def here(files: Files) -> list[Value]:
    """Return what this process reads."""
    return list(read_all(files, _LIMITS))


def readers(of: int | None = None) -> list[psutil.Process]:
    """Return the processes that read ahead for a process, this one if none is named."""
    found = list[psutil.Process]()
    with suppress(psutil.Error):
        for one in psutil.Process(of).children():
            with suppress(psutil.Error):  # another one, which has just ended
                found += [one] if "read_tasks" in " ".join(one.cmdline()) else []
    return found


def wait_for(found: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait until something holds."""
    until = time.monotonic() + seconds
    while not found() and time.monotonic() < until:
        time.sleep(0.02)
    assert found()


@pytest.mark.parametrize("demo", [True, False], ids=["demo", "mail"])
def test_processes_read_what_this_one_reads_in_order(tmp_path: Path, demo: bool) -> None:
    files = files_of(DATA) if demo else archive(tmp_path)
    found = reading(files)
    some = [*islice(found, 20)]  # of two tasks: each process begins with its first
    assert demo or len(readers()) == 2
    assert [*some, *found] == here(files)
    assert readers() == []


def test_few_files_start_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = archive(tmp_path)
    monkeypatch.setattr(chunking, "_MANY", 16 << 20)
    found = reading(files)
    next(found)
    assert readers() == []


def test_they_prepare_what_is_computed_of_a_document_alone(tmp_path: Path) -> None:
    found = [one for one in read_ahead(archive(tmp_path), _LIMITS) if isinstance(one, ParsedItem)]
    documents = [one.document for one in found if one.document]
    prepared = [one.prepared for one in found if one.document]
    assert prepared == [prepare(one, chunked=True) for one in documents]
    assert all(isinstance(one, PreparedDocument) and one.own and one.own[0] for one in prepared)


def test_a_process_that_is_killed_changes_nothing(tmp_path: Path) -> None:
    files, found = archive(tmp_path), list[Value]()
    rest = reading(files)
    for at in (1, 20, 40):
        found += islice(rest, at - len(found))
        for process in readers():
            process.kill()
    assert [*found, *rest] == here(files)


# What a process runs whose parser crashes on one file, in the middle of it.
_CRASHES = """
import os
from pathlib import Path
from engine.ingest import chunking, files

def read(path, *how, real=files.read):
    for number, one in enumerate(real(path, *how)):
        if path.name == "m0030.mbox" and number == 5:
            Path({log!r}).open("a").write("crashed ")
            {ends}
        yield one

files.read = read
chunking.read_tasks()
"""


def test_a_file_that_ends_every_process_costs_itself_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, log = archive(tmp_path / "mail"), tmp_path / "log"
    monkeypatch.setattr(chunking, "_READER", _CRASHES.format(log=str(log), ends="os.abort()"))
    wanted = here(files)
    inode = (tmp_path / "mail" / "m0030.mbox").stat().st_ino
    at = next(at for at, one in enumerate(wanted) if isinstance(one, FileState) and one.inode == inode)
    crashed = ParsedItem(5, None, problem="bug in pkb: a process crashed; please report it")
    assert [*reading(files)] == [*wanted[: at + 6], crashed, *wanted[at + 21 :]]
    assert log.read_text() == "crashed " * 3


def test_what_ends_a_run_without_processes_ends_it_with_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, log = archive(tmp_path / "mail"), tmp_path / "log"
    monkeypatch.setattr(chunking, "_READER", _CRASHES.format(log=str(log), ends="raise MemoryError"))
    with pytest.raises(MemoryError):
        list(reading(files))
    assert log.read_text() == "crashed "  # and the file is not said to have crashed anything


def test_one_large_file_is_read_by_a_process(tmp_path: Path) -> None:
    files = [one for one in archive(tmp_path) if one[0].endswith(b".mbox")]
    found = [one for one in read_ahead(files, _LIMITS) if isinstance(one, ParsedItem)]
    assert len(found) == 20
    assert all(one.prepared for one in found)  # which this process leaves to the commits


def test_what_is_not_taken_ends_its_processes(tmp_path: Path) -> None:
    found = reading(archive(tmp_path))
    assert len([*islice(found, 20)]) == 20
    started = readers()
    found.close()
    assert (len(started), [one for one in started if one.is_running()]) == (2, [])


@pytest.mark.parametrize("program", ["true", "missing/python"])
def test_where_no_process_starts_files_are_read_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    files = archive(tmp_path)
    monkeypatch.setattr(sys, "executable", shutil.which(program) or program)
    assert list(reading(files)) == here(files)


@pytest.mark.slow
@pytest.mark.skipif(_ONE, reason="one processor: files are read by the process that commits")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_process_outlives_an_ingest(tmp_path: Path, number: int) -> None:
    for at in range(100):
        mail(tmp_path / "mail" / f"m{at}.eml", f"word{at} " * 60_000, name=f"m{at}")
    words = [sys.executable, "-P", "-m", "cli.app", "ingest", str(tmp_path / "mail"), "--vectors", "later"]
    ran = subprocess.Popen(
        words, env=environment(tmp_path) | {"PKB_DAEMON": "off"}, cwd=_PROJECT, start_new_session=True
    )
    wait_for(lambda: readers(ran.pid))
    started = readers(ran.pid)
    ran.send_signal(number)
    ran.wait()
    wait_for(lambda: not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in started))
