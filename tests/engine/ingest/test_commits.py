"""Committing a batch: by date, in several commits, with its files recorded last."""

from pathlib import Path

import pytest

from engine.ingest import pipeline as module
from store.database import UNCOMPACTED
from tests.effort import slow_only
from tests.engine.ingest.box import Box, mail, naive
from tests.store.kit import Killed


@pytest.fixture
def small(box: Box, monkeypatch: pytest.MonkeyPatch) -> Box:
    """Return a home with commits of 3 documents and batches of 5."""
    monkeypatch.setattr(module, "_COMMIT", 3)
    monkeypatch.setattr(module, "_BATCH_DOCUMENTS", 5)
    return box


def _mbox(path: Path, numbers: list[int]) -> None:
    head = "From ann@x.org Fri May  3 10:00:00 2024\nFrom: ann@x.org\nDate: 3 May 2024 10:00:00 +0000\n"
    path.write_text("".join(f"{head}Subject: s{n}\n\nword{n}\n\n" for n in numbers))


def _agrees(box: Box) -> bool:
    places, documents = naive(box.mail)
    return (box.places(), box.opened.documents(), box.opened.wrong()) == (places, set(documents), [])


def test_a_quoted_message_comes_before_those_that_quote_it_whatever_its_files_name(box: Box) -> None:
    said = "We should meet on Thursday to talk about it"
    mail(box.mail / "a", f"Yes\n\nOn 1 May 2024 ann@x.org wrote:\n> {said}\n", day=2)
    mail(box.mail / "b", said, day=1)
    box.ingest()
    assert sorted(box.texts()) == [said, "Yes"]


def test_a_file_of_several_batches_is_ingested_completely(small: Box) -> None:
    _mbox(small.mail / "a.mbox", list(range(13)))
    summary = small.ingest()
    assert (summary.kept, _agrees(small)) == (13, True)


def test_a_changed_file_of_several_batches_loses_its_removed_documents(small: Box) -> None:
    _mbox(small.mail / "a.mbox", list(range(13)))
    small.ingest()
    _mbox(small.mail / "a.mbox", [20, 3, 21, 4, 5, 22, 12, 11, 23, 24, 25, 26, 0])
    summary = small.ingest()
    assert (summary.kept, summary.removed, _agrees(small)) == (7, 7, True)


@pytest.mark.parametrize("step", [9, 24, *slow_only(4, 14, 19, 27)])
def test_a_kill_inside_a_large_file_repeats_only_uncommitted_documents(small: Box, step: int) -> None:
    _mbox(small.mail / "a.mbox", list(range(13)))
    small.fuse.length = step
    with pytest.raises(Killed):
        small.ingest()
    kept = small.opened.ledger.count("chunks")
    again = small.again()
    assert (again.ingest().kept, _agrees(again)) == (13 - kept, True)
    again.opened.ledger.close()


@pytest.mark.parametrize("step", [7, 19, *slow_only(3, 11, 15, 23, 27, 30)])
def test_a_changed_large_file_survives_a_kill_and_another_change(small: Box, step: int) -> None:
    _mbox(small.mail / "a.mbox", list(range(13)))
    small.ingest()
    _mbox(small.mail / "a.mbox", [20, 3, 21, 4, 5, 22, 12, 11, 23, 24, 25, 26, 0])
    small.opened.ledger.set(UNCOMPACTED, "100")  # so that it compacts, too
    small.fuse.length = small.fuse.burnt + step
    with pytest.raises(Killed):
        small.ingest()
    _mbox(small.mail / "a.mbox", [4, 30, 20, 1])
    again = small.again()
    again.ingest()
    assert _agrees(again)
    again.opened.ledger.close()


def test_a_large_file_removed_after_a_kill_leaves_nothing(small: Box) -> None:
    _mbox(small.mail / "a.mbox", list(range(13)))
    small.fuse.length = 25
    with pytest.raises(Killed):
        small.ingest()
    (small.mail / "a.mbox").unlink()
    again = small.again()
    again.ingest()
    assert (again.places(), again.opened.documents(), again.opened.wrong()) == (set(), set(), [])
    again.opened.ledger.close()


@pytest.mark.slow
def test_a_kill_inside_a_replaced_file_does_not_hide_how_many_documents_vanished(small: Box) -> None:
    _mbox(small.mail / "a.mbox", list(range(80)))
    small.ingest()
    _mbox(small.mail / "a.mbox", list(range(100, 113)))
    small.fuse.length = small.fuse.burnt + 20
    with pytest.raises(Killed):
        small.ingest()
    again = small.again()
    assert (again.ingest().refused, len(again.texts())) == (67, 80)
    again.opened.ledger.close()
