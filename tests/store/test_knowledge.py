"""The knowledge bank under changes and deaths: nothing acknowledged is lost, nothing is doubled."""

from collections import Counter
from contextlib import suppress
from itertools import chain
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from store.answers import names_of
from store.filters import among
from store.types import IndexedDocument, replace
from tests.effort import examples
from tests.store.conftest import Open
from tests.store.kit import Fuse, Killed, Opened, entry, home_in

_STEPS, _ACKNOWLEDGED = 14, 8  # that a commit of two documents in place of two others takes


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


def test_the_generation_is_raised_before_the_tables_change(open_home: Open) -> None:
    opened = open_home(Fuse(3))  # dies behind the first table that is written
    with pytest.raises(Killed):
        opened.keep(entry("a", "red"))
    assert (opened.documents(), opened.ledger.generation) == ({"a"}, 1)


def test_tidying_what_has_changed_raises_the_generation_and_tidying_again_does_not(opened: Opened) -> None:
    opened.keep(entry("a", "red"))
    before = opened.ledger.generation
    opened.knowledge.compact()
    tidied = opened.ledger.generation
    opened.knowledge.compact()
    assert (tidied > before, opened.ledger.generation) == (True, tidied)


def test_what_a_failing_record_acknowledges_is_undone_by_the_next_writer(opened: Opened) -> None:
    def fail() -> None:
        raise Killed

    with pytest.raises(Killed):
        opened.knowledge.commit([entry("a", "red")], fail)
    assert (opened.knowledge.recover(), opened.wrong(), opened.documents()) == (1, [], set())


@pytest.mark.parametrize("step", range(1, _STEPS + 1))
def test_a_commit_killed_at_any_step_is_whole_or_undone(open_home: Open, step: int) -> None:
    fuse = Fuse(0)
    opened = open_home(fuse)
    opened.keep(entry("stays", "red"), entry("changes", "blue", "grey"), entry("goes", "green"))
    fuse.length = fuse.burnt + step
    with pytest.raises(Killed):
        opened.keep(entry("changes", "blue", "black"), entry("new", "white"), removes=["goes"])
    after = open_home()
    after.knowledge.recover()
    if step == 1:
        expected = {"stays", "changes", "goes"}
    elif step < _ACKNOWLEDGED:
        expected = {"stays", "goes"}  # the file of what was being rewritten is read again
    else:
        expected = {"stays", "changes", "new"}
    assert (after.documents(), [f for f in after.wrong() if f.name != "places"]) == (expected, [])


def test_the_steps_above_are_all_there_are(open_home: Open) -> None:
    fuse = Fuse(0)
    opened = open_home(fuse)
    opened.keep(entry("stays", "red"), entry("changes", "blue", "grey"), entry("goes", "green"))
    before = fuse.burnt
    opened.keep(entry("changes", "blue", "black"), entry("new", "white"), removes=["goes"])
    assert fuse.burnt - before == _STEPS


def test_a_document_kept_again_as_it_is_changes_no_table(opened: Opened) -> None:
    opened.keep(entry("a", "red", "blue"), entry("b", "green"))
    opened.ledger.rows.execute("UPDATE documents SET rechunk = 1")
    before = opened.fuse.burnt
    opened.keep(entry("a", "red", "blue"), entry("b", "green"))
    assert (opened.fuse.burnt - before, opened.knowledge.is_indexed("a"), opened.wrong()) == (2, True, [])


def test_removed_documents_are_in_the_tables_until_the_ledger_has_let_go_of_them(open_home: Open) -> None:
    fuse = Fuse(0)
    opened = open_home(fuse)
    opened.keep(entry("a", "red"))
    fuse.length = fuse.burnt + 4  # the transaction that acknowledges has ended
    with pytest.raises(Killed):
        opened.keep(removes=["a"])
    after = open_home()
    assert (after.documents(), after.knowledge.stored(["a"]), after.wrong()) == ({"a"}, set(), [])
    assert (after.knowledge.recover(), after.documents(), after.wrong()) == (1, set(), [])


def test_the_files_of_what_was_undone_are_read_again(open_home: Open) -> None:
    fuse = Fuse(0)
    opened = open_home(fuse)
    opened.keep(entry("stays", "red"), entry("changes", "blue"))
    fuse.length = fuse.burnt + 5
    with pytest.raises(Killed):
        opened.keep(entry("changes", "black"))
    after = open_home()
    after.knowledge.recover()
    assert after.catalogue.changed() == [b"/mail/changes"]


def test_recovery_that_is_killed_is_done_by_the_next(open_home: Open) -> None:
    fuse = Fuse(5)
    opened = open_home(fuse)
    with pytest.raises(Killed):
        opened.keep(entry("a", "red"))
    fuse.length = fuse.burnt + 1
    with pytest.raises(Killed):
        opened.knowledge.recover()
    assert (open_home().knowledge.recover(), open_home().wrong()) == (1, [])


def test_recovery_with_nothing_to_do_writes_nothing(opened: Opened) -> None:
    opened.keep(entry("a", "red"))
    before = opened.ledger.rows.total_changes
    assert (opened.knowledge.recover(), opened.ledger.rows.total_changes) == (0, before)


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
        begun = opened.ledger.generation - before
        if begun == 1:  # undone: what was being rewritten is read again
            model = {name: texts for name, texts in model.items() if kept.get(name, texts) == texts}
        elif begun:
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
