"""LoRA adapters as mlx-lm saves them: read and checked, put on a loaded model at run time and taken off again.

An ordinary adapter acts on every token, so its KV tensors are its own. An activated one (arXiv 2504.12397) acts on the
last segment of a prompt and on what is generated: the tensors of everything before are the base model's. MLX is
imported inside functions, because BLAS must be loaded before it.
"""

import json
import math
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from engine.models.lookup import digest
from engine.models.role_adapter import (
    DOWN,
    UP,
    AttachedAdapter,
    layer_of,
    read_header,
    replace_factors,
    sizes_of,
)
from store.errors import PkbError, UsageError

CONFIG, WEIGHTS = "adapter_config.json", "adapters.safetensors"
ACTIVATED = "activated"  # key of the config, which mlx-lm ignores
MOST_RANK = 512
MOST_BYTES = 4 << 30
_MOST_CONFIG = 1 << 20  # bytes
_MOST_SCALE = 1e4
_BYTES = {"F32": 4, "F16": 2, "BF16": 2}
_NEXT = "pkb adapter list"
_PEFT = ("adapter_model.safetensors", "adapter_model.bin")
_DAMAGED = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, struct.error)


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter that was read and found whole; `digest` names its weights, its scale and where it acts."""

    name: str
    digest: str
    rank: int
    scale: float
    folder: Path
    activated: bool = False

    @property
    def weights(self) -> Path:
        """Return the file of its factors."""
        return self.folder / WEIGHTS


def read_adapter(folder: Path, name: str, notes: Path | None = None) -> Adapter:
    """Read an adapter's config and the header of its weights; UsageError if it is none, PkbError if it is damaged.

    The folder `notes` caches digests.
    """
    config = _config(folder, name)
    rank, scale = _numbers(config, name)
    try:
        ranks = {shape[1] for layer, shape in factors_of(folder / WEIGHTS).items() if layer.endswith(DOWN)}
        weights = digest(folder / WEIGHTS, notes)
    except _DAMAGED as error:
        raise PkbError(f"adapter {name} is damaged: {WEIGHTS}: {_reason(error)}", _NEXT) from error
    if ranks != {rank}:
        raise PkbError(f"adapter {name} is damaged: rank {rank} in {CONFIG}, {_listed(ranks)} in {WEIGHTS}", _NEXT)
    activated = bool(config.get(ACTIVATED))
    said = f"{weights}\n{scale!r}\n{activated}"
    return Adapter(name, blake2b(said.encode(), digest_size=16).hexdigest(), rank, scale, folder, activated)


def _config(folder: Path, name: str) -> Mapping[str, Any]:
    """Return the config of an adapter that pkb can put on a model; UsageError naming a kind that it cannot."""
    path = folder / CONFIG
    if not path.is_file() or not (folder / WEIGHTS).is_file():
        if any((folder / peft).is_file() for peft in _PEFT):
            raise UsageError(f"{name} is an adapter of PEFT; pkb needs mlx-lm's form, with {WEIGHTS}", _NEXT)
        missing = CONFIG if not path.is_file() else WEIGHTS
        raise UsageError(f"{name} is no adapter of mlx-lm: {missing} is missing", "pkb adapter add FOLDER")
    try:
        if path.stat().st_size > _MOST_CONFIG:
            raise ValueError("too long")
        found = json.loads(path.read_text("utf-8"))
        if not isinstance(found, dict):
            raise ValueError("no object")
    except _DAMAGED as error:
        raise PkbError(f"adapter {name} is damaged: {CONFIG}: {_reason(error)}", _NEXT) from error
    _refuse_kind(found.get("fine_tune_type", "lora"), name)
    return found


def _refuse_kind(kind: Any, name: str) -> None:
    if kind == "dora":
        raise UsageError(f"{name} is a DoRA adapter, which cannot be taken off a loaded model; train LoRA", _NEXT)
    if kind == "full":
        raise UsageError(f"{name} is a full fine-tune, not an adapter; save it as a model", "pkb model use FOLDER")
    if kind != "lora":
        raise UsageError(f"{name} has the unknown fine_tune_type {str(kind)[:40]!r}; pkb uses lora", _NEXT)


def _numbers(config: Mapping[str, Any], name: str) -> tuple[int, float]:
    """Return rank and scale; PkbError if they are none."""
    found = config.get("lora_parameters")
    rank, scale = (found.get("rank"), found.get("scale")) if isinstance(found, dict) else (None, None)
    if not isinstance(rank, int) or isinstance(rank, bool) or not 1 <= rank <= MOST_RANK:
        raise PkbError(f"adapter {name} is damaged: {CONFIG}: rank must be 1 to {MOST_RANK}", _NEXT)
    if (
        not isinstance(scale, (int, float))
        or isinstance(scale, bool)
        or not math.isfinite(scale)
        or abs(scale) > _MOST_SCALE
    ):
        raise PkbError(f"adapter {name} is damaged: {CONFIG}: scale must be a number", _NEXT)
    return rank, float(scale)


def factors_of(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor in an adapter's weights; ValueError if the file is not wholly made of factors."""
    with path.open("rb") as file:
        header = read_header(file)
        rest = path.stat().st_size - file.tell()
    header.pop("__metadata__", None)
    if not 0 < rest <= MOST_BYTES:
        raise ValueError("too large" if rest > 0 else "no tensors")
    end = 0
    for start, stop, size in sorted((*map(int, one["data_offsets"]), _size(one)) for one in header.values()):
        if start != end or stop - start != size:
            raise ValueError("the tensors do not fit the file")
        end = stop
    if end != rest:
        raise ValueError("the file is cut off" if end > rest else "the file is too long")
    shapes = {name: tuple(map(int, one["shape"])) for name, one in header.items()}
    for name, shape in shapes.items():
        other = _partner(name)
        if other not in shapes:
            raise ValueError(f"{name[:80]} has no partner")
        if len(shape) != 2:
            raise ValueError(f"{name[:80]} is no matrix")
        if name.endswith(DOWN) and shape[1] != shapes[other][0]:
            raise ValueError(f"{name[:80]} does not fit its partner")
    return shapes


