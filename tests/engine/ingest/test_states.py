"""Mail that was deleted, is spam or a draft is left out and counted, wherever that stands; and follows its state."""

from pathlib import Path

import pytest

from engine.ingest.files import read
from engine.ingest.pipeline import Guard, Ingest, Summary
from engine.ingest.types import ParseLimits
from store.catalog import SourceRoot
from store.types import replace
from tests.engine.ingest.box import Box, mail

FROM = b"From ann@x.org Fri May  3 10:00:00 2024\n"
REST = b"\nFrom: ann@x.org\nDate: Fri, 3 May 2024 10:00:00 +0200\nSubject: 1\n\nCome.\n"
USUAL, ALL = ParseLimits(), ParseLimits(leave_out=frozenset())


def states(path: Path, limits: ParseLimits = USUAL, root: str = "") -> list[tuple[str, ...]]:
    return [item.kinds for item in read(path, replace(limits, root=root))]


@pytest.mark.parametrize(
    ("field", "state"),
    [
        (b"X-Mozilla-Status: 0009", "deleted"),
        (b"X-Mozilla-Status: 100b\r", "deleted"),
        (b"X-Status: AD", "deleted"),
        (b"X-Gmail-Labels: Trash,Opened", "deleted"),
        (b"X-Gmail-Labels: Spam", "spam"),
        (b"X-Gmail-Labels: Opened, Spam\r", "spam"),
        (b"X-Gmail-Labels: Opened,\r\n Spam\r", "spam"),
        (b"X-Gmail-Labels: =?UTF-8?Q?Spam,Ge=C3=B6ffnet?=", "spam"),
        (b"X-Gmail-Labels: =?UTF-8?Q?Wichtig,?=\n =?UTF-8?Q?Trash,Ge=C3=B6ffnet?=", "deleted"),
        (b"X-Spam-Flag: YES", "spam"),
        (b"X-Gmail-Labels: Drafts", "drafts"),
        (b"X-Status: T", "drafts"),
        (b"X-Unsent: 1", "drafts"),
        (b"X-Mozilla-Draft-Info: internal/draft; vcard=0", "drafts"),
    ],
)
def test_the_header_of_a_message_tells_its_state(tmp_path: Path, field: bytes, state: str) -> None:
    (tmp_path / "INBOX").write_bytes(FROM + field + REST + b"\n" + FROM + REST.lstrip())
    (tmp_path / "1.eml").write_bytes(field + REST)
    assert states(tmp_path / "INBOX") == [(state,), ()]
    assert states(tmp_path / "1.eml") == [(state,)]
    (found,) = read(tmp_path / "1.eml", ALL)
    assert found.document is not None
    assert ("it is marked as spam" in found.document.warnings) is (state == "spam")


@pytest.mark.parametrize(
    "field",
    [
        b"X-Mozilla-Status: 0001",
        b"X-Status: A",
        b"X-Status: Deferred",
        b"X-Gmail-Labels: Inbox",
        b"X-Gmail-Labels: Inbox,Projects/Spam filter",
        b"X-Spam-Flag: NO",
        b"X-Unsent: 0",
        b"Subject: X-Mozilla-Status: 0009",
    ],
)
def test_other_mail_is_read(tmp_path: Path, field: bytes) -> None:
    (tmp_path / "1.eml").write_bytes(field + REST + b"\nX-Mozilla-Status: 0009\nX-Spam-Flag: YES\n")
    assert states(tmp_path / "1.eml") == [()]


@pytest.mark.parametrize(
    ("path", "state"),
    [
        ("Mail/cur/1714723200.M1P2.host:2,ST", "deleted"),
        ("Mail/cur/1714723200.M1P2.host:2,DS", "drafts"),
        ("Mail/.Trash/cur/1714723200.M1P2.host:2,S", "deleted"),
        ("Mail/.INBOX.Spam/cur/1", "spam"),
        ("Mail/INBOX.Spam/cur/1", "spam"),
        ("Mail/[Gmail]/Drafts/1.eml", "drafts"),
        ("Mail/Junk E-mail/1.eml", "spam"),
        ("Mail/Deleted Messages.mbox/Messages/1.eml", "deleted"),
        ("Mail/Trash.sbd/2019", "deleted"),
        ("Mail/Trash", "deleted"),
        ("Mail/spam filter/1.eml", ""),
        ("Mail/drafts of laws/1.eml", ""),
        ("Mail/Spam.eml", ""),
        ("Mail/cur/1714723200.M1P2.host:2,S", ""),
    ],
)
def test_a_flag_or_a_folder_below_the_root_tells_the_state(tmp_path: Path, path: str, state: str) -> None:
    file = tmp_path / "Spam" / path
    file.parent.mkdir(parents=True)
    file.write_bytes(REST.lstrip())
    assert states(file, root=str(tmp_path / "Spam")) == [(state,) if state else ()]
    assert states(file, ALL, str(tmp_path / "Spam")) == [()]


def test_a_folder_named_by_the_user_is_read_whatever_its_name(tmp_path: Path) -> None:
    for name in ("Trash/1.eml", "Drafts"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(REST.lstrip())
    assert states(tmp_path / "Trash/1.eml", root=str(tmp_path / "Trash")) == [()]
    assert states(tmp_path / "Drafts", root=str(tmp_path / "Drafts")) == [()]


def ingest(box: Box, *leave_out: str) -> Summary:
    limits = ParseLimits(leave_out=frozenset(leave_out))
    run = Ingest(box.opened.ledger, box.opened.knowledge, limits, Guard(0.2, 50))
    for _ in run.run(SourceRoot(str(box.mail), "mail", None)):
        pass
    return run.summary


def test_a_message_follows_its_state_and_the_setting(box: Box) -> None:
    path, inbox = mail(box.mail / "Spam" / "1.eml", "win"), box.mail / "1.eml"
    mail(box.mail / "Drafts" / "2.eml", "plan")
    first = ingest(box, "spam", "drafts")
    assert sorted((one.path, one.reason, one.kinds) for one in first.noted) == [
        (str(box.mail / "Drafts" / "2.eml"), "", ("drafts",)),
        (str(path), "", ("spam",)),
    ]
    assert (first.problems, box.texts()) == ([], [])
    path.rename(inbox)  # it was none
    ingest(box, "spam", "drafts")
    assert box.texts() == ["win"]
    ingest(box, "spam")
    assert box.texts() == ["plan", "win"]
    (box.mail / "Drafts" / "2.eml").rename(box.mail / "2.eml")  # it was sent
    ingest(box, "spam", "drafts")
    assert box.texts() == ["plan", "win"]
    inbox.rename(path)
    assert (ingest(box, "spam", "drafts").removed, box.texts()) == (1, ["plan"])


def test_what_is_left_out_is_not_read_again_until_the_setting_changes(box: Box) -> None:
    mail(box.mail / "Trash" / "1.eml", "gone")
    assert [len(ingest(box, "deleted").noted) for _ in range(2)] == [1, 0]
    assert (ingest(box).noted, box.texts()) == ([], ["gone"])
    assert (len(ingest(box, "deleted").noted), box.texts()) == (1, [])
