"""Plans carried out by real models: bit for bit as in a prefill where nothing is quantized."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.models.adapters import Adapter
from engine.models.load import load
from engine.models.mlx import Mlx
from store.errors import PkbError
from tests.bench.home import NANO
from tests.bench.sparkv.bitstream import Chunk32, Level
from tests.bench.sparkv.controller import Controller, controller
from tests.bench.sparkv.execute import StreamFailed, encode_units, execute
from tests.bench.sparkv.layerwise import layerwise
from tests.bench.sparkv.schedule import ComputeUnit, StreamUnit, UnitCosts, greedy, ordered, replay
from tests.effort import slow_only
from tests.engine.models.shapes import KINDS, add_adapter, make

EXACT = Level(0.0, 0.0)
MODELS = ["nano", "llama", *slow_only("qwen2", "llama, tied, 4 layers", "llama, adapted")]
LENGTHS = (128, 128, 70, 128, 33, 20)  # tokens of each block, the question last


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest, scratch: Path) -> Mlx:
    kind, *other = request.param.split(", ")
    tied = {"tie_word_embeddings": True, "num_hidden_layers": 4, "num_key_value_heads": 4} if "tied" in other else {}
    sizes = KINDS.get(kind, {}) | tied | {"max_position_embeddings": 2048}
    folder = NANO if kind == "nano" else make(scratch / request.param, sizes)
    path = add_adapter(folder) if "adapted" in other else None
    adapter = Adapter(path.name, "role", 0, 1.0, path, activated=True) if path else None
    return load(folder, name=request.param, cache=scratch, memory_share=0.9, adapter=adapter)


def blocks_of(model: Mlx) -> list[list[int]]:
    rng = np.random.default_rng(3)
    return [[int(id) for id in rng.integers(10, 600, length)] for length in LENGTHS]


def prefilled(model: Mlx, blocks: Sequence[Sequence[int]]) -> tuple[NDArray[np.float32], list[tuple[Chunk32, Chunk32]]]:
    """Return the logits of the question behind an ordinary prefill, and keys and values by layer."""
    import mlx.core as mx

    cache = model.begin()
    for block in blocks[:-1]:
        model.prefill(cache, block)
    model.adapter.acts = True
    logits = np.array(model.model(mx.array(list(blocks[-1]))[None], cache=cache))
    return logits, tensors(cache, sum(map(len, blocks)))


def tensors(cache: Any, tokens: int) -> list[tuple[Chunk32, Chunk32]]:
    return [(np.array(part.keys[0, :, :tokens]), np.array(part.values[0, :, :tokens])) for part in cache]


def costs(model: Mlx, layers: int, groups: int, stream: float = 1e-3, compute: float = 1e-3) -> UnitCosts:
    return UnitCosts.of(len(LENGTHS) - 1, layers, groups, lambda unit: stream / groups, lambda unit: compute)


@pytest.mark.parametrize("stream", [1e-6, 5e-4, 1e-3, 1.0])
def test_a_plan_gives_the_bits_of_a_prefill(model: Mlx, stream: float) -> None:
    blocks = blocks_of(model)
    wanted, kept = prefilled(model, blocks)
    run = layerwise(model, sum(LENGTHS))
    own = costs(model, run.layers, 2, stream)
    sent = encode_units(kept, list(accumulate(LENGTHS[:-1], initial=0)), 2, EXACT)
    plan = greedy(own)
    found = execute(run, blocks, Controller(own, plan, stage=1e9, limit=0), sent.__getitem__)
    assert np.array_equal(np.array(found.logits), wanted)
    assert found.computed == len(plan.computes)
    assert found.received == sum(len(sent[unit]) for unit in plan.streams)
    for (keys, values), (other_keys, other_values) in zip(
        tensors(run.finish(sum(LENGTHS)), sum(LENGTHS)), kept, strict=True
    ):
        assert np.array_equal(keys, other_keys)
        assert np.array_equal(values, other_values)


def test_a_plan_that_changes_under_way_gives_the_same_bits(model: Mlx) -> None:
    blocks = blocks_of(model)
    wanted, kept = prefilled(model, blocks)
    run = layerwise(model, sum(LENGTHS))
    own = costs(model, run.layers, 2, stream=1e-5, compute=1e-6)  # computing takes much longer
    sent = encode_units(kept, list(accumulate(LENGTHS[:-1], initial=0)), 2, EXACT)
    plan = ordered(own, [run.layers] * (len(LENGTHS) - 1))
    found = execute(run, blocks, Controller(own, plan, stage=1e-6, limit=2), sent.__getitem__)
    assert np.array_equal(np.array(found.logits), wanted)


def test_what_is_quantized_stays_within_its_bound(model: Mlx) -> None:
    blocks, level = blocks_of(model), Level(0.02, 0.05)
    _, kept = prefilled(model, blocks)
    run = layerwise(model, sum(LENGTHS))
    own = costs(model, run.layers, 1)
    starts = list(accumulate(LENGTHS[:-1], initial=0))
    sent = encode_units(kept, starts, 1, level)
    execute(run, blocks, controller(own, ordered(own, [0] * 5), 1.0), sent.__getitem__)
    stored = tensors(run.finish(sum(LENGTHS)), sum(LENGTHS))
    for layer, both in enumerate(zip(stored, kept, strict=True)):
        for start, stop in pairwise(starts):
            for kv, (found, wanted) in zip("kv", zip(*both, strict=True), strict=True):
                part = wanted[:, start:stop]
                bound = level.share(layer, run.layers, kv) * float(part.std())
                assert np.abs(found[:, start:stop] - part).max() <= bound


@pytest.mark.parametrize("broken", [b"", b"damaged", OSError("gone"), EOFError()])
def test_a_stream_that_fails_raises_one_error(model: Mlx, broken: bytes | Exception) -> None:
    def source(unit: StreamUnit) -> bytes:
        if isinstance(broken, Exception):
            raise broken
        return broken

    run = layerwise(model, sum(LENGTHS))
    own = costs(model, run.layers, 2)
    with pytest.raises(StreamFailed):
        execute(run, blocks_of(model), controller(own, greedy(own), replay(own, greedy(own)).finish), source)


def test_an_interrupt_while_computing_ends_the_receiving_thread(model: Mlx) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    blocks = blocks_of(model)
    _, kept = prefilled(model, blocks)
    sent = encode_units(kept, list(accumulate(LENGTHS[:-1], initial=0)), 1, EXACT)
    run = layerwise(replace(model, yield_point=interrupt), sum(LENGTHS))
    own = costs(model, run.layers, 1)
    with pytest.raises(KeyboardInterrupt):
        execute(run, blocks, controller(own, greedy(own), 1.0), sent.__getitem__)


def test_a_model_of_another_form_is_refused(scratch: Path) -> None:
    folder = make(scratch / "gemma2", KINDS["gemma2"])
    with pytest.raises(PkbError, match="layer by layer"):
        layerwise(load(folder, name="gemma2", cache=scratch, memory_share=0.9), 10)


def test_the_question_is_computed_after_its_context() -> None:
    own = UnitCosts.of(2, 2, 1, lambda unit: 1.0, lambda unit: 1.0)
    assert greedy(own).computes[-1] == ComputeUnit(2, 1)
