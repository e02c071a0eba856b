"""Any file gives parsed items or named problems, never an exception."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.ingest.files import read
from engine.ingest.scan import ignorable
from engine.ingest.types import ParseLimits
from store.types import ParsedItem, replace

LIMITS = ParseLimits()
MAIL = b"Message-ID: <1@x>\nFrom: ann@x.org\nSubject: Tonight\n\nCome.\n"
FROM = b"From ann@x.org Fri May  3 10:00:00 2024\n"


def readings(folder: Path, name: str, raw: bytes, kind: str | None = None) -> list[ParsedItem]:
    path = folder / name
    path.write_bytes(raw)
    return list(read(path, replace(LIMITS, kind=kind)))


def test_the_same_message_is_the_same_document_in_every_container(tmp_path: Path) -> None:
    mail = b"Date: Fri, 3 May 2024 10:00:00 +0200\n" + MAIL
    files = {
        "1.": mail,
        "1.eml": mail.replace(b"\n", b"\r\n"),
        "1714723200.M1P2.host:2,S": mail,
        "1.emlx": b"%d\n" % len(mail) + mail + b"<?xml version='1.0'?><plist/>",
        "INBOX": FROM + mail + b"\n",
        "Thunderbird": b"From \n" + mail,
    }
    found = {reading.document for name, raw in files.items() for reading in readings(tmp_path, name, raw)}
    assert len(found) == 1


def test_an_mbox_file_gives_one_item_per_message(tmp_path: Path) -> None:
    found = readings(tmp_path, "INBOX", (FROM + MAIL + b"\n") * 3)
    assert [(reading.item, reading.offset) for reading in found] == [(0, None), (1, None), (2, None)]


@pytest.mark.parametrize(
    ("name", "raw", "count"),
    [
        ("All.mbox", MAIL + b"\n" + FROM + MAIL, 2),
        ("Inbox", MAIL + b"\n" + FROM + MAIL, 2),
        ("escaped.mbox", b">" + FROM + MAIL + b"\n" + FROM + MAIL, 2),
        ("17", MAIL + b"\n" + FROM + MAIL, 1),
        ("1714723200.M1P2.host:2,S", MAIL + b"\n" + FROM + MAIL, 1),
        ("1.eml", MAIL + b"\n" + FROM + MAIL, 1),
        ("mail.txt", MAIL + b"\n" + FROM + MAIL, 1),
    ],
)
def test_a_mailbox_is_known_by_its_from_lines_unless_a_program_counts_the_file(
    tmp_path: Path, name: str, raw: bytes, count: int
) -> None:
    assert sum(reading.document is not None for reading in readings(tmp_path, name, raw)) == count


def test_a_message_saved_by_itself_keeps_its_place_and_its_quotes(tmp_path: Path) -> None:
    (found,) = readings(tmp_path, "saved", MAIL + b">From here\n")
    assert found.document is not None
    assert (found.offset, found.document.text) == (4, "Come.\n>From here")


def test_a_message_without_a_date_has_that_of_the_line_above_it_in_its_mailbox(tmp_path: Path) -> None:
    (found,) = readings(tmp_path, "INBOX", FROM + MAIL)
    assert found.document is not None
    assert found.document.date == datetime(2024, 5, 3, 10, tzinfo=UTC)


def test_an_emlx_file_counts_its_first_line(tmp_path: Path) -> None:
    (found,) = readings(tmp_path, "1.emlx", b"%d\n" % len(MAIL) + MAIL)
    assert found.offset == 5


def test_an_emlx_file_without_its_count_is_read_and_named(tmp_path: Path) -> None:
    (found,) = readings(tmp_path, "1.emlx", MAIL)
    assert found.document is not None
    assert found.problem == "no byte count on the first line"


def test_a_transcript_is_read_as_one(tmp_path: Path) -> None:
    raw = b"WEBVTT\n\n00:00:01.000 --> 00:00:02.000\nAnn: hello\n"
    (found,) = readings(tmp_path, "talk.vtt", raw)
    assert found.document is not None
    assert found.document.kind == "transcript"


@pytest.mark.parametrize(
    ("name", "raw", "problem"),
    [
        ("photo.jpg", b"\xff\xd8\xff\xe0" * 100, "not mail or a transcript"),
        ("nothing", b"", "empty"),
        ("nothing.eml", b"", "empty"),
    ],
)
def test_an_unreadable_file_is_one_named_problem(tmp_path: Path, name: str, raw: bytes, problem: str) -> None:
    assert readings(tmp_path, name, raw) == [ParsedItem(0, None, problem=problem)]


def test_the_format_can_be_given(tmp_path: Path) -> None:
    assert readings(tmp_path, "a.bin", b"just words", "mail")[0].document is not None
    assert readings(tmp_path, "b.bin", b"just words", "mbox")[0].document is not None


def test_a_missing_file_a_folder_and_a_pipe_are_problems(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    found = [reading.problem for name in ("gone", ".", "pipe") for reading in read(tmp_path / name, LIMITS)]
    assert found == ["no such file or directory", "not a file", "not a file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_file_without_read_permission_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "1.eml"
    path.write_bytes(MAIL)
    path.chmod(0)
    assert list(read(path, LIMITS)) == [ParsedItem(0, None, problem="permission denied")]


def test_a_message_beyond_the_limit_is_cut_and_named(tmp_path: Path) -> None:
    path = tmp_path / "1.eml"
    path.write_bytes(MAIL + b"x" * 1000)
    (found,) = read(path, ParseLimits(message_bytes=200))
    assert found.problem == "bytes beyond 200 were not read"
    assert found.document is not None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.binary(max_size=200),
    st.sampled_from(["a", "1.", "a.eml", "a.emlx", "a.mbox", "a.txt", "a.vtt", "a.json", "a.srt"]),
)
def test_any_file_gives_documents_or_named_problems(tmp_path: Path, raw: bytes, name: str) -> None:
    found = readings(tmp_path, name, raw)
    assert found
    assert all(reading.document or reading.problem or reading.kinds for reading in found)


def mail_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not ignorable(path))


@pytest.mark.parametrize("folder", ["torture/mail", "torture/maildir", "torture/replies"])
@pytest.mark.parametrize("kind", [None, "mail", "mbox"])
def test_every_odd_file_of_other_projects_is_a_document_or_a_named_problem(
    shared: Path, folder: str, kind: str | None
) -> None:
    for path in mail_files(shared / "data" / folder):
        found = list(read(path, replace(LIMITS, kind=kind)))
        assert found, path.name
        assert all(reading.document or reading.problem or reading.kinds for reading in found), path.name


def ids(paths: list[Path]) -> set[str]:
    found = [reading for path in paths for reading in read(path, LIMITS)]
    assert all(reading.problem is None for reading in found)
    return {reading.document.id for reading in found if reading.document is not None}


def test_one_mailbox_has_the_same_documents_in_three_containers(shared: Path) -> None:
    single = ids(mail_files(shared / "data/enron/slinger-r/mail"))
    formats = shared / "data/enron-formats/slinger-r"
    assert len(single) == 130
    assert ids([formats / "slinger-r.mbox"]) == single
    assert ids(mail_files(formats / "Maildir")) == single


def test_passages_of_plain_messages_stand_in_their_files(shared: Path) -> None:
    checked = 0
    for path in mail_files(shared / "data/enron/carson-m/mail"):
        (found,) = read(path, LIMITS)
        if found.document is None or found.offset is None:
            continue
        lines = path.read_bytes().decode("ascii", "replace").replace("\r\n", "\n").split("\n")
        for passage in found.document.passages:
            assert passage.text in "\n".join(lines[found.offset + passage.first - 1 : found.offset + passage.last])
            checked += 1
    assert checked > 1000


def test_dates_of_a_mailbox_are_those_of_its_time(shared: Path) -> None:
    found = [
        reading.document for path in mail_files(shared / "data/enron/slinger-r/mail") for reading in read(path, LIMITS)
    ]
    dates = [one.date for one in found if one is not None and one.date is not None]
    assert len(dates) == len(found)
    assert min(dates) > datetime(1997, 1, 1, tzinfo=UTC)