def _size(entry: Mapping[str, Any]) -> int:
    if entry["dtype"] not in _BYTES:
        raise ValueError(f"dtype {str(entry['dtype'])[:20]}")
    if any(side < 1 for side in entry["shape"]):
        raise ValueError("an empty tensor")
    return _BYTES[entry["dtype"]] * math.prod(map(int, entry["shape"]))


def _partner(name: str) -> str:
    for suffix, other in ((DOWN, UP), (UP, DOWN)):
        if name.endswith(suffix):
            return name.removesuffix(suffix) + other
    raise ValueError(f"{name[:80]} is no factor of LoRA")


def check_fit(model: Any, adapter: Adapter) -> None:
    """Raise PkbError unless the layers of a model, loaded or opened lazily, have the shapes of an adapter."""
    layers, shapes = dict(model.named_modules()), factors_of(adapter.weights)
    for name in (name.removesuffix(DOWN) for name in shapes if name.endswith(DOWN)):
        problem = _misfit(layers.get(name), shapes[name + DOWN][0], shapes[name + UP][1])
        if problem:
            raise PkbError(f"adapter {adapter.name} does not fit the model: {name[:80]}: {problem}", "pkb model list")


def _misfit(layer: Any, inputs: int, outputs: int) -> str:
    """Return why factors do not fit a layer; empty if they do."""
    from mlx.nn.layers.linear import Linear
    from mlx.nn.layers.quantized import QuantizedLinear

    if layer is None:
        return "there is no such layer"
    inner = _base_layer(layer)
    if not isinstance(inner, (Linear, QuantizedLinear)) or hasattr(inner, "to_lora"):
        kind = type(inner).__name__
        return f"mlx-lm leaves LoRA on {kind} in place, so pkb does not use it; train linear layers"
    there = sizes_of(inner)
    return "" if there == (inputs, outputs) else f"{inputs} x {outputs}, where the model has {there[0]} x {there[1]}"


def _base_layer(layer: Any) -> Any:
    """Return the base model's own layer, whatever wraps it."""
    from mlx_lm.tuner.lora import LoRALinear

    inner = layer_of(layer)
    return inner.linear if isinstance(inner, LoRALinear) else inner


def load_factors(adapter: Adapter) -> dict[str, Any]:
    """Read an adapter's factors by name; PkbError if a file is missing, damaged, or another than was read."""
    import mlx.core as mx

    try:
        found = mx.load(str(adapter.weights))
        if not isinstance(found, dict):
            raise ValueError("no set of tensors")
        mx.eval(list(found.values()))
    except (RuntimeError, ValueError) as error:
        raise PkbError(f"adapter {adapter.name} cannot be read: {_reason(error)}", _NEXT) from error
    return found


