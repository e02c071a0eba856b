"""The knowledge bank under changes and deaths: nothing acknowledged is lost, nothing is doubled."""

from collections import Counter
from contextlib import suppress
from itertools import chain
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from store.answers import names_of
from store.types import IndexedDocument, among, replace
from tests.effort import examples
from tests.store.conftest import Open
from tests.store.kit import Fuse, Killed, Opened, entry, home_in

_STEPS = 7  # that a commit of two documents in place of two others takes; the last acknowledges it


def test_what_is_kept_is_there(opened: Opened) -> None:
    opened.keep(entry("a", "red fish", "blue fish"))
    assert opened.chunks() == {"a/0": "red fish", "a/1": "blue fish"}


def test_a_document_kept_again_takes_the_place_of_its_chunks(opened: Opened) -> None:
    opened.keep(entry("a", "red", "blue"))
    opened.keep(entry("a", "green"))
    assert opened.chunks() == {"a/0": "green"}


def test_a_removed_document_leaves_nothing(opened: Opened) -> None:
    opened.keep(entry("a", "red"), entry("b", "blue"))
    opened.keep(removes=["a"])
    assert (opened.documents(), opened.chunks(), opened.frequencies()) == ({"b"}, {"b/0": "blue"}, {"blue": 1})


def test_names_are_found_as_long_as_a_document_holds_them_in_the_form_that_most_have(opened: Opened) -> None:
    def named(name: str, **names: str) -> IndexedDocument:
        return replace(entry(name, "red"), names=names)

    opened.keep(named("a", ann="Ann", vey="Vey"), named("b", ann="ANN"), named("c", ann="Ann"))
    assert names_of(opened.ledger, ["ann", "vey", "bo"]) == {"ann": "Ann", "vey": "Vey"}
    opened.keep(named("a", ann="ANN"), removes=["c"])
    assert names_of(opened.ledger, ["ann", "vey", "bo"]) == {"ann": "ANN"}
    opened.keep(removes=["a", "b"])
    assert opened.ledger.rows.execute("SELECT count(*) FROM names").fetchone() == (0,)


def test_one_commit_may_remove_and_keep(opened: Opened) -> None:
    opened.keep(entry("a", "red"))
    opened.keep(entry("b", "blue"), removes=["a"])
    assert opened.documents() == {"b"}


def test_a_commit_of_nothing_does_not_raise_the_generation(opened: Opened) -> None:
    before = opened.ledger.generation
    opened.keep()
    assert opened.ledger.generation == before


def test_a_commit_raises_the_generation(opened: Opened) -> None:
    before = opened.ledger.generation
    opened.keep(entry("a", "red"))
    assert opened.ledger.generation > before


def test_a_removal_raises_the_generation(opened: Opened) -> None:
    opened.keep(entry("a", "red"))
    before = opened.ledger.generation
    opened.keep(removes=["a"])
    assert opened.ledger.generation > before


def test_what_is_not_acknowledged_is_not_read(open_home: Open) -> None:
    opened = open_home(Fuse(3))  # dies behind the first table that is written
    with pytest.raises(Killed):
        opened.keep(entry("a", "red"))
    assert (opened.documents(), opened.chunks(), opened.ledger.generation) == (set(), {}, 0)


def test_tidying_changes_nothing_that_is_retrieved(opened: Opened) -> None:
    opened.keep(entry("a", "red"))
    before = opened.ledger.generation
    opened.knowledge.compact()
    assert (opened.ledger.generation, opened.chunks()) == (before, {"a/0": "red"})


def test_of_a_record_that_fails_nothing_counts(opened: Opened) -> None:
    def fail() -> None:
        raise Killed

    with pytest.raises(Killed):
        opened.knowledge.commit([entry("a", "red")], fail)
    assert (opened.wrong(), opened.documents()) == ([], set())
    opened.keep(entry("b", "red"))
    assert (opened.wrong(), opened.documents()) == ([], {"b"})


