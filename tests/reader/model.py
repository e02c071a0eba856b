"""The reader in PyTorch: all-MiniLM-L6-v2 with a trainable difference of low rank on each of its large matrices."""

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import numpy as np
import torch
from safetensors.numpy import save_file
from torch import Tensor, nn
from torch.nn import functional

from engine.models.minilm import EPSILON, HEADS, PARTS, open_tensors
from tests.reader.windows import Batch

HELD = -1e4  # logit of a token that is no answer
Tensors = Mapping[str, np.ndarray]


class Dense(nn.Module):  # type: ignore[misc]
    """A frozen linear layer and its difference B A, with a bias of its own."""

    def __init__(self, weight: Tensor, bias: Tensor, rank: int) -> None:
        super().__init__()
        self.weight: Tensor
        self.register_buffer("weight", weight, persistent=False)
        self.A = nn.Parameter(torch.randn(rank, weight.shape[1]) / weight.shape[1] ** 0.5)
        self.B = nn.Parameter(torch.zeros(weight.shape[0], rank))
        self.bias = nn.Parameter(bias.clone())

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., in) to (..., out)."""
        return functional.linear(x, self.weight + self.B @ self.A, self.bias)


class Norm(nn.LayerNorm):  # type: ignore[misc]
    """A layer norm that begins with given values."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__(len(weight), eps=EPSILON)
        self.load_state_dict({"weight": weight, "bias": bias})


class Reader(nn.Module):  # type: ignore[misc]
    """Scores for each token that an answer starts, ends or is borne there, and for each row that it is relevant.

    The names of parameters are those of the file that `engine.models.minilm` loads.
    """

    def __init__(self, base: Tensors, rank: int, drop: float = 0.1) -> None:
        super().__init__()
        tensor = {name: torch.tensor(np.array(value, np.float32)) for name, value in base.items()}
        self.words: Tensor
        self.places: Tensor
        self.register_buffer("words", tensor["embeddings.word_embeddings.weight"], persistent=False)
        self.register_buffer("places", tensor["embeddings.position_embeddings.weight"], persistent=False)
        self.types = nn.Parameter(tensor["embeddings.token_type_embeddings.weight"])
        width, depth = self.types.shape[1], sum(name.endswith(".intermediate.dense.bias") for name in base)

        def norm(at: str) -> Norm:
            return Norm(tensor[f"{at}.LayerNorm.weight"], tensor[f"{at}.LayerNorm.bias"])

        def layer(at: str) -> nn.ModuleDict:
            parts = {
                name: Dense(tensor[f"{at}.{part}.weight"], tensor[f"{at}.{part}.bias"], rank)
                for name, part in PARTS.items()
            }
            return nn.ModuleDict({**parts, "n1": norm(f"{at}.attention.output"), "n2": norm(f"{at}.output")})

        self.norm = norm("embeddings")
        self.layers = nn.ModuleList(layer(f"encoder.layer.{number}") for number in range(depth))
        self.heads, self.rel, self.drop = nn.Linear(width, 3), nn.Linear(width, 1), nn.Dropout(drop)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the logits of tokens (rows, tokens, 3) and of rows (rows,)."""
        device = self.words.device
        ids, lengths = torch.tensor(batch.ids, device=device), torch.tensor(batch.lengths, device=device)
        place = torch.arange(ids.shape[1], device=device)[None]
        live = place < lengths[:, None]
        second = torch.tensor(batch.second, device=device) | (place == lengths[:, None] - 1)
        x = self.drop(self.norm(self.words[ids] + self.places[: ids.shape[1]] + self.types[second.long()]))
        for layer in self.layers:
            x = self._layer(cast("nn.ModuleDict", layer), x, live)
        return self.heads(x.float()), self.rel(x[:, 0].float())[:, 0]

    def _layer(self, layer: nn.ModuleDict, x: Tensor, live: Tensor) -> Tensor:
        query, key, value = (layer[name](x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for name in ("q", "k", "v"))
        weights = (query @ key.transpose(2, 3) * query.shape[-1] ** -0.5).masked_fill(~live[:, None, None], HELD)
        mixed = (self.drop(weights.softmax(-1)) @ value).transpose(1, 2).flatten(2)
        x = layer["n1"](x + self.drop(layer["o"](mixed)))
        return cast("Tensor", layer["n2"](x + self.drop(layer["down"](functional.gelu(layer["up"](x))))))


def loaded(weights: Path, rank: int, begin: Path | None = None) -> Reader:
    """Return a reader on the embedder's weights that knows nothing, or goes on from a file of its own."""
    reader = Reader(open_tensors(weights), rank)
    if begin:
        held = {name: torch.tensor(np.array(value, np.float32)) for name, value in open_tensors(begin).items()}
        reader.load_state_dict(held)
    return reader


def save(reader: Reader, path: Path) -> None:
    """Write the difference as half floats."""
    partial = path.with_suffix(".part")
    state = {name: value.detach().float().cpu().numpy() for name, value in reader.state_dict().items()}
    save_file({name: np.ascontiguousarray(value, np.float16) for name, value in state.items()}, partial)
    partial.replace(path)
