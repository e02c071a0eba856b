"""Archives are read in place: the same documents as from a folder, within bounds, and nothing is written."""

import gzip
import io
import json
import os
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.ingest.files import UNKNOWN, read
from engine.ingest.types import ParseLimits
from store.types import ParsedItem
from tests.engine.ingest.archive_files import mbox, message, tarred, zipped
from tests.engine.ingest.box import Box, mail, naive
from tests.engine.ingest.test_bugs import SECRET, break_pages

LIMITS = ParseLimits()
VTT = b"WEBVTT\n\n00:00:01.000 --> 00:00:02.000\nAnn: hello\n"
FILES = {
    "Takeout/Mail/All mail.mbox": mbox(1, 2, 3),
    "Takeout/one.eml": message(4),
    "meetings/2024-05-03 talk.vtt": VTT,
    f"{'long/' * 40}5.eml": message(5),
    "grüße/6.eml": message(6),
}
Packer = Callable[[Mapping[str, bytes]], bytes]
PACKERS: dict[str, Packer] = {
    "a.zip": zipped,
    "stored.zip": lambda files: zipped(files, zipfile.ZIP_STORED),
    "a.tgz": tarred,
    "a.tar": lambda files: tarred(files, "w"),
    "gnu.tar.gz": lambda files: tarred(files, form=tarfile.GNU_FORMAT),
    "without an ending": zipped,
}


def items(folder: Path, raw: bytes, name: str = "a.zip", limits: ParseLimits = LIMITS) -> list[ParsedItem]:
    path = folder / name
    path.write_bytes(raw)
    return list(read(path, limits))


def ids(found: list[ParsedItem]) -> list[str | None]:
    return [one.document.message_id for one in found if one.document]


def problems(found: list[ParsedItem]) -> list[str]:
    return [one.problem for one in found if one.problem]


@pytest.mark.parametrize("name", PACKERS)
def test_an_archive_holds_the_documents_of_the_same_folder(tmp_path: Path, name: str) -> None:
    for inner, content in FILES.items():
        (tmp_path / "folder" / inner).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "folder" / inner).write_bytes(content)
    found = items(tmp_path, PACKERS[name](FILES), name)
    assert {one.document for one in found} == {*naive(tmp_path / "folder")[1].values()}
    assert [(one.item, one.offset) for one in found] == [(number, None) for number in range(7)]


@pytest.mark.parametrize(("name", "raw"), [("all.mbox", mbox(1, 2)), ("1.eml", message(1)), ("talk.vtt", VTT)])
def test_a_compressed_file_is_what_is_in_it(tmp_path: Path, name: str, raw: bytes) -> None:
    (tmp_path / name).write_bytes(raw)
    found = items(tmp_path, gzip.compress(raw), f"{name}.gz")
    assert [one.document for one in found] == [one.document for one in read(tmp_path / name, LIMITS)]


def test_files_of_mail_programs_in_it_are_left_out(tmp_path: Path) -> None:
    inner = {
        "__MACOSX/._1.eml": message(1),
        ".git/2.eml": message(2),
        "cur/1.M1.host:2,ST": message(3),
        "4.eml": message(4),
    }
    assert ids(items(tmp_path, tarred(inner))) == ["4@x.org"]


def test_an_archive_in_an_archive_is_read_and_no_deeper(tmp_path: Path) -> None:
    inner = {
        "a.zip": zipped({"1.eml": message(1)}),
        "b.tgz": tarred({"2.eml": message(2)}),
        "c.mbox.gz": gzip.compress(mbox(3)),
    }
    for pack in (zipped, tarred):
        assert ids(items(tmp_path, pack(inner))) == ["1@x.org", "2@x.org", "3@x.org"]
        found = items(tmp_path, pack({"outer.zip": zipped(inner), "4.eml": message(4)}))
        assert ids(found) == ["4@x.org"]
        assert len(problems(found)) == 3


