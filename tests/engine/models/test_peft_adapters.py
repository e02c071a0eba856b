"""LoRA adapters of PEFT: read with its scaling, added to a model as W + scale * B @ A, or refused with the reason."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.models.adapters import CONFIG, PEFT_WEIGHTS, WEIGHTS, Adapter, AdapterFolder, KeptAdapter, check_fit, wear
from engine.models.load import load
from engine.models.mlx import Mlx
from store.errors import PkbError, UsageError
from store.home import Home
from tests.engine.models.shapes import KINDS, make

RANK, ALPHA = 4, 12.0
LAYERS = ("self_attn.q_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.down_proj")
IDS = [[5, 9, 17, 44, 3, 120, 77]]


@pytest.fixture(scope="module", params=["llama", "qwen3"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("models") / request.param, KINDS[request.param])


def opened(folder: Path, cache: Path) -> Mlx:
    return load(folder, name=folder.name, cache=cache, memory_share=0.9)


def saved_by_peft(model: Path, folder: Path, /, dtype: str = "float32", **config: Any) -> dict[str, np.ndarray]:
    """Save random factors as PEFT does, and return them by name, as they are after rounding to their dtype."""
    import mlx.core as mx
    from mlx_lm.utils import load_model

    factors, draw = dict[str, Any](), np.random.default_rng(3)
    for name, layer in load_model(model, lazy=True)[0].named_modules():
        if name.endswith(LAYERS):
            outputs, inputs = layer.weight.shape
            for part, shape in (("lora_A", (RANK, inputs)), ("lora_B", (outputs, RANK))):
                values = mx.array(draw.normal(0, 0.2, shape).astype(np.float32))
                factors[f"base_model.model.{name}.{part}.weight"] = values.astype(getattr(mx, dtype))
    folder.mkdir(parents=True)
    mx.save_safetensors(str(folder / PEFT_WEIGHTS), factors)
    said = {
        "peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "base_model_name_or_path": "somebody/else", "bias": "none",
        "use_dora": False, "use_rslora": False, "modules_to_save": None, "rank_pattern": {}, "init_lora_weights": True,
    }  # fmt: skip
    (folder / CONFIG).write_text(json.dumps(said | config), "utf-8")
    return {name: np.array(one.astype(mx.float32)) for name, one in factors.items()}


def added(source: Path, home: Path, check: Any = lambda _: None) -> KeptAdapter:
    return AdapterFolder(Home(home, home / "cache", home / "config.toml")).add(source, "mail", "base", "model", check)


def logits(model: Mlx) -> np.ndarray:
    import mlx.core as mx

    return np.array(model.model(mx.array(IDS)))


@pytest.mark.parametrize(("config", "scale"), [({}, ALPHA / RANK), ({"use_rslora": True}, ALPHA / RANK**0.5)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_model_computes_with_it_as_with_its_product_in_the_weights(
    folder: Path, tmp_path: Path, config: dict[str, Any], scale: float, dtype: str
) -> None:
    import mlx.core as mx

    factors = saved_by_peft(folder, tmp_path / "peft", dtype, **config)
    adapter = added(tmp_path / "peft", tmp_path / "home").read()
    assert (adapter.rank, adapter.scale, adapter.activated) == (RANK, scale, False)
    merged, model = opened(folder, tmp_path), opened(folder, tmp_path)
    base = logits(model)
    for name, layer in merged.model.named_modules():
        if name.endswith(LAYERS):
            down, up = (factors[f"base_model.model.{name}.{part}.weight"] for part in ("lora_A", "lora_B"))
            layer.weight = mx.array(np.array(layer.weight) + np.float32(scale) * (up @ down))
    wanted = logits(merged)
    wear(model.model, model.adapter, adapter)
    found = logits(model)
    assert np.abs(wanted - base).max() > 0.1
    assert np.abs(found - wanted).max() < 1e-4 * np.abs(wanted).max()
    wear(model.model, model.adapter, None)
    assert np.array_equal(logits(model), base)


def test_it_is_kept_in_the_form_of_mlx_lm(folder: Path, tmp_path: Path) -> None:
    import mlx.core as mx

    factors, checked = saved_by_peft(folder, tmp_path / "peft"), list[Adapter]()
    kept = added(tmp_path / "peft", tmp_path / "home", checked.append)
    assert {path.name for path in kept.files.iterdir()} == {CONFIG, WEIGHTS}
    assert json.loads((kept.files / CONFIG).read_text("utf-8"))["model"] == "somebody/else"
    found: Any = mx.load(str(kept.files / WEIGHTS))
    assert len(found) == len(factors)
    name = "model.layers.0.mlp.down_proj"
    down, up = (factors[f"base_model.model.{name}.{part}.weight"] for part in ("lora_A", "lora_B"))
    assert np.array_equal(np.array(found[f"{name}.lora_a"]), down.T)
    assert np.array_equal(np.array(found[f"{name}.lora_b"]), up.T)
    check_fit(opened(folder, tmp_path).model, kept.read())
    assert [one.rank for one in checked] == [RANK]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"use_dora": True}, "it sets use_dora"),
        ({"modules_to_save": ["lm_head"]}, "it sets modules_to_save"),
        ({"trainable_token_indices": [1, 2]}, "it sets trainable_token_indices"),
        ({"rank_pattern": {"q_proj": 8}}, "it sets rank_pattern"),
        ({"alpha_pattern": {"q_proj": 8}}, "it sets alpha_pattern"),
        ({"bias": "lora_only"}, "it sets bias"),
        ({"lora_bias": True}, "it sets lora_bias"),
        ({"init_lora_weights": "pissa_niter_4"}, r"its training changed the base model \(pissa_niter_4\)"),
        ({"alora_invocation_tokens": [7]}, "it sets alora_invocation_tokens"),
        ({"peft_type": "IA3"}, "its kind is IA3, not LORA"),
    ],
)
def test_kinds_that_are_more_than_factors_are_refused_with_the_reason(
    folder: Path, tmp_path: Path, config: dict[str, Any], said: str
) -> None:
    saved_by_peft(folder, tmp_path / "peft", **config)
    with pytest.raises(UsageError, match=f"pkb cannot use mail, an adapter of PEFT: .*{said}"):
        added(tmp_path / "peft", tmp_path / "home")
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("config", "said"),
    [({"r": 8}, "rank 8 in"), ({"r": None}, "rank must be"), ({"lora_alpha": "many"}, "scale must be")],
)
def test_numbers_of_another_kind_are_damage(folder: Path, tmp_path: Path, config: dict[str, Any], said: str) -> None:
    saved_by_peft(folder, tmp_path / "peft", **config)
    with pytest.raises(PkbError, match=said):
        added(tmp_path / "peft", tmp_path / "home")


def test_files_that_are_no_pairs_of_factors_are_damage(folder: Path, tmp_path: Path) -> None:
    import mlx.core as mx

    path = tmp_path / "peft" / PEFT_WEIGHTS
    saved_by_peft(folder, path.parent)
    loaded: Any = mx.load(str(path))
    whole, first = path.read_bytes(), dict[str, Any](loaded)
    name = next(iter(first)).partition(".lora_")[0]
    odd = {
        "is not a LoRA factor": first | {"base_model.model.lm_head.weight": mx.zeros((4, 4))},
        "has no partner": {one: array for one, array in first.items() if one != f"{name}.lora_B.weight"},
        "does not fit its partner": first | {f"{name}.lora_B.weight": mx.zeros((64, RANK + 1))},
    }
    for number, (said, factors) in enumerate(odd.items()):
        mx.save_safetensors(str(path), factors)
        with pytest.raises(PkbError, match=said):
            added(path.parent, tmp_path / f"home{number}")
    path.write_bytes(whole[:-9])
    with pytest.raises(PkbError, match="cut off"):
        added(path.parent, tmp_path / "cut")
    assert not list(tmp_path.glob("*/mail"))
