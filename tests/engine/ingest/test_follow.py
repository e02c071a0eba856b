"""Followed folders, with real files and real events: what becomes due, and what is ignored."""

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.ingest.follow import Follow, Followed, Intervals
from tests.effort import PATIENCE_S

QUICK = Intervals(quiet=0.2, max_wait=3, rescan=600, poll=0.2, check=0.1)
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="these limits and mounts are Linux's")


@contextmanager
def following(*roots: Path, pace: Intervals = QUICK, polling: bool = False) -> Iterator[Follow]:
    """Follow roots that were due once already."""
    with Follow(pace, polling=polling) as follow:
        for root in roots:
            follow.add(str(root))
        follow.due()
        yield follow


def wait_for(follow: Follow, there: Callable[[dict[str, bool]], bool] = bool) -> dict[str, bool]:
    """Collect due roots until there are enough."""
    found: dict[str, bool] = {}
    ends = time.monotonic() + PATIENCE_S
    while not there(found):
        assert time.monotonic() < ends, found
        follow.wait()
        found |= follow.due()
    return found


def rest(follow: Follow, seconds: float = 1.0) -> dict[str, bool]:
    """Return what becomes due within some time."""
    ends, found = time.monotonic() + seconds, dict[str, bool]()
    while time.monotonic() < ends:
        follow.wait()
        found |= follow.due()
    return found


@pytest.fixture
def mail(tmp_path: Path) -> Path:
    """Return a folder of mail with the folders of a delivery in it."""
    for name in ("cur", "new", "tmp"):
        (tmp_path / "mail" / "box" / name).mkdir(parents=True)
    return tmp_path / "mail"


@pytest.mark.parametrize("polling", [False, True])
def test_a_new_file_makes_its_root_due(mail: Path, polling: bool) -> None:
    with following(mail, polling=polling) as follow:
        (mail / "box" / "new" / "1").write_text("x")
        wait_for(follow)


def test_a_delivery_makes_its_root_due_when_it_can_be_read(mail: Path) -> None:
    with following(mail) as follow:
        (mail / "box" / "tmp" / "1700000000.1.host").write_text("x")
        assert rest(follow) == {}
        (mail / "box" / "tmp" / "1700000000.1.host").rename(mail / "box" / "new" / "1700000000.1.host")
        wait_for(follow)
        (mail / "box" / "new" / "1700000000.1.host").rename(mail / "box" / "cur" / "1700000000.1.host:2,S")
        wait_for(follow)


@pytest.mark.slow  # waits for six seconds
def test_a_file_that_is_being_written_keeps_its_root_from_being_due(mail: Path) -> None:
    with following(mail, pace=Intervals(quiet=4, max_wait=60, check=0.1)) as follow, (mail / "big").open("w") as file:
        for _ in range(20):
            file.write("x" * 100)
            file.flush()
            time.sleep(0.1)
            assert follow.due() == {}
        wait_for(follow)


def test_a_root_with_steady_changes_is_due_after_the_maximum_wait(mail: Path) -> None:
    with following(mail, pace=Intervals(quiet=30, max_wait=0.5, check=0.1)) as follow:
        (mail / "big").write_text("x")
        wait_for(follow)


@pytest.mark.parametrize("polling", [False, True])
def test_deletions_and_renames_make_their_root_due(mail: Path, polling: bool) -> None:
    for name in ("a", "b"):
        (mail / "box" / "cur" / name).write_text(name)
    with following(mail, polling=polling) as follow:
        (mail / "box" / "cur" / "a").unlink()
        wait_for(follow)
        (mail / "box" / "cur" / "b").rename(mail / "box" / "new" / "b")
        wait_for(follow)


def test_a_folder_moved_in_or_out_with_its_files_makes_its_root_due(mail: Path, tmp_path: Path) -> None:
    (tmp_path / "other" / "deep").mkdir(parents=True)
    (tmp_path / "other" / "deep" / "a").write_text("x")
    with following(mail) as follow:
        (tmp_path / "other").rename(mail / "other")
        wait_for(follow)
        (mail / "other" / "deep" / "b").write_text("x")
        wait_for(follow)
        (mail / "other").rename(tmp_path / "other")
        wait_for(follow)