def test_what_is_no_mail_in_it_is_counted(tmp_path: Path) -> None:
    photos = {f"{number}.jpg": b"\xff\xd8\xff" * 9 for number in range(3)}
    assert problems(items(tmp_path, zipped({"1.eml": message(1), **photos}))) == [f"{UNKNOWN}: 3 of its files"]
    assert problems(items(tmp_path, zipped(photos))) == [UNKNOWN]
    assert problems(items(tmp_path, zipped({}))) == [UNKNOWN]


@pytest.mark.parametrize("first", ["[Content_Types].xml", "mimetype", "META-INF/MANIFEST.MF"])
def test_a_document_of_an_office_program_is_no_archive(tmp_path: Path, first: str) -> None:
    assert problems(items(tmp_path, zipped({first: b"x", "1.eml": message(1)}), "a.docx")) == [UNKNOWN]


def test_an_encrypted_member_is_named_as_such(tmp_path: Path) -> None:
    raw = bytearray(zipped({"a.eml": message(1), "b.eml": message(2)}))
    for mark, flags in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        raw[raw.index(mark) + flags] |= 1
    found = items(tmp_path, bytes(raw))
    assert (ids(found), problems(found)) == (["2@x.org"], ["encrypted (a.eml)"])


def test_a_damaged_member_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    raw = bytearray(zipped({"a.eml": message(1), "b.eml": message(2)}, zipfile.ZIP_STORED))
    raw[raw.index(b"word1")] ^= 1
    found = items(tmp_path, bytes(raw))
    assert (ids(found), problems(found)) == (["2@x.org"], ["damaged (a.eml)"])


def test_a_damaged_tar_file_is_read_up_to_the_damage(tmp_path: Path) -> None:
    raw = bytearray(tarred({"a.eml": message(1), "b.eml": message(2)}, "w"))
    raw[1024 + 20] ^= 1
    found = items(tmp_path, bytes(raw), "a.tar")
    assert (ids(found), problems(found)) == (["1@x.org"], ["damaged"])


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("pack", [zipped, tarred])
def test_an_archive_that_was_cut_is_named(tmp_path: Path, pack: Packer, share: float) -> None:
    raw = pack({f"{number}.eml": message(number, "x" * 99) for number in range(20)})
    assert "damaged" in " ".join(problems(items(tmp_path, raw[: int(len(raw) * share)])))


def test_links_and_folders_are_not_read(tmp_path: Path) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE):
            info = tarfile.TarInfo("1.eml")
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
    link = zipfile.ZipInfo("1.eml")
    link.external_attr = 0o120777 << 16
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive_of_links:
        archive_of_links.writestr(link, "/etc/passwd")
    for raw in (made.getvalue(), packed.getvalue()):
        assert items(tmp_path, raw) == [ParsedItem(0, None, problem=UNKNOWN)]


def test_names_that_lead_out_of_it_lead_nowhere(tmp_path: Path) -> None:
    names = ("../../1.eml", "/etc/2.eml", "C:\\mail\\3.eml", "a/../../4.eml\x1b[31m")
    for pack in (zipped, tarred):
        found = items(tmp_path, pack({name: message(number) for number, name in enumerate(names)}))
        assert len(ids(found)) == 4
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


def test_a_name_is_shown_without_escape_sequences(tmp_path: Path) -> None:
    (found,) = items(tmp_path, zipped({"a\x1b[31m\n\u202e.eml": b""}))
    assert found.problem == "empty (a .eml)"


def test_an_archive_unpacks_to_no_more_than_its_size_allows(tmp_path: Path) -> None:
    limits = ParseLimits(message_bytes=20_000, archive_ratio=2)
    many = {f"{number}.eml": message(number, "x" * 4000) for number in range(99)}
    for pack in (zipped, tarred):
        found = items(tmp_path, pack(many), limits=limits)
        assert 0 < len(ids(found)) < 99
        assert "unpacks to more" in problems(found)[0]


def test_an_archive_has_no_more_than_so_many_files(tmp_path: Path) -> None:
    many = {f"{number}.eml": message(number) for number in range(9)}
    for pack in (zipped, tarred):
        found = items(tmp_path, pack(many), limits=ParseLimits(archive_members=5))
        assert (len(ids(found)), problems(found)) == (5, ["files beyond the first 5 were not read"])
    found = items(tmp_path, zipped(many), limits=ParseLimits(archive_members=1))
    assert problems(found) == ["too many files"]


