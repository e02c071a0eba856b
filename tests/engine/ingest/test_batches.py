"""Batches of a run: each document once, each file recorded in the last batch that it is in, progress by files."""

import pytest

from engine.ingest import pipeline as module
from engine.ingest.pipeline import Guard, Ingest, Progress
from store.catalog import SourceRoot
from tests.engine.ingest.box import LIMITS, Box, mail


def steps(box: Box, name: str) -> list[Progress]:
    """Ingest all mail, and return the progress of one step."""
    run = Ingest(box.opened.ledger, box.opened.knowledge, LIMITS, Guard(0.2, 50))
    return [step for step in run.run(SourceRoot(str(box.mail), "mail", None)) if step[0] == name]


def mbox(*bodies: str) -> str:
    head = "From ann@x.org Fri May  3 10:00:00 2024\nFrom: ann@x.org\nDate: 3 May 2024 10:00:00 +0000\n"
    return "".join(f"{head}Subject: s\n\n{body}\n\n" for body in bodies)


def test_a_document_in_two_files_is_one_document_at_two_places(box: Box) -> None:
    for name in ("a", "b"):
        mail(box.mail / name, "word")
    summary = box.ingest()
    assert (summary.read, summary.kept, summary.duplicates, len(box.places())) == (2, 1, 1, 2)


def test_a_known_document_only_adds_a_place(box: Box) -> None:
    mail(box.mail / "a", "word")
    box.ingest()
    mail(box.mail / "b", "word")
    summary = box.ingest()
    assert (summary.read, summary.kept, summary.duplicates, len(box.places())) == (1, 0, 1, 2)


def test_an_unreadable_item_is_a_problem_of_its_file(box: Box) -> None:
    (box.mail / "a.eml").write_text("")
    mail(box.mail / "b", "word")
    summary = box.ingest()
    problems = [(problem.path, problem.item, problem.reason) for problem in summary.problems]
    assert (problems, summary.kept) == ([(str(box.mail / "a.eml"), 0, "empty")], 1)


def test_a_document_with_a_problem_counts_as_both(box: Box) -> None:
    (box.mail / "a.emlx").write_text(mbox("word").partition("\n")[2])
    summary = box.ingest()
    assert ([problem.reason for problem in summary.problems], summary.kept) == (["no byte count on the first line"], 1)


def test_a_file_larger_than_a_batch_is_recorded_in_the_last_one(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BATCH_DOCUMENTS", 2)
    (box.mail / "a.mbox").write_text(mbox(*(f"word{n}" for n in range(5))))
    assert [done for _, done, _ in steps(box, "keep")] == [2, 4, 5]
    assert (len(box.places()), box.ingest().changed) == (5, 0)


def test_a_batch_is_also_full_at_a_number_of_characters(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BATCH_CHARS", 100)
    mail(box.mail / "a", "x" * 150)
    mail(box.mail / "b", "word")
    assert [done for _, done, _ in steps(box, "keep")] == [1, 2]


def test_progress_is_reported_every_20_files(box: Box) -> None:
    for number in range(45):
        (box.mail / f"{number:04}").write_text("")
    assert [done for _, done, _ in steps(box, "read")] == [0, 20, 40, 45]