@pytest.mark.parametrize("polling", [False, True])
def test_a_file_root_survives_editors_that_replace_it(tmp_path: Path, polling: bool) -> None:
    file = tmp_path / "notes.mbox"
    file.write_text("one")
    with following(file, polling=polling) as follow:
        for number in range(3):
            (tmp_path / f".notes{number}").write_text(f"another {number}")
            (tmp_path / f".notes{number}").rename(file)
            assert wait_for(follow) == {str(file): False}
        (tmp_path / "neighbour").write_text("x")
        assert rest(follow) == {}


def test_ignored_files_make_nothing_due(mail: Path) -> None:
    (mail / ".git" / "objects").mkdir(parents=True)
    with following(mail) as follow:
        for name in (".git/objects/a", ".notes.swp", "dovecot.index.log", "box/cur/x.tmp"):
            (mail / name).write_text("x")
        (mail / "box" / "cur").joinpath("x.tmp").read_text()
        assert rest(follow) == {}


@pytest.mark.parametrize("polling", [False, True])
def test_changes_in_our_own_folders_make_nothing_due(mail: Path, polling: bool) -> None:
    (mail / "ours").mkdir()
    with Follow(QUICK, polling=polling, aside=[str(mail / "ours")]) as follow:
        follow.add(str(mail))
        follow.due()
        (mail / "ours" / "ledger").write_text("x")
        assert rest(follow) == {}
        (mail / "oursonly").write_text("x")
        wait_for(follow)


def test_reading_a_file_makes_nothing_due(mail: Path) -> None:
    (mail / "a").write_text("x")
    with following(mail) as follow:
        assert (mail / "a").read_text() == "x"
        assert list(mail.rglob("*"))
        assert rest(follow) == {}


def test_a_burst_of_changes_is_due_once(mail: Path) -> None:
    with following(mail, pace=Intervals(quiet=1.5, max_wait=60, check=0.1)) as follow:
        for number in range(2000):
            (mail / "box" / "new" / f"{number}").write_text("x")
        assert wait_for(follow) == {str(mail): False}