def test_a_bug_in_a_member_is_that_member_s_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    break_pages(monkeypatch, IndexError())
    page = b"From: ann@x.org\nSubject: x\nContent-Type: text/html\n\n<p>" + SECRET.encode()
    found = items(tmp_path, zipped({"1.eml": page, "2.eml": message(2)}))
    assert ids(found) == ["2@x.org"]
    assert problems(found)[0].startswith("bug in pkb: IndexError")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(PACKERS)), st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=9))
def test_any_damage_gives_documents_or_named_problems(
    tmp_path: Path, name: str, changes: list[tuple[int, int]]
) -> None:
    raw = bytearray(PACKERS[name](FILES))
    for place, byte in changes:
        raw[place % len(raw)] = byte
    found = items(tmp_path, bytes(raw))
    assert found
    assert [one.item for one in found] == list(range(len(found)))
    assert not any((one.problem or "").startswith("bug") for one in found)


# Through the index.


def test_a_changed_archive_replaces_what_changed_and_a_removed_one_removes_all(box: Box) -> None:
    path = box.mail / "a.zip"
    path.write_bytes(zipped({"a.mbox": mbox(1, 2, 3)}))
    assert box.ingest().kept == 3
    path.write_bytes(zipped({"a.mbox": mbox(1, 3), "4.eml": message(4)}))
    summary = box.ingest()
    assert (summary.changed, summary.kept, box.texts()) == (1, 1, ["word1", "word3", "word4"])
    path.unlink()
    assert (box.ingest().removed, box.texts()) == (3, [])


def test_an_archive_that_was_only_touched_or_moved_is_not_read_again(box: Box) -> None:
    path = box.mail / "a.tgz"
    path.write_bytes(tarred({"a.mbox": mbox(1, 2)}))
    box.ingest()
    os.utime(path, (1, 1))
    assert box.ingest().changed == 0
    path.rename(box.mail / "b.tgz")
    assert (box.ingest().removed, box.texts()) == (0, ["word1", "word2"])


def test_a_message_beside_its_copy_in_an_archive_is_one_document(box: Box) -> None:
    mail(box.mail / "a", "red", name="1")
    (box.mail / "a.zip").write_bytes(zipped({"1.eml": (box.mail / "a").read_bytes()}))
    summary = box.ingest()
    assert (summary.kept, summary.duplicates, len(box.places())) == (1, 1, 2)


def test_empty_files_of_no_kind_are_counted_with_the_others(tmp_path: Path) -> None:
    files = {f"{number}/__init__.py": b"" for number in range(9)} | {"1.txt": b"", "a.eml": b"", "b.eml": message(1)}
    found = items(tmp_path, zipped(files))
    assert problems(found) == ["empty (a.eml)", f"{UNKNOWN}: 10 of its files"]


_SAID = [
    "Rehearsal is at eight in the boathouse tonight.",
    "I bring the new oars with me.",
    "Then we can row on Sunday.",
]


@pytest.mark.parametrize("packed", [True, False])
def test_people_in_an_export_of_slack_have_their_names(tmp_path: Path, packed: bool) -> None:
    users = [{"id": f"U0{n}", "name": "x", "profile": {"real_name": name}} for n, name in enumerate(("Ann", "Bob"))]
    talk = [
        {"type": "message", "user": f"U0{n % 2}", "ts": f"{1714730000 + 60 * n}.000100", "text": text}
        for n, text in enumerate(_SAID)
    ]
    files = {"choir/2024-05-03.json": json.dumps(talk).encode(), "users.json": json.dumps(users).encode()}
    for name, raw in files.items() if not packed else ():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(raw)
    found = items(tmp_path, zipped(files)) if packed else list(read(tmp_path / "choir/2024-05-03.json", LIMITS))
    assert [one.document.recipients for one in found if one.document] == [("Ann", "Bob")]
