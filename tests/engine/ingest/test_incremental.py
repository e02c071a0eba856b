"""Incremental ingest: only new and changed files are parsed, removed ones are removed."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.ingest import files as module
from engine.ingest.chunking import embed
from engine.ingest.files import read
from engine.ingest.pipeline import Guard, Ingest
from engine.ingest.types import ParseLimits
from store.catalog import SourceRoot
from store.types import ParsedItem
from tests.engine.ingest.box import Box, mail, whisper
from tests.store.kit import HashEmbedder


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that collects the names of parsed files."""
    names: list[str] = []

    def spy(path: Path, limits: ParseLimits) -> Iterator[ParsedItem]:
        names.append(path.name)
        return read(path, limits)

    monkeypatch.setattr(module, "read", spy)
    return names


def test_unchanged_files_are_not_read_again(box: Box, parsed: list[str]) -> None:
    mail(box.mail / "a", "red")
    box.ingest()
    box.ingest()
    assert parsed == ["a"]


def test_an_unchanged_folder_opens_no_table_and_raises_no_generation(box: Box) -> None:
    mail(box.mail / "a", "red")
    box.ingest()
    again = box.again()
    before = again.opened.ledger.generation
    again.ingest()
    assert (again.opened.ledger.generation, "_tables" in again.opened.knowledge.__dict__) == (before, False)
    again.opened.ledger.close()


_LOOK = """
import sys
from pathlib import Path
from engine.ingest.pipeline import Guard, Ingest
from engine.ingest.types import ParseLimits
from store.catalog import SourceRoot
from store.documents import Knowledge
from store.database import open_ledger
ledger = open_ledger(Path(sys.argv[1], "data", "ledger.db"))
run = Ingest(ledger, Knowledge(ledger, lambda: sys.exit("the tables were opened")), ParseLimits(), Guard(0.2, 50))
list(run.run(SourceRoot(str(Path(sys.argv[1], "mail")), "mail", None)))
heavy = {"lancedb", "numpy", "pyarrow", "selectolax", "charset_normalizer", "engine.ingest.mail"}
print(run.summary.files, sorted(heavy & sys.modules.keys()))
"""


def test_an_unchanged_folder_imports_no_parser(box: Box) -> None:
    mail(box.mail / "a", "red")
    box.ingest()
    words = [sys.executable, "-c", _LOOK, str(box.folder)]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "1 []\n"


def test_a_root_may_be_named_with_a_slash_behind_it(box: Box) -> None:
    mail(box.mail / "a", "red")
    run = Ingest(box.opened.ledger, box.opened.knowledge, ParseLimits(), Guard(0.2, 50))
    list(run.run(SourceRoot(f"{box.mail}/", "mail", None)))
    assert box.texts() == ["red"]


def test_a_new_file_is_read_alone(box: Box, parsed: list[str]) -> None:
    mail(box.mail / "a", "red")
    box.ingest()
    mail(box.mail / "b", "blue")
    summary = box.ingest()
    assert (parsed, summary.new, summary.files, box.texts()) == (["a", "b"], 1, 2, ["blue", "red"])


def test_a_changed_file_gives_its_new_text(box: Box) -> None:
    mail(box.mail / "a", "red")
    box.ingest()
    mail(box.mail / "a", "blue and green")
    summary = box.ingest()
    assert (box.texts(), summary.changed, summary.removed) == (["blue and green"], 1, 1)


def test_a_file_with_a_new_mtime_alone_changes_nothing(box: Box) -> None:
    mail(box.mail / "a", "red")
    box.ingest()
    before = box.opened.ledger.generation
    os.utime(box.mail / "a", ns=(0, 0))
    summary = box.ingest()
    assert (summary.changed, summary.kept, box.opened.ledger.generation) == (0, 0, before)


def test_a_file_written_over_is_read_again_even_if_its_size_and_mtime_stay(box: Box) -> None:
    file = mail(box.mail / "a", "red")
    box.ingest()
    times = file.stat()
    with file.open("r+b") as raw:
        raw.write(file.read_bytes().replace(b"red", b"tan"))
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    summary = box.ingest()
    assert (box.texts(), summary.changed, summary.removed) == (["tan"], 1, 1)


def test_a_folder_that_was_restored_is_compared_and_not_read(box: Box, parsed: list[str]) -> None:
    mail(box.mail / "a", "red")
    mail(box.mail / "b", "blue " * 4000)
    (box.mail / "c").write_bytes(b"\x00\x01" * 400_000)
    box.ingest()
    before = box.opened.ledger.generation
    shutil.copytree(box.mail, box.folder / "copy")
    shutil.rmtree(box.mail)
    (box.folder / "copy").rename(box.mail)
    summary = box.ingest()
    assert (sorted(parsed), summary.changed, summary.gone, summary.problems) == (["a", "b", "c"], 0, 0, [])
    assert (box.opened.ledger.generation, len(summary.known_problems)) == (before, 1)


def test_a_file_of_an_older_program_is_read_once_and_keeps_its_chunks(box: Box, parsed: list[str]) -> None:
    mail(box.mail / "a", "red")
    box.ingest()
    list(embed(box.opened.vectors, HashEmbedder(), box.opened.locks))
    box.ingest()  # the index of what was embedded
    before = (box.opened.chunks(), box.opened.ledger.generation)
    box.opened.ledger.rows.execute("UPDATE files SET ctime_ns = -1, digest = x''")
    box.ingest()
    box.ingest()
    assert (parsed, box.opened.vectors.missing) == (["a", "a"], 0)
    assert (box.opened.chunks(), box.opened.ledger.generation) == before


