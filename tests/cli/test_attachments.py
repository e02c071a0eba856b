"""Attached and loose files at the command line: counted, shown by their place, opened, and left alone."""

import os
from pathlib import Path

import pytest

from tests.cli.conftest import Pkb
from tests.engine.ingest.office_files import docx, mail, pdf

LEASE = pdf("Heading", "The yearly rent of the boathouse is 1200 euros.")
QUESTION = "What is the yearly rent of the boathouse?"


def opener(folder: Path, name: str) -> Path:
    program = folder / name
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >"{folder}/opened"\n')
    program.chmod(0o755)
    return program


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "papers"
    made.mkdir()
    (made / "a.eml").write_bytes(mail(("lease.pdf", LEASE), ("broken.docx", docx("x")[:-30])))
    return made


def test_an_attached_file_is_counted_named_as_the_source_and_opened_at_its_page(
    fresh: Pkb, folder: Path, tmp_path: Path
) -> None:
    ran = fresh("ingest", str(folder), "--vectors", "later")
    assert "text of 1 attached file read" in ran.out
    assert "damaged (broken.docx)" in ran.out
    assert "damaged (broken.docx)" in fresh("list", "--problems").out
    assert fresh("ask", QUESTION, "--json").row["sources"][0]["place"] == "lease.pdf, page 2"
    assert "a.eml: lease.pdf, page 2" in fresh("ask", QUESTION, "--all").out
    ran = fresh("show", "1", "--open", env={"PKB_OPENER": str(opener(tmp_path, "okular"))})
    assert ran.err == "pkb: opened lease.pdf, page 2\n"
    (copy,) = (tmp_path / "opened").read_text().splitlines()
    assert (Path(copy).name, Path(copy).read_bytes()) == ("lease.pdf", LEASE)
    assert (Path(copy).stat().st_mode & 0o777, Path(copy).parent.stat().st_mode & 0o777) == (0o600, 0o700)
    fresh("forget", "--yes", "1@x.org")
    assert not Path(copy).exists()


def test_a_loose_file_is_a_document_that_is_opened_itself(fresh: Pkb, tmp_path: Path) -> None:
    (tmp_path / "lease.pdf").write_bytes(LEASE)
    fresh("ingest", str(tmp_path / "lease.pdf"), "--vectors", "later")
    assert fresh("list", "--json").row["documents"][0]["kind"] == "file"
    source = fresh("ask", QUESTION, "--json").row["sources"][0]
    assert (source["place"], source["title"]) == ("lease.pdf, page 2", "lease.pdf")
    fresh("show", "1", "--open", env={"PKB_OPENER": str(opener(tmp_path, "evince"))})
    assert (tmp_path / "opened").read_text() == f"{tmp_path}/lease.pdf\n"


def test_a_setting_leaves_files_alone_and_a_forgotten_message_stays_away_with_it(fresh: Pkb, folder: Path) -> None:
    fresh("ingest", str(folder), "--vectors", "later")
    assert fresh("forget", "--yes", "1@x.org").code == 0
    fresh("config", "set", "ingest.attachments", "name")
    ran = fresh("ingest", str(folder), "--vectors", "later")
    assert "kept out 1 forgotten document" in ran.out
    assert fresh("list").code == 4


@pytest.mark.slow
def test_scanned_pages_are_read_once_the_user_wants_that(
    fresh: Pkb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder := tmp_path / "papers").mkdir()
    (folder / "scan.pdf").write_bytes(pdf(""))
    fresh("ingest", str(folder), "--vectors", "later")
    assert "pages that are pictures: 1" in fresh("list", "--problems").out
    assert fresh("config", "set", "ingest.ocr", "eng; rm").code == 2
    assert fresh("config", "set", "ingest.ocr", "eng+deu").code == 0
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", "/nowhere")
    assert "BAD   ocr        tesseract is not installed; try: apt install tesseract-ocr" in fresh("doctor").out
    ran = fresh("ingest", "--vectors", "later")
    assert "pictures are not read: install tesseract" in ran.out + ran.err
    (program := tmp_path / "tesseract").write_text("#!/bin/sh\necho The rent is 1200 euros.\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{path}")
    assert "ok    ocr        tesseract" in fresh("doctor").out
    fresh("config", "set", "ingest.ocr", "eng")
    fresh("ingest", "--vectors", "later")
    assert fresh("search", "rent", "--json").row["sources"][0]["place"] == "scan.pdf, page 1"
    assert fresh("list", "--problems").out == "nothing was skipped, misread or left out\n"
    fresh("config", "set", "ingest.ocr", "")
    fresh("ingest", "--vectors", "later")
    assert "pages that are pictures: 1" in fresh("list", "--problems").out
