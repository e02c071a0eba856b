"""The cost formula of PerCache's engine, checked against what layers compute."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from engine.models.load import load
from engine.models.mlx import Mlx
from engine.models.types import Meter, Size, flops
from tests.bench.printed import Engine, again, engine, reckon, widths
from tests.engine.models.shapes import KINDS, make
from tests.engine.models.traced import traced

# 2 layers; a token is 8 wide, its queries 4 heads of 2, its keys 1 head of 2; an MLP of 3 times 8 x 16.
ARGS = SimpleNamespace(num_attention_heads=4, num_key_value_heads=1, hidden_size=8, head_dim=2)
BY_HAND = Engine(Size(2 * (8 * 8 + 2 * 8 * 2 + 8 * 8 + 3 * 8 * 16), 800, 2, 8), widths(ARGS, 2), 10, rate=1e6)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Mlx:
    """Load a small model of random weights, with fewer heads of keys than of queries."""
    folder = make(tmp_path_factory.mktemp("models") / "llama", KINDS["llama"] | {"tie_word_embeddings": True})
    cache = tmp_path_factory.mktemp("cache")
    return load(folder, name="small", cache=cache, memory_share=0.9)


def test_queries_make_tensors_three_times_as_heavy_where_four_heads_share_a_key() -> None:
    assert BY_HAND.widths.heavier == (8 + 2 + 2) / (2 + 2)


def test_reused_tokens_take_all_but_their_projections_by_hand() -> None:
    a_token = 2 * 2 * (8 * 8 + 3 * 8 * 16)  # two layers: the output projection and the MLP
    attended = 10 * 10 + 10 * 20 + 5 * (20 + 5)  # sub-steps of 10, 10 and 5, the last of a segment of its own
    assert again(BY_HAND, [20, 5, 0]) == 25 * a_token + 4 * 2 * 8 * attended


def test_a_question_takes_what_was_measured_and_that_and_more_to_load() -> None:
    more = again(BY_HAND, [20])
    found = reckon(BY_HAND, {"total": 100.0, "load": 7.0}, 5000.0, 1000, [20])
    assert found == {"ms": round(100 + more / 1e3 + 7 * 2, 3), "flops": 5000 + more, "kv_bytes": 3000}


def test_where_nothing_was_reused_nothing_is_added_but_bytes() -> None:
    found = reckon(BY_HAND, {"total": 100.0, "load": None}, 5000.0, 1000, [0, 0])
    assert found == {"ms": 100.0, "flops": 5000.0, "kv_bytes": 3000}


def test_the_projections_that_are_saved_are_those_that_the_layers_compute(small: Mlx) -> None:
    attention = small.model.model.layers[0].self_attn
    weights = (attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight)
    found = engine(small)
    assert found.widths.projected == 2 * 2 * sum(one.size for one in weights)
    assert found.rate > 0


def test_what_is_saved_and_what_is_not_is_what_a_prompt_takes(small: Mlx) -> None:
    found, tokens = engine(small), 100
    fresh = replace(small, meter=Meter())
    with traced(small) as counted:
        fresh.prefill(fresh.begin(), [10 + number for number in range(tokens)])
    saved = found.widths.projected * tokens
    assert again(found, [tokens]) + saved == flops(small.size, fresh.meter)
    assert again(found, [tokens]) + saved == pytest.approx(counted[0], rel=0.01)
