"""Only what is new or changed is read; what is gone goes; what is the same stays as it is."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.ingest import ingest as module
from engine.ingest.embed import embed
from engine.ingest.files import read
from engine.ingest.limits import Limits
from store.records import Reading
from tests.engine.ingest.box import Box, mail, whisper
from tests.store.kit import HashEmbedder


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Give the names of the files that are read, as they are read."""
    names: list[str] = []

    def spy(path: Path, raw_kind: str | None, limits: Limits) -> Iterator[Reading]:
        names.append(path.name)
        return read(path, raw_kind, limits)

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


def test_a_file_that_was_only_touched_changes_nothing(box: Box) -> None:
    mail(box.mail / "a", "red")
    box.ingest()
    before = box.opened.ledger.generation
    os.utime(box.mail / "a", ns=(0, 0))
    summary = box.ingest()
    assert (summary.changed, summary.kept, box.opened.ledger.generation) == (1, 0, before)


def test_a_vanished_file_takes_its_document_with_it(box: Box) -> None:
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
    found = [[Path(p.path).name for p in box.ingest().problems] for _ in range(2)]
    assert (found, parsed) == ([["a"], ["a"]], ["a"])


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


def test_a_missing_root_removes_nothing(box: Box) -> None:
    mail(box.mail / "a", "red")
    box.ingest()
    box.mail.rename(box.folder / "elsewhere")
    summary = box.ingest(box.mail)
    assert (box.texts(), summary.removed, len(summary.problems)) == (["red"], 0, 1)


@pytest.mark.parametrize("prune", [False, True])
def test_many_vanished_documents_go_only_when_told(box: Box, prune: bool) -> None:
    for number in range(60):
        mail(box.mail / f"m{number}", f"word{number}")
    box.ingest()
    for number in range(51):
        (box.mail / f"m{number}").unlink()
    summary = box.ingest(prune=prune)
    assert (summary.refused, summary.removed, len(box.texts())) == ((0, 51, 9) if prune else (51, 0, 60))


def test_fifty_vanished_documents_are_not_too_many(box: Box) -> None:
    for number in range(50):
        mail(box.mail / f"m{number}", f"word{number}")
    box.ingest()
    for path in box.mail.iterdir():
        path.unlink()
    assert box.ingest().removed == 50


def test_a_fifth_of_many_documents_is_not_too_many(box: Box) -> None:
    for number in range(260):
        mail(box.mail / f"m{number}", f"word{number}")
    box.ingest()
    for number in range(52):
        (box.mail / f"m{number}").unlink()
    assert box.ingest().removed == 52


def test_many_documents_that_only_moved_are_not_vanished(box: Box) -> None:
    for number in range(60):
        mail(box.mail / "old" / f"m{number}", f"word{number}")
    box.ingest()
    (box.mail / "old").rename(box.mail / "renamed")
    summary = box.ingest()
    assert (summary.refused, summary.removed, summary.gone, len(box.places())) == (0, 0, 60, 60)


def _mbox(path: Path, numbers: range) -> None:
    head = "From ann@x.org Fri May  3 10:00:00 2024\nFrom: ann@x.org\nDate: 3 May 2024 10:00:00 +0000\n"
    path.write_text("".join(f"{head}Subject: s{n}\n\nword{n}\n\n" for n in numbers))


@pytest.mark.parametrize("prune", [False, True])
def test_many_documents_that_vanish_from_inside_a_file_go_only_when_told(box: Box, prune: bool) -> None:
    _mbox(box.mail / "a.mbox", range(60))
    box.ingest()
    _mbox(box.mail / "a.mbox", range(55, 61))
    summary = box.ingest(prune=prune)
    assert (summary.refused, len(box.texts()), box.opened.wrong()) == ((0, 6, []) if prune else (55, 61, []))


def test_what_was_refused_is_refused_until_it_is_back(box: Box) -> None:
    _mbox(box.mail / "a.mbox", range(60))
    box.ingest()
    _mbox(box.mail / "a.mbox", range(1))
    refused = [box.ingest().refused for _ in range(2)]
    _mbox(box.mail / "a.mbox", range(61))
    summary = box.ingest()
    assert (refused, summary.refused, summary.kept, len(box.places())) == ([59, 59], 0, 1, 61)


