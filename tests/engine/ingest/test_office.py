"""The text of PDF and office files, attached to mail or loose: with its place, within limits, in a child process."""

import io
import os
import subprocess
import sys
import zipfile
import zlib
from base64 import b64decode
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from shutil import which

import pytest

from engine.ingest import office
from engine.ingest.office import OfficeFiles, parse, picture_of
from engine.ingest.types import ParseLimits
from store.types import FilePart, FileText
from tests.engine.ingest.archive_files import zipped
from tests.engine.ingest.office_files import (
    WORD,
    docx,
    opendocument,
    paragraphs,
    pdf,
    pptx,
    stream,
    written,
    xlsx,
)

LIMITS = ParseLimits(attachments=True)
RTF = rb"{\rtf1\ansi Dear Ann,\par the \b hall\b0  is booked.}"
TABLE = "<table:table-row><table:table-cell><text:p>rent</text:p></table:table-cell>{}</table:table-row>"
ROW = TABLE.format("<table:table-cell><text:p>1200</text:p></table:table-cell>")


def parts(data: bytes) -> list[tuple[str, str]]:
    return [(part.place, part.text) for part in parse(data).parts]


# Formats.


def test_a_pdf_is_read_by_pages_with_its_title_and_date() -> None:
    found = parse(pdf("The rent is 1200", "", "Notice", title="Lease of the hall", changed="D:20240503101112+02'00'"))
    assert found.parts == (FilePart("page 1", "The rent is 1200"), FilePart("page 3", "Notice"))
    assert found.date == datetime(2024, 5, 3, 8, 11, tzinfo=UTC)


def test_pages_without_text_are_pictures() -> None:
    assert parse(pdf("", "")) == FileText(unread="pictures without text")


def test_a_document_of_word_is_read_as_it_is_shown() -> None:
    body = (
        paragraphs("Agenda") + f"<w:p><w:pPr><w:tabs><w:tab/></w:tabs></w:pPr>{paragraphs('x' * 100)[5:]}"
        "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>rent</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>1200</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"
        + paragraphs("secret", "<w:rPr><w:vanish/></w:rPr>")
        + "<w:p><w:r><w:delText>deleted</w:delText><w:instrText>PAGE</w:instrText><w:br/><w:t>end</w:t></w:r></w:p>"
    )
    found = parse(docx(body, "Minutes of May", "2024-05-03T10:00:00Z", footnotes=paragraphs("a note")))
    assert [part.text for part in found.parts] == [f"Agenda\n{'x' * 100}\n\nrent | 1200\n\n\nend\n\na note"]
    assert found.date == datetime(2024, 5, 3, 10, tzinfo=UTC)


def test_what_is_there_twice_for_older_programs_is_read_once() -> None:
    both = (
        f"<x:A xmlns:x='x'><x:Choice>{paragraphs('box')}</x:Choice><x:Fallback>{paragraphs('box')}</x:Fallback></x:A>"
    )
    assert parts(docx(both)) == [("", "box")]


def test_slides_are_read_in_the_order_in_which_they_are_shown_with_their_notes() -> None:
    shown = pptx("Plans", "Budget", "never shown", notes={2: "mention the roof"}, order=(2, 1))
    assert parts(shown) == [("slide 1", "Budget\n\nmention the roof"), ("slide 2", "Plans")]


def test_sheets_are_read_by_rows_without_hidden_ones() -> None:
    rows: list[list[object]] = [["item", "cost"], ["rent", 1200], [None, 2.5], [None, None]]
    book = xlsx({"Costs of May": rows, "old": [["x"]]}, hidden="old")
    assert parts(book) == [("sheet Costs of May", "item | cost\nrent | 1200\n | 2.5")]


def test_documents_of_openoffice_are_read_without_what_was_deleted() -> None:
    body = (
        "<text:tracked-changes><text:p>gone</text:p></text:tracked-changes><text:h>Lease</text:h>"
        "<text:p>The <text:span>hall<text:s/>is</text:span> ours<text:tab/>now</text:p>" + ROW
    )
    found = parse(opendocument(body, title="Our lease", changed="2024-05-03T10:00:00.123"))
    assert [part.text for part in found.parts] == ["Lease\nThe hall is ours\tnow\nrent | 1200"]
    assert found.date == datetime(2024, 5, 3, 10, tzinfo=UTC)


def test_slides_and_sheets_of_openoffice_are_read_by_their_numbers_and_names() -> None:
    slides = "".join(f"<draw:page><text:p>{text}</text:p></draw:page>" for text in ("one", "two"))
    assert parts(opendocument(slides, "presentation")) == [("slide 1", "one"), ("slide 2", "two")]
    cells = '<table:table-cell office:value-type="string"><text:p>rent</text:p></table:table-cell>'
    table = f'<table:table table:name="Costs"><table:table-row>{cells}</table:table-row></table:table>'
    book = opendocument(f"<office:spreadsheet>{table}</office:spreadsheet>", "spreadsheet")
    assert parts(book) == [("sheet Costs", "rent")]


