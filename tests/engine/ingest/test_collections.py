"""Collections of a document: those of its files, which take them from the nearest enclosing root."""

import pytest

from engine.ingest.chunking import embed
from store.database import UNCOMPACTED
from tests.engine.ingest.box import Box, mail
from tests.store.kit import HashEmbedder, Killed


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
    assert box.collections() == {("Work",): 1}


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
    assert box.collections() == {("O'Work",): 1}


def test_folders_whose_names_begin_alike_are_apart(box: Box) -> None:
    mail(box.folder / "work" / "a", "red")
    mail(box.folder / "work0" / "a", "blue")
    mail(box.folder / "work.old" / "a", "green")
    for name in ("work", "work0", "work.old"):
        box.ingest(box.folder / name)
    (box.folder / "work" / "a").unlink()
    box.ingest(box.folder / "work")
    assert box.collections() == {("work0",): 1, ("work.old",): 1}


@pytest.mark.parametrize("step", range(1, 7))
def test_a_move_that_is_killed_and_taken_back_leaves_all_where_it_was(box: Box, step: int) -> None:
    mail(box.mail / "a", "red")
    box.ingest(collection="Home")
    box.fuse.length = box.fuse.burnt + step
    with pytest.raises(Killed):
        box.ingest(collection="Work")
    again = box.again()
    again.ingest(collection="Home")
    assert (again.collections(), again.opened.wrong()) == (_HOME, [])
    again.opened.ledger.close()


_HOME = {("Home",): 1}


def test_moved_chunks_are_in_the_index_again_when_the_run_is_done(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.documents._UNTIDY", 1)
    mail(box.mail / "a", "red")
    box.ingest(collection="Home")
    box.ingest(collection="Work")
    assert box.opened.ledger.count(UNCOMPACTED) == 0
