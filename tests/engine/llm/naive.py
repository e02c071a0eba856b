"""A Llama as a page of numpy in double precision, which sees what a mask says: what fast ways are held against."""

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

Floats = NDArray[np.float64]


class Naive:
    """The model in a folder."""

    def __init__(self, folder: Path) -> None:
        loaded = load_file(str(folder / "model.safetensors"))
        self.weights = {name.removeprefix("model."): one.astype(np.float64) for name, one in loaded.items()}
        self.config = json.loads((folder / "config.json").read_text("utf-8"))

    def logits(self, ids: list[int], seen: NDArray[np.bool_], places: NDArray[np.int64]) -> Floats:
        """Return the logits behind the last token; `seen` tells which tokens (column) each (row) sees.

        A token sees others at the `places` where they were computed, but if its own is that of the prompt, where they
        stand there.
        """
        x = self.weights["embed_tokens.weight"][ids]
        for layer in range(self.config["num_hidden_layers"]):
            x = x + self._attend(f"layers.{layer}.", self._norm(x, f"layers.{layer}.input_layernorm"), seen, places)
            normed = self._norm(x, f"layers.{layer}.post_attention_layernorm")
            gate = self._linear(normed, f"layers.{layer}.mlp.gate_proj")
            up = self._linear(normed, f"layers.{layer}.mlp.up_proj")
            x = x + self._linear(gate / (1 + np.exp(-gate)) * up, f"layers.{layer}.mlp.down_proj")
        head = self.weights.get("lm_head.weight", self.weights["embed_tokens.weight"])
        last: Floats = head @ self._norm(x, "norm")[-1]
        return last

    def _attend(self, own: str, x: Floats, seen: NDArray[np.bool_], places: NDArray[np.int64]) -> Floats:
        heads, groups = self.config["num_attention_heads"], self.config["num_key_value_heads"]
        q = self._split(self._linear(x, f"{own}self_attn.q_proj"), heads)
        k = self._split(self._linear(x, f"{own}self_attn.k_proj"), groups).repeat(heads // groups, axis=0)
        v = self._split(self._linear(x, f"{own}self_attn.v_proj"), groups).repeat(heads // groups, axis=0)
        there, last = np.arange(len(x)), places == np.arange(len(x))
        scores = np.where(last[:, None], self._scores(q, k, there), self._scores(q, k, places))
        scores = np.where(seen, scores, -np.inf)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        found = (scores / scores.sum(-1, keepdims=True)) @ v
        return self._linear(found.transpose(1, 0, 2).reshape(len(x), -1), f"{own}self_attn.o_proj")

    def _split(self, x: Floats, heads: int) -> Floats:
        return x.reshape(len(x), heads, -1).transpose(1, 0, 2)

    def _scores(self, q: Floats, k: Floats, places: NDArray[np.int64]) -> Floats:
        q, k = self._turned(q, places), self._turned(k, places)
        found: Floats = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
        return found

    def _turned(self, x: Floats, places: NDArray[np.int64]) -> Floats:
        half = x.shape[-1] // 2
        angles = places[:, None] * self.config["rope_theta"] ** (-np.arange(half) / half)
        first, second = x[..., :half], x[..., half:]
        cos, sin = np.cos(angles), np.sin(angles)
        return np.concatenate((first * cos - second * sin, second * cos + first * sin), axis=-1)

    def _linear(self, x: Floats, name: str) -> Floats:
        found: Floats = x @ self.weights[f"{name}.weight"].T
        return found

    def _norm(self, x: Floats, name: str) -> Floats:
        scale = np.sqrt((x * x).mean(-1, keepdims=True) + self.config["rms_norm_eps"])
        found: Floats = x / scale * self.weights[f"{name}.weight"]
        return found


def in_blocks(lengths: list[int]) -> NDArray[np.bool_]:
    """Return who sees whom: all see the first segment, the last one sees all, and else each segment itself alone."""
    segment = np.repeat(np.arange(len(lengths)), lengths)
    own, first, last = segment[:, None] == segment, segment == 0, segment[:, None] == len(lengths) - 1
    seen: NDArray[np.bool_] = (own | first | last) & np.tri(len(segment), dtype=bool)
    return seen


def behind_the_first(lengths: list[int]) -> NDArray[np.int64]:
    """Return the places where segments are computed: the first and the last in the prompt, others behind the first."""
    starts = [0, *(lengths[0] for _ in lengths[1:-1]), sum(lengths[:-1])]
    return np.concatenate([start + np.arange(length) for start, length in zip(starts, lengths, strict=True)])


def in_order(lengths: list[int]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return who sees whom in a prompt that is read from its beginning to its end, and where."""
    return np.tri(sum(lengths), dtype=bool), np.arange(sum(lengths))
