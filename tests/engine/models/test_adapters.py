"""LoRA adapters: what is refused; put on a loaded model as mlx-lm does it, and taken off without a trace."""

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.models.adapters import (
    CONFIG,
    WEIGHTS,
    Adapter,
    AdapterFolder,
    check_fit,
    find_adapter,
    read_adapter,
    wear,
)
from engine.models.load import load
from engine.models.mlx import Mlx
from store.errors import PkbError, UsageError
from store.home import Home
from tests.effort import examples
from tests.engine.models.adapter_kit import make_adapter
from tests.engine.models.shapes import KINDS, add_adapter, make

TOKENS = [Random(1).randrange(4, 300) for _ in range(150)]
LAST = TOKENS[:20]


@pytest.fixture(scope="module", params=["llama", "qwen3"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = make(tmp_path_factory.mktemp("models") / request.param, KINDS[request.param])
    add_adapter(found)
    return found


@pytest.fixture(scope="module")
def mail(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Adapter:
    return make_adapter(folder, tmp_path_factory.mktemp("adapters") / "mail")


@pytest.fixture(scope="module")
def meetings(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Adapter:
    target = tmp_path_factory.mktemp("adapters") / "meetings"
    return make_adapter(folder, target, seed=5, rank=8, keys=("self_attn.v_proj", "self_attn.o_proj"))


def opened(folder: Path, cache: Path, *, roles: bool = False, wears: Adapter | None = None) -> Mlx:
    role = find_adapter(folder) if roles else None
    model = load(folder, name=folder.name, cache=cache, memory_share=0.9, adapter=role)
    return replace(model, stops=frozenset(), sub_step=64, wears=wears)


def logits(model: Mlx) -> np.ndarray:
    cache = model.begin()
    model.prefill(cache, TOKENS)
    return model.logits(cache, LAST)


def weights(model: Mlx) -> dict[str, np.ndarray]:
    from mlx.utils import tree_flatten

    return {name: np.array(array) for name, array in dict(tree_flatten(model.model.parameters())).items()}


def base_modules(model: Mlx) -> dict[str, int]:
    """Return which modules a model is made of, those of adapted layers for these."""
    return {name.removesuffix(".inner"): id(part) for name, part in model.model.named_modules()}


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("roles", [False, True])
def test_the_base_is_restored_to_the_last_bit(
    folder: Path, mail: Adapter, meetings: Adapter, tmp_path: Path, roles: bool
) -> None:
    model = opened(folder, tmp_path, roles=roles)
    before, parts = logits(model), weights(model)
    modules, worn = base_modules(model), model.adapter.name
    for adapter in (mail, meetings, mail):
        assert not np.array_equal(logits(replace(model, wears=adapter)), before)
        assert model.adapter.name == adapter.digest
    assert np.array_equal(logits(model), before)
    assert (model.adapter.name, bool(worn)) == (worn, roles)
    assert same(weights(model), parts)
    assert base_modules(model) == modules


def test_it_computes_what_mlx_lm_computes(folder: Path, mail: Adapter, tmp_path: Path) -> None:
    from mlx_lm.tuner.utils import load_adapters

    reference = opened(folder, tmp_path / "reference")
    load_adapters(reference.model, str(mail.weights.parent)).eval()
    by_mlx_lm = np.array(reference.model(_ids(LAST)))
    model = opened(folder, tmp_path)
    wear(model.model, model.adapter, mail)
    assert np.array_equal(np.array(model.model(_ids(LAST))), by_mlx_lm)
    wear(model.model, model.adapter, None)
    assert not np.array_equal(np.array(model.model(_ids(LAST))), by_mlx_lm)


def _ids(tokens: list[int]) -> Any:
    import mlx.core as mx

    return mx.array([tokens])


def test_an_exchange_is_the_same_as_putting_it_on_the_base(
    folder: Path, mail: Adapter, meetings: Adapter, tmp_path: Path
) -> None:
    model = opened(folder, tmp_path)
    first = logits(replace(model, wears=mail))
    logits(replace(model, wears=meetings))
    assert np.array_equal(logits(replace(model, wears=mail)), first)


def test_two_prompts_that_take_turns_each_wear_their_own(
    folder: Path, mail: Adapter, meetings: Adapter, tmp_path: Path
) -> None:
    model = opened(folder, tmp_path, roles=True)
    alone, between = logits(replace(model, wears=mail)), list[np.ndarray]()
    other = replace(model, wears=meetings)
    wanted = logits(other)
    busy = replace(model, wears=mail, yield_point=lambda: between.append(logits(other)))
    assert np.array_equal(logits(busy), alone)
    assert len(between) >= 3
    assert all(np.array_equal(one, wanted) for one in between)


def test_an_activated_one_leaves_the_tensors_of_the_context_alone(folder: Path, tmp_path: Path) -> None:
    own = make_adapter(folder, tmp_path / "own", activated=True)
    for roles in (False, True):
        model = opened(folder, tmp_path, roles=roles)
        wearing, before = replace(model, wears=own), logits(model)
        caches = [one.begin() for one in (model, wearing)]
        for one, cache in zip((model, wearing), caches, strict=True):
            one.prefill(cache, TOKENS)
        kept = [[np.array(array) for layer in cache for array in layer.keys_and_values()] for cache in caches]
        assert all(np.array_equal(a, b) for a, b in zip(*kept, strict=True))
        acting = wearing.logits(caches[1], LAST)
        assert not np.array_equal(acting, before)
        assert np.array_equal(logits(model), before)
        assert np.array_equal(logits(wearing), acting)
        assert (wearing.has_roles, wearing.kv_adapter) == (roles, "")


def test_what_tensors_depend_on_is_named(folder: Path, mail: Adapter, tmp_path: Path) -> None:
    assert opened(folder, tmp_path, wears=mail).kv_adapter == mail.digest
    assert opened(folder, tmp_path).kv_adapter == ""


def test_weights_scale_and_place_make_the_digest(folder: Path, tmp_path: Path) -> None:
    one = make_adapter(folder, tmp_path / "one")
    same_one = make_adapter(folder, tmp_path / "again")
    others = [
        make_adapter(folder, tmp_path / "seed", seed=4),
        make_adapter(folder, tmp_path / "scale", scale=3.0),
        make_adapter(folder, tmp_path / "activated", activated=True),
    ]
    assert same_one.digest == one.digest
    assert len({one.digest, *(other.digest for other in others)}) == 4


def test_another_model_is_named(folder: Path, mail: Adapter, tmp_path: Path) -> None:
    wide = make(tmp_path / "wide", KINDS["llama"] | {"intermediate_size": 192})
    model = opened(wide, tmp_path)
    with pytest.raises(PkbError, match=r"mail does not fit the model: model.layers.0.mlp.down_proj: 128 x 64, where"):
        check_fit(model.model, mail)
    with pytest.raises(PkbError, match="does not fit"):
        wear(model.model, model.adapter, mail)
    assert model.adapter.name == ""
    deep = make_adapter(make(tmp_path / "deep", KINDS["llama"] | {"num_hidden_layers": 3}), tmp_path / "other")
    with pytest.raises(PkbError, match="there is no such layer"):
        check_fit(opened(folder, tmp_path).model, deep)


def test_a_failed_exchange_leaves_the_base(folder: Path, mail: Adapter, tmp_path: Path) -> None:
    model = opened(folder, tmp_path)
    before = logits(model)
    logits(replace(model, wears=mail))
    gone = make_adapter(folder, tmp_path / "gone", seed=9)
    gone.weights.unlink()
    with pytest.raises(PkbError, match="gone cannot be read"):
        logits(replace(model, wears=gone))
    assert model.adapter.name == ""
    assert np.array_equal(logits(model), before)


@pytest.mark.parametrize(
    ("kind", "said"),
    [("dora", "is a DoRA adapter"), ("full", "is a full fine-tune"), ("vera", "unknown fine_tune_type 'vera'")],
)
def test_kinds_that_stay_in_place_are_refused_by_name(folder: Path, tmp_path: Path, kind: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        make_adapter(folder, tmp_path / "odd", fine_tune_type=kind)


def test_lora_on_an_embedding_is_refused_by_name(folder: Path, tmp_path: Path) -> None:
    found = make_adapter(folder, tmp_path / "table", keys=("model.embed_tokens",))
    with pytest.raises(PkbError, match="mlx-lm leaves LoRA on Embedding in place"):
        check_fit(opened(folder, tmp_path).model, found)


def test_a_folder_without_an_adapter_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is not an adapter: adapter_config.json is missing"):
        read_adapter(tmp_path, "empty")
    (tmp_path / CONFIG).write_text("{}", "utf-8")
    with pytest.raises(UsageError, match=r"is not an adapter: adapters.safetensors is missing"):
        read_adapter(tmp_path, "empty")
    (tmp_path / CONFIG).write_text('{"peft_type": "LORA"}', "utf-8")
    with pytest.raises(UsageError, match=r"is not an adapter: adapter_model.safetensors is missing"):
        read_adapter(tmp_path, "empty")


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"rank": 0, "scale": 1.0}, "rank must be"),
        ({"rank": 8, "scale": 1.0}, "rank 8 in adapter_config.json, 4 in"),
        ({"rank": 4, "scale": float("nan")}, "scale must be"),
        ({"rank": True, "scale": 1.0}, "rank must be"),
        (None, "rank must be"),
    ],
)
def test_numbers_that_are_none_are_damage(folder: Path, tmp_path: Path, parameters: object, said: str) -> None:
    found = make_adapter(folder, tmp_path / "odd")
    (found.weights.parent / CONFIG).write_text(json.dumps({"lora_parameters": parameters}), "utf-8")
    with pytest.raises(PkbError, match=said):
        read_adapter(found.weights.parent, "odd")


def test_a_file_that_is_cut_off_or_too_long_is_damage(folder: Path, tmp_path: Path) -> None:
    found = make_adapter(folder, tmp_path / "cut")
    whole = found.weights.read_bytes()
    for raw, said in (
        (whole[:-4], "cut off"),
        (whole + b"more", "too long"),
        (whole[:40], "damaged"),
        (b"", "damaged"),
    ):
        found.weights.write_bytes(raw)
        with pytest.raises(PkbError, match=said):
            read_adapter(found.weights.parent, "cut")


def test_other_tensors_are_refused(folder: Path, tmp_path: Path) -> None:
    import mlx.core as mx

    found = make_adapter(folder, tmp_path / "odd")
    factors = mx.load(str(found.weights))
    assert isinstance(factors, dict)
    first = next(name for name in factors if name.endswith(".lora_a"))
    for changed, said in (
        ({**factors, "model.norm.weight": mx.ones((4,))}, "is not a LoRA factor"),
        ({**factors, first: mx.ones((2, 3, 4))}, "is not a matrix"),
        ({**factors, first: mx.ones((64, 5))}, "does not fit its partner"),
        ({name: one for name, one in factors.items() if name != first}, "has no partner"),
    ):
        mx.save_safetensors(str(found.weights), changed)
        with pytest.raises(PkbError, match=said):
            read_adapter(found.weights.parent, "odd")


@examples(40)
@given(st.binary(max_size=200))
def test_junk_is_no_adapter(tmp_path_factory: pytest.TempPathFactory, junk: bytes) -> None:
    path = tmp_path_factory.mktemp("junk") / WEIGHTS
    path.write_bytes(junk)
    (path.parent / CONFIG).write_text(json.dumps({"lora_parameters": {"rank": 4, "scale": 1.0}}), "utf-8")
    with pytest.raises(PkbError, match="junk is damaged"):
        read_adapter(path.parent, "junk")
    (path.parent / CONFIG).write_bytes(junk)
    with pytest.raises(PkbError, match="junk is damaged"):
        read_adapter(path.parent, "junk")


def test_an_adapter_that_was_copied_in_part_is_none(folder: Path, mail: Adapter, tmp_path: Path) -> None:
    home = Home(tmp_path / "home", tmp_path / "cache", tmp_path / "config.toml")
    own = AdapterFolder(home)

    def refuse(_: Adapter) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        own.add(mail.weights.parent, "mail", "base", "model", refuse)
    assert (own.names(), list(home.adapters.iterdir())) == ([], [])
    assert own.add(mail.weights.parent, "mail", "base", "model", lambda _: None).read().digest == mail.digest


@examples(20)
@given(st.binary(max_size=120))
def test_damaged_notes_are_named(tmp_path_factory: pytest.TempPathFactory, junk: bytes) -> None:
    folder = tmp_path_factory.mktemp("home")
    home = Home(folder, folder / "cache", folder / "config.toml")
    (home.adapters / "mail").mkdir(parents=True)
    (home.adapters / "mail" / "adapter.json").write_bytes(junk)
    with pytest.raises(PkbError, match="mail is damaged"):
        AdapterFolder(home).find("mail")
