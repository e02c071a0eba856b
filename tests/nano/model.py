"""A Llama-architecture decoder in a page of torch, for training; mlx-lm runs it afterwards. Knows no data."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from tests.nano.batches import Batch

Tensor = Any
Weights = dict[str, Tensor]  # named as in the files that mlx-lm reads
EPSILON = 1e-5


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of the model: 968,320 parameters as they stand."""

    vocabulary: int = 1024
    width: int = 128
    layers: int = 6
    heads: int = 4
    hidden: int = 192
    theta: float = 1e6  # most of a head's places turn slowly: they compare words over hundreds of tokens

    @property
    def part(self) -> int:
        """Return the width of a head."""
        return self.width // self.heads


def fresh(shape: Shape, seed: int) -> Weights:
    """Draw new weights; some heads begin by copying, which would else take most of a short training to appear."""
    generator = torch.Generator().manual_seed(seed)

    def normal(rows: int, columns: int, scale: float) -> Tensor:
        return torch.randn(rows, columns, generator=generator) * scale

    basis = torch.linalg.qr(normal(shape.width, shape.width, 1.0))[0].T
    shared, words = basis[0], normal(shape.vocabulary, shape.width, 0.05)
    weights = {"model.embed_tokens.weight": words - (words @ shared)[:, None] * shared + 0.4 * shared}
    for layer in range(shape.layers):
        for name, (rows, columns) in _matrices(shape).items():
            late = 2 * math.sqrt(2 * shape.layers) if name.endswith(("o_proj", "down_proj")) else 1.0
            weights[f"model.layers.{layer}.{name}.weight"] = normal(rows, columns, 0.7 / math.sqrt(columns) / late)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            weights[f"model.layers.{layer}.{norm}.weight"] = torch.ones(shape.width)
    weights["model.norm.weight"] = torch.ones(shape.width)
    _look_back(weights, shape, basis)
    _copy_on(weights, shape, basis)
    return {name: one.requires_grad_() for name, one in weights.items()}


def _look_back(weights: Weights, shape: Shape, basis: Tensor) -> None:
    """Let a head of the first layer look at the token before: it notes part of it, basis 1, in other places, basis 2.

    All embeddings share one direction; turned by one position in the keys, it makes the nearest match one place back.
    """
    own, part = "model.layers.0.self_attn.", shape.part
    fast = torch.zeros(1, 1, 1, part)
    fast[..., :4] = 1.0
    later = _turned(fast, _rotation(shape, torch.ones(1, 1)))
    weights[f"{own}q_proj.weight"][:part] = torch.outer(fast.flatten(), basis[0])
    weights[f"{own}k_proj.weight"][:part] = torch.outer(later.flatten(), basis[0])
    weights[f"{own}v_proj.weight"][:part] = 0.7 * basis[1 : part + 1]
    weights[f"{own}o_proj.weight"][:, :part] = 0.15 * basis[part + 1 : 2 * part + 1].T


