"""Adapted layers of a loaded model, the files of their factors, and what identifies the model that these are for.

MLX is imported inside functions, because BLAS must be loaded before it.
"""

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from engine.models.lookup import CONFIG, INDEX

BASE, DOWN, UP = "base", ".lora_a", ".lora_b"  # metadata key; suffixes of (inputs, rank) and (rank, outputs)
_NORM = "model.norm.weight"
MOST_BYTES = 4 << 30  # of factors
_HEADER = 1 << 24  # bytes; a longer one is damaged
_SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "vocab_size")
_DAMAGED = (OSError, ValueError, LookupError, TypeError, AttributeError, struct.error)


def base_in(path: Path) -> str:
    """Return the identifier of the model that an adapter's file names; empty if there is none."""
    try:
        with path.open("rb") as file:
            return str(read_header(file)["__metadata__"][BASE])
    except _DAMAGED:
        return ""


def base_of(folder: Path) -> str:
    """Return an identifier of a model that does not depend on how its weights are quantized; empty if there is none.

    It is made of the sizes of the model and its final norm, which all quantized forms leave as it is.
    """
    try:
        config = json.loads((folder / CONFIG).read_text("utf-8"))
        sizes = [int(config[name]) for name in _SIZES]
        index, file = folder / INDEX, "model.safetensors"
        if index.is_file():
            file = str(json.loads(index.read_text("utf-8"))["weight_map"][_NORM])
        norm = _bfloat16s(folder / file, _NORM)
    except _DAMAGED:
        return ""
    return blake2b(struct.pack(f"<{len(sizes)}q", *sizes) + norm, digest_size=16).hexdigest()


def read_header(file: Any) -> dict[str, Any]:
    """Read the header of a safetensors file; ValueError if it is damaged."""
    (length,) = struct.unpack("<Q", file.read(8))
    if length > _HEADER:
        raise ValueError("the header is too long")
    found = json.loads(file.read(length))
    if not isinstance(found, dict):
        raise ValueError("the header is not an object")
    return found


def factors_of(path: Path, down: str = DOWN, up: str = UP) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor in an adapter's weights; ValueError if the file is not wholly made of factors.

    The names of factors end in `down` and `up`, in the order in which they are multiplied.
    """
    with path.open("rb") as file:
        header = read_header(file)
        rest = path.stat().st_size - file.tell()
    header.pop("__metadata__", None)
    if not 0 < rest <= MOST_BYTES:
        raise ValueError("too large" if rest > 0 else "no tensors")
    if (end := max(int(one["data_offsets"][1]) for one in header.values())) != rest:
        raise ValueError("the file is cut off" if end > rest else "the file is too long")
    shapes = {name: tuple(map(int, one["shape"])) for name, one in header.items()}
    for name, shape in shapes.items():
        suffix, partner = next(((one, two) for one, two in ((down, up), (up, down)) if name.endswith(one)), ("", ""))
        if not suffix:
            raise ValueError(f"{name[:80]} is not a LoRA factor")
        if (other := name.removesuffix(suffix) + partner) not in shapes:
            raise ValueError(f"{name[:80]} has no partner")
        if len(shape) != 2:
            raise ValueError(f"{name[:80]} is not a matrix")
        if name.endswith(down) and shape[1] != shapes[other][0]:
            raise ValueError(f"{name[:80]} does not fit its partner")
    return shapes


def _bfloat16s(path: Path, name: str) -> bytes:
    """Return the values of a tensor, each as its upper 16 bits in single precision."""
    with path.open("rb") as file:
        entry = read_header(file)[name]
        start, end = entry["data_offsets"]
        file.seek(file.tell() + start)
        raw = file.read(end - start)
    if entry["dtype"] == "BF16":
        return raw
    if entry["dtype"] == "F16":
        count = len(raw) // 2
        raw = struct.pack(f"<{count}f", *struct.unpack(f"<{count}e", raw))
    return b"".join(raw[at + 2 : at + 4] for at in range(0, len(raw), 4))


Factors = tuple[Any, Any, float]  # down, up, and the scale of their product


@dataclass(slots=True)
class AttachedAdapter:
    """The adapter inside a loaded model, by its digest `name`; it acts as long as it `acts`, or `always`; mutable."""

    acts: bool = False
    always: bool = False
    name: str = ""


def sizes_of(linear: Any) -> tuple[int, int]:
    """Return the inputs and outputs of a linear layer."""
    outputs, inputs = linear.weight.shape
    return (inputs * 32 // linear.bits if hasattr(linear, "bits") else inputs), outputs  # packed into words of 32 bits


def replace_factors(model: Any, attached: AttachedAdapter, name: str, factors: Mapping[str, Factors]) -> None:
    """Have factors act, by layer, in place of those before; none for the base model. `name` is their digest."""
    from mlx.utils import tree_unflatten

    layers, kind = dict(model.named_modules()), _layer_type()
    changed = [(place, layer.inner) for place, layer in layers.items() if isinstance(layer, kind)]
    changed += [(place, kind(layer_of(layers[place]), one, attached)) for place, one in factors.items()]
    if changed:
        model.update_modules(tree_unflatten(list(dict(changed).items())))
    attached.name = name


def layer_of(layer: Any) -> Any:
    """Return the base model's layer inside one that is adapted; any other layer as it is."""
    return layer.inner if isinstance(layer, _layer_type()) else layer


@cache
def _layer_type() -> Any:
    """Return the class of a layer that adds `scale x down up` to its output while the adapter acts."""
    from mlx.nn.layers.base import Module

    class Adapted(Module):
        def __init__(self, inner: Any, factors: Factors, attached: AttachedAdapter) -> None:
            begin: Callable[[], None] = super().__init__  # which MLX gives no types
            begin()
            self.inner = inner
            # Names with an underscore are not parameters of the model.
            self._attached, self._factors = attached, factors

        def __call__(self, x: Any) -> Any:
            found = self.inner(x)
            if not (self._attached.acts or self._attached.always):
                return found
            down, up, scale = self._factors
            if down.dtype != x.dtype:
                down, up = down.astype(x.dtype), up.astype(x.dtype)
                self._factors = down, up, scale
            return found + (scale * ((x @ down) @ up)).astype(x.dtype)

    return Adapted
