"""Attacks on `pkb forget`: mail that was deleted before anybody came to pkb, and whose text stays for ever."""

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from engine.app import Pkb
from store.errors import PkbError, UsageError
from store.types import Scope
from tests.attack.test_forget_quotes import TEXT, mail
from tests.engine.recovery import Secret, traces
from tests.store.kit import HashEmbedder

SECRET = Secret(("Zebulonite", "Brambleweir", "Quillfeather"))
HIDDEN = mail(TEXT, "hidden", "papers", "quillon", 9)
EDITED = mail("There is nothing here any more.", "hidden", "papers", "quillon", 9)
SECOND = mail(f"{TEXT}\n\nAnd again.", "second", "more papers", "quillon", 9)
ID = "<hidden@example.org>"


def other(number: int) -> str:
    text = f"Note {number}: the choir meets in room {number}, and Bo brings {number} cakes."
    return mail(text, f"o{number}", f"Choir {number}", "bo", number % 27 + 1)


def box(messages: list[str]) -> str:
    return "".join(f"From x@y Sat Mar  9 10:00:00 2024\n{one}\n" for one in messages)


def write(folder: Path) -> Path:
    """Write mail, the hidden one among it, and return its file."""
    (folder / "sub").mkdir(parents=True)
    for number in range(12):
        (folder / f"{number}.eml").write_text(other(number))
    (folder / "sub" / "hidden.eml").write_text(HIDDEN)
    return folder / "sub" / "hidden.eml"


def delete_most(file: Path) -> None:
    for path in [*file.parents[1].glob("*.eml"), file]:
        path.unlink()


def link_folder(file: Path) -> None:
    file.unlink()
    (file.parents[2] / "link").symlink_to(file.parents[1])


def move(file: Path) -> None:
    file.rename(file.parents[1] / "moved.eml")


# What happened to the file, whether pkb read the folder after that, and what the user types.
WAYS: dict[str, tuple[Callable[[Path], object], bool, str]] = {
    "its id": (Path.unlink, True, ID),
    "its id without brackets": (Path.unlink, True, ID[1:-1]),
    "its file": (Path.unlink, True, "mail/sub/hidden.eml"),
    "a roundabout path": (Path.unlink, True, "mail/../mail/./sub/hidden.eml"),
    "its folder": (Path.unlink, True, "mail/sub"),
    "its folder, gone too": (lambda file: shutil.rmtree(file.parent), True, "mail/sub"),
    "through a link": (link_folder, True, "link/sub/hidden.eml"),
    "its file, not read since": (Path.unlink, False, "mail/sub/hidden.eml"),
    "its id, kept by the guard": (delete_most, True, ID),
    "its file, kept by the guard": (delete_most, True, "mail/sub/hidden.eml"),
    "its former path, not read since": (move, False, "mail/sub/hidden.eml"),
    "its new path, not read since": (move, False, "mail/moved.eml"),
    "its id, edited": (lambda file: file.write_text(EDITED), True, ID),
    "its file, edited": (lambda file: file.write_text(EDITED), True, "mail/sub/hidden.eml"),
}


def read(pkb: Pkb, folder: Path) -> None:
    pkb.session.embedder = HashEmbedder()
    with suppress(PkbError):  # most of it disappeared at once
        pkb.ingest([folder])


@pytest.mark.parametrize("way", WAYS)
def test_deleted_mail_is_named_and_erased(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    happened, is_read, typed = WAYS[way]
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path / "mail")
    with Pkb(tmp_path / "home") as pkb:
        read(pkb, tmp_path / "mail")
        happened(file)
        if is_read:
            read(pkb, tmp_path / "mail")
        assert traces(tmp_path / "home", SECRET) or happened is delete_most  # of all of it nothing need be left
        pkb.forget(pkb.plan_forgetting([typed], Scope()))
        assert traces(tmp_path / "home", SECRET) == set()
        shutil.rmtree(tmp_path / "mail")
        write(tmp_path / "mail")
        pkb.ingest([tmp_path / "mail"])
        assert traces(tmp_path / "home", SECRET) == set()


def rescue_folder(folder: Path, to: str) -> Path:
    """Move all that a folder holds to another."""
    (folder.parent / to).mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        path.rename(folder.parent / to / path.name)
    return folder.parent / to / "hidden.eml"


def into_a_box(file: Path) -> Path:
    file.unlink()
    (file.parents[1] / "b.mbox").write_text(box([other(30), HIDDEN]))
    return file.parents[1] / "b.mbox"


