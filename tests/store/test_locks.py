"""Locks between processes: each holder is a process of its own."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest

from store.errors import Locked
from store.locks import Locks

_HOLD = """
import sys
from pathlib import Path
from store.locks import Locks
with getattr(Locks(Path(sys.argv[1])), sys.argv[2])(*sys.argv[3:]) as held:
    print("held", held, flush=True)
    sys.stdin.readline()
"""


@contextmanager
def held(folder: Path, kind: str) -> Iterator["subprocess.Popen[str]"]:
    """Hold a lock in another process."""
    words = [sys.executable, "-c", _HOLD, str(folder), *kind.split()]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline().startswith("held")
        yield process
        with suppress(BrokenPipeError):  # it was killed
            process.communicate("\n")


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    with held(tmp_path, "writer"), pytest.raises(Locked, match="is writing"), Locks(tmp_path).writer(0.05):
        pass


def test_a_writer_waits_for_the_one_before(tmp_path: Path) -> None:
    with held(tmp_path, "writer") as process:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
        with Locks(tmp_path).writer(30):
            pass


def test_readers_go_on_beside_a_writer(tmp_path: Path) -> None:
    with held(tmp_path, "writer"), Locks(tmp_path).reader():
        pass


def test_readers_go_on_beside_readers(tmp_path: Path) -> None:
    with held(tmp_path, "reader"), Locks(tmp_path).reader():
        pass


def test_a_writer_goes_on_beside_readers(tmp_path: Path) -> None:
    with held(tmp_path, "reader"), Locks(tmp_path).writer(0.05):
        pass


def test_exclusive_is_not_beside_a_reader(tmp_path: Path) -> None:
    with held(tmp_path, "reader"), pytest.raises(Locked, match="is reading"), Locks(tmp_path).exclusive(0.05):
        pass


def test_exclusive_is_not_beside_a_writer(tmp_path: Path) -> None:
    with held(tmp_path, "writer"), pytest.raises(Locked, match="is writing"), Locks(tmp_path).exclusive(0.05):
        pass


def test_exclusive_goes_on_when_the_last_reader_is_done(tmp_path: Path) -> None:
    with held(tmp_path, "reader") as process:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
        with Locks(tmp_path).exclusive(30):
            pass


def test_a_new_reader_does_not_get_ahead_of_one_who_waits_to_be_exclusive(tmp_path: Path) -> None:
    order: list[str] = []

    def exclusive() -> None:
        with Locks(tmp_path).exclusive(30):
            order.append("exclusive")

    def read() -> None:
        with Locks(tmp_path).reader():
            order.append("reader")

    with held(tmp_path, "reader") as process:
        waiting = Thread(target=exclusive)
        waiting.start()
        max_wait = time.monotonic() + 30
        while not _is_taken(tmp_path / "gate.lock") and time.monotonic() < max_wait:
            time.sleep(0.01)
        late = Thread(target=read)
        late.start()
        time.sleep(0.2)
        assert order == []
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
        waiting.join()
        late.join()
    assert order == ["exclusive", "reader"]


def _is_taken(path: Path) -> bool:
    from filelock import FileLock, Timeout

    try:
        with FileLock(path, timeout=0):
            return False
    except Timeout:
        return True


@pytest.mark.parametrize("kind", ["reader", "writer", "exclusive", "sole embedder"])
def test_a_killed_holder_holds_nothing(tmp_path: Path, kind: str) -> None:
    with held(tmp_path, kind) as process:
        process.kill()
        process.wait()
        with Locks(tmp_path).exclusive(1), Locks(tmp_path).sole("embedder") as writer_key:
            assert writer_key


def test_a_second_embedder_is_told_at_once(tmp_path: Path) -> None:
    with held(tmp_path, "sole embedder"), Locks(tmp_path).sole("embedder") as writer_key:
        assert not writer_key


def test_the_embedder_goes_on_beside_a_writer(tmp_path: Path) -> None:
    with held(tmp_path, "writer"), Locks(tmp_path).sole("embedder") as writer_key:
        assert writer_key


def test_two_threads_of_one_process_may_both_read(tmp_path: Path) -> None:
    locks = Locks(tmp_path)
    with locks.reader():
        other = Thread(target=lambda: locks.reader().__enter__())
        other.start()
        other.join(10)
        assert not other.is_alive()


def test_locks_hold_no_file_open_once_released(tmp_path: Path) -> None:
    locks = Locks(tmp_path)

    def open_files() -> int:
        return len(list(Path("/dev/fd").iterdir()))

    with locks.reader():
        pass
    before = open_files()
    for _ in range(20):
        with locks.writer():
            pass
    assert open_files() == before


@pytest.mark.parametrize("name", ["gate.lock", "writer.lock", "embedder.lock", "idle.lock", "access.lock"])
def test_a_folder_in_the_place_of_a_lock_file_is_removed(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    locks = Locks(tmp_path)
    with locks.writer(), locks.sole("embedder") as embeds, locks.sole("idle") as idles:
        assert (embeds, idles) == (True, True)


@pytest.mark.parametrize("content", [b"\0" * 4096, b"SQLite", b"From: Ann\n" * 50])
def test_a_damaged_lock_file_of_readers_is_replaced(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "access.lock").write_bytes(content)
    with Locks(tmp_path).reader(), pytest.raises(Locked), Locks(tmp_path).exclusive(0.05):
        pass
