"""Abstracts: kept and counted, gone with their chunks, whole after a death at any step."""

from datetime import UTC, datetime, timedelta

import pytest

from store.jobs import Abstract, Abstracts
from tests.store.conftest import Open
from tests.store.kit import Fuse, Killed, Opened, entry

_DAY = datetime(2024, 5, 3, tzinfo=UTC)


def abstracts(opened: Opened) -> Abstracts:
    return Abstracts(opened.ledger, opened.tables)


def abstract(*chunks: str, text: str = "in short", day: int = 0) -> Abstract:
    return Abstract(text, chunks, _DAY + timedelta(days=day), 1000.0, "quote")


@pytest.fixture
def three(opened: Opened) -> Opened:
    """Return a home with three documents of three days, in no order."""
    for day, name in ((1, "b"), (2, "c"), (0, "a")):
        opened.keep(entry(name, f"text of {name}", f"more of {name}", date=_DAY + timedelta(days=day)))
    return opened


def test_the_newest_documents_want_an_abstract_first_in_their_own_order(three: Opened) -> None:
    assert abstracts(three).unsummarized(3) == ["c/0", "c/1", "b/0"]


def test_what_has_an_abstract_wants_none(three: Opened) -> None:
    abstracts(three).put([abstract("c/0", "c/1"), abstract("a/0")])
    assert abstracts(three).unsummarized(9) == ["b/0", "b/1", "a/1"]


def test_what_was_put_is_found_again_newest_first(three: Opened) -> None:
    older, newer = abstract("a/0", text="älter, \"with\" 'marks'"), abstract("c/0", day=2)
    abstracts(three).put([older, newer])
    assert abstracts(three).all() == [newer, older]


def test_another_abstract_of_the_same_chunks_takes_the_place_of_the_first(three: Opened) -> None:
    abstracts(three).put([abstract("a/0", text="first")])
    abstracts(three).put([abstract("a/0", text="second")])
    assert [one.text for one in abstracts(three).all()] == ["second"]


def test_an_abstract_of_a_chunk_that_went_meanwhile_is_not_kept(three: Opened) -> None:
    three.keep(removes=["b"])
    assert (abstracts(three).put([abstract("a/0", "b/0"), abstract("c/0")]), len(abstracts(three).all())) == (1, 1)


def test_an_abstract_of_nothing_is_not_kept(three: Opened) -> None:
    assert abstracts(three).put([abstract()]) == 0


def test_a_document_that_goes_takes_its_abstracts_with_it_and_the_rest_want_one_again(three: Opened) -> None:
    abstracts(three).put([abstract("a/0", "b/0"), abstract("c/0", "c/1")])
    three.keep(removes=["b"])
    kept = abstracts(three)
    assert ([one.chunks for one in kept.all()], kept.unsummarized(9)) == ([("c/0", "c/1")], ["a/0", "a/1"])


def test_a_document_that_changes_loses_its_abstracts(three: Opened) -> None:
    abstracts(three).put([abstract("a/0", "a/1")])
    three.keep(entry("a", "other text", date=_DAY))
    assert (abstracts(three).all(), "a/0" in abstracts(three).unsummarized(9)) == ([], True)


def test_once_nothing_is_wanted_nothing_is_looked_at_until_the_bank_changes(three: Opened) -> None:
    kept = abstracts(three)
    kept.put([abstract(*kept.unsummarized(9))])
    assert (kept.unsummarized(9), kept.unsummarized(9)) == ([], [])
    three.keep(entry("d", "new", date=_DAY))
    assert kept.unsummarized(9) == ["d/0"]


def test_questions_that_retrieved_its_chunks_are_counted_once_however_often_they_are_told(three: Opened) -> None:
    kept = abstracts(three)
    kept.put([abstract("a/0", "a/1"), abstract("c/0", day=2)])
    kept.recount({"a/0": 2, "a/1": 3, "b/0": 7})
    kept.recount({"a/0": 2, "a/1": 3, "b/0": 7})
    assert [one.asked for one in kept.all()] == [0, 5]


def test_predictions_from_an_abstract_are_counted(three: Opened) -> None:
    kept = abstracts(three)
    kept.put([abstract("a/0"), abstract("c/0", day=2)])
    kept.count_drawn([abstract("a/0").id])
    kept.count_drawn([abstract("a/0").id, "none such"])
    assert [one.drawn for one in kept.all()] == [0, 2]


def test_tidying_keeps_abstracts_and_what_ties_them(three: Opened) -> None:
    abstracts(three).put([abstract("a/0"), abstract("c/0", day=2)])
    three.knowledge.compact()
    three.keep(removes=["c"])
    assert [one.chunks for one in abstracts(three).all()] == [("a/0",)]


def test_an_abstract_whose_chunk_is_not_there_is_a_stray_and_can_be_dropped(three: Opened) -> None:
    kept = abstracts(three)
    kept.put([abstract("a/0"), abstract("b/0")])
    three.tables.delete("chunks", "id = 'b/0'")
    strays = kept.orphans()
    assert strays == [abstract("b/0").id]
    kept.drop(strays)
    assert [one.chunks for one in kept.all()] == [("a/0",)]


def test_a_home_without_abstracts_has_none(opened: Opened) -> None:
    assert (abstracts(opened).all(), abstracts(opened).unsummarized(5), abstracts(opened).orphans()) == ([], [], [])


def change(opened: Opened) -> None:
    opened.keep(removes=["b"])
    opened.keep(entry("b", "new text"), removes=["a"])


@pytest.mark.parametrize("step", range(1, 15))
def test_a_death_at_any_step_of_a_removal_leaves_no_abstract_of_what_is_gone(open_home: Open, step: int) -> None:
    fuse = Fuse(0)
    opened = open_home(fuse)
    for name in ("a", "b"):
        opened.keep(entry(name, f"text of {name}"))
    abstracts(opened).put([abstract("a/0"), abstract("b/0")])
    fuse.length = fuse.burnt + step
    with pytest.raises(Killed):
        change(opened)
    after = open_home()
    after.knowledge.recover()
    assert abstracts(after).orphans() == []


def test_a_death_behind_the_table_keeps_the_abstract(open_home: Open) -> None:
    fuse = Fuse(0)
    opened = open_home(fuse)
    opened.keep(entry("a", "red"))
    fuse.length = fuse.burnt + 2
    with pytest.raises(Killed):
        abstracts(opened).put([abstract("a/0")])
    assert len(abstracts(open_home()).all()) == 1
