"""Fine-tunes an adapter with mlx-lm's trainer, on a twin of the loaded model that shares its weights.

An activated adapter is trained on kept tensors: of each example the context is a KV cache, and only the last segment is
computed. Training goes in legs, each of which is stored whole, so that it goes on after an interruption. Knows token
ids, no questions.
"""

import json
import shutil
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any

from engine.models import kv_cache
from engine.models.adapters import ACTIVATED, CONFIG, WEIGHTS, put_factors
from engine.models.kv_cache import Cache
from engine.models.mlx import ATTENTION, Mlx, twin_of
from engine.models.role_adapter import DOWN, UP, sizes_of
from store.errors import PkbError

ACCUMULATED = 4  # examples of an update
_OPTIMIZER, _DONE = "optimizer.safetensors", "done.json"
_LEAST_RATE = 0.1  # of the learning rate, at the end
_WARMUP = 5  # updates

Layers = list[tuple[Any, Any]]  # keys and values of each layer, each (1, heads, tokens, width)


@dataclass(frozen=True, slots=True)
class Start:
    """What a training starts from: factors of an adapter, or fresh ones; and how fast it learns."""

    factors: Path | None
    rank: int
    scale: float
    rate: float
    activated: bool
    updates: int  # planned in all

    @property
    def config(self) -> dict[str, Any]:
        """Return the part of an adapter's config that does not depend on the model."""
        parameters = {"rank": self.rank, "scale": self.scale, "dropout": 0.0}
        return {"fine_tune_type": "lora", "lora_parameters": parameters, ACTIVATED: self.activated}


@dataclass(frozen=True, slots=True)
class Batch:
    """One example: the context as keys and values by layer, none where `ids` hold it; the last `replied` ids count."""

    prefix: Layers
    ids: Sequence[int]
    replied: int


def prefix_of(cache: Cache) -> Layers:
    """Return the keys and values of a sliceable cache, which must stay as it is while they are in use."""
    return [layer.keys_and_values() for layer in cache]


class Trainer:
    """One training in a folder; a folder with legs of the same training is gone on with."""

    def __init__(self, model: Mlx, model_folder: Path, start: Start, folder: Path) -> None:
        self._start, self._folder, self._name = start, folder, model.name
        self._twin = twin_of(model, model_folder)
        self._twin.freeze()
        factors = _factors(start.factors) if start.factors else _fresh(self._twin, start.rank)
        self.done = 0  # updates
        self.loss: float | None = None
        leg = self._last_leg()
        if leg:
            factors = _factors(leg / WEIGHTS)
        put_factors(self._twin, factors, start.rank, start.scale)
        for name in sorted(name.removesuffix(DOWN) for name in factors if name.endswith(DOWN)):
            dict(self._twin.named_modules())[name].unfreeze(keys=["lora_a", "lora_b"], recurse=False)
        self._optimizer = _optimizer(start)
        if leg:
            self._resume(leg)

    def run(self, updates: int, batches: Iterable[Batch]) -> None:
        """Train for so many updates, or as many as are left, and store what was reached.

        What is raised while a batch is made ends the leg, and what it had learnt is lost.
        """
        count = min(updates, self._start.updates - self.done)
        part = self._folder / ".part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(mode=0o700, parents=True)
        self.loss = _train(self._twin, self._optimizer, count * ACCUMULATED, part / WEIGHTS, batches)
        self.done += count
        self._store(part)

    @property
    def files(self) -> Path:
        """Return the folder of the adapter as it is after the last leg."""
        found = self._last_leg()
        assert found, "nothing was trained"
        return found

    def adapter_files(self) -> Path:
        """Return a folder with nothing but the adapter's config and weights."""
        target = self._folder / "adapter"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(mode=0o700)
        shutil.copyfile(self.files / WEIGHTS, target / WEIGHTS)
        (target / CONFIG).write_text(json.dumps(self._config()), "utf-8")
        return target

    def _config(self) -> dict[str, Any]:
        config, names = self._start.config, _adapted_names(self._twin)
        keys = sorted({name.split(".", 3)[-1] for name in names})
        return config | {
            "model": self._name,
            "num_layers": len(self._twin.layers),
            "lora_parameters": config["lora_parameters"] | {"keys": keys},
        }

    def _store(self, part: Path) -> None:
        import mlx.core as mx
        from mlx.utils import tree_flatten

        mx.save_safetensors(str(part / _OPTIMIZER), dict(tree_flatten(self._optimizer.state)))
        (part / _DONE).write_text(json.dumps({"done": self.done, "start": _told(self._start)}), "utf-8")
        before = list(self._legs())
        part.rename(self._folder / f"{self.done:06d}")
        for one in before:
            shutil.rmtree(one, ignore_errors=True)

    def _legs(self) -> Iterator[Path]:
        """Yield the legs of this training, in order; those of another one go."""
        if not self._folder.is_dir():
            return
        for leg in sorted(one for one in self._folder.iterdir() if one.name.isdecimal()):
            try:
                found = json.loads((leg / _DONE).read_text("utf-8"))
            except (OSError, ValueError):
                found = {}
            if isinstance(found, dict) and found.get("start") == _told(self._start):
                yield leg
            else:
                shutil.rmtree(leg, ignore_errors=True)

    def _last_leg(self) -> Path | None:
        return next(iter(list(self._legs())[::-1]), None)

    def _resume(self, leg: Path) -> None:
        import mlx.core as mx
        from mlx.utils import tree_unflatten

        self.done = int(leg.name)
        self._optimizer.init(self._twin.trainable_parameters())
        self._optimizer.state = tree_unflatten(list(_factors(leg / _OPTIMIZER).items()))
        mx.eval(self._optimizer.state)