# Limits, and the child.


@pytest.fixture(scope="module")
def files() -> Iterator[OfficeFiles]:
    found = OfficeFiles()
    yield found
    found.close()


def bomb(size: int) -> bytes:
    """Return a document of Word with so many zeros in one paragraph."""
    out = io.BytesIO()
    with (
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("word/document.xml", "w") as file,
    ):
        file.write(f"<w:document xmlns:w='{WORD}'><w:p><w:r><w:t>".encode())
        for _ in range(size >> 20):
            file.write(b"0" * (1 << 20))
    return out.getvalue()


ENTITIES = "".join(f"<!ENTITY a{n} '{f'&a{n - 1};' * 10}'>" for n in range(1, 10))
ROOT = f"<w:document xmlns:w='{WORD}'>"
LAUGHS = f"<?xml version='1.0'?><!DOCTYPE x [<!ENTITY a0 'ha'>{ENTITIES}]>{ROOT}&a9;</w:document>"
OUTSIDE = f"<!DOCTYPE x [<!ENTITY e SYSTEM 'file:///etc/passwd'>]>{ROOT}<w:t>&e;</w:t></w:document>"
DEEP = f"{ROOT}{'<w:p>' * 50_000}{'</w:p>' * 50_000}</w:document>"
NO_PAGES = b"1 0 obj\n<</Type/Catalog/Pages 1 0 R>>\nendobj\ntrailer<</Root 1 0 R/Prev 0>>\nstartxref\n9\n%%EOF"
HOSTILE = {
    "entities in entities": zipped({"word/document.xml": LAUGHS.encode()}),
    "the same in UTF-16": zipped({"word/document.xml": LAUGHS.encode("utf-16")}),
    "an entity elsewhere": zipped({"word/document.xml": OUTSIDE.encode()}),
    "nested deeply": zipped({"word/document.xml": DEEP.encode()}),
    "cut": docx("hello")[:-40],
    "not a workbook": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(2000),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_damaged_or_hostile_file_is_named_and_the_next_one_is_read(files: OfficeFiles, name: str) -> None:
    assert files.text_of(HOSTILE[name]).problem == "damaged"
    assert files.text_of(pdf(f"after {name}")).parts == (FilePart("page 1", f"after {name}"),)


def test_tables_of_a_pdf_that_lead_in_a_circle_end(files: OfficeFiles) -> None:
    whole = pdf("hello")
    start = whole.rindex(b"startxref\n") + 10
    place = int(whole[start:].split()[0])
    found = files.text_of(whole.replace(b"/Root 1 0 R", f"/Root 1 0 R/Prev {place}".encode()))
    assert found.parts == (FilePart("page 1", "hello"),)
    assert files.text_of(b"%PDF-1.5\n" + NO_PAGES).parts == ()


def test_a_bomb_costs_its_own_text_alone(files: OfficeFiles) -> None:
    assert files.text_of(bomb(300 << 20)).problem == "damaged"  # more than a part may have
    assert files.text_of(pdf("still here")).parts


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("raise MemoryError", "needs more than 1024 MB of memory"),
        ("os._exit(1)", "its parser failed"),
        ("os.kill(os.getpid(), signal.SIGXCPU)", "took longer than 10 seconds"),
    ],
)
def test_a_child_that_is_full_or_late_or_dead_is_started_again(code: str, problem: str) -> None:
    broken = f"import os, signal\nfrom engine.ingest import office\ndef parse(data):\n {code}\n"
    child = OfficeFiles()
    child._child = started([sys.executable, "-c", f"{broken}office.parse = parse\noffice._serve()"])
    assert child.text_of(b"x").problem == problem
    assert child.text_of(pdf("again")).parts == (FilePart("page 1", "again"),)
    child.close()