RESCUES: dict[str, Callable[[Path], Path]] = {
    "beside": lambda file: file.rename(file.parents[1] / "moved.eml"),
    "out of its folder": lambda file: rescue_folder(file.parent, "Inbox"),
    "below its folder": lambda file: file.rename(file.parents[1] / "sub.eml"),
    "into another maildir": lambda file: rescue_folder(file.parent, "Inbox/cur"),
    "with its folder": lambda file: file.parent.rename(file.parents[1] / "Kept") / "hidden.eml",
    "into a box": into_a_box,
}


@pytest.mark.parametrize("deleted", [False, True])
@pytest.mark.parametrize("way", RESCUES)
def test_mail_that_was_rescued_is_not_named_by_the_folder_it_left(way: str, deleted: bool, tmp_path: Path) -> None:
    file = write(tmp_path / "mail")
    with Pkb(tmp_path / "home") as pkb:
        read(pkb, tmp_path / "mail")
        now = RESCUES[way](file)
        read(pkb, tmp_path / "mail")
        there = next(one for one in pkb.session.catalogue.places_in(str(now)) if one.message_id == ID[1:-1])
        for former in (file, file.parent):
            with pytest.raises(UsageError, match=f"is now at {now}") as caught:
                pkb.plan_forgetting([str(former)], Scope(), deleted=deleted)
            assert caught.value.next_step == f"pkb forget {there.document if way == 'into a box' else now}"
        assert pkb.plan_forgetting([there.document], Scope()).ids == [there.document]


def test_what_is_left_of_all_removed_mail_is_counted_first_and_erased_together(tmp_path: Path) -> None:
    file = write(tmp_path / "mail")
    (tmp_path / "mail" / "all.mbox").write_text(box([other(20), SECOND, other(21)]))
    with Pkb(tmp_path / "home") as pkb:
        read(pkb, tmp_path / "mail")
        assert pkb.plan_forgetting([], Scope(), deleted=True).removed == ()
        file.write_text(EDITED)
        (tmp_path / "mail" / "all.mbox").write_text(box([other(20), other(21)]))
        read(pkb, tmp_path / "mail")
        named = pkb.plan_forgetting([str(tmp_path / "mail" / "all.mbox")], Scope(), deleted=True)
        assert (len(named.removed), named.left, named.documents) == (1, 1, ())
        planned = pkb.plan_forgetting([], Scope(), deleted=True)
        assert (len(planned.removed), planned.documents) == (2, ())
        pkb.forget(planned)
        assert traces(tmp_path / "home", SECRET) == set()
        assert pkb.plan_forgetting([], Scope(), deleted=True).ids == []
        assert pkb.session.catalogue.counts()["documents"] == 15  # nobody named what stays


def test_a_copy_of_deleted_mail_is_kept_out_when_it_comes_later(tmp_path: Path) -> None:
    file = write(tmp_path / "mail")
    with Pkb(tmp_path / "home") as pkb:
        read(pkb, tmp_path / "mail")
        file.unlink()
        read(pkb, tmp_path / "mail")
        pkb.forget(pkb.plan_forgetting([ID], Scope()))
        file.write_text(HIDDEN.replace("Subject: ", "Subject: [list] ") + "\n-- \nQ.\n")
        assert pkb.ingest([tmp_path / "mail"]).forgotten == 1
        assert pkb.ingest([tmp_path / "mail"], restore=True).kept == 1


def test_what_pkb_never_saw_is_an_error_and_other_removed_mail_is_mentioned(tmp_path: Path) -> None:
    file = write(tmp_path / "mail")
    with Pkb(tmp_path / "home") as pkb:
        read(pkb, tmp_path / "mail")
        file.unlink()
        read(pkb, tmp_path / "mail")
        for unknown in ("<nobody@example.org>", str(tmp_path / "nothing.eml"), "0" * 32, "mail"):
            with pytest.raises(UsageError, match="never indexed"):
                pkb.plan_forgetting([unknown], Scope())
        assert pkb.plan_forgetting([], Scope(sender="bo@example.org")).left == 1
        with pytest.raises(UsageError, match="no sender"):
            pkb.plan_forgetting([], Scope(sender="bo@example.org"), deleted=True)


def test_no_path_or_id_of_deleted_mail_stands_in_the_ledger(tmp_path: Path) -> None:
    file = write(tmp_path / "mail")
    with Pkb(tmp_path / "home") as pkb:
        read(pkb, tmp_path / "mail")
        file.unlink()
        read(pkb, tmp_path / "mail")
    names = Secret(("hidden.eml", "hidden@example.org"))
    assert "ledger table places" not in traces(tmp_path / "home", names)
    assert not any(found.startswith("ledger table") for found in traces(tmp_path / "home", names))