@pytest.mark.parametrize("step", range(1, _STEPS + 1))
def test_a_commit_killed_at_any_step_is_whole_or_nothing(open_home: Open, step: int) -> None:
    fuse = Fuse(0)
    opened = open_home(fuse)
    opened.keep(entry("stays", "red"), entry("changes", "blue", "grey"), entry("goes", "green"))
    fuse.length = fuse.burnt + step
    with pytest.raises(Killed):
        opened.keep(entry("changes", "blue", "black"), entry("new", "white"), removes=["goes"])
    after = open_home()
    gone, new = {"goes/0": "green", "changes/1": "grey"}, {"new/0": "white", "changes/1": "black"}
    expected = {"stays/0": "red", "changes/0": "blue"} | (gone if step < _STEPS else new)
    assert (after.chunks(), after.wrong()) == (expected, [])
    after.keep(entry("changes", "blue", "black"), entry("new", "white"), removes=["goes"] if step < _STEPS else [])
    assert (after.chunks(), after.wrong()) == ({"stays/0": "red", "changes/0": "blue"} | new, [])


def test_the_steps_above_are_all_there_are(open_home: Open) -> None:
    fuse = Fuse(0)
    opened = open_home(fuse)
    opened.keep(entry("stays", "red"), entry("changes", "blue", "grey"), entry("goes", "green"))
    before = fuse.burnt
    opened.keep(entry("changes", "blue", "black"), entry("new", "white"), removes=["goes"])
    assert fuse.burnt - before == _STEPS


def test_recovery_with_nothing_to_do_writes_nothing(opened: Opened) -> None:
    opened.keep(entry("a", "red"))
    before = opened.ledger.rows.total_changes
    opened.knowledge.recover()
    assert opened.ledger.rows.total_changes == before


def test_what_a_document_owned_goes_with_it_and_those_who_quote_it_are_named(opened: Opened) -> None:
    quoting = IndexedDocument(entry("b").document, (), (), (), quoted=(b"passage",))
    owner = IndexedDocument(entry("a").document, (), (), (), owned=(b"passage",))
    opened.keep(owner, quoting)
    opened.keep(removes=["a"])
    assert [opened.knowledge.is_indexed("b"), opened.knowledge.is_indexed("a")] == [False, False]


def test_a_table_that_was_never_finished_does_not_stand_in_the_way(opened: Opened) -> None:
    for name in ("documents", "chunks"):
        (opened.home.tables / f"{name}.lance" / "_versions").mkdir(parents=True)
    assert opened.documents() == set()
    opened.keep(entry("a", "red"))
    opened.knowledge.compact()
    assert opened.documents() == {"a"}


_TEXT = st.lists(st.sampled_from(["red", "blue", "green"]), min_size=1, max_size=4).map(" ".join)
_KEPT = st.dictionaries(st.sampled_from("abc"), st.lists(_TEXT, max_size=3), max_size=2)
_CHANGES = st.lists(st.tuples(_KEPT, st.sets(st.sampled_from("abc"), max_size=1), st.integers(0, 12)), max_size=6)


@examples(12, suppress_health_check=list(HealthCheck))
@given(_CHANGES)
def test_any_history_of_commits_and_deaths_counts_like_a_naive_model(tmp_path_factory: Any, changes: Any) -> None:
    home, model = home_in(tmp_path_factory.mktemp("home")), dict[str, list[str]]()
    for kept, removed, death in changes:
        opened = Opened(home)
        opened.knowledge.recover()
        before, opened.fuse.length = opened.ledger.generation, opened.fuse.burnt + death if death else 0
        removes = [name for name in sorted(removed - kept.keys()) if name in model]
        with suppress(Killed):
            opened.keep(*(entry(name, *texts) for name, texts in kept.items()), removes=removes)
        if opened.ledger.generation > before:
            model = {name: texts for name, texts in model.items() if name not in removes} | kept
        opened.ledger.close()
    opened = Opened(home)
    opened.knowledge.recover()
    counted = Counter(word for texts in model.values() for text in texts for word in set(text.split()))
    assert (opened.frequencies(), sorted(opened.chunks().values())) == (counted, sorted(chain(*model.values())))
    opened.ledger.close()


def test_a_condition_on_no_documents_holds_for_none(opened: Opened) -> None:
    opened.keep(entry("a", "red"))
    assert opened.tables.select("chunks", among("document", []), ["id"]) == []
