"""Streams of several adapters through the real store: prices, figures, and the ways held against each other."""

from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path
from random import Random

import pytest

from engine.models.load import load
from engine.models.mlx import Mlx
from tests.bench.delta.real import Cost, Price, Served, cut, figures, fit, make_adapters, replayed, uncached
from tests.bench.delta.scenarios import Scenario
from tests.bench.delta.workload import Asked
from tests.engine.models.shapes import KINDS, make

TOKEN_BYTES = 512  # of the small llama: two layers of two heads, 16 wide
Outcome = tuple[dict[str, list[int]], dict[str, int]]  # tokens reused of each prompt, bytes at the end, by way
# 40 tokens of the system's text are the same in all six prompts of 80.
REUSED = {
    "recompute": [0] * 6, "one": [0] * 6, "each": [0, 0, 40, 40, 80, 80], "activated": [0, 80, 40, 80, 80, 80],
}  # fmt: skip
ROOM = Scenario("room", 2, 4.0, 2)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Mlx:
    """Return a small llama that never stops."""
    folder = tmp_path_factory.mktemp("small")
    made = make(folder / "llama", KINDS["llama"])
    model = load(made, name="llama", cache=folder, memory_share=0.9)
    return replace(model, stops=frozenset())


def stream(count: int = 6) -> list[Asked]:
    """Return requests of two adapters by turns, over two prompts that begin alike."""
    rng = Random(3)
    system, *chunks = [tuple(rng.randrange(20, 600) for _ in range(40)) for _ in range(3)]
    return [Asked((system, chunks[n // 2 % 2]), n % 2, 0, float(n)) for n in range(count)]


def test_a_fit_finds_the_price_that_made_the_seconds() -> None:
    price, lengths = Price(0.004, 2e-6), [90, 130, 170, 250, 40]
    seconds = [price.of(*both) for both in pairwise(accumulate(lengths, initial=0))]
    found = fit(lengths, seconds)
    assert (found.token_s, found.pair_s) == pytest.approx((price.token_s, price.pair_s))


def test_seconds_that_fall_with_the_position_make_no_price_below_zero() -> None:
    found = fit([10, 10, 10], [3.0, 2.0, 1.0])
    assert found.token_s == pytest.approx(0.2)
    assert found.pair_s == 0


def test_what_was_reused_of_a_segment_is_not_computed() -> None:
    assert list(uncached([5, 10, 4], [5, 8, 0])) == [(13, 15), (15, 19)]


def test_an_activated_adapter_reads_the_context_at_the_bare_models_price_and_the_question_at_its_own() -> None:
    cost, prompt = Cost(Price(1.0, 0.0), Price(2.0, 0.0), 0.5), [(1,) * 30, (2,) * 10]
    assert cost.first_token(prompt, [30], shared=True) == 10 * 1.0 + 30 * 0.5 + 50 * 2.0
    assert cost.first_token(prompt, [30], shared=False) == 10 * 2.0 + 30 * 0.5 + 50 * 2.0


def test_a_prompt_is_cut_within_a_segment() -> None:
    assert cut([(1, 2), (3, 4, 5), (6,)], 4) == [(1, 2), (3, 4)]


def test_figures_compare_the_same_requests_and_count_the_full_cache() -> None:
    def served(way: str, seconds: float, size: int) -> Served:
        return Served(way, seconds, seconds, 5, 10, size)

    rows = {
        "recompute": [served("recompute", 4.0, 0), served("recompute", 2.0, 0)],
        "each": [served("each", 2.0, 70), served("each", 1.0, 80)],
    }
    _, each = figures(rows, 100)
    assert each["wall"]["mean_change"] == [-0.5, -0.5, -0.5]
    assert (each["reused"], each["most_of_budget"], each["over_75"]) == (0.5, 0.8, 0.5)


def test_activated_adapters_share_and_ordinary_ones_do_not(small: Mlx, tmp_path: Path) -> None:
    reused, sizes = run(small, tmp_path, Cost(Price(1.0, 0.0), Price(2.0, 0.0), 0.5))
    assert reused == REUSED
    assert sizes["activated"] < sizes["each"]


@pytest.mark.slow
def test_the_store_finds_the_same_whether_tokens_are_computed_or_not(small: Mlx, tmp_path: Path) -> None:
    reused, sizes = run(small, tmp_path / "real", None)
    assert reused == REUSED | {"differences": REUSED["each"]}
    for load_s in (None, 0.5):
        found, counted = run(small, tmp_path / f"{load_s}", Cost(Price(1.0, 0.0), Price(2.0, 0.0), load_s))
        headers = 0.1 if load_s else 0.0
        assert found == REUSED
        assert counted == pytest.approx({way: sizes[way] for way in REUSED}, rel=headers)


def run(model: Mlx, place: Path, cost: Cost | None) -> Outcome:
    """Serve the stream by all ways; return what each reused of each prompt, and its bytes at the end."""
    pairs = make_adapters(model, place / "adapters", 2)
    rows = list(replayed(ROOM, stream(), model, pairs, TOKEN_BYTES, place, cost))
    served = [row for row in rows if "number" in row]
    reused: dict[str, list[int]] = {}
    for row in sorted(served, key=lambda row: row["number"]):
        reused.setdefault(row["way"], []).append(row["reused"])
        assert row["bytes"] <= ROOM.budget(TOKEN_BYTES)
    return reused, {row["way"]: row["bytes"] for row in served if row["number"] == 5}
