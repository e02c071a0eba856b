"""What looks misread is named by kind, in mail and transcripts; what is right is not."""

import base64
from pathlib import Path

import pytest

from engine.ingest.files import read
from engine.ingest.types import KINDS, ParseLimits
from tests.engine.ingest.box import Box, mail

DATE = "Date: Fri, 3 May 2024 10:00:00 +0200\n"
HEAD = f"From: ann@x.org\n{DATE}Subject: Tonight\n"
CUES = (f"00:{minute:02}:00.000 --> 00:{minute:02}:09.000\nPaint boat {minute} and its oars.\n" for minute in range(30))
TALK = "\n".join(["WEBVTT\n", *CUES])
CODED = base64.encodebytes(bytes(range(256)) * 2).decode()
ENCLOSED = (
    "Content-Type: multipart/mixed; boundary=b\n\n--b\n\nSee.\n--b\nContent-Type: {}\n"
    "Content-Disposition: attachment; filename={}\nContent-Transfer-Encoding: base64\n\nAAAA\n--b--\n"
)


def kinds(folder: Path, name: str, text: str) -> list[tuple[str, ...]]:
    path = folder / name
    path.write_bytes(text.encode())
    return [item.kinds for item in read(path, ParseLimits())]


BROKEN = [
    ("1.eml", f"{DATE}Subject: Tonight\nMessage-ID: <1@x>\n\nCome.\n", "no-sender"),
    ("1.eml", "From: ann@x.org\nSubject: Tonight\n\nCome.\n", "no-date"),
    ("INBOX", "From ann@x.org Fri May  3 10:00:00 2024\nFrom: ann@x.org\nSubject: Tonight\n\nCome.\n", "no-date"),
    ("1.eml", f"{HEAD}\n", "no-words"),
    ("1.eml", f"{HEAD}\nOn Fri, 3 May 2024 at 09:00, Bob <bob@x.org> wrote:\n> Come?\n", "no-words"),
    ("1.eml", HEAD + ENCLOSED.format("application/ms-tnef", "winmail.dat"), "unopened"),
    ("1.eml", HEAD + ENCLOSED.format("application/pkcs7-mime", "smime.p7m"), "unopened"),
    ("1.partial.emlx", f"{len(HEAD) + 7}\n{HEAD}\nCome.\n<plist/>", "unopened"),
    ("1.eml", f"{HEAD}\n[attachment: scan.pdf: pictures without text]\n", "pictures"),
    ("talk.vtt", TALK, "no-speakers"),
    ("1.eml", f"{HEAD}\nThe caf\ufffd is open.\n", "undecoded"),
    ("1.eml", f"{HEAD}\nWe meet at the caf=C3=A9 in K=C3=B6ln, dr=C3=BCben.\n", "undecoded"),
    ("1.eml", f"{HEAD}\nThe b=\noat is in the s=\nhed and not on the l=\nake.\n", "undecoded"),
    ("1.eml", f"{HEAD}\nThe&nbsp;boat&nbsp;is in the&nbsp;shed.\n", "undecoded"),
    ("1.eml", f"{HEAD}\nThe%20boat%20is%20in%20the%20shed.\n", "undecoded"),
    ("1.eml", f"{HEAD}\nThe <font color=red>boat</font> is <b>in</b> the <i>shed</i>.\n", "markup"),
]


@pytest.mark.parametrize(("name", "text", "kind"), BROKEN)
def test_what_looks_misread_is_named(tmp_path: Path, name: str, text: str, kind: str) -> None:
    assert kinds(tmp_path, name, text) == [(kind,)]


def test_each_kind_has_a_broken_input() -> None:
    assert {kind for _, _, kind in BROKEN} == KINDS.keys()


RIGHT = [
    "Come.\n",
    "[photo]\n> is this yours?\nYes.\n",
    "https://x.org/a%20b%20c%20d?e=3&f=20&g=E4&h=%20\n",
    "=====================\nTonight\n=====================\n",
    "if a < b and c > d: write </a> and <ann@x.org>\n",
    "one\n---------- Forwarded message ----------\nFrom: bob@x.org\nDate: Thu, 2 May 2024 10:00:00 +0200\n"
    "Subject: a\nTo: ann@x.org\n\nFrom: all of us\n",
    f"Come.\n-----BEGIN PGP SIGNATURE-----\n\n{CODED}-----END PGP SIGNATURE-----\n",
    "/home/ann/letters/of/the/year/two/thousand/and/twenty/four/to/my/friends\n" * 4,
]


@pytest.mark.parametrize("text", RIGHT)
def test_what_is_right_is_not_named(tmp_path: Path, text: str) -> None:
    assert kinds(tmp_path, "1.eml", f"{HEAD}\n{text}") == [()]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("talk.txt", "Ann: Paint the boat.\nBob: Not today.\n" * 20),
        ("talk.vtt", TALK[:200]),
        (
            "talk.vtt",
            TALK.replace("Paint boat 1", "<v Ann>Paint boat 1").replace("Paint boat 2", "<v Bob>Paint boat 2"),
        ),
        ("notes.md", "# Notes\n" + "- paint the boat and the oars\n" * 40),
    ],
)
def test_talks_with_speakers_short_ones_and_notes_are_not_named(tmp_path: Path, name: str, text: str) -> None:
    assert kinds(tmp_path, name, text) == [()]


@pytest.mark.parametrize(
    ("name", "tool"), [("a.pst", "readpst"), ("b.olm", "mbox"), ("c.m4a", "whisper"), ("d.MP4", "whisper")]
)
def test_a_file_of_another_program_is_skipped_with_what_would_read_it(tmp_path: Path, name: str, tool: str) -> None:
    (tmp_path / name).write_bytes(b"\0\1\2\3" * 64)
    (item,) = read(tmp_path / name, ParseLimits())
    assert tool in (item.problem or "")


def test_doubts_are_found_again_until_the_file_is_read_better_or_is_gone(box: Box) -> None:
    path = mail(box.mail / "1.eml", "The <b>boat</b>, <b>not</b> the <b>shed</b>.")
    assert [(one.path, one.kinds) for one in box.ingest().noted] == [(str(path), ("markup",))]
    again = box.ingest()
    assert (again.noted, again.problems, again.known_problems) == ([], [], [])
    assert [one.kinds for one in box.opened.catalogue.problems(str(box.mail))] == [("markup",)]
    mail(path, "The boat.")
    box.ingest()
    assert box.opened.catalogue.problems(str(box.mail)) == []
