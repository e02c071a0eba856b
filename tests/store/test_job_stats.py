"""Costs of idle jobs add up; each use of an output counts once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from store.answers import (
    AnswerBank,
    CachedAnswer,
    Origin,
    confirm,
    mean_seconds,
    most_used,
    predicted_use,
)
from store.database import Ledger, open_ledger
from store.jobs import JobAccount, is_finished, mark_finished
from tests.store.kv_kit import ROOT, A, B, C
from tests.store.kv_kit import Kept as Box

ONE, OTHER = b"1" * 16, b"2" * 16
TODAY = "2024-06-19"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """Yield a ledger with two answers, one of them only prefilled."""
    found = open_ledger(tmp_path / "ledger.db", create=True)
    AnswerBank(found).put(ONE, CachedAnswer("when?", "{}", "w/5", None, "{}", ("c",), 3, "full", 10.0, 2000.0), 10_000)
    predicted_counts = ("who?", "{}", "w/5", None, "", ("c",), 4, "full", 20.0, 100.0)
    AnswerBank(found).put(
        OTHER, CachedAnswer(*predicted_counts, state="prefilled", origin="predicted", source="history/model"), 10_000
    )
    yield found
    found.close()


def test_the_costs_of_a_kind_of_job_add_up(ledger: Ledger) -> None:
    account = JobAccount(ledger)
    account.add("prefetch", 1, 2.0)
    account.add("prefetch", 1, 1.0)
    account.add("verify", seconds=0.5)
    assert account.by_kind() == {
        "prefetch": {"units": 2, "seconds": 3.0, "hits": 0, "saved_s": 0.0},
        "verify": {"units": 0, "seconds": 0.5, "hits": 0, "saved_s": 0.0},
    }


def test_later_uses_of_an_answer_count_once_for_the_job_kind_that_made_it_last(ledger: Ledger) -> None:
    account, bank = JobAccount(ledger), AnswerBank(ledger)
    for kind in ("populate", "refresh"):
        account.add(kind)
    bank.record_use(ONE, 3, 1.0)
    account.add_outputs("populate", [ONE], account.newest_node())
    bank.record_use(ONE, 3, 1.0)
    account.update()
    account.add_outputs("refresh", [ONE], account.newest_node())
    bank.record_use(ONE, 3, 1.0)
    bank.record_use(ONE, 3, 1.0)
    for _ in range(2):
        account.update()
    found = {kind: (paid["hits"], paid["saved_s"]) for kind, paid in account.by_kind().items()}
    assert found == {"populate": (1, 2.0), "refresh": (2, 4.0)}


def test_nodes_stored_meanwhile_belong_to_the_job(tmp_path: Path) -> None:
    box = Box(tmp_path)
    account = JobAccount(box.ledger)
    assert box.keep(A, seconds=1.0)
    before = account.newest_node()
    assert box.keep(A, B, seconds=3.0)
    account.add("prefetch", 1)
    account.add_outputs("prefetch", (), before)
    match = box.store.match(ROOT, (A, B))
    box.store.record_use(match, 4.0)
    account.update()
    paid = account.by_kind()["prefetch"]
    assert (paid["hits"], paid["saved_s"]) == (1, 3.0)
    box.close()


def test_a_prefetched_node_belongs_to_the_job_and_one_of_a_question_does_not(tmp_path: Path) -> None:
    box = Box(tmp_path)
    account = JobAccount(box.ledger)
    assert box.keep(A)
    asked, read = box.keep(A, C), box.keep(A, B)
    assert asked
    assert read
    account.add_outputs("prefetch", [read.key])
    assert [one.key for one in box.store.index.unused("prefetch")] == [read.key]
    box.store.folder.remove([read.key])
    assert box.keep(A, B)  # by a question
    assert box.store.index.unused("prefetch", "blocks") == []
    box.close()


def test_answers_to_refresh_are_found_by_writer(ledger: Ledger) -> None:
    writer, anothers = ("w/", TODAY), ("x/", TODAY)
    assert (
        most_used(ledger, *writer, 9, before=4),
        most_used(ledger, *writer, 9, before=5),
        most_used(ledger, *anothers, 9, before=5),
    ) == (
        [ONE],
        [OTHER, ONE],
        [],
    )
    assert most_used(ledger, *writer, 9, prefilled=True) == [OTHER]
    assert (mean_seconds(ledger, "w"), mean_seconds(ledger, "x")) == (2.0, None)


def test_answers_about_another_day_are_not_refreshed(ledger: Ledger) -> None:
    for key, day in ((ONE, "2024-06-18"), (OTHER, TODAY)):
        ledger.rows.execute("UPDATE answers SET day = ? WHERE key = ?", (day, key))
    assert (most_used(ledger, "w/", TODAY, 1, before=5), most_used(ledger, "w/", TODAY, 9, prefilled=True)) == (
        [OTHER],
        [OTHER],
    )


def test_a_generation_stamp_counts_no_use_never_goes_back_and_needs_the_same_evidence(ledger: Ledger) -> None:
    for generation, evidence in ((7, ["c"]), (5, ["c"]), (9, ["d"])):
        confirm(ledger, ONE, generation, evidence)
    kept = AnswerBank(ledger).find(ONE)
    assert kept
    assert (kept.generation, kept.uses) == (7, 0)


def test_idle_runs_pause_until_something_changes(ledger: Ledger) -> None:
    assert not is_finished(ledger, "a")
    mark_finished(ledger, "a")
    assert is_finished(ledger, "a")
    assert not is_finished(ledger, "b")
    ledger.raise_generation()
    assert not is_finished(ledger, "a")


def answered(ledger: Ledger, origin: Origin, source: str = "history/model") -> None:
    """Have the prefilled question answered, for a user or in advance."""
    made = ("who?", "{}", "w/5", None, "{}", ("c",), 5, "prefix", 30.0, 50.0)
    AnswerBank(ledger).put(OTHER, CachedAnswer(*made, origin=origin, source=source), 10_000)


def test_the_use_of_a_predicted_answer_counts_once_for_its_predictor(ledger: Ledger) -> None:
    assert predicted_use(ledger) == {}
    answered(ledger, "predicted")
    assert predicted_use(ledger) == {"history/model": (0, 1)}
    for _ in range(2):
        AnswerBank(ledger).record_use(OTHER, 5, 1.0)
        assert predicted_use(ledger) == {"history/model": (1, 1)}
    assert predicted_use(ledger, before=30.0) == {}


def test_a_prefilled_prediction_counts_for_its_predictor_when_a_user_has_it_answered(ledger: Ledger) -> None:
    answered(ledger, "user", source="")
    assert predicted_use(ledger) == {"history/model": (1, 1)}