@pytest.mark.slow
@LINUX
def test_changes_are_reported_after_an_event_queue_overflow(mail: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Overflow the system's event queue, and create a folder meanwhile."""
    with following(mail, pace=Intervals(quiet=2, max_wait=120, check=0.1)) as follow:
        _flood(mail / "box" / "new")
        (mail / "deep" / "down").mkdir(parents=True)
        wait_for(follow)
        assert "overflowed" in caplog.text
        (mail / "deep" / "down" / "last").write_text("x")
        wait_for(follow)


def _flood(folder: Path) -> None:
    """Create and remove files without releasing the GIL, so that no event is handled meanwhile."""
    before, libc = sys.getswitchinterval(), ctypes.PyDLL(None)
    kept = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    sys.setswitchinterval(1000)
    try:
        for number in range(kept // 3 + 1000):  # made, closed, removed
            name = os.fsencode(folder / str(number))
            libc.close(libc.creat(name, 0o600))
            libc.unlink(name)
    finally:
        sys.setswitchinterval(before)


def test_a_root_that_vanishes_is_reported_and_due_when_it_is_back(mail: Path, tmp_path: Path) -> None:
    with following(mail) as follow:
        mail.rename(tmp_path / "away")
        assert follow.check_roots() == [Followed(str(mail), "missing")]
        (tmp_path / "away" / "late").write_text("x")
        assert (rest(follow), follow.check_roots()) == ({}, [])
        (tmp_path / "away").rename(mail)
        assert follow.check_roots() == [Followed(str(mail), "events")]
        wait_for(follow)
        (mail / "box" / "cur" / "a").write_text("x")
        wait_for(follow)


@pytest.mark.parametrize("polling", [False, True])
def test_a_recreated_root_is_watched_again(tmp_path: Path, polling: bool) -> None:
    """Recreate the folder at once: the new one may reuse the inode number."""
    root = tmp_path / "mail"
    root.mkdir()
    with following(root, polling=polling) as follow:
        for number in range(2):
            root.rmdir()
            root.mkdir()
            (root / f"{number}").write_text("x")
            wait_for(follow, lambda due: bool(due or follow.check_roots()))
            (root / f"{number}").unlink()
            rest(follow, 0.5)
        follow.check_roots()
        (root / "a").write_text("x")
        wait_for(follow)


def test_a_root_that_is_not_there_yet_is_followed_when_it_is(tmp_path: Path) -> None:
    with Follow(QUICK) as follow:
        assert follow.add(str(tmp_path / "later")) == Followed(str(tmp_path / "later"), "missing")
        assert (follow.check_roots(), rest(follow, 0.3)) == ([], {})
        (tmp_path / "later").mkdir()
        assert [one.how for one in follow.check_roots()] == ["events"]
        wait_for(follow)


def test_a_root_behind_a_link_is_reported_under_its_own_name(mail: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(mail)
    with following(tmp_path / "link") as follow:
        (mail / "box" / "cur" / "a").write_text("x")
        wait_for(follow)


def test_undecodable_names_are_reported(mail: Path) -> None:
    folder = os.fsdecode(os.fsencode(mail) + b"/caf\xe9")
    Path(folder).mkdir()
    with following(mail) as follow:
        (Path(folder) / "a").write_text("x")
        wait_for(follow)


def test_a_root_is_due_at_every_rescan_without_events(mail: Path) -> None:
    with following(mail, pace=Intervals(quiet=0.1, rescan=0.5, check=0.1)) as follow:
        assert wait_for(follow) == {str(mail): True}


LIMITED = """
import logging, sys
logging.getLogger("watchdog").addHandler(logging.NullHandler())  # as `pkb ingest --watch` does
from pathlib import Path
Path("/proc/sys/user/{limit}").write_text(sys.argv[2])
from engine.ingest.follow import Follow
from engine.ingest.follow import Intervals
with Follow(Intervals(quiet=0.1, poll=0.1, check=0.1)) as follow:
    print(follow.add(sys.argv[1]))
    follow.due()
    Path(sys.argv[1], "a", "new").write_text("x")
    while not (due := follow.due()):
        follow.wait()
    print(due)
"""


@LINUX
@pytest.mark.parametrize(
    ("limit", "name"), [("max_inotify_watches", "watches"), ("max_inotify_instances", "instances")]
)
def test_without_a_watch_it_polls_and_names_the_limit(tmp_path: Path, limit: str, name: str) -> None:
    for folder in ("a", "b", "c"):
        (tmp_path / folder).mkdir()
    code = LIMITED.format(limit=limit)
    command = ["unshare", "--user", "--map-root-user", sys.executable, "-c", code, str(tmp_path), "0"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except FileNotFoundError:
        pytest.skip("no unshare here")
    if done.returncode and ("unshare" in done.stderr or "/proc/sys/user" in done.stderr):
        pytest.skip("no user namespaces here")
    assert done.stderr == ""
    followed, due = done.stdout.splitlines()
    assert "how='polling'" in followed
    assert f"sudo sysctl fs.inotify.max_user_{name}=" in followed
    assert f"'{tmp_path}'" in due


MOUNTED = """
import subprocess, sys
from pathlib import Path
from engine.ingest.follow import Follow
from engine.ingest.follow import Intervals
root = sys.argv[1]
subprocess.run(["mount", "-t", "tmpfs", "none", root], check=True)
Path(root, "a").write_text("x")
with Follow(Intervals(quiet=0.1, check=0.1)) as follow:
    print(follow.add(root).how, len(follow.due()))
    subprocess.run(["umount", root], check=True)
    print(*(one.how for one in follow.check_roots()), len(follow.check_roots()), len(follow.due()))
    subprocess.run(["mount", "-t", "tmpfs", "none", root], check=True)
    Path(root, "a").write_text("x")
    print(*(one.how for one in follow.check_roots()))
    while not (due := follow.due()):
        follow.wait()
    print(len(due))
"""


@LINUX
def test_the_empty_folder_that_an_unmounted_disk_leaves_is_a_missing_root(tmp_path: Path) -> None:
    command = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, "-c", MOUNTED, str(tmp_path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except FileNotFoundError:
        pytest.skip("no unshare here")
    if done.returncode and ("unshare" in done.stderr or "mount" in done.stderr):
        pytest.skip("nothing can be mounted here")
    assert (done.stdout.splitlines(), done.stderr) == (["events 1", "missing 0 0", "events", "1"], "")
