"""Attention with numpy's softmax: what MLX's own gives, to the last digits but one; every shape, every mask."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.models import mlx
from engine.models.load import load
from engine.models.runtime import device
from tests.effort import examples
from tests.engine.models.shapes import KINDS, make

MASKS = ("none", "causal", "bool", "added", "by head")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@examples(60)
@given(
    groups=st.integers(1, 4),
    repeats=st.integers(1, 3),
    rows=st.integers(1, 70),
    before=st.integers(0, 400),
    width=st.sampled_from([8, 32, 64]),
    mask=st.sampled_from(MASKS),
    size=st.sampled_from([0.1, 1.0, 30.0]),
    seed=st.integers(0, 1000),
)
def test_it_gives_what_mlx_gives(
    groups: int, repeats: int, rows: int, before: int, width: int, mask: str, size: float, seed: int
) -> None:
    import mlx.core as mx

    mx.random.seed(seed)
    seen = before + rows
    queries = size * mx.random.normal((1, rows, groups * repeats, width)).transpose(0, 2, 1, 3)
    room = mx.random.normal((2, 1, groups, seen + 9, width))  # of which a cache gives the first part
    keys, values = room[0, ..., :seen, :], room[1, ..., :seen, :]
    allowed = mx.arange(seen)[None] <= mx.arange(before, seen)[:, None]
    masks = {
        "none": None,
        "causal": "causal",
        "bool": allowed,
        "added": mx.where(allowed, 0.0, -1e9)[None, None],
        "by head": mx.broadcast_to(allowed, (1, groups * repeats, rows, seen)),
    }
    wanted = mx.fast.scaled_dot_product_attention(queries, keys, values, scale=0.125, mask=masks[mask])
    found = mlx.attend(queries, keys, values, None, 0.125, masks[mask])
    assert found.shape == wanted.shape
    assert np.allclose(np.array(found), np.array(wanted), rtol=1e-4, atol=1e-5)


def test_a_row_does_not_depend_on_what_lies_behind_the_keys() -> None:
    import mlx.core as mx

    queries = mx.random.normal((1, 4, 20, 16), key=mx.random.key(1))
    room = mx.random.normal((1, 2, 60, 16), key=mx.random.key(2))
    spoilt = mx.concatenate([room[..., :50, :], mx.full((1, 2, 10, 16), mx.nan)], axis=2)
    one, other = (mlx.attend(queries, it[..., :50, :], it[..., :50, :], None, 0.25, "causal") for it in (room, spoilt))
    assert mx.array_equal(one, other)


@pytest.mark.skipif(device() != "cpu", reason="it stands in on processors")
def test_a_loaded_model_attends_by_it(tmp_path: Path, scratch: Path) -> None:
    for kind in ("llama", "qwen3", "gemma2"):
        model = load(make(tmp_path / kind, KINDS[kind]), name=kind, cache=scratch, memory_share=0.9)
        module = sys.modules[type(model.model).__module__]
        assert getattr(module, "scaled_dot_product_attention", mlx.attend) is mlx.attend
