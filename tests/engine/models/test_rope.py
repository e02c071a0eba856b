"""Keys at another place: as the model's own rope would have made them there, and refused where that cannot be."""

from pathlib import Path

import numpy as np
import pytest

from engine.kv import blocks
from engine.kv.restore import PromptReader
from engine.models.kv_cache import rotated, take
from engine.models.load import form, load, movable
from engine.models.mlx import Mlx
from engine.types import Trace
from store.errors import PkbError
from tests.demo import NANO
from tests.engine.ask.equivalence_box import Ids, some
from tests.engine.llm.kit import FIXED, MOVABLE, loaded, without
from tests.engine.llm.naive import Naive, behind_the_first, in_blocks, in_order
from tests.engine.models.shapes import make

PLACES = (0, 1, 5, 64, 131, 400)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module", params=[*MOVABLE, "nano"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Mlx:
    return loaded(request.param, tmp_path_factory.mktemp("models"), cache)


def test_rotating_in_two_steps_equals_rotating_at_once(model: Mlx) -> None:
    import mlx.core as mx

    keys = mx.random.normal((1, 2, 9, 32), key=mx.random.key(3))
    for rope in movable(model):
        for at in PLACES:
            for by in PLACES:
                at_once, moved = (
                    np.array(rope(keys, offset=at + by)),
                    np.array(rotated(rope, rope(keys, offset=at), by)),
                )
                assert np.abs(at_once - moved).max() < 5e-4  # what angles of some hundreds are rounded by in fp32


def test_moved_keys_are_those_that_the_first_layer_makes_at_the_other_place(model: Mlx) -> None:
    """The first layer's keys depend on token and place alone, so a plain reading of the prompt must give them too."""
    segments = [some(model, seed, length) for seed, length in enumerate((40, 3, 100, 50))]
    plain = model.begin()
    for ids in segments:
        model.prefill(plain, ids)
    read = blocks.read(PromptReader(model, None, movable(model)), segments, Trace())
    keys, values, *_ = (np.array(one) for one in take(plain, 0, 193).values())
    moved, same, *_ = (np.array(one) for one in take(read.cache, 0, 193).values())
    assert np.abs(moved - keys).max() < 1e-5 * max(1.0, np.abs(keys).max())
    assert np.abs(same - values).max() < 1e-5 * max(1.0, np.abs(values).max())


@pytest.mark.parametrize("name", ["llama", "nano"])
def test_blocks_are_what_a_plain_model_computes_that_sees_them_as_defined(
    name: str, tmp_path: Path, cache: Path
) -> None:
    model = loaded(name, tmp_path, cache)
    segments = [some(model, seed, length) for seed, length in enumerate((40, 3, 100, 3, 130, 31))]
    naive, lengths = Naive(NANO if name == "nano" else tmp_path / name), [len(ids) for ids in segments]
    flat: Ids = tuple(id for ids in segments for id in ids)
    expected = naive.logits(list(flat), in_blocks(lengths), behind_the_first(lengths))
    assert np.abs(without(model, segments) - expected).max() < 1e-4 * np.abs(expected).max()
    assert np.abs(naive.logits(list(flat), *in_order(lengths)) - expected).max() > 0.1  # else this would say nothing


@pytest.mark.parametrize("name", FIXED)
def test_a_model_whose_keys_cannot_be_moved_is_refused_with_the_reason(name: str, tmp_path: Path, cache: Path) -> None:
    config, why = FIXED[name]
    folder = make(tmp_path / "model", config)
    assert form(folder, 0, in_blocks=True).description == f"cannot reuse blocks: {why}"
    found = load(folder, name=name, cache=cache, memory_share=0.9)
    with pytest.raises(PkbError, match=f"{name} cannot reuse blocks: {why}") as refused:
        movable(found)
    assert refused.value.next_step == "pkb config set kv.reuse prefix"
