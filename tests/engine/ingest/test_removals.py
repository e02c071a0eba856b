"""Removed files: their documents go, unless it looks like an unmounted disk."""

from pathlib import Path

import pytest

from engine.ingest.pipeline import Guard, Ingest
from store.catalog import SourceRoot
from tests.engine.ingest.box import LIMITS, Box, mail


def test_a_missing_root_removes_nothing(box: Box) -> None:
    mail(box.mail / "a", "red")
    box.ingest()
    box.mail.rename(box.folder / "elsewhere")
    summary = box.ingest(box.mail)
    assert (box.texts(), summary.removed, len(summary.problems)) == (["red"], 0, 1)


@pytest.mark.parametrize("prune", [False, True])
def test_many_vanished_documents_are_removed_only_with_prune(box: Box, prune: bool) -> None:
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
def test_many_documents_that_vanish_from_one_file_are_removed_only_with_prune(box: Box, prune: bool) -> None:
    _mbox(box.mail / "a.mbox", range(60))
    box.ingest()
    _mbox(box.mail / "a.mbox", range(55, 61))
    summary = box.ingest(prune=prune)
    wrong = [finding.name for finding in box.opened.wrong()]
    assert (summary.refused, len(box.texts()), wrong) == ((0, 6, []) if prune else (55, 61, ["places"]))


def test_a_refused_removal_is_refused_until_the_files_are_back(box: Box) -> None:
    _mbox(box.mail / "a.mbox", range(60))
    box.ingest()
    _mbox(box.mail / "a.mbox", range(1))
    refused = [box.ingest().refused for _ in range(2)]
    _mbox(box.mail / "a.mbox", range(61))
    summary = box.ingest()
    assert (refused, summary.refused, summary.kept, len(box.places())) == ([59, 59], 0, 1, 61)


def test_a_message_removed_from_an_mbox_is_removed_and_the_rest_keep_their_chunks(box: Box) -> None:
    _mbox(box.mail / "a.mbox", range(5))
    box.ingest()
    before = box.opened.chunks()
    _mbox(box.mail / "a.mbox", range(1, 5))
    summary = box.ingest()
    assert (summary.kept, summary.removed, set(box.opened.chunks()) < set(before)) == (0, 1, True)


def _let_go(box: Box, root: Path, *, prune: bool = False) -> int:
    run = Ingest(box.opened.ledger, box.opened.knowledge, LIMITS, Guard(0.2, 50, prune))
    run.drop_root(SourceRoot(str(root), root.name, None))
    return run.summary.refused


def test_dropping_a_root_removes_the_documents_found_only_in_it(box: Box) -> None:
    mail(box.folder / "one" / "a", "red")
    mail(box.folder / "two" / "a", "red")
    mail(box.folder / "two" / "b", "blue")
    box.ingest(box.folder / "one", box.folder / "two")
    _let_go(box, box.folder / "two")
    assert ([root.path for root in box.opened.catalogue.roots()], box.texts()) == ([str(box.folder / "one")], ["red"])
    assert (box.collections(), box.opened.wrong()) == ({("one",): 1}, [])


@pytest.mark.parametrize("prune", [False, True])
def test_a_large_root_is_dropped_only_with_prune(box: Box, prune: bool) -> None:
    for number in range(51):
        mail(box.mail / f"m{number}", f"word{number}")
    box.ingest()
    refused = _let_go(box, box.mail, prune=prune)
    left = (refused, len(box.texts()), len(box.opened.catalogue.roots()))
    assert left == ((0, 0, 0) if prune else (51, 51, 1))


def test_text_of_a_dropped_root_is_found_where_it_is_quoted(box: Box) -> None:
    mail(box.folder / "one" / "a", "see you on Thursday", name="a")
    quote = "On 1 May 2024 ann@x.org wrote:\n> see you on Thursday\n"
    mail(box.folder / "two" / "b", f"yes\n\n{quote}", name="b", answers="a", day=2)
    box.ingest(box.folder / "one")
    box.ingest(box.folder / "two")
    _let_go(box, box.folder / "one")
    box.ingest(box.folder / "two")
    assert (sum("Thursday" in text for text in box.texts()), box.opened.wrong()) == (1, [])