def _copy_on(weights: Weights, shape: Shape, basis: Tensor) -> None:
    """Let two heads of the third layer look for where the token of now stood before, and say what came after it.

    They compare in the slow half of the rotation, which distance hardly turns.
    """
    own, part = "model.layers.2.self_attn.", shape.part
    slow = [place for place in range(part) if place % (part // 2) >= part // 4]
    for head in range(2):
        first, half = head * part, len(slow)
        queries, keys = weights[f"{own}q_proj.weight"], weights[f"{own}k_proj.weight"]
        queries[first : first + part], keys[first : first + part] = 0.0, 0.0
        for at, place in enumerate(slow):
            queries[first + place] = 2.2 * basis[1 + head * half + at]
            keys[first + place] = 2.2 * basis[part + 1 + head * half + at]
        said = basis[1 + part * (2 if head else 0) :][:part]
        weights[f"{own}v_proj.weight"][first : first + part] = 0.7 * said
        weights[f"{own}o_proj.weight"][:, first : first + part] = 0.55 * said.T


def _matrices(shape: Shape) -> dict[str, tuple[int, int]]:
    square, up = (shape.width, shape.width), (shape.hidden, shape.width)
    attention = {f"self_attn.{name}_proj": square for name in "qkvo"}
    return attention | {"mlp.gate_proj": up, "mlp.up_proj": up, "mlp.down_proj": (shape.width, shape.hidden)}


def hidden(
    weights: Weights,
    shape: Shape,
    context: Tensor,
    lengths: Tensor,
    said: Tensor,
    cut: Tensor | None = None,
    *,
    heard: list[Tensor] | None = None,
) -> Tensor:
    """Return the last hidden states of what is said, (rows, questions, length, width).

    Context (rows, length) is read causally; each question of `said` (rows, questions, length) goes on from its end,
    `lengths`, and sees it and itself. With `cut` (rows, length, 2), the block and the place of each token in the
    context, a block is read behind the first one alone, at its place, and only questions see it where it stands.
    `heard` is given the mean size of what each unit of each layer says, (units,).
    """
    many, longest = said.shape[1:]
    x = functional.embedding(torch.cat((context, said.flatten(1)), dim=1), weights["model.embed_tokens.weight"])
    places = _places(context, lengths, many, longest)
    sight = _sight(shape, context, places, _mask(context, lengths, many, longest, torch.bfloat16), cut)
    for layer in range(shape.layers):
        own = f"model.layers.{layer}."
        normed = _norm(x, weights[own + "input_layernorm.weight"])
        x = x + _attention(weights, own + "self_attn.", shape, normed, sight)
        units = _units(weights, own + "mlp.", _norm(x, weights[own + "post_attention_layernorm.weight"]))
        if heard is not None:
            heard.append(units.float().abs().flatten(0, -2).mean(0))
        x = x + functional.linear(units, weights[own + "mlp.down_proj.weight"])
    last = x[:, context.shape[1] :].view(*said.shape, -1)
    return _norm(last, weights["model.norm.weight"])


def given(batch: Batch) -> list[Tensor]:
    """Return what `hidden` takes of a batch."""
    parts = (batch.context, batch.lengths, batch.said, batch.cut)
    return [torch.from_numpy(one) for one in parts if one is not None]


def logits(weights: Weights, states: Tensor) -> Tensor:
    """Return the scores of each next token."""
    return functional.linear(states, weights["model.embed_tokens.weight"])


def _places(context: Tensor, lengths: Tensor, many: int, longest: int) -> Tensor:
    """Return the position of each token, (rows, all)."""
    first = torch.arange(context.shape[1]).expand(context.shape)
    return torch.cat((first, (lengths[:, None] + torch.arange(longest)).repeat(1, many)), dim=1)


def _mask(context: Tensor, lengths: Tensor, many: int, longest: int, kind: Any) -> Tensor:
    """Return 0 for what a token of a question sees of its context and of itself: (rows, 1, questions, length, both)."""
    beyond = torch.arange(context.shape[1]) >= lengths[:, None]
    seen = torch.zeros(context.shape, dtype=kind).masked_fill(beyond, -torch.inf)[:, None].expand(-1, longest, -1)
    own = _later(longest, kind).expand(len(context), -1, -1)
    return torch.cat((seen, own), dim=2)[:, None, None].expand(-1, -1, many, -1, -1)


@dataclass(frozen=True, slots=True)
class _Sight:
    """Who sees whom, 0 or minus infinity: from questions and within the context; and how all tokens are turned.

    `moved` is how the keys of the context are turned where questions see them in another place.
    """

    far: Tensor
    near: Tensor
    turn: tuple[Tensor, Tensor]
    moved: tuple[Tensor, Tensor] | None = None


def _sight(shape: Shape, context: Tensor, places: Tensor, far: Tensor, cut: Tensor | None) -> _Sight:
    length = context.shape[1]
    near = _later(length, torch.bfloat16)
    if cut is None:
        return _Sight(far, near, _rotation(shape, places))
    block = cut[..., 0]
    apart = (block[:, :, None] != block[:, None]) & (block[:, None] != 0)
    own = torch.cat((cut[..., 1], places[:, length:]), dim=1)
    near = near.expand(len(context), -1, -1).masked_fill(apart, -torch.inf)[:, None]
    return _Sight(far, near, _rotation(shape, own), _rotation(shape, places[:, :length]))


def _later(length: int, kind: Any) -> Tensor:
    """Return 0 for what comes before and minus infinity for what comes later, (length, length)."""
    return torch.full((length, length), -torch.inf, dtype=kind).triu(1)


def _rotation(shape: Shape, places: Tensor) -> tuple[Tensor, Tensor]:
    half = shape.part // 2
    speeds = shape.theta ** (-torch.arange(half, dtype=torch.float32) / half)
    angles = places[:, None, :, None].float() * speeds
    return angles.cos(), angles.sin()


def _turned(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    first, second = x.float().chunk(2, dim=-1)
    cos, sin = turn
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)


def _attention(weights: Weights, own: str, shape: Shape, x: Tensor, sight: _Sight) -> Tensor:
    rows, length, _ = x.shape

    def heads(name: str) -> Tensor:
        drawn = functional.linear(x, weights[f"{own}{name}_proj.weight"])
        return drawn.view(rows, length, shape.heads, shape.part).transpose(1, 2)

    q, k = _turned(heads("q"), sight.turn), heads("k")
    context = k[:, :, : sight.near.shape[-1]]
    seen_from_afar = _turned(context, sight.moved) if sight.moved else None
    seen = _seen(q, _turned(k, sight.turn), heads("v"), sight, seen_from_afar)
    return functional.linear(seen.transpose(1, 2).reshape(rows, length, -1), weights[own + "o_proj.weight"])


def _seen(q: Tensor, k: Tensor, v: Tensor, sight: _Sight, moved: Tensor | None) -> Tensor:
    """Attend within the context, and from each question to the context and itself: (rows, heads, all, part).

    Written out, because torch's fused attention is slow backwards on a processor where there is a mask.
    """
    rows, heads, _, part = q.shape
    many, asked, both = sight.far.shape[2:]
    length = both - asked
    q = q / math.sqrt(part)

    def split(x: Tensor) -> Tensor:
        return x[:, :, length:].reshape(rows, heads, many, asked, part)

    near = q[:, :, :length] @ k[:, :, :length].transpose(2, 3)
    first = (near + sight.near).softmax(-1) @ v[:, :, :length]
    keys = k[:, :, :length] if moved is None else moved
    far = (q[:, :, length:] @ keys.transpose(2, 3)).view(rows, heads, many, asked, length)
    scores = (torch.cat((far, split(q) @ split(k).transpose(3, 4)), dim=-1) + sight.far).softmax(-1)
    rest = scores[..., length:] @ split(v)
    rest = rest.flatten(2, 3) + scores[..., :length].flatten(2, 3) @ v[:, :, :length]
    return torch.cat((first, rest), dim=2)


def _units(weights: Weights, own: str, x: Tensor) -> Tensor:
    gate = functional.silu(functional.linear(x, weights[own + "gate_proj.weight"]))
    return gate * functional.linear(x, weights[own + "up_proj.weight"])


def _norm(x: Tensor, scale: Tensor) -> Tensor:
    return functional.rms_norm(x.float(), (x.shape[-1],), scale, EPSILON)
