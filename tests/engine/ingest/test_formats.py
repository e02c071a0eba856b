"""Format detection from a file's name and first bytes."""

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ingest.scan import Format, detect, ignorable

MAIL = b"Message-ID: <1@x>\nFrom: ann@x.org\nSubject: x\n\nbody"


@pytest.mark.parametrize(
    ("name", "head", "kind"),
    [
        ("12.", MAIL, "mail"),
        ("12", MAIL, "mail"),
        ("1714723200.M1P2.host:2,S", MAIL, "mail"),
        ("note.eml", b"no header at all", "mail"),
        ("1.emlx", b"120\nFrom: a", "emlx"),
        ("2.partial.emlx", b"120\nFrom: a", "emlx"),
        ("INBOX", b"From ann@x.org Fri May  3 10:00:00 2024\nFrom: a\n", "mbox"),
        ("Sent", b"From - Fri May  3 10:00:00 2024\r\nX-Mozilla-Status: 0001\r\n", "mbox"),
        ("talk.vtt", b"WEBVTT", "transcript"),
        ("a.txt", b"From: ann@x.org\nTo: bob@x.org\nSubject: x\n\nbody", "mail"),
        ("part", b"Content-Type: text/plain\nSubject: x\n\nbody", "mail"),
        ("talk.txt", b"Ann: hello\nBob: hi\n", None),
        ("talk.txt", b"Date: Friday\nAnn: hello\nBob: hi\n", None),
        ("novel.txt", b"From here on\nall went well", None),
        ("empty", b"", None),
        ("photo.jpg", b"\xff\xd8\xff\xe0", None),
    ],
)
def test_the_format_is_detected(name: str, head: bytes, kind: Format | None) -> None:
    assert detect(name, head) == kind


@pytest.mark.parametrize(
    ("path", "ours"),
    [
        ("Mail/.DS_Store", False),
        ("Mail/dovecot-uidlist", False),
        ("Mail/maildirfolder", False),
        ("Mail/.mh_sequences", False),
        ("Mail/,12", False),
        ("Mail/INBOX.msf", False),
        ("Mail/tmp/1714723200.M1P2.host", False),
        ("Mail/In.mbox/Info.plist", False),
        ("Mail/In.mbox/Attachments/1/2/plan.pdf", False),
        ("Mail/cur/1714723200.M1P2.host:2,ST", True),
        ("tmp/12.", True),
        ("Mail/cur/1714723200.M1P2.host:2,S", True),
        ("Mail/.Sent/cur/1714723200.M1P2.host:2,S", True),
        ("Mail/12", True),
        ("Mail/photo.jpg", True),
    ],
)
def test_internal_files_of_mail_programs_are_ignorable(path: str, ours: bool) -> None:
    assert ignorable(PurePosixPath(path)) is not ours


@given(st.text(max_size=20), st.binary(max_size=200))
def test_any_head_gives_a_format_or_none(name: str, head: bytes) -> None:
    assert detect(name, head) in ("mail", "mbox", "emlx", "transcript", None)
