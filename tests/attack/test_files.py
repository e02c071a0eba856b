"""Files that change behind pkb's back: size and times as before, other inodes, other ways of writing."""

import mmap
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.attack.lab import Lab, mail

Write = Callable[[Path, bytes], None]


def in_place(path: Path, raw: bytes) -> None:
    """Write over a file, byte by byte."""
    with path.open("r+b") as file:
        file.write(raw)


def by_rename(path: Path, raw: bytes) -> None:
    """Put another file in the place of a file, as editors do."""
    path.with_name("aside.tmp").write_bytes(raw)
    path.with_name("aside.tmp").replace(path)


def by_hard_link(path: Path, raw: bytes) -> None:
    """Write to a file under another name that it has outside of the folder."""
    other = path.parent.parent / f"link of {path.name}"
    other.hardlink_to(path)
    in_place(other, raw)


def by_symbolic_link(path: Path, raw: bytes) -> None:
    """Put a link in the place of a file, to one that stands elsewhere."""
    other = path.parent.parent / f"target of {path.name}"
    other.write_bytes(raw)
    path.unlink()
    path.symlink_to(other)


def in_memory(path: Path, raw: bytes) -> None:
    """Write to the pages of a file."""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as pages:
        pages[:] = raw


def twice(path: Path, raw: bytes) -> None:
    """Write something else in between."""
    path.write_bytes(b"nothing")
    path.write_bytes(raw)


def copied_with_times(path: Path, raw: bytes) -> None:
    """Copy a file with its times over another, as rsync and cp -p do."""
    other = path.parent.parent / f"copy of {path.name}"
    other.write_bytes(raw)
    shutil.copystat(path, other)
    shutil.copy2(other, path)


WAYS: dict[str, Write] = {
    "in place": in_place,
    "by rename": by_rename,
    "by hard link": by_hard_link,
    "by symbolic link": by_symbolic_link,
    "in memory": in_memory,
    "twice": twice,
    "copied with times": copied_with_times,
}
TIMES = {"now": None, "far ahead": 4 * 10**18, "before 1970": -(10**18), "a nanosecond before 1970": -1}
CHANGED = {f"{way}, {time}": (way, time) for way in WAYS for time in ("now", "far ahead")}
CHANGED |= {f"in place, {time}": ("in place", time) for time in TIMES}


@pytest.fixture(scope="module")
def rewritten(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str | None, str | None, str]]:
    """Return the answer before and after each change, and its tier; size and mtime stay as they were."""
    lab = Lab(tmp_path_factory.mktemp("files"))
    files = {name: lab.put(f"{at}.eml", letter(at, 1)) for at, name in enumerate(CHANGED)}
    for name, (_, time) in CHANGED.items():
        if (moment := TIMES[time]) is not None:
            os.utime(files[name], ns=(moment, moment))
    lab.read()
    before = {name: lab.ask(question(at)).text for at, name in enumerate(CHANGED)}
    for at, (name, (way, _)) in enumerate(CHANGED.items()):
        times = files[name].stat()
        WAYS[way](files[name], letter(at, 2))
        os.utime(files[name], ns=(times.st_atime_ns, times.st_mtime_ns))
        assert (files[name].stat().st_size, files[name].stat().st_mtime_ns) == (times.st_size, times.st_mtime_ns)
    lab.read()
    after = [lab.ask(question(at)) for at in range(len(CHANGED))]
    return {name: (before[name], now.text, now.tier) for name, now in zip(CHANGED, after, strict=True)}


def letter(at: int, code: int) -> bytes:
    return mail(f"The code of the gate in Number{at} Street is {code}{at:04}.", title=f"Number{at}")


def question(at: int) -> str:
    return f"What is the code of the gate in Number{at} Street?"


@pytest.mark.parametrize("name", CHANGED)
def test_no_answer_says_what_its_file_no_longer_says(
    rewritten: dict[str, tuple[str | None, str | None, str]], name: str
) -> None:
    at = list(CHANGED).index(name)
    before, after, tier = rewritten[name]
    assert f"1{at:04}" in (before or "")
    assert (f"2{at:04}" in (after or ""), f"1{at:04}" in (after or ""), tier == "exact") == (True, False, False)


def test_a_file_written_to_right_after_it_was_read_is_read_again_however_often(lab: Lab) -> None:
    path = lab.put("a.eml", letter(0, 1))
    lab.read()
    times = path.stat()
    for code in range(2, 6):
        in_place(path, letter(0, code))
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        lab.read()
        assert f"{code}0000" in (lab.ask(question(0)).text or "")


def test_a_write_within_the_tick_in_which_a_file_was_read_is_seen(lab: Lab) -> None:
    path = lab.put("a.eml", letter(0, 1))
    lab.read()
    in_place(path, letter(0, 2))
    now = path.stat()
    with lab.open() as pkb:  # as if the clock had not ticked between the two: all that stat tells is as recorded
        seen = (now.st_size, now.st_mtime_ns, now.st_ino, os.fsencode(path))
        pkb.session.ledger.rows.execute("UPDATE files SET size = ?, mtime_ns = ?, inode = ? WHERE path = ?", seen)
        (recorded,) = pkb.session.ledger.rows.execute("SELECT ctime_ns FROM files").fetchall()
    assert recorded == (-1,)
    lab.read()
    assert "20000" in (lab.ask(question(0)).text or "")


def test_a_mail_folder_moved_to_another_disk_and_back_makes_no_version_of_any_table(lab: Lab) -> None:
    lab.read({f"{at}.eml": letter(at, 1) for at in range(5)})
    lab.ask(question(0))

    def state() -> tuple[int, list[str]]:
        with lab.open() as pkb:
            files = sorted(str(path) for path in pkb.session.home.tables.rglob("*") if "_versions" in path.parts)
            return pkb.session.ledger.generation, files

    before = state()
    shutil.copytree(lab.mail, lab.folder / "disk")
    shutil.rmtree(lab.mail)
    shutil.copytree(lab.folder / "disk", lab.mail, copy_function=shutil.copy)
    lab.read()
    assert state()[1] == before[1]
    assert lab.ask(question(0)).tier == "exact"


LONG = "Ben: We talked about the lake and the boats for long.\n\n" * 12_000
SAID = "Meeting: codes\nDate: 2024-06-03\n\n" + LONG + "Ann: The code of the shed is {}.\n"
CODINGS = {"utf-16": "c.txt", "utf-16-le": "d.txt", "utf-16-be": "e.md"}


@pytest.mark.parametrize("keeps_times", [False, True])
def test_a_large_text_with_zero_bytes_is_read_again_wherever_it_changed(lab: Lab, keeps_times: bool) -> None:
    paths = {coding: lab.put(name, SAID.format("1111").encode(coding)) for coding, name in CODINGS.items()}
    assert min(path.stat().st_size for path in paths.values()) > 1 << 20
    lab.read()
    lab.later(days=1)
    for coding, path in paths.items():
        times = path.stat()
        path.write_bytes(SAID.format("2222").encode(coding))
        if keeps_times:
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    lab.read()
    assert "2222" in (lab.ask("What is the code of the shed?").text or "")
    with lab.open() as pkb:
        texts = [one["text"] for path in paths.values() for one in pkb.show(path)]
    assert [("2222" in text, "1111" in text) for text in texts] == [(True, False)] * len(texts)
    assert texts
