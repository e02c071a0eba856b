"""Attached and loose files: their text in the index with its place, once, counted, forgotten and opened again."""

import os
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from engine.ingest.files import attached_file, read, with_attachments
from engine.ingest.pipeline import Guard, Ingest, Summary
from engine.ingest.types import ParseLimits
from store.catalog import SourceRoot
from store.types import Document, ParsedItem
from tests.engine.ingest.archive_files import mbox, message, zipped
from tests.engine.ingest.box import Box
from tests.engine.ingest.office_files import docx, mail, pdf, xlsx

LIMITS = ParseLimits(attachments=True)
RTF = rb"{\rtf1\ansi Dear Ann,\par the \b hall\b0  is booked.}"
LEASE = pdf("The rent is 1200", "Notice: three months")


def items(path: Path, raw: bytes, limits: ParseLimits = LIMITS) -> list[ParsedItem]:
    path.write_bytes(raw)
    with with_attachments(limits) as reading:
        return list(read(path, reading))


def document(path: Path, raw: bytes, limits: ParseLimits = LIMITS) -> Document:
    (item,) = items(path, raw, limits)
    assert item.document
    return item.document


def places(found: Document) -> list[tuple[str, str]]:
    """Return what stands in files, by its place, without the lines that name it."""
    return [(one.author, one.text) for one in found.passages if one.author and not one.text.startswith("[")]


def ingest(box: Box, *, attachments: bool = True, **files: bytes) -> Summary:
    for name, raw in files.items():
        (box.mail / name.replace("_", ".")).write_bytes(raw)
    run = Ingest(box.opened.ledger, box.opened.knowledge, ParseLimits(attachments=attachments), Guard(0.2, 50))
    for _ in run.run(SourceRoot(str(box.mail), "mail", None)):
        pass
    return run.summary


def chunks(box: Box) -> list[tuple[str, str]]:
    rows = box.opened.tables.select("chunks", "role <> 'body'", ["author", "text", "position"])
    return [(row["author"], row["text"]) for row in sorted(rows, key=lambda row: int(row["position"]))]


def test_the_text_of_attached_files_is_of_their_message_by_file_and_page(tmp_path: Path) -> None:
    files = (("lease.pdf", LEASE), ("costs.xlsx", xlsx({"May": [["rent", 1200]]})), ("letter.rtf", RTF))
    found = document(tmp_path / "a.eml", mail(*files, ("photo.jpg", b"\xff\xd8")))
    assert places(found) == [
        ("lease.pdf, page 1", "The rent is 1200"),
        ("lease.pdf, page 2", "Notice: three months"),
        ("costs.xlsx, sheet May", "rent | 1200"),
        ("letter.rtf", "Dear Ann,\nthe hall is booked."),
    ]
    assert "[attachment: photo.jpg]" in found.text


def test_a_message_is_the_same_whether_attached_files_are_read_or_not(tmp_path: Path) -> None:
    raw = mail(("lease.pdf", LEASE), ("more.zip", zipped({"notes.txt": b"zipped words"})))
    named, found = document(tmp_path / "a.eml", raw, ParseLimits()), document(tmp_path / "a.eml", raw)
    assert found.text.startswith(named.text)
    assert "The rent is 1200" not in named.text
    assert found.id == named.id


def test_what_stands_in_an_attached_zip_file_is_read_one_level_deep(tmp_path: Path) -> None:
    inner = zipped({"deep.txt": b"too deep"})
    files = {"a/lease.pdf": LEASE, "note.txt": b"zipped words", "m.eml": message(4, "from within"), "b.zip": inner}
    found = document(tmp_path / "a.eml", mail(("papers.zip", zipped(files)), kind="application/zip"))
    assert ("papers.zip/a/lease.pdf, page 1", "The rent is 1200") in places(found)
    assert ("papers.zip/note.txt", "zipped words") in [(at, text.partition("\n")[2]) for at, text in found_in(found)]
    assert "from within" in found.text
    assert "too deep" not in found.text


def found_in(found: Document) -> list[tuple[str, str]]:
    return [(one.author, one.text) for one in found.passages if one.author]


def test_an_attached_file_that_cannot_be_read_is_named_and_the_message_is_read(tmp_path: Path) -> None:
    (item,) = items(tmp_path / "a.eml", mail(("lease.pdf", LEASE[:200]), ("b.docx", docx("after it"))))
    assert item.problem == "damaged (lease.pdf)"
    assert item.document
    assert places(item.document) == [("b.docx", "after it")]


def test_a_bomb_in_an_attached_zip_file_is_named(tmp_path: Path) -> None:
    raw = mail(("papers.zip", zipped({"a.txt": bytes(80 << 20)})))
    (item,) = items(tmp_path / "a.eml", raw)
    assert item.problem == "unpacks to more than its size allows; the rest was not read (papers.zip)"


def test_a_file_is_the_same_below_other_words_and_beside_other_files(tmp_path: Path) -> None:
    box, jan = Box(tmp_path), ("Lee, Jan.docx", docx("January"))
    first, second = mail(("Lee, Feb.docx", docx("February")), jan), mail(jan, body="a\n\nb\n\nc", day=2, name="2")
    summary = ingest(box, a_eml=first, b_eml=second)

    name = "[attachment: Lee, Jan.docx]"
    assert sorted(text for place, text in chunks(box) if place == jan[0]) == [name, f"{name}\nJanuary"]
    assert summary.attachments == 3


