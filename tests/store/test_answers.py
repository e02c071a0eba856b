"""The answer cache: found by key, always within its budget, least frequently used evicted first."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from store.answers import (
    AnswerBank,
    CachedAnswer,
    Notice,
    Notices,
    PendingVerification,
    RefreshCandidates,
    State,
    Verifications,
)
from store.database import Ledger, open_ledger
from tests.effort import examples


def kept(reply: str = "Friday", generation: int = 1, created: float = 1.0) -> CachedAnswer:
    return CachedAnswer("when?", "{}", "quote-1/5", None, reply, ("c1", "c2"), generation, "full", created, 12.5)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with closing(open_ledger(tmp_path / "l.db", create=True)) as made:
        yield made


@pytest.fixture
def bank(ledger: Ledger) -> AnswerBank:
    return AnswerBank(ledger)


def test_an_answer_is_returned_as_it_was_stored(bank: AnswerBank) -> None:
    bank.put(b"k", kept(), 1000)
    assert bank.find(b"k") == kept()


def test_an_answer_is_found_under_its_key_alone(bank: AnswerBank) -> None:
    bank.put(b"k", kept(), 1000)
    assert (bank.find(b"K"), bank.find(b"k\0"), bank.find(b"")) == (None, None, None)


def test_an_answer_replaces_the_former_one_of_its_key(bank: AnswerBank) -> None:
    bank.put(b"k", kept("Friday"), 1000)
    bank.put(b"k", kept("Saturday"), 1000)
    assert (bank.find(b"k"), bank.size()[0]) == (kept("Saturday"), 1)


def test_the_least_frequently_used_answer_is_evicted_first(bank: AnswerBank) -> None:
    for key in (b"a", b"b", b"c"):
        bank.put(key, kept(), 1000)
    bank.record_use(b"a", 1, 5.0)
    bank.record_use(b"c", 1, 4.0)
    bank.put(b"d", kept(), bank.size()[1])
    assert [key for key in (b"a", b"b", b"c", b"d") if bank.find(key)] == [b"a", b"c", b"d"]


def test_of_answers_used_equally_often_the_least_recently_used_is_evicted_first(bank: AnswerBank) -> None:
    for key, at in ((b"a", 3.0), (b"b", 1.0), (b"c", 2.0)):
        bank.put(key, kept(created=at), 1000)
    bank.put(b"d", kept(), bank.size()[1])
    assert [key for key in (b"a", b"b", b"c", b"d") if bank.find(key)] == [b"a", b"c", b"d"]


def test_an_answer_larger_than_the_budget_is_not_stored_and_evicts_nothing(bank: AnswerBank) -> None:
    bank.put(b"a", kept(), 1000)
    bank.put(b"b", kept("x" * 2000), 1000)
    assert (bank.find(b"a"), bank.find(b"b")) == (kept(), None)


def test_an_answer_too_large_to_store_removes_the_former_one(bank: AnswerBank) -> None:
    bank.put(b"a", kept(), 1000)
    bank.put(b"a", kept("x" * 2000), 1000)
    assert bank.find(b"a") is None


def test_a_use_stamps_the_generation_in_which_the_answer_was_fresh(bank: AnswerBank) -> None:
    bank.put(b"k", kept(generation=3), 1000)
    bank.record_use(b"k", 7, 9.0)
    assert bank.find(b"k") == kept(generation=7)


def test_a_stamp_never_goes_back(bank: AnswerBank) -> None:
    bank.put(b"k", kept(generation=7), 1000)
    bank.record_use(b"k", 3, 9.0)
    assert bank.find(b"k") == kept(generation=7)


def test_a_dropped_answer_is_gone(bank: AnswerBank) -> None:
    bank.put(b"k", kept(), 1000)
    bank.drop(b"k")
    assert (bank.find(b"k"), bank.size()) == (None, (0, 0))


def test_a_replaced_answer_keeps_its_uses_and_its_threshold(bank: AnswerBank) -> None:
    bank.put(b"k", kept(), 1000)
    bank.record_use(b"k", 1, 5.0)
    bank.raise_tau(b"k", 0.9)
    bank.put(b"k", kept("Saturday", created=7.0), 1000)
    found = bank.find(b"k")
    assert found is not None
    assert (found.reply, found.uses, found.last_used, found.tau) == ("Saturday", 1, 5.0, 0.9)


def test_a_threshold_is_never_lowered(bank: AnswerBank) -> None:
    bank.put(b"k", kept(), 1000)
    for tau in (0.9, 0.87):
        bank.raise_tau(b"k", tau)
    assert bank.find(b"k") == replace(kept(), tau=0.9)


def test_an_entry_without_an_answer_has_its_state_and_origin(bank: AnswerBank) -> None:
    entry = replace(kept(), reply="", state="prefilled", origin="predicted", source="history", tau=0.9)
    bank.put(b"k", entry, 1000)
    assert bank.find(b"k") == entry


@pytest.mark.parametrize(("state", "reply"), [("answered", ""), ("pending", "Friday"), ("prefilled", "Friday")])
def test_only_what_is_answered_has_a_reply(state: State, reply: str) -> None:
    with pytest.raises(AssertionError, match=state):
        replace(kept("Friday"), state=state, reply=reply)


def test_the_bytes_of_a_vector_count(bank: AnswerBank) -> None:
    bank.put(b"k", kept(), 1000)
    without = bank.size()[1]
    bank.put(b"k", kept(), 1000, b"v" * 8, 0.5, "e")
    assert bank.size() == (1, without + 8)
    bank.put(b"k", kept(), 1000)  # the vector lives on
    assert bank.size() == (1, without + 8)


def test_a_vector_counts_towards_what_is_too_large(bank: AnswerBank) -> None:
    bank.put(b"k", kept(), 1000, b"v" * 999, 0.5, "e")
    assert (bank.find(b"k"), bank.size()) == (None, (0, 0))


def test_a_vector_gets_a_new_number_only_if_it_changes(bank: AnswerBank, ledger: Ledger) -> None:
    def number() -> int:
        return int(ledger.rows.execute("SELECT number FROM question_vectors").fetchone()[0])

    numbers = []
    for vector in (b"1234", b"1234", None, b"5678"):
        bank.put(b"k", kept(), 1000, vector, 0.5, "e")
        numbers.append(number())
    bank.put(b"k", kept(), 1000, b"5678", 0.5, "another")
    assert (numbers, number()) == ([1, 1, 1, 2], 3)


def test_no_number_is_used_twice(bank: AnswerBank, ledger: Ledger) -> None:
    for key in (b"a", b"b"):
        bank.put(key, kept(), 1000, b"1234", 0.5, "e")
        bank.drop(key)
    bank.put(b"c", kept(), 1000, b"1234", 0.5, "e")
    assert ledger.rows.execute("SELECT number FROM question_vectors").fetchall() == [(3,)]


def test_a_floor_can_change_without_its_vector(bank: AnswerBank, ledger: Ledger) -> None:
    bank.put(b"k", kept(), 1000, b"1234", 0.5, "e")
    bank.put(b"k", kept(), 1000, floor=0.25)
    bank.put(b"k", kept(), 1000)
    assert ledger.rows.execute("SELECT vector, floor FROM question_vectors").fetchall() == [(b"1234", 0.25)]


def test_deleting_an_entry_deletes_its_rows_and_keeps_its_counts(bank: AnswerBank, ledger: Ledger) -> None:
    for key in (b"own", b"lent"):
        bank.put(key, kept(), 1000, b"1234", 0.5, "e")
    verifications = Verifications(ledger)
    for settled in (True, False):
        verifications.add(PendingVerification(b"own", b"lent", 0.9, "Friday", 1.0))
        if settled:
            verifications.resolve(b"own", correct=False, at=2.0)
    Notices(ledger).add(Notice(b"lent", "changed", "Friday", "Monday", "", 1.0))
    RefreshCandidates(ledger).add([b"lent"], "c1", 1.0)
    bank.drop(b"lent")
    left = {
        table: count(ledger, table)
        for table in ("question_vectors", "verifications", "notices", "refresh_candidates", "verification_results")
    }
    assert left == {
        "question_vectors": 1,
        "verifications": 0,
        "notices": 0,
        "refresh_candidates": 0,
        "verification_results": 1,
    }
    assert (verifications.result_counts(), verifications.labels(b"lent"), verifications.labels(None)) == (
        (1, 1),
        [],
        [(0.9, False)],
    )


def count(ledger: Ledger, table: str) -> int:
    return int(ledger.rows.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def test_the_size_is_that_of_all_entries_whatever_changed_them(bank: AnswerBank, ledger: Ledger) -> None:
    for number, reply in enumerate(("a", "bb", "ccc")):
        bank.put(bytes([number % 2]), kept(reply), 1000)
    bank.drop(b"\1")
    assert bank.size() == ledger.rows.execute("SELECT count(*), sum(bytes) FROM answers").fetchone()


def test_two_connections_together_stay_within_the_budget(tmp_path: Path) -> None:
    path, budget = tmp_path / "l.db", 700

    def fill(prefix: bytes) -> None:
        with closing(open_ledger(path, create=True)) as ledger:
            for number in range(15):
                AnswerBank(ledger).put(prefix + bytes([number]), kept("x" * 150), budget)
                sizes.append(AnswerBank(ledger).size()[1])

    sizes: list[int] = []
    threads = [Thread(target=fill, args=(name,)) for name in (b"a", b"b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(sizes), max(sizes) <= budget) == (30, True)


_STEPS = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 300), st.booleans()), max_size=30)


@examples(40, suppress_health_check=list(HealthCheck))
@given(_STEPS, st.integers(150, 900))
def test_any_use_stays_within_the_budget_and_keeps_what_lfu_keeps(
    tmp_path_factory: Any, steps: list[tuple[int, int, bool]], budget: int
) -> None:
    uses: dict[bytes, list[float]] = {}  # key -> times used, when last, bytes
    with closing(open_ledger(tmp_path_factory.mktemp("bank") / "l.db", create=True)) as ledger:
        bank = AnswerBank(ledger)
        for now, (number, length, asks) in enumerate(steps, 1):
            key = bytes([number])
            if asks:
                bank.record_use(key, 1, now)
                if key in uses:
                    uses[key][:2] = [uses[key][0] + 1, now]
                continue
            former = uses.pop(key, [0, now])
            bank.put(key, kept("x" * length, created=now), budget)
            size = len(key) + len("when?" + "{}" + "quote-1/5" + '["c1", "c2"]') + length
            if size <= budget:
                while sum(entry[2] for entry in uses.values()) + size > budget:
                    del uses[min(uses, key=lambda k: uses[k][:2])]
                uses[key] = [*former[:2], size]
            assert bank.size()[1] <= budget
        assert {key for key in (bytes([n]) for n in range(6)) if bank.find(key)} == uses.keys()
