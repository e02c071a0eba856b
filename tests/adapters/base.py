"""The frozen model in torch: it reads a context once, and an adapter acts on what is said behind it.

Activated LoRA (arXiv 2504.12397): keys and values of the context are the base model's, so its pass needs no gradient
and all tasks behind it share it. Llama's architecture, as mlx-lm runs it afterwards.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch.nn import functional

from engine.models.adapters import base_of

Tensor = Any
Factors = dict[str, tuple[Tensor, Tensor]]  # of each adapted matrix: down (rank, in) and up (out, rank)
Past = list[tuple[Tensor, Tensor]]  # keys and values of each layer: (groups, length, part)
MATRICES = (
    "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
    "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a model, from its config."""

    layers: int
    width: int
    heads: int
    groups: int
    theta: float
    epsilon: float

    @property
    def part(self) -> int:
        """Return the width of a head."""
        return self.width // self.heads


@dataclass(frozen=True, slots=True)
class _Sight:
    """What the tokens of a pass see: the past and those that the mask (length, past + length) names, or causally all.

    Keys and values are appended to `keep`.
    """

    past: Past | None
    keep: Past | None
    mask: Tensor | None

    def attend(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Return what is seen, (length, width)."""
        if self.keep is not None:
            self.keep.append((keys, values))
        if self.past is not None:
            old = self.past[layer]
            keys, values = torch.cat((old[0], keys), dim=1), torch.cat((old[1], values), dim=1)
        # Plain products: on a CPU torch's own attention takes three times as long with a mask.
        groups, length, seen = len(keys), queries.shape[1], keys.shape[1]
        each = (queries / math.sqrt(queries.shape[-1])).reshape(groups, -1, queries.shape[-1])
        mask = torch.ones(length, seen, dtype=torch.bool).tril() if self.mask is None else self.mask
        scores = (each @ keys.transpose(-1, -2)).unflatten(1, (-1, length)).masked_fill(~mask, -torch.inf)
        found = scores.softmax(-1).flatten(1, 2) @ values
        return found.reshape(-1, length, queries.shape[-1]).transpose(0, 1).flatten(1)


class Base:
    """The weights, in bfloat16."""

    def __init__(self, folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text("utf-8"))
        self.name = base_of(folder)
        self.shape = Shape(
            config["num_hidden_layers"],
            config["hidden_size"],
            config["num_attention_heads"],
            config["num_key_value_heads"],
            config["rope_theta"],
            config["rms_norm_eps"],
        )
        self._weights = _weights(folder)

    def size(self, layer: int, name: str) -> tuple[int, int]:
        """Return the outputs and inputs of a matrix."""
        return tuple(self._weights[f"model.layers.{layer}.{name}.weight"].shape)

    def read(self, context: Tensor) -> Past:
        """Return the keys and values of a context, (length,)."""
        past: Past = []
        with torch.no_grad():
            self._run(context, torch.arange(len(context)), _Sight(None, past, None), None)
        return past

    def hidden(self, said: Sequence[Sequence[int]], past: Past, factors: Factors, scale: float) -> Tensor:
        """Return the last hidden states of what is said, one row a token: (sum of lengths, width).

        Each task sees the past and, causally, itself.
        """
        before = past[0][0].shape[1]
        owner = torch.tensor([number for number, one in enumerate(said) for _ in one])
        places = torch.tensor([before + at for one in said for at in range(len(one))])
        own = (owner[:, None] == owner) & (places[:, None] >= places)
        mask = torch.cat((torch.ones(len(owner), before, dtype=torch.bool), own), dim=1)
        ids = torch.tensor([id for one in said for id in one])
        return self._run(ids, places, _Sight(past, None, mask), factors, scale)

    def logits(self, states: Tensor) -> Tensor:
        """Return the scores of all tokens, in float32."""
        return (states @ self._weights["model.embed_tokens.weight"].T).float()

    def _run(self, ids: Tensor, places: Tensor, sight: _Sight, factors: Factors | None, scale: float = 1.0) -> Tensor:
        shape = self.shape
        turn = _rotation(shape, places)
        x = functional.embedding(ids, self._weights["model.embed_tokens.weight"])
        for layer in range(shape.layers):
            own = f"model.layers.{layer}."
            normed = self._norm(x, f"{own}input_layernorm")
            queries, keys, values = (
                self._heads(self._linear(normed, f"{own}self_attn.{name}_proj", factors, scale)) for name in "qkv"
            )
            seen = sight.attend(layer, _turned(queries, turn), _turned(keys, turn), values)
            x = x + self._linear(seen, f"{own}self_attn.o_proj", factors, scale)
            normed = self._norm(x, f"{own}post_attention_layernorm")
            gate = functional.silu(self._linear(normed, f"{own}mlp.gate_proj", factors, scale))
            up = self._linear(normed, f"{own}mlp.up_proj", factors, scale)
            x = x + self._linear(gate * up, f"{own}mlp.down_proj", factors, scale)
        return self._norm(x, "model.norm")

    def _linear(self, x: Tensor, name: str, factors: Factors | None, scale: float) -> Tensor:
        found = x @ self._weights[f"{name}.weight"].T
        if factors is None or name not in factors:
            return found
        down, up = factors[name]
        return found + scale * ((x @ down.to(x.dtype).T) @ up.to(x.dtype).T)

    def _norm(self, x: Tensor, name: str) -> Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.shape.epsilon)
        return wide.to(x.dtype) * self._weights[f"{name}.weight"]

    def _heads(self, x: Tensor) -> Tensor:
        """Return (heads, length, part)."""
        return x.unflatten(-1, (-1, self.shape.part)).transpose(0, 1)


def _weights(folder: Path) -> dict[str, Tensor]:
    """Read the weights of a folder; those that MLX quantized are unpacked."""
    found, plain = load_file(str(folder / "model.safetensors")), dict[str, Tensor]()
    for name, one in found.items():
        scales = found.get(f"{name.removesuffix('.weight')}.scales")
        if name.endswith(".weight"):
            offsets = found.get(f"{name.removesuffix('.weight')}.biases")
            unpacked = one if scales is None else _unpacked(one, scales, offsets)
            plain[name] = unpacked.to(torch.bfloat16)
    return plain


def _unpacked(words: Tensor, scales: Tensor, offsets: Tensor) -> Tensor:
    """Return the numbers of a matrix that MLX quantized, in words of 32 bits; each 32 numbers share a scale."""
    bits = words.shape[-1] // scales.shape[-1]
    shifts = torch.arange(0, 32, bits)
    steps = ((words.to(torch.int64)[..., None] >> shifts) & (2**bits - 1)).flatten(-2)
    groups = steps.unflatten(-1, (scales.shape[-1], -1)).float()
    return (groups * scales.float()[..., None] + offsets.float()[..., None]).flatten(-2)


def fresh(base: Base, rank: int) -> Factors:
    """Draw new factors, the same in all runs; the upper ones are zero, so that an adapter begins as the base model."""
    generator = torch.Generator().manual_seed(0)
    made: Factors = {}
    for layer in range(base.shape.layers):
        for name in MATRICES:
            outputs, inputs = base.size(layer, name)
            down = torch.randn(rank, inputs, generator=generator) / math.sqrt(inputs)
            made[f"model.layers.{layer}.{name}"] = (down.requires_grad_(), torch.zeros(outputs, rank).requires_grad_())
    return made


def _rotation(shape: Shape, places: Tensor) -> tuple[Tensor, Tensor]:
    speeds = shape.theta ** (-torch.arange(0, shape.part, 2) / shape.part)
    angles = places[:, None] * speeds
    return angles.cos(), angles.sin()


def _turned(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """Rotate the halves of each head against each other by place."""
    cos, sin = (one.to(x.dtype) for one in turn)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
