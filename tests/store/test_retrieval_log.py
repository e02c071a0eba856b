"""The retrieval log: chunks of each question in order, counted, and deleted with the question."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.answers import drop_derived, mark_removed
from store.database import Ledger, open_ledger
from store.history import MAX_QUESTIONS, History, HistoryEntry, RetrievalLog
from tests.effort import examples

ASKED = HistoryEntry(1.0, "when?", "full", True, 1.0, 0.0)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with closing(open_ledger(tmp_path / "l.db", create=True)) as made:
        yield made


def add(ledger: Ledger, *chunks: str) -> int:
    number = History(ledger).add(ASKED)
    RetrievalLog(ledger).add(number, chunks, chunks)
    return number


def test_lists_come_in_the_order_of_their_questions_and_keep_their_own(ledger: Ledger) -> None:
    add(ledger, "b", "a")
    add(ledger, "c")
    assert RetrievalLog(ledger).lists(10) == [("b", "a"), ("c",)]


def test_a_limit_returns_the_latest_lists(ledger: Ledger) -> None:
    for chunk in "abc":
        add(ledger, chunk)
    assert RetrievalLog(ledger).lists(2) == [("b",), ("c",)]


def test_a_question_that_retrieved_nothing_has_no_list(ledger: Ledger) -> None:
    add(ledger)
    assert (RetrievalLog(ledger).lists(10), RetrievalLog(ledger).frequencies()) == ([], {})


def test_only_the_best_chunks_count_as_asked_about(ledger: Ledger) -> None:
    for chunks, best in (("abc", "cb"), ("cde", "ce")):
        RetrievalLog(ledger).add(History(ledger).add(ASKED), tuple(chunks), tuple(best))
    assert RetrievalLog(ledger).frequencies() == {"c": 2, "b": 1, "e": 1}
    assert RetrievalLog(ledger).lists(10) == [tuple("abc"), tuple("cde")]


def test_of_questions_from_before_the_best_were_recorded_all_chunks_count(ledger: Ledger) -> None:
    add(ledger, "a", "b")
    ledger.rows.execute("UPDATE retrievals SET best = NULL")
    assert RetrievalLog(ledger).frequencies() == {"a": 1, "b": 1}


def test_removed_chunks_go_from_both_lists(ledger: Ledger) -> None:
    RetrievalLog(ledger).add(History(ledger).add(ASKED), ("a", "b", "c"), ("b", "a"))
    with ledger.transaction():
        mark_removed(ledger, ["b"], 1.0)
        drop_derived(ledger, 1.0)
    assert (RetrievalLog(ledger).lists(10), RetrievalLog(ledger).frequencies()) == ([("a", "c")], {"a": 1})


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=5, unique=True), max_size=12))
@examples(25)
def test_frequencies_are_what_counting_the_lists_gives(
    tmp_path_factory: pytest.TempPathFactory, asked: list[list[str]]
) -> None:
    with closing(open_ledger(tmp_path_factory.mktemp("l") / "l.db", create=True)) as ledger:
        for chunks in asked:
            add(ledger, *chunks)
        found = RetrievalLog(ledger).frequencies()
    assert found == Counter(chunk for chunks in asked for chunk in chunks)
    assert list(found) == sorted(found, key=lambda chunk: (-found[chunk], chunk))


def test_deleting_a_question_deletes_its_list(ledger: Ledger) -> None:
    number = add(ledger, "a")
    add(ledger, "b")
    ledger.rows.execute("DELETE FROM history WHERE id = ?", (number,))
    assert RetrievalLog(ledger).lists(10) == [("b",)]


def test_only_the_lists_of_the_newest_questions_are_kept(ledger: Ledger) -> None:
    with ledger.transaction():
        for number in range(MAX_QUESTIONS + 3):
            add(ledger, str(number))
    found = RetrievalLog(ledger).lists(2 * MAX_QUESTIONS)
    assert (len(found), found[0], found[-1]) == (MAX_QUESTIONS, ("3",), (str(MAX_QUESTIONS + 2),))