def wear(model: Any, adapter: Adapter | None) -> None:
    """Put an ordinary adapter on a loaded mlx-lm model in place of the one it wears; None restores the base exactly.

    Layers are wrapped, never changed: the base's own layers stand in their places again afterwards. PkbError, and the
    base alone, if the adapter cannot be read or does not fit.
    """
    if worn(model) == adapter:
        return
    if adapter is None:
        _take_off(model)
        return
    try:
        factors = load_factors(adapter)
        check_fit(model, adapter)
    except PkbError:
        _take_off(model)
        raise
    _put_on(model, factors, adapter)


def activate(model: Any, attached: AttachedAdapter, adapter: Adapter | None) -> None:
    """Have an activated adapter act in place of the model's role adapter, if it has one; None for that one again.

    PkbError, and nothing changed, if the adapter cannot be read or does not fit.
    """
    name = adapter.digest if adapter else ""
    if attached.name == name:
        return
    pairs = dict[str, tuple[Any, Any]]()
    if adapter:
        check_fit(model, adapter)
        factors = load_factors(adapter)
        layers = [name.removesuffix(DOWN) for name in factors if name.endswith(DOWN)]
        pairs = {layer: (factors[layer + DOWN], factors[layer + UP] * adapter.scale) for layer in layers}
    replace_factors(model, attached, name, pairs)


def worn(model: Any) -> Adapter | None:
    """Return the ordinary adapter that a model wears."""
    found: Adapter | None = getattr(model, "worn_adapter", None)
    return found


@contextmanager
def adapted(model: Any, adapter: Adapter | None) -> Iterator[None]:
    """Have a loaded mlx-lm model wear an ordinary adapter meanwhile, and what it wore before afterwards."""
    before = worn(model)
    wear(model, adapter)
    try:
        yield
    finally:
        wear(model, before)


def _put_on(model: Any, factors: Mapping[str, Any], adapter: Adapter) -> None:
    from mlx.utils import tree_unflatten
    from mlx_lm.tuner.lora import LoRALinear

    layers, wrapped = dict(model.named_modules()), list[tuple[str, Any]]()
    wanted = {name.removesuffix(DOWN) for name in factors if name.endswith(DOWN)}
    for name, layer in layers.items():
        if isinstance(layer, LoRALinear) and _own_name(name) not in wanted:
            wrapped.append((name, layer.linear))
    for name in wanted:
        place = name if layer_of(layers[name]) is layers[name] else f"{name}.inner"
        lora = layers[place] if isinstance(layers[place], LoRALinear) else _wrapper(layers[place], adapter.rank)
        lora.lora_a, lora.lora_b = _in_dtype(lora.linear, factors[name + DOWN], factors[name + UP])
        lora.scale = adapter.scale
        wrapped.append((place, lora))
    if wrapped:
        model.update_modules(tree_unflatten(wrapped))
    model.worn_adapter = adapter


def _own_name(place: str) -> str:
    """Return the name of a layer in the model as it was loaded."""
    return place.removesuffix(".inner")


def _wrapper(linear: Any, rank: int) -> Any:
    from mlx_lm.tuner.lora import LoRALinear

    found = LoRALinear.from_base(linear, r=rank)
    found.eval()
    return found


def _in_dtype(linear: Any, *factors: Any) -> tuple[Any, ...]:
    """Return factors as the layer computes: in single precision where it does, else as they are stored."""
    import mlx.core as mx

    single = linear.weight.dtype == mx.float32
    found = tuple(one.astype(mx.float32) if single else one for one in factors)
    mx.eval(found)
    return found


def _take_off(model: Any) -> None:
    from mlx_lm.tuner.utils import remove_lora_layers

    remove_lora_layers(model)
    model.worn_adapter = None


def _reason(error: BaseException) -> str:
    """Return an error in a few words, without a path."""
    if isinstance(error, OSError):
        return (error.strerror or type(error).__name__).lower()
    return " ".join(str(error).split())[:120] or type(error).__name__


def _listed(ranks: set[int]) -> str:
    return " and ".join(map(str, sorted(ranks)))