def started(words: list[str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


@pytest.mark.parametrize(
    "says", ["", "write(b'1')", "write(b'\\xff' * 8)", "write(bytes(7) + b'\\1{')", "write(bytes(8))"]
)
def test_a_child_that_reads_and_says_nothing_whole_is_ended(monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    monkeypatch.setattr(office, "_PATIENCE", 0.2)
    child = OfficeFiles()
    said = f"sys.stdout.buffer.{says}; sys.stdout.flush(); " if says else ""
    child._child = started([sys.executable, "-c", f"import sys, time; {said}time.sleep(60)"])
    assert child.text_of(bytes(1 << 20)).problem == "took longer than 10 seconds"
    child.close()


def test_the_child_opens_no_file_and_no_socket(files: OfficeFiles) -> None:
    files.text_of(pdf("x"))
    assert files._child is not None
    if sys.platform == "linux":
        limits = Path(f"/proc/{files._child.pid}/limits").read_text()
        found = {line[:26].strip(): line[26:46].strip() for line in limits.splitlines()}
        assert (found["Max open files"], found["Max file size"], found["Max processes"]) == ("3", "0", "0")
        assert len(list(Path(f"/proc/{files._child.pid}/fd").iterdir())) == 3


def test_more_text_or_pages_than_are_kept_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(office, "_PAGES", 2)
    assert parse(pdf("a", "b", "c")).problem == "pages beyond the first 2 were not read"
    monkeypatch.setattr(office, "_CHARS", 10)
    found = parse(pdf("a" * 8, "b" * 8))
    assert [part.text for part in found.parts] == ["a" * 8, "bb"]
    assert found.problem == "text beyond 10 characters was not read"


# Pages that are pictures.


def drawn(data: bytes) -> bytes:
    return b64decode(picture_of(data, 1).parts[0].text)


def scanned(*texts: str) -> bytes:
    """Return a PDF whose pages are pictures of these texts; an empty one is a white page."""
    kids = " ".join(f"{4 + 3 * number} 0 R" for number in range(len(texts)))
    made = [b"<</Type/Catalog/Pages 2 0 R>>", f"<</Type/Pages/Count {len(texts)}/Kids[{kids}]>>".encode(), b"null"]
    for number, text in enumerate(texts):
        _, width, height, pixels = drawn(pdf(text)).split(b" ", 3)
        about = f"/Type/XObject/Subtype/Image/Width {int(width)}/Height {int(height)}/ColorSpace/DeviceGray"
        image = zlib.compress(pixels.partition(b"\n")[2])
        place = f"/Parent 2 0 R/MediaBox[0 0 600 800]/Contents {5 + 3 * number} 0 R"
        made += [
            f"<</Type/Page{place}/Resources<</XObject<</I {6 + 3 * number} 0 R>>>>>>".encode(),
            stream(b"600 0 0 800 0 0 cm /I Do"),
            stream(image, f"{about}/BitsPerComponent 8/Filter/FlateDecode"),
        ]
    return written(made, "/Root 1 0 R")


def with_tesseract(folder: Path, patch: pytest.MonkeyPatch, script: str) -> None:
    """Put a program of this name first on the path."""
    program = folder / "tesseract"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    patch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.fixture
def ocr() -> Iterator[OfficeFiles]:
    found = OfficeFiles("eng")
    yield found
    found.close()


SCAN = scanned("The rent is 1200", "", "Signed by Ann")


def test_a_scan_is_a_picture_as_long_as_nobody_wants_it_read(files: OfficeFiles) -> None:
    assert files.text_of(SCAN) == FileText(unread="pictures without text")


@pytest.mark.slow
@pytest.mark.skipif(not which("tesseract"), reason="tesseract is not installed")
def test_tesseract_reads_scanned_pages(ocr: OfficeFiles) -> None:
    assert ocr.text_of(SCAN) == FileText((FilePart("page 1", "The rent is 1200"), FilePart("page 3", "Signed by Ann")))


def test_each_page_without_text_is_read_once_as_a_gray_picture(
    ocr: OfficeFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_tesseract(tmp_path, monkeypatch, f'echo "$@" >>{tmp_path}/asked; head -c 16 >>{tmp_path}/asked; echo read')
    found = ocr.text_of(pdf("with text", "", "too"))
    assert [(part.place, part.text) for part in found.parts] == [
        ("page 1", "with text"), ("page 2", "read"), ("page 3", "too"),
    ]  # fmt: skip
    assert ocr.text_of(pdf("with text", "", "too")) == found
    assert (tmp_path / "asked").read_bytes().startswith(b"stdin stdout -l eng\nP5 1667 2223 255")
    assert (tmp_path / "asked").read_text("latin-1").count("stdin") == 1


@pytest.mark.parametrize(
    "script", ["sleep 60", "sleep 60 & sleep 60", "cat /dev/zero", "exit 1", "kill -SEGV $$", "while :; do :; done"]
)
def test_a_tesseract_that_hangs_floods_or_crashes_costs_the_picture(
    ocr: OfficeFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    monkeypatch.setattr(office, "_READING", 0.5)
    with_tesseract(tmp_path, monkeypatch, script)
    found = ocr.text_of(pdf("with text", ""))
    assert found.parts == (FilePart("page 1", "with text"),)
    assert found.problem.startswith("tesseract failed or took too long")


def test_a_page_is_drawn_within_limits() -> None:
    assert picture_of(pdf("x"), 2) == FileText()
    assert picture_of(b"%PDF-1.5\nnothing", 1) == FileText()
    huge = pdf("").replace(b"[0 0 600 800]", b"[0 0 9e9 9e9]")
    assert len(drawn(huge)) <= 4001 * 4001


def test_without_tesseract_the_note_says_what_to_install(ocr: OfficeFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    found = ocr.text_of(SCAN)
    assert found == FileText(unread="pictures without text", problem="pictures are not read: install tesseract")


def test_after_its_time_no_more_pages_are_read(
    ocr: OfficeFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(office, "_READING", -1)
    assert ocr.text_of(SCAN).problem == "tesseract failed or took too long: see tesseract --list-langs"
