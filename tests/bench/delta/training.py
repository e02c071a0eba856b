"""LoRA adapters for measurements: trained on the text of a folder by mlx-lm's own trainer, and worn by a loaded model.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.delta.training MODEL TEXT --to FOLDER [--layers N] [--steps N]`.
MODEL is a folder, or nano; TEXT holds mail, or meetings with one utterance a line. Prints the loss on held-out windows
of the text before and after, and the norm of the adapter's change beside that of the weights.
"""

import json
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from engine.models.lookup import TOKENS
from engine.models.mlx import Mlx
from engine.models.runtime import load_blas
from engine.models.types import open_tokenizer
from tests.bench.home import NANO

RANK, SCALE, LAYERS = 8, 20.0, 16  # mlx-lm's defaults
HELD_OUT = 8  # windows of the text that are not trained on


@dataclass(frozen=True, slots=True)
class Recipe:
    """How an adapter is trained; `layers` counts from the top, as in mlx-lm."""

    layers: int = LAYERS
    steps: int = 100
    rate: float = 1e-4
    batch: int = 2
    window: int = 192  # tokens
    seed: int = 0


def main() -> None:
    """Train an adapter and print what it changed."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("text", type=Path)
    parser.add_argument("--to", type=Path, required=True)
    usual = Recipe()
    parser.add_argument("--layers", type=int, default=usual.layers)
    parser.add_argument("--steps", type=int, default=usual.steps)
    parser.add_argument("--rate", type=float, default=usual.rate)
    given = parser.parse_args()
    load_blas()  # before MLX, whose own is slow
    recipe = Recipe(given.layers, given.steps, given.rate)
    folder = NANO if given.model == "nano" else Path(given.model)
    ids = text_ids(folder, given.text, recipe.window * (recipe.batch * recipe.steps + HELD_OUT))
    found = train(folder, ids, recipe, given.to)
    print(json.dumps({"model": Path(given.model).name, "adapter": given.to.name} | found))


def text_ids(folder: Path, text: Path, count: int) -> list[int]:
    """Return at most so many token ids of the files below a folder of text, headers of mail left out."""
    tokenizer, found = open_tokenizer(folder / TOKENS), list[int]()
    for path in sorted(path for path in text.rglob("*") if path.is_file() and path.name != "questions.jsonl"):
        whole = path.read_text("utf-8", errors="replace")
        found += tokenizer.encode(whole.partition("\n\n")[2] or whole, add_special_tokens=False).ids
        if len(found) >= count:
            break
    return found[:count]


def train(folder: Path, ids: Sequence[int], recipe: Recipe, to: Path) -> dict[str, Any]:
    """Train an adapter on windows of token ids and save it as mlx-lm does; returns losses and norms."""
    import mlx.core as mx
    import numpy as np
    from mlx.optimizers import Adam
    from mlx_lm.tuner.trainer import TrainingArgs, evaluate
    from mlx_lm.tuner.trainer import train as run
    from mlx_lm.tuner.utils import linear_to_lora_layers
    from mlx_lm.utils import dequantize_model, load_model

    np.random.seed(recipe.seed)
    mx.random.seed(recipe.seed)
    model = load_model(folder)[0]  # without pkb's attention, which has no gradient
    model.set_dtype(mx.float32)
    dequantize_model(model)
    model.set_dtype(mx.float32)
    model.freeze()
    shape = {"rank": RANK, "scale": SCALE, "dropout": 0.0}
    linear_to_lora_layers(model, recipe.layers, shape)
    windows = [(list(ids[at : at + recipe.window]), 0) for at in range(0, len(ids) - recipe.window + 1, recipe.window)]
    held_out, windows = windows[:HELD_OUT], windows[HELD_OUT:]
    before = evaluate(model, held_out, recipe.batch, HELD_OUT // recipe.batch, recipe.window)
    to.mkdir(parents=True, exist_ok=True)
    arguments = TrainingArgs(
        batch_size=recipe.batch,
        iters=recipe.steps,
        steps_per_report=max(1, recipe.steps // 4),
        max_seq_length=recipe.window,
        adapter_file=str(to / "adapters.safetensors"),
    )
    run(model, Adam(learning_rate=recipe.rate), windows, args=arguments)
    about = {"fine_tune_type": "lora", "num_layers": recipe.layers, "lora_parameters": shape}
    (to / "adapter_config.json").write_text(json.dumps(about))
    after = evaluate(model, held_out, recipe.batch, HELD_OUT // recipe.batch, recipe.window)
    norms = {"change_of_weights": round(median(changes(model)), 4)}
    return {"loss_before": round(float(before), 3), "loss_after": round(float(after), 3)} | norms


def changes(model: Any) -> Iterator[float]:
    """Yield the norm of each adapted layer's change as a share of that of its weights."""
    import mlx.core as mx

    for _, part in model.named_modules():
        if hasattr(part, "lora_a"):
            change = part.scale * (part.lora_a @ part.lora_b)
            yield float(mx.linalg.norm(change) / mx.linalg.norm(part.linear.weight))


@contextmanager
def worn(model: Mlx, folder: Path | None) -> Iterator[Mlx]:
    """Have a loaded model wear an adapter; None: nothing."""
    from mlx_lm.tuner.utils import load_adapters, remove_lora_layers

    if folder is None:
        yield model
        return
    load_adapters(model.model, str(folder))
    try:
        yield model
    finally:
        remove_lora_layers(model.model)


if __name__ == "__main__":
    main()
