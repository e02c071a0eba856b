"""Mail of other programs is found below the home folder, and nowhere else."""

import os
from pathlib import Path

import pytest

from engine.ingest.scan import MailPlace, find_mail


def put(path: Path, size: int = 10) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)


def found(home: Path) -> list[tuple[str, str, int, int]]:
    places = find_mail(home, lambda: False)
    return [(one.program, str(Path(one.path).relative_to(home)), one.files, one.bytes) for one in places]


def test_each_program_has_its_places(tmp_path: Path) -> None:
    put(tmp_path / ".thunderbird/a.default/Mail/Local Folders/Inbox")
    put(tmp_path / ".thunderbird/a.default/Mail/Local Folders/Inbox.msf")
    put(tmp_path / ".thunderbird/a.default/ImapMail/x/INBOX", 30)
    put(tmp_path / "Library/Mail/V10/1.mbox/1.emlx")
    put(tmp_path / "Maildir/cur/1.a.b:2,S")
    put(tmp_path / "Maildir/new/2.a.b")
    put(tmp_path / "Documents/Zoom/2024 call/meeting_saved_chat.txt")
    put(tmp_path / "Downloads/takeout-2024-001.zip")
    put(tmp_path / "Downloads/holiday.zip")
    assert found(tmp_path) == [
        ("Thunderbird", ".thunderbird/a.default/Mail", 1, 10),
        ("Thunderbird", ".thunderbird/a.default/ImapMail", 1, 30),
        ("Apple Mail", "Library/Mail", 1, 10),
        ("Maildir", "Maildir", 2, 20),
        ("Zoom", "Documents/Zoom", 1, 10),
        ("Export", "Downloads/takeout-2024-001.zip", 1, 10),
    ]


def test_empty_folders_and_those_in_others_are_not_shown(tmp_path: Path) -> None:
    (tmp_path / "Mail").mkdir()
    put(tmp_path / "Maildir/cur/1")
    assert found(tmp_path) == [("Maildir", "Maildir", 1, 10)]


def test_links_out_of_the_home_folder_are_not_followed(tmp_path: Path) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    put(other / "cur/1")
    home.mkdir()
    (home / "Mail").symlink_to(other)
    put(home / "Maildir/cur/1")
    (home / "Maildir/other").symlink_to(other)
    assert found(home) == [("Maildir", "Maildir", 1, 10)]
    (tmp_path / "link").symlink_to(home)
    assert len(list(find_mail(tmp_path / "link", lambda: False))) == 1


def test_where_time_runs_out_the_figures_are_the_least(tmp_path: Path) -> None:
    for number in range(9):
        put(tmp_path / f"Maildir/cur/{number}")
    steps = iter(range(99))
    assert list(find_mail(tmp_path, lambda: next(steps) >= 5)) == [
        MailPlace("Maildir", str(tmp_path / "Maildir"), 5, 50, least=True, problem=None)
    ]


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_folder_that_may_not_be_listed_is_named(tmp_path: Path) -> None:
    (tmp_path / "Library/Mail").mkdir(parents=True, mode=0)
    (tmp_path / "Library/Mail").chmod(0)
    (found,) = find_mail(tmp_path, lambda: False)
    assert found.problem == "permission denied"


def test_maildirs_of_any_name_and_unpacked_exports_are_found(tmp_path: Path) -> None:
    for name in ("cur", "new", "tmp"):
        put(tmp_path / "post/Choir" / name / "1.a.b")
    put(tmp_path / "else/cur/1")
    put(tmp_path / "Downloads/Takeout/Mail/All mail.mbox", 30)
    assert found(tmp_path) == [
        ("Maildir", "post/Choir", 2, 20),
        ("Export", "Downloads/Takeout/Mail", 1, 30),
    ]


def test_a_linked_file_in_a_maildir_is_not_read(tmp_path: Path) -> None:
    for name in ("cur", "new", "tmp"):
        put(tmp_path / "Maildir" / name / "1.a.b")
    put(tmp_path / "secret", 99)
    (tmp_path / "Maildir/cur/2.a.b").symlink_to(tmp_path / "secret")
    assert found(tmp_path) == [("Maildir", "Maildir", 2, 20)]