def test_a_mailbox_in_which_the_mail_program_set_a_flag_keeps_its_documents(box: Box) -> None:
    raw = (
        b"From ann@x.org Wed May  1 10:00:00 2024\nFrom: ann@x.org\nDate: 1 May 2024 10:00:00 +0000\nStatus: O\n\nred\n"
    )
    (box.mail / "box").write_bytes(raw)
    box.ingest()
    before = box.opened.ledger.generation
    (box.mail / "box").write_bytes(raw.replace(b"Status: O", b"Status: R"))
    summary = box.ingest()
    assert (summary.changed, summary.removed, box.opened.ledger.generation, box.texts()) == (1, 0, before, ["red"])


def test_removing_a_file_removes_its_document(box: Box) -> None:
    mail(box.mail / "a", "red")
    mail(box.mail / "b", "blue")
    box.ingest()
    (box.mail / "a").unlink()
    summary = box.ingest()
    assert (box.texts(), summary.gone, summary.removed, box.opened.wrong()) == (["blue"], 1, 1, [])


def test_copies_are_one_document_at_several_places(box: Box) -> None:
    for folder in ("inbox", "archive", "all"):
        mail(box.mail / folder / "a", "red")
    summary = box.ingest()
    assert (len(box.opened.documents()), len(box.places()), summary.duplicates) == (1, 3, 2)


def test_a_document_stays_while_one_of_its_copies_does(box: Box) -> None:
    mail(box.mail / "inbox" / "a", "red")
    mail(box.mail / "all" / "a", "red")
    box.ingest()
    (box.mail / "inbox" / "a").unlink()
    box.ingest()
    assert (box.texts(), len(box.places())) == (["red"], 1)


def test_a_moved_file_keeps_its_chunks_and_vectors(box: Box) -> None:
    mail(box.mail / "new" / "a", "red")
    box.ingest()
    list(embed(box.opened.vectors, HashEmbedder(), box.opened.locks))
    before = box.opened.chunks()
    (box.mail / "cur").mkdir()
    (box.mail / "new" / "a").rename(box.mail / "cur" / "a,S")
    summary = box.ingest()
    assert (box.opened.chunks(), box.opened.vectors.missing, summary.kept, summary.removed) == (before, 0, 0, 0)


def test_a_moved_file_raises_the_generation_since_answers_name_it(box: Box) -> None:
    mail(box.mail / "a", "red")
    box.ingest()
    before = box.opened.ledger.generation
    (box.mail / "a").rename(box.mail / "b")
    box.ingest()
    assert box.opened.ledger.generation > before


def test_a_file_that_cannot_be_read_does_not_raise_the_generation(box: Box) -> None:
    (box.mail / "a").write_bytes(b"\x00\x01")
    summary = box.ingest()
    assert (len(summary.problems), box.opened.ledger.generation) == (1, 0)


def test_what_could_not_be_read_is_named_on_every_run_and_not_read_again(box: Box, parsed: list[str]) -> None:
    (box.mail / "a").write_bytes(b"\x00\x01")
    first, second = box.ingest(), box.ingest()
    assert (first.problems, first.known_problems) == (second.known_problems, second.problems)
    assert (len(first.problems), parsed) == (1, ["a"])


def test_a_problem_that_is_gone_is_not_named(box: Box) -> None:
    (box.mail / "a").write_bytes(b"\x00\x01")
    box.ingest()
    mail(box.mail / "a", "red")
    assert box.ingest().problems == []


def test_another_kind_reads_the_files_again(box: Box) -> None:
    (box.mail / "a.txt").write_text("Ann: hello\n")
    mail(box.mail / "b", "red")
    first = box.ingest(kind="mail")
    second = box.ingest()
    assert (first.new, second.changed) == (2, 2)


def test_a_folder_inside_another_root_is_read_once(box: Box, parsed: list[str]) -> None:
    mail(box.mail / "inner" / "a", "red")
    box.ingest(box.mail, box.mail / "inner")
    assert (parsed, len(box.places())) == (["a"], 1)


@pytest.mark.parametrize("name", [b"\xff\xfe", b"new\nline", b"a b", "ü会".encode()])
def test_a_file_of_any_name_is_ingested_and_removed(box: Box, name: bytes) -> None:
    path = Path(os.fsdecode(os.fsencode(box.mail) + b"/" + name))
    mail(path, "red")
    whisper(path.with_name(path.name + ".json"), "blue")
    box.ingest()
    found = {place.path for document in box.opened.documents() for place in box.opened.catalogue.places(document)}
    assert (len(box.texts()), found) == (2, {str(path), str(path) + ".json"})
    path.unlink()
    assert box.ingest().removed == 1


def test_a_root_may_be_named_by_a_link(box: Box) -> None:
    mail(box.mail / "a", "red")
    (box.folder / "link").symlink_to(box.mail)
    box.ingest(box.folder / "link")
    assert box.texts() == ["red"]


def test_folders_of_pkb_itself_are_left_out_of_those_around_them(box: Box, parsed: list[str]) -> None:
    mail(box.mail / "a", "red")
    mail(box.mail / "own" / "b", "blue")
    for root in (box.mail, box.mail / "own"):
        run = Ingest(box.opened.ledger, box.opened.knowledge, ParseLimits(), Guard(0.2, 50), aside=[box.mail / "own"])
        assert list(run.run(SourceRoot(str(root), "mail", None)))
        assert (run.summary.files, run.summary.new) == (1, 1)
    assert parsed == ["a", "b"]