def test_pictures_and_encrypted_files_are_said_to_be_that(tmp_path: Path) -> None:
    (item,) = items(tmp_path / "a.eml", mail(("scan.pdf", pdf(""))))
    assert item.kinds == ("pictures",)
    assert item.document
    assert "[attachment: scan.pdf: pictures without text]" in item.document.text
    (item,) = items(tmp_path / "b.pdf", pdf(""))
    assert item.kinds == ("pictures",)


@pytest.mark.parametrize(
    ("name", "raw", "said"),
    [
        ("lease.pdf", pdf("The rent", title="Lease of the hall", changed="D:20240503101112Z"), "written 2024-05-03"),
        ("letter.rtf", RTF, "last changed 2023-01-02"),
        ("costs.csv", b"item;cost\nrent;1200\n", "last changed 2023-01-02"),
    ],
)
def test_a_loose_file_is_a_document_that_says_where_its_date_is_from(
    tmp_path: Path, name: str, raw: bytes, said: str
) -> None:
    path = tmp_path / name
    path.write_bytes(raw)
    moment = datetime(2023, 1, 2, 12, tzinfo=UTC).timestamp()
    os.utime(path, (moment, moment))
    with with_attachments(LIMITS) as limits:
        (item,) = read(path, limits)
    assert item.document
    assert item.document.kind == "file"
    assert item.document.text.startswith(f"[file: {name}, {said}]")
    assert item.document.title == name


def test_loose_files_are_skipped_where_they_are_not_to_be_read(tmp_path: Path) -> None:
    (item,) = items(tmp_path / "lease.pdf", LEASE, ParseLimits())
    assert item.problem == "not mail or a transcript"


def test_an_archive_of_documents_holds_each(tmp_path: Path) -> None:
    found = items(tmp_path / "a.zip", zipped({"x/lease.pdf": LEASE, "b.docx": docx("second")}))
    assert [one.document and one.document.title for one in found] == ["lease.pdf", "b.docx"]


def test_a_file_in_several_messages_is_indexed_once_and_whole(tmp_path: Path) -> None:
    box = Box(tmp_path)
    changed = pdf("The rent is 1200", "Notice: six months")
    first, second = (mail(("lease.pdf", LEASE), day=day, name=str(day)) for day in (1, 2))
    summary = ingest(box, a_eml=first, b_eml=second, c_eml=mail(("lease.pdf", changed), day=3, name="3"))
    texts = [text for _, text in chunks(box) if not text.startswith("[attachment: lease.pdf]")]
    assert sum("The rent is 1200" in text for text in texts) == 2  # of the first message, and of another file
    assert summary.attachments == 3
    (box.mail / "a.eml").unlink()
    ingest(box)
    texts = [text for _, text in chunks(box)]
    assert sum("three months" in text for text in texts) == 1


def test_files_are_read_again_when_the_setting_changes(tmp_path: Path) -> None:
    box = Box(tmp_path)
    assert ingest(box, attachments=False, a_eml=mail(("lease.pdf", LEASE))).attachments == 0
    assert ingest(box).attachments == 1
    assert any("The rent" in text for text in box.texts())
    ingest(box, attachments=False)
    assert not any("The rent" in text for text in box.texts())


def test_an_attached_file_is_found_again_by_the_place_of_its_text(tmp_path: Path) -> None:
    path = tmp_path / "a.mbox"
    first, second = mail(("lease.pdf", b"%PDF-other")), mail(("lease.pdf", LEASE), ("lease", b"x"), name="2")
    path.write_bytes(b"".join(b"From ann@x.org Fri May  3 10:00:00 2024\n" + raw + b"\n" for raw in (first, second)))
    assert attached_file(path, "2@x.org", "lease.pdf, page 2") == ("lease.pdf", LEASE)
    assert attached_file(path, "1@x.org", "lease.pdf") == ("lease.pdf", b"%PDF-other")
    assert attached_file(path, "2@x.org", "other.pdf") is None
    assert attached_file(path, "3@x.org", "lease.pdf") is None


def test_of_two_attached_files_that_may_be_meant_none_is_opened(tmp_path: Path) -> None:
    one, two = (mail(("a.pdf", pdf(text)), day=day) for day, text in enumerate(("One", "Two"), 1))
    unnamed = [re.sub(rb"Message-ID: .*\n", b"", each) for each in (one, two)]
    path, mails = tmp_path / "a.mbox", (*unnamed, one, two)
    path.write_bytes(b"".join(b"From a@x.org Mon May  1 10:00:00 2024\n" + each + b"\n" for each in mails))

    assert attached_file(path, ("Papers 1", "2024-05-02T10:00:00+00:00"), "a.pdf, page 1") == ("a.pdf", pdf("Two"))
    assert attached_file(path, "1@x.org", "a.pdf, page 1") is None
    path.write_bytes(mail(("a.pdf", pdf("One")), ("a.pdf", pdf("Two"))))
    assert attached_file(path, "1@x.org", "a.pdf, page 1") is None


def test_mail_without_such_files_starts_no_process(tmp_path: Path) -> None:
    box, before = Box(tmp_path), {*sys.modules}
    ingest(box, a_eml=message(1), b_mbox=mbox(2, 3))
    assert {
        name for name in {*sys.modules} - before if "pdfium" in name or "calamine" in name or "office" in name
    } == set()
