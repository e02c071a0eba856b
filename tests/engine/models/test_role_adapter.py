"""Role adapters act on the last segment and on what is generated; all before it is the base model's, bit for bit."""

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.models.adapters import BASE, FILE, SHIPPED, Adapter, base_in, base_of, find_adapter
from engine.models.load import load
from engine.models.mlx import Mlx
from store.errors import PkbError
from tests.demo import NANO
from tests.effort import examples
from tests.engine.models.shapes import KINDS, Config, add_adapter, make

TOKENS = [Random(1).randrange(4, 300) for _ in range(150)]
LAST = TOKENS[:20]


@pytest.fixture(scope="module", params=["llama", "qwen2", "qwen3", "gemma2"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = make(tmp_path_factory.mktemp("models") / request.param, KINDS[request.param])
    add_adapter(found)
    return found


def opened(folder: Path, cache: Path, adapter: Adapter | None = None) -> Mlx:
    model = load(folder, name=folder.name, cache=cache, memory_share=0.9, adapter=adapter)
    return replace(model, stops=frozenset(), sub_step=64)


def read(model: Mlx, tokens: list[int]) -> Any:
    cache = model.begin()
    model.prefill(cache, tokens)
    return cache


def values(cache: Any) -> list[np.ndarray]:
    return [np.array(one) for layer in cache for one in layer.state]


def test_what_stands_before_the_last_segment_is_read_by_the_base_model(folder: Path, tmp_path: Path) -> None:
    plain, adapted = opened(folder, tmp_path), opened(folder, tmp_path, find_adapter(folder))
    one, other = read(plain, TOKENS), read(adapted, TOKENS)
    assert all(np.array_equal(a, b) for a, b in zip(values(one), values(other), strict=True))
    assert not np.array_equal(plain.logits(one, LAST), adapted.logits(other, LAST))
    after = read(adapted, TOKENS)  # it has acted in between
    assert all(np.array_equal(a, b) for a, b in zip(values(read(plain, TOKENS)), values(after), strict=True))


def test_it_adds_its_product_to_that_of_the_weights(folder: Path, tmp_path: Path) -> None:
    import mlx.core as mx

    merged = make(tmp_path / folder.name, KINDS[folder.name])
    weights, factors = mx.load(str(merged / "model.safetensors")), mx.load(str(folder / FILE))
    assert isinstance(weights, dict)
    assert isinstance(factors, dict)
    for name in [name for name in factors if name.endswith(".lora_a")]:
        layer = name.removesuffix(".lora_a")
        weights[f"{layer}.weight"] = weights[f"{layer}.weight"] + (factors[name] @ factors[f"{layer}.lora_b"]).T
    mx.save_safetensors(str(merged / "model.safetensors"), weights)
    adapted, plain = opened(folder, tmp_path, find_adapter(folder)), opened(merged, tmp_path)
    found, wanted = adapted.logits(adapted.begin(), TOKENS), plain.logits(plain.begin(), TOKENS)
    assert np.allclose(found, wanted, rtol=1e-3, atol=1e-3 * float(np.abs(wanted).max()))


def test_a_prompt_that_is_read_between_two_steps_is_read_by_the_base_model(folder: Path, tmp_path: Path) -> None:
    plain, adapted = opened(folder, tmp_path), opened(folder, tmp_path, find_adapter(folder))
    wanted, between = values(read(plain, TOKENS)), list[Any]()
    busy = replace(adapted, yield_point=lambda: between.append(read(adapted, TOKENS)))
    alone = list(adapted.decode(read(adapted, TOKENS), LAST, 5))
    assert list(busy.decode(read(adapted, TOKENS), LAST, 5)) == alone
    assert len(between) >= 5
    assert all(np.array_equal(a, b) for one in between for a, b in zip(wanted, values(one), strict=True))


def test_it_is_no_part_of_what_a_model_is_counted_by(folder: Path, tmp_path: Path) -> None:
    plain, adapted = opened(folder, tmp_path), opened(folder, tmp_path, find_adapter(folder))
    assert plain.dtype == adapted.dtype
    assert (plain.has_roles, adapted.has_roles) == (False, True)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_model_is_known_by_its_final_norm_however_its_weights_are_stored(tmp_path: Path, dtype: str) -> None:
    found = make(tmp_path / dtype, KINDS["llama"], dtype=dtype)
    wanted = base_of(make(tmp_path / "reference", KINDS["llama"]))
    assert base_of(found) == wanted != ""
    (found / "model.safetensors").rename(found / "model-00001-of-00001.safetensors")
    index = {"weight_map": {"model.norm.weight": "model-00001-of-00001.safetensors"}}
    (found / "model.safetensors.index.json").write_text(json.dumps(index))
    assert base_of(found) == wanted


def test_another_shape_or_norm_is_another_model(tmp_path: Path) -> None:
    import mlx.core as mx

    one = make(tmp_path / "one", KINDS["llama"])
    wider = make(tmp_path / "wider", KINDS["llama"] | {"num_attention_heads": 2})
    other = make(tmp_path / "other", KINDS["llama"])
    weights = mx.load(str(other / "model.safetensors"))
    assert isinstance(weights, dict)
    weights["model.norm.weight"] = weights["model.norm.weight"] * 1.01
    mx.save_safetensors(str(other / "model.safetensors"), weights)
    assert len({base_of(one), base_of(wider), base_of(other)}) == 3


def test_no_adapter_fits_an_unknown_model(tmp_path: Path) -> None:
    assert find_adapter(make(tmp_path / "llama", KINDS["llama"])) is None
    assert find_adapter(NANO) is None
    assert (base_of(tmp_path), find_adapter(tmp_path)) == ("", None)


@examples(30)
@given(st.binary(max_size=80), st.sampled_from(["model.safetensors", "config.json", "model.safetensors.index.json"]))
def test_a_damaged_model_is_no_base(tmp_path_factory: pytest.TempPathFactory, junk: bytes, name: str) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    for path in NANO.glob("*.json"):
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / name).write_bytes(junk)
    assert base_of(folder) == ""
    assert base_in(folder / name) == ""


def test_an_adapter_that_comes_with_pkb_names_its_base_and_is_small() -> None:
    shipped = sorted(SHIPPED.glob("*.safetensors"))
    assert shipped
    assert sum(path.stat().st_size for path in shipped) <= 12 * 2**20
    assert all(len(base_in(path)) == 32 for path in shipped), BASE
    assert len({base_in(path) for path in shipped}) == len(shipped)


def test_an_adapter_of_another_shape_is_an_error_that_names_it(tmp_path: Path) -> None:
    wide: Config = KINDS["llama"] | {"intermediate_size": 192}
    add_adapter(make(tmp_path / "wide", wide))
    folder = make(tmp_path / "llama", KINDS["llama"])
    (tmp_path / "wide" / FILE).rename(folder / FILE)
    with pytest.raises(PkbError, match=FILE):
        opened(folder, tmp_path, find_adapter(folder))
    (folder / FILE).write_bytes(b"junk")
    with pytest.raises(PkbError, match=FILE):
        opened(folder, tmp_path, find_adapter(folder))
