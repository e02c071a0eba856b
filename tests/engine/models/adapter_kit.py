"""Adapters with random factors, as mlx-lm saves them."""

import json
from pathlib import Path
from typing import Any

from engine.models.adapters import CONFIG, WEIGHTS, Adapter, read_adapter

KEYS = ("self_attn.q_proj", "self_attn.v_proj", "mlp.down_proj")


def make_adapter(
    model: Path,
    folder: Path,
    /,
    *,
    rank: int = 4,
    seed: int = 3,
    scale: float = 2.0,
    layers: int = -1,
    keys: tuple[str, ...] = KEYS,
    **config: Any,
) -> Adapter:
    """Have mlx-lm put LoRA layers on the last layers of a model, and save their factors, random ones."""
    import mlx.core as mx
    from mlx.utils import tree_flatten
    from mlx_lm.tuner.utils import linear_to_lora_layers
    from mlx_lm.utils import load_model

    loaded = load_model(model, lazy=True)[0]
    loaded.freeze()
    count = len(loaded.layers) if layers < 0 else layers
    parameters = {"rank": rank, "scale": scale, "dropout": 0.0, "keys": list(keys)}
    linear_to_lora_layers(loaded, count, parameters)
    mx.random.seed(seed)
    factors = {
        name: mx.random.normal(array.shape) * 0.3
        for name, array in dict(tree_flatten(loaded.trainable_parameters())).items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(folder / WEIGHTS), factors)
    said = {"fine_tune_type": "lora", "num_layers": count, "lora_parameters": parameters, **config}
    (folder / CONFIG).write_text(json.dumps(said), "utf-8")
    return read_adapter(folder, folder.name)
