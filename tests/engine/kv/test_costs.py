"""Costs are learnt from observations, follow the machine, and survive damage."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.kv.costs import (
    Calibration,
    CostFit,
    MeasuredCosts,
    calibrate,
    calibration,
    calibrations,
    known_costs,
)
from store.database import Ledger, open_ledger
from store.kv_files import borders
from tests.bench.kv_reuse import prompt

TERMS = st.floats(1e-6, 1.0)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with closing(open_ledger(tmp_path / "ledger.db", create=True)) as opened:
        yield opened


@given(
    TERMS, TERMS, st.lists(st.tuples(st.integers(1, 500), st.integers(0, 500)), min_size=4, max_size=20, unique=True)
)
def test_a_fit_finds_the_terms_that_made_the_observations(a: float, b: float, rows: list[tuple[int, int]]) -> None:
    fit = CostFit()
    for x, y in rows:
        fit = fit.observe(x, y, a * x + b * y)
    for x, y in rows[-3:]:
        assert fit.seconds(x, y) == pytest.approx(a * x + b * y, rel=0.02)


@given(st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1e9), st.floats()), max_size=30))
def test_a_fit_never_predicts_less_than_nothing(rows: list[tuple[float, float, float]]) -> None:
    fit = CostFit()
    for x, y, seconds in rows:
        fit = fit.observe(x, y, seconds)
    assert min(fit.terms) >= 0
    assert (fit.seconds(1, 1) or 0.0) >= 0


def test_one_observation_alone_predicts_nothing() -> None:
    one = CostFit().observe(2, 1_000_000, 0.5)
    assert one.seconds(2, 1_000_000) is None
    assert one.observe(2, 1_000_000, 0.5).seconds(2, 1_000_000) == pytest.approx(0.5)


def test_prefill_gets_slower_with_the_position(ledger: Ledger) -> None:
    costs = MeasuredCosts(ledger, "a")
    costs.record_prefill(0, 128, 30.0)  # the first teaches nothing
    for start in range(0, 1024, 128):
        costs.record_prefill(start, start + 128, 128 * (0.002 + 4e-6 * (start + 64)))
    assert costs.prefill_s(1024, 1152) == pytest.approx(128 * (0.002 + 4e-6 * 1088), rel=0.01)


def test_a_disk_that_became_slower_is_measured_anew_from_the_second_slow_load() -> None:
    load = loaded(CostFit(), *[0.1] * 20, 1.0)
    assert load.seconds(5, 10_000_000) == pytest.approx(0.1, rel=0.2)
    load = loaded(load, 1.0)
    assert load.seconds(5, 10_000_000) is None
    assert loaded(load, 1.0).seconds(5, 10_000_000) == pytest.approx(1.0)


def test_a_disk_that_became_faster_is_learnt_at_once() -> None:
    assert loaded(CostFit(), *[0.1] * 20, 0.01).seconds(5, 10_000_000) == pytest.approx(0.01, rel=1)


def test_one_slow_load_changes_little() -> None:
    load = loaded(CostFit(), *[0.1] * 5, 2.0, 0.1)
    assert load.seconds(5, 10_000_000) == pytest.approx(0.1, rel=0.3)


def loaded(fit: CostFit, *seconds: float) -> CostFit:
    """Return the costs of loading after five files of ten megabytes were loaded so often."""
    for one in seconds:
        fit = fit.observe(5, 10_000_000, one)
    return fit


def learnt(ledger: Ledger, root: str) -> MeasuredCosts:
    """Return costs that have seen three segments and two loads, saved."""
    costs = MeasuredCosts(ledger, root)
    for start in (0, 100, 200):
        costs.record_prefill(start, start + 100, 0.5)
    for _ in range(2):
        costs.record_load(1, 1_000_000, 0.1)
    costs.save()
    return costs


def test_costs_are_found_again_by_another_process(ledger: Ledger) -> None:
    before, after = learnt(ledger, "a"), MeasuredCosts(ledger, "a")
    assert (after.prefill, after.load) == (before.prefill, before.load)


def test_prefill_costs_belong_to_a_model_and_loads_to_the_machine(ledger: Ledger) -> None:
    learnt(ledger, "a")
    other = MeasuredCosts(ledger, "b")
    assert other.prefill_s(0, 100) is None
    assert other.load.seconds(1, 1_000_000) == pytest.approx(0.1)
    learnt(ledger, "b")
    assert list(known_costs(ledger)) == ["a", "b", "load"]


def test_the_first_segment_of_a_process_teaches_nothing(ledger: Ledger) -> None:
    costs = MeasuredCosts(ledger, "a")
    for seconds in (30.0, 0.5, 0.5):
        costs.record_prefill(0, 100, seconds)
    assert costs.prefill_s(0, 100) == pytest.approx(0.5)


def test_only_the_models_used_last_are_kept(ledger: Ledger) -> None:
    for number in range(12):
        learnt(ledger, str(number))
    assert list(known_costs(ledger)) == [*(str(number) for number in range(4, 12)), "load"]


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=7) | st.dictionaries(st.sampled_from(("load", "a", "r")), inner),
    max_leaves=20,
)


@given(st.one_of(st.text(), JSON.map(json.dumps)))
def test_damaged_costs_start_anew(text: str) -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as rows:
        rows.execute("CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)")
        ledger = Ledger(rows)
        ledger.set("kv.costs", text)
        assert all(min(fit.terms) >= 0 for fit in known_costs(ledger).values())
        learnt(ledger, "a")
        assert MeasuredCosts(ledger, "a").prefill_s(0, 100) is not None


def h200(tokens: int) -> float:
    """Return the seconds of a call at the 3B shape: 15 ms whatever its rows, until multiplying takes longer."""
    return max(0.015, tokens * 0.059 / 4000)


def apple(tokens: int) -> float:
    """Return the seconds of a call on a chip with a fiftieth of that speed, and calls that cost half as much."""
    return 0.008 + tokens * 0.75e-3


def processor(tokens: int) -> float:
    """Return the seconds of a call at half a billion parameters on a processor (decision 17)."""
    return 0.15 + tokens * 0.0107


@pytest.mark.parametrize(
    ("call", "restoring_s", "step", "saves"),
    [(h200, 174e-3 / 4000, 2048, False), (apple, 5e-5, 256, True), (processor, 1e-4, 128, True)],
)
def test_a_step_is_long_enough_for_its_device(
    call: Callable[[int], float], restoring_s: float, step: int, *, saves: bool
) -> None:
    found = calibrate("3B", 131_072, call, lambda tokens: tokens * restoring_s)
    assert (found.sub_step, found.saves_time) == (step, saves)


def test_a_step_is_found_where_every_call_takes_long_and_where_the_context_is_short() -> None:
    assert calibrate("slow", 8192, lambda tokens: float(tokens), lambda tokens: 0.0).sub_step == 128
    assert calibrate("short", 100, h200, lambda tokens: 0.0).tokens == 64


@pytest.mark.parametrize("tokens", [650, 2000, 4000])
def test_on_a_fast_gpu_joined_segments_take_as_long_as_the_plain_loop_and_nothing_is_loaded(tokens: int) -> None:
    step = calibrate("3B", 131_072, h200, lambda tokens: tokens * 174e-3 / 4000).sub_step
    *context, question = prompt(tokens, step)
    ends = [end - start for ids in context for start, end in pairwise((0, *borders(len(ids), step)))]
    cold = sum(map(h200, [*ends, len(question)]))
    rest = tokens + len(question) - 1
    plain = sum(h200(min(2048, rest - start)) for start in range(0, rest, 2048)) + h200(1)
    assert cold <= 1.10 * plain
    alone = sum(map(h200, map(len, prompt(tokens))))
    assert alone > 2.5 * plain  # as it was, with each segment alone


def test_what_was_measured_first_stays_under_its_root(ledger: Ledger) -> None:
    first, later = (calibrate(name, 4096, h200, lambda tokens: 1.0) for name in ("first", "later"))
    assert calibration(ledger, "root", lambda: first) == first
    assert calibration(ledger, "root", lambda: later) == first
    assert calibration(ledger, "other", lambda: later) == later
    ledger.set("kv.calibrations", "damaged")
    assert calibrations(ledger) == {}
    assert calibration(ledger, "root", lambda: later) == later


def test_doctor_is_told_the_step_and_why_no_cache_is_kept() -> None:
    assert str(Calibration("llama", 512, 2048, 2.0, 0.1)) == "llama: steps of 512 tokens"
    assert str(Calibration("llama", 2048, 2048, 0.0302, 0.0892)) == (
        "llama: steps of 2,048 tokens, no KV cache is kept: computing 2,048 tokens takes 30 ms, loading them 89 ms"
    )
