"""Makes a trained model a layer deeper and its hidden layers narrower; trained on, it does with the same bytes better.

The new layer is a copy of the one before it that adds nothing yet, its last matrices being zero: what it looks for is
learnt already, and what it will say of it is free (depth up-scaling: SOLAR, arXiv 2312.15166; with the identity at
first: LLaMA Pro, arXiv 2401.02415).
"""

from dataclasses import replace
from random import Random

import torch
from tokenizers import Tokenizer

from tests.nano.batches import batches
from tests.nano.model import Shape, Tensor, Weights, given, hidden

AFTER = 3  # the layer that the new one is a copy of, from 0
_BATCHES, _TOKENS, _DONE = 15, 3200, 0.7  # by which units are judged, of how many tokens, how far in the curriculum
_GATES, _DOWN, _OUT = ("gate_proj.weight", "up_proj.weight"), "down_proj.weight", "o_proj.weight"


def grown(weights: Weights, tokenizer: Tokenizer, shape: Shape, seed: int) -> Weights:
    """Return model with one layer more, which makes it as deep as `shape`, and the strongest units of each layer."""
    shallow = replace(shape, layers=shape.layers - 1)
    best = [
        strength.topk(shape.hidden).indices.sort().values for strength in _strengths(weights, tokenizer, shallow, seed)
    ]
    deeper = dict[str, Tensor]()
    for name, one in weights.items():
        layer = _layer(name)
        kept = one.detach().clone() if layer is None else _narrowed(name, one.detach(), best[layer])
        deeper[name if layer is None or layer <= AFTER else _next(name)] = kept
        if layer == AFTER:
            deeper[_next(name)] = torch.zeros_like(kept) if name.endswith((_DOWN, _OUT)) else kept.clone()
    return {name: one.contiguous().requires_grad_() for name, one in deeper.items()}


def _strengths(weights: Weights, tokenizer: Tokenizer, shape: Shape, seed: int) -> list[Tensor]:
    """Return for each layer how strong its units are, (units,): the mean size of what one says, times its column's."""
    sums = [torch.zeros_like(weights[f"model.layers.{layer}.mlp.{_DOWN}"][0]) for layer in range(shape.layers)]
    for batch in batches(tokenizer, Random(seed), _DONE, _TOKENS)[:_BATCHES]:
        heard = list[Tensor]()
        with torch.no_grad():
            hidden(weights, shape, *given(batch), heard=heard)
        sums = [a + b for a, b in zip(sums, heard, strict=True)]
    downs = [weights[f"model.layers.{layer}.mlp.{_DOWN}"].detach() for layer in range(shape.layers)]
    return [size.detach() * down.norm(dim=0) for size, down in zip(sums, downs, strict=True)]


def _narrowed(name: str, one: Tensor, best: Tensor) -> Tensor:
    if name.endswith(_GATES):
        return one[best]
    return one[:, best] if name.endswith(_DOWN) else one.clone()


def _layer(name: str) -> int | None:
    return int(name.split(".")[2]) if name.startswith("model.layers.") else None


def _next(name: str) -> str:
    first, second, layer, rest = name.split(".", 3)
    return f"{first}.{second}.{int(layer) + 1}.{rest}"
