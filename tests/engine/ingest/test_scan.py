"""The find_changes at the disk: what is new, changed, gone, and what cannot be looked at."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from engine.ingest.scan import Changes, ancestors, find_changes, state_of
from store.types import FileState

_NONE: Mapping[bytes, FileState] = {}


def see(root: Path, known: Mapping[bytes, FileState] = _NONE) -> Changes:
    return find_changes(os.fsencode(root), known, lambda path: path.name.endswith(".tmp"))


def test_all_files_of_a_new_folder_are_new(tmp_path: Path) -> None:
    for name in ("a", "b/c", "b/d/e"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    assert {os.fsdecode(path) for path in see(tmp_path).new} == {str(tmp_path / n) for n in ("a", "b/c", "b/d/e")}


def test_what_is_known_and_as_it_was_is_only_seen(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    again = see(tmp_path, see(tmp_path).new)
    assert (again.seen, again.new, again.changed, again.gone) == (1, {}, {}, set())


@pytest.mark.parametrize("change", ["size", "time", "inode"])
def test_a_file_that_differs_in_any_way_is_changed(tmp_path: Path, change: str) -> None:
    path = tmp_path / "a"
    path.write_text("a")
    known = see(tmp_path).new
    if change == "size":
        path.write_text("ab")
    elif change == "time":
        os.utime(path, ns=(0, 0))
    else:
        (tmp_path / "b.tmp").write_text("a")
        os.utime(tmp_path / "b.tmp", ns=(0, known[os.fsencode(path)].mtime_ns))
        (tmp_path / "b.tmp").replace(path)
    assert list(see(tmp_path, known).changed) == [os.fsencode(path)]


def test_a_file_that_is_no_more_is_gone(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    known = see(tmp_path).new
    (tmp_path / "a").unlink()
    assert see(tmp_path, known).gone == {os.fsencode(tmp_path / "a")}


def test_a_root_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    assert list(see(tmp_path / "a").new) == [os.fsencode(tmp_path / "a")]


@pytest.mark.parametrize("root", ["", "a"])
def test_of_a_root_that_is_missing_nothing_is_gone(tmp_path: Path, root: str) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "a").write_text("a")
    known = see(tmp_path / "there").new
    (tmp_path / "there").rename(tmp_path / "elsewhere")
    found = see(tmp_path / "there" / root, known)
    assert (found.gone, list(found.unreadable.values())) == (set(), ["no such file or directory"])


def test_ignorable_files_are_not_seen(tmp_path: Path) -> None:
    (tmp_path / "a.tmp").write_text("a")
    assert see(tmp_path).seen == 0


def test_the_unfinished_deliveries_of_a_maildir_are_not_seen(tmp_path: Path) -> None:
    for name in ("cur", "new", "tmp"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1").write_text("a")
    assert {Path(os.fsdecode(path)).parent.name for path in see(tmp_path).new} == {"cur", "new"}


def test_a_folder_named_tmp_is_seen_where_there_is_no_maildir(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / "1").write_text("a")
    assert see(tmp_path).seen == 1


def test_a_link_to_a_file_is_seen_with_the_state_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("abc")
    (tmp_path / "b").symlink_to("a")
    states = set(see(tmp_path).new.values())
    assert states == {state_of(os.fsencode(tmp_path / "a"))}


def test_links_to_folders_are_not_followed_and_lead_in_no_circles(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "round").symlink_to(tmp_path)
    (tmp_path / "up").symlink_to("..")
    assert list(see(tmp_path).new) == [os.fsencode(tmp_path / "a")]


def test_a_link_to_nowhere_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("nowhere")
    found = see(tmp_path)
    assert (found.seen, found.unreadable) == (0, {})


def test_a_link_to_itself_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("a")
    assert list(see(tmp_path).unreadable) == [os.fsencode(tmp_path / "a")]


def test_pipes_are_not_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert see(tmp_path).seen == 0


@pytest.mark.parametrize("name", [b"\xff\xfe", b"new\nline", b" ", b"a\\b", "ü".encode()])
def test_any_name_is_seen(tmp_path: Path, name: bytes) -> None:
    path = os.fsencode(tmp_path) + b"/" + name
    Path(os.fsdecode(path)).write_text("a")
    assert list(see(tmp_path).new) == [path]


_LOOK = """
import os, sys
from engine.ingest.scan import find_changes
os.setuid(65534)
root, name = os.fsencode(sys.argv[1]), os.fsencode(sys.argv[2])
found = find_changes(root, {name: None, root + b"/gone": None}, lambda path: False)
print(sorted(os.fsdecode(path) for path in found.gone), *found.unreadable.values())
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root may become another user")
@pytest.mark.parametrize("mode", [0o000, 0o404, 0o100], ids=oct)
def test_files_in_a_folder_that_may_not_be_read_are_not_gone(mode: int) -> None:
    with TemporaryDirectory() as root:  # others may not enter pytest's own folders
        inner = Path(root, "inner")
        inner.mkdir()
        (inner / "a").write_text("a")
        inner.chmod(mode)
        Path(root).chmod(0o755)
        words = [sys.executable, "-c", _LOOK, root, str(inner / "a")]
        said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert said == f"['{root}/gone'] permission denied\n"


def test_going_up_ends_at_the_top() -> None:
    assert list(ancestors(b"/a/b")) == [b"/a/b", b"/a", b"/"]