def test_a_message_that_leaves_an_mbox_goes_and_the_rest_keep_their_chunks(box: Box) -> None:
    _mbox(box.mail / "a.mbox", range(5))
    box.ingest()
    before = box.opened.chunks()
    _mbox(box.mail / "a.mbox", range(1, 5))
    summary = box.ingest()
    assert (summary.kept, summary.removed, set(box.opened.chunks()) < set(before)) == (0, 1, True)


def test_a_folder_inside_another_root_is_read_once(box: Box, parsed: list[str]) -> None:
    mail(box.mail / "inner" / "a", "red")
    box.ingest(box.mail, box.mail / "inner")
    assert (parsed, len(box.places())) == (["a"], 1)


def test_the_nearest_root_says_which_collection_a_file_is_in(box: Box) -> None:
    mail(box.mail / "inner" / "a", "red")
    mail(box.mail / "b", "blue")
    box.ingest(box.mail / "inner", collection="Work")
    box.ingest(box.mail, collection="Home")
    mail(box.mail / "inner" / "c", "green")
    box.ingest(box.mail, collection="Home")
    assert box.collections() == {("Work",): 2, ("Home",): 1}


def test_a_root_inside_that_shares_the_collection_moves_with_the_outer_one(box: Box) -> None:
    mail(box.mail / "inner" / "a", "red")
    box.ingest(collection="Home")
    box.ingest(box.mail / "inner", collection="Home")
    box.ingest(collection="Work")
    assert (box.collections(), box.collections("documents")) == ({("Work",): 1}, {("Work",): 1})


def test_looking_at_nested_roots_again_changes_nothing(box: Box) -> None:
    mail(box.mail / "inner" / "a", "red")
    box.ingest(box.mail / "inner", collection="Work")
    box.ingest(collection="Home")
    before = box.opened.ledger.generation
    box.ingest(collection="Home")
    box.ingest(box.mail / "inner", collection="Work")
    assert box.opened.ledger.generation == before


def test_a_copy_in_another_collection_belongs_to_both(box: Box) -> None:
    for name in ("one", "two"):
        mail(box.folder / name / "a", "red")
        box.ingest(box.folder / name)
    list(embed(box.opened.vectors, HashEmbedder(), box.opened.locks))
    assert box.collections() == {("one", "two"): 1}


@pytest.mark.parametrize("how", ["gone", "changed"])
def test_a_document_leaves_the_collection_of_a_copy_that_is_no_more(box: Box, how: str) -> None:
    for name in ("one", "two"):
        mail(box.folder / name / "a", "red")
        box.ingest(box.folder / name)
    if how == "gone":
        (box.folder / "two" / "a").unlink()
    else:
        mail(box.folder / "two" / "a", "something else")
    before = box.opened.ledger.generation
    box.ingest(box.folder / "two")
    assert (box.collections()[("one",)], box.opened.wrong()) == (1, [])
    assert box.opened.ledger.generation > before


def test_moving_a_folder_to_another_collection_moves_all_of_it(box: Box) -> None:
    mail(box.mail / "a", "red")
    box.ingest(collection="Home")
    list(embed(box.opened.vectors, HashEmbedder(), box.opened.locks))
    box.ingest(collection="O'Work")
    tables = [box.collections(name) for name in ("chunks", "documents", str(box.opened.ledger.get("vectors")))]
    assert tables == [{("O'Work",): 1}] * 3


@pytest.mark.parametrize("name", [b"\xff\xfe", b"new\nline", b"a b", "ü会".encode()])
def test_a_file_of_any_name_is_read_and_let_go(box: Box, name: bytes) -> None:
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


def test_folders_whose_names_begin_alike_are_apart(box: Box) -> None:
    mail(box.folder / "work" / "a", "red")
    mail(box.folder / "work0" / "a", "blue")
    mail(box.folder / "work.old" / "a", "green")
    for name in ("work", "work0", "work.old"):
        box.ingest(box.folder / name)
    (box.folder / "work" / "a").unlink()
    box.ingest(box.folder / "work")
    assert box.collections() == {("work0",): 1, ("work.old",): 1}