def _told(start: Start) -> dict[str, Any]:
    return {name: str(value) for name, value in asdict(start).items()}


def _factors(path: Path) -> dict[str, Any]:
    import mlx.core as mx

    try:
        found = mx.load(str(path))
    except (RuntimeError, ValueError) as error:
        raise PkbError(f"cannot read {path.name} of the training", "pkb adapter train") from error
    assert isinstance(found, dict), "safetensors hold names"
    if path.name == _OPTIMIZER:
        return found
    return {name: one.astype(mx.float32) for name, one in found.items()}  # small steps are lost in half precision


def _fresh(twin: Any, rank: int) -> dict[str, Any]:
    """Return factors that change nothing yet, for all linear layers of the model's blocks."""
    import mlx.core as mx
    from mlx.nn.layers.linear import Linear
    from mlx.nn.layers.quantized import QuantizedLinear

    mx.random.seed(0)
    blocks, found = {id(part) for block in twin.layers for part in block.modules()}, dict[str, Any]()
    for name, layer in twin.named_modules():
        if id(layer) in blocks and isinstance(layer, (Linear, QuantizedLinear)) and not hasattr(layer, "to_lora"):
            inputs, outputs = sizes_of(layer)
            found[name + DOWN] = mx.random.uniform(-1, 1, (inputs, rank)) / inputs**0.5
            found[name + UP] = mx.zeros((rank, outputs))
    return found


def _adapted_names(twin: Any) -> list[str]:
    return [name for name, layer in twin.named_modules() if hasattr(layer, "lora_a")]


def _optimizer(start: Start) -> Any:
    from mlx import optimizers

    warmup = min(_WARMUP, start.updates // 4 + 1)
    rest = optimizers.cosine_decay(start.rate, max(1, start.updates - warmup), _LEAST_RATE * start.rate)
    rising = optimizers.linear_schedule(_LEAST_RATE * start.rate, start.rate, warmup)
    return optimizers.AdamW(learning_rate=optimizers.join_schedules([rising, rest], [warmup]), weight_decay=0.0)


class _Losses:
    """What mlx-lm reports to: it keeps the latest loss; mutable."""

    latest = 0.0

    def on_train_loss_report(self, train_info: Mapping[str, Any]) -> None:
        self.latest = float(train_info["train_loss"])

    def on_val_loss_report(self, val_info: Mapping[str, Any]) -> None:
        """Ignore it: there is no validation here."""


def _train(twin: Any, optimizer: Any, iterations: int, weights: Path, batches: Iterable[Batch]) -> float:
    """Have mlx-lm train on so many batches and save the factors; returns the mean loss."""
    from mlx_lm.tuner.trainer import TrainingArgs, train

    losses = _Losses()
    args = TrainingArgs(
        batch_size=1,
        iters=iterations,
        steps_per_report=iterations,
        steps_per_save=iterations + 1,  # once, at the end
        adapter_file=str(weights),
        grad_accumulation_steps=ACCUMULATED,
    )
    made = _arrays(islice(batches, iterations))
    try:
        with redirect_stdout(StringIO()):  # mlx-lm prints a table
            train(twin, optimizer, None, None, args, _loss, lambda **_: made, losses)
    finally:
        made.close()  # which compiles again
    return losses.latest


def _arrays(batches: Iterator[Batch]) -> Generator[tuple[Any, ...], None, None]:
    """Yield batches as the loss takes them.

    Steps are not compiled: each example has its own length, and would be compiled again. Between steps, where contexts
    are computed by the base model, everything is as it always is.
    """
    import mlx.core as mx

    for batch in batches:
        ids, counts = mx.array([batch.ids[:-1]]), len(batch.ids) - 1 - batch.replied
        targets = mx.array([batch.ids[1:]])
        mask = mx.array([[float(place >= counts) for place in range(len(batch.ids) - 1)]])
        with _uncompiled():
            yield batch.prefix, ids, targets, mask


@contextmanager
def _uncompiled() -> Iterator[None]:
    import mlx.core as mx

    mx.disable_compile()
    try:
        yield
    finally:
        mx.enable_compile()


def _loss(twin: Any, prefix: Layers, ids: Any, targets: Any, mask: Any) -> tuple[Any, Any]:
    """Return the mean cross-entropy of the reply's tokens, and how many there are."""
    import mlx.core as mx
    from mlx.nn import losses

    cache = kv_cache.begun(twin, prefix) if prefix else None
    with _differentiable(twin):
        logits = twin(ids, cache=cache)
    entropy = losses.cross_entropy(logits.astype(mx.float32), targets) * mask
    count = mask.sum()
    return entropy.sum() / count, count


@contextmanager
def _differentiable(twin: Any) -> Iterator[None]:
    """Use mlx-lm's attention meanwhile: the one that is faster on a CPU has no gradient."""
    from mlx_lm.models import base

    names = {type(part).__module__ for part in twin.modules()}
    modules = [sys.modules[name] for name in names if hasattr(sys.modules.get(name), ATTENTION)]
    usual: list[Callable[..., Any]] = [getattr(module, ATTENTION) for module in modules]
    for module in modules:
        setattr(module, ATTENTION, base.scaled_dot_product_attention)
    try:
        yield
    finally:
        for module, function in zip(modules, usual, strict=True):
            setattr(module, ATTENTION, function)
