"""The history of questions: counted by tier, and no longer than it should be."""

import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.database import Ledger, open_ledger
from store.history import MAX_QUESTIONS, History, HistoryEntry


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with closing(open_ledger(tmp_path / "l.db", create=True)) as made:
        yield made


def test_tiers_come_with_their_counts_and_medians(ledger: Ledger) -> None:
    history = History(ledger)
    for tier, answered, ms in (("full", True, 30.0), ("full", False, 10.0), ("full", True, 20.0), ("exact", True, 1.0)):
        history.add(HistoryEntry(1.0, "when?", tier, answered, ms, 5.0))
    found = [(t["tier"], t["questions"], t["answered"], t["p50_ms"], t["saved_s"]) for t in history.by_tier()]
    assert found == [("full", 3, 2, 20.0, 0.015), ("exact", 1, 1, 1.0, 0.005)]


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60))
def test_median_and_95th_percentile_are_those_at_the_nearest_rank(times: list[int]) -> None:
    with TemporaryDirectory() as folder, closing(open_ledger(Path(folder, "l.db"), create=True)) as ledger:
        for ms in times:
            History(ledger).add(HistoryEntry(1.0, "when?", "full", True, ms, 0.0))
        (found,) = History(ledger).by_tier()
    ranked = sorted(times)
    assert (found["p50_ms"], found["p95_ms"]) == tuple(ranked[ceil(share * len(times) / 100) - 1] for share in (50, 95))


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set the clock of this process to a place where a day begins nine hours earlier than in UTC."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


def test_days_are_local(ledger: Ledger, tokyo: None) -> None:
    for hour in (14, 15):
        at = datetime(2024, 5, 5, hour, 59, tzinfo=UTC).timestamp()  # a Sunday, and there a Monday an hour later
        History(ledger).add(HistoryEntry(at, "when?", "exact", True, 2.0, 250.0))
    assert History(ledger).by_week(2e9) == [
        ("2024-04-29", "exact", 1, 250.0, "2024-05-05"),
        ("2024-05-06", "exact", 1, 250.0, "2024-05-06"),
    ]


@pytest.mark.parametrize("at", [-1.0, 2e9, 1e300])
def test_questions_at_times_that_no_clock_shows_yet_are_of_no_day(ledger: Ledger, at: float) -> None:
    History(ledger).add(HistoryEntry(at, "when?", "exact", True, 2.0, 0.0))
    assert History(ledger).by_week(1.9e9) == []


def test_what_a_model_read_for_is_counted_apart_from_what_was_quoted(ledger: Ledger) -> None:
    history = History(ledger)
    for ms, prompt in ((10.0, None), (9000.0, 700), (8000.0, 600), (20.0, None), (30.0, None)):
        history.add(HistoryEntry(1.0, "when?", "full", True, ms, 0.0, prompt, prompt and 0))
    found = [(t["tier"], t["by_model"], t["questions"], t["p50_ms"]) for t in history.by_tier()]
    assert found == [("full", False, 3, 20.0), ("full", True, 2, 8000.0)]


def test_only_the_newest_questions_are_kept(ledger: Ledger) -> None:
    history = History(ledger)
    with ledger.transaction():
        for number in range(MAX_QUESTIONS + 3):
            history.add(HistoryEntry(float(number), "when?", "full", True, 1.0, 0.0))
    oldest, count = ledger.rows.execute("SELECT min(at), count(*) FROM history").fetchone()
    assert (oldest, count) == (3.0, MAX_QUESTIONS)


def test_prompts_are_counted_where_a_model_read_one(ledger: Ledger) -> None:
    history = History(ledger)
    for prompt, reused in ((300, 0), (None, None), (400, 250), (100, 50)):
        history.add(HistoryEntry(1.0, "when?", "full", True, 1.0, 0.0, prompt, reused))
    found = history.prompts()
    assert tuple(found.values()) == (3, 2, 800, 300)


def test_a_history_without_questions_counts_no_prompts(ledger: Ledger) -> None:
    found = History(ledger).prompts()
    assert tuple(found.values()) == (0, 0, 0, 0)
