"""The forward pass of a BERT sentence encoder, written once over whatever array library `Arrays` wraps.

Texts are packed end to end, never padded, so a text meets nothing of its batch but the rows of a matrix product.
It knows nothing of files, text or threads.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

Array = Any  # numpy.ndarray or mlx.core.array


@dataclass(frozen=True, slots=True)
class Arrays:
    """What the pass needs of an array library beyond operators; a function may reuse its first argument's memory."""

    array: Callable[[Any], Array]
    join: Callable[[list[Array]], Array]  # along the first axis
    norm: Callable[[Array, Array, Array], Array]  # layer norm over the last axis: values, gain, shift
    softmax: Callable[[Array], Array]  # over the last axis
    gelu: Callable[[Array], Array]  # the exact one, by the normal distribution


@dataclass(frozen=True, slots=True)
class Dense:
    """One linear map, kept as published: weight (out, in), bias (out)."""

    weight: Array
    bias: Array

    def __call__(self, x: Array) -> Array:
        """Map rows (n, in) to rows (n, out)."""
        y = x @ self.weight.T
        y += self.bias
        return y


@dataclass(frozen=True, slots=True)
class Layer:
    """One transformer block."""

    query: Dense
    key: Dense
    value: Dense
    mix: Dense
    up: Dense
    down: Dense
    after_mix: tuple[Array, Array]  # gain, shift
    after_down: tuple[Array, Array]


@dataclass(frozen=True, slots=True)
class Bert:
    """All weights of an encoder; `places` has the one token type's row added in."""

    words: Array  # (vocabulary, width)
    places: Array  # (longest text, width)
    start: tuple[Array, Array]
    layers: tuple[Layer, ...]
    heads: int


def from_tensors(tensors: Mapping[str, Any], array: Callable[[Any], Array], heads: int) -> Bert:
    """Name the tensors of a published BERT checkpoint, each made an array of the library that will run them."""

    def one(name: str) -> Array:
        return array(tensors[name])

    def dense(name: str) -> Dense:
        return Dense(one(f"{name}.weight"), one(f"{name}.bias"))

    def norm(name: str) -> tuple[Array, Array]:
        return one(f"{name}.LayerNorm.weight"), one(f"{name}.LayerNorm.bias")

    def layer(at: str) -> Layer:
        query, key, value = (dense(f"{at}.attention.self.{part}") for part in ("query", "key", "value"))
        mix, up, down = (dense(f"{at}.{part}.dense") for part in ("attention.output", "intermediate", "output"))
        return Layer(query, key, value, mix, up, down, norm(f"{at}.attention.output"), norm(f"{at}.output"))

    depth = sum(name.endswith(".intermediate.dense.bias") for name in tensors)
    places = tensors["embeddings.position_embeddings.weight"] + tensors["embeddings.token_type_embeddings.weight"][0]
    layers = tuple(layer(f"encoder.layer.{i}") for i in range(depth))
    return Bert(one("embeddings.word_embeddings.weight"), array(places), norm("embeddings"), layers, heads)


def encode(xp: Arrays, bert: Bert, batch: Sequence[Sequence[int]]) -> Array:
    """Give the mean-pooled unit vectors of token id sequences: (len(batch), width)."""
    runs = [(len(list(same)), length) for length, same in groupby(map(len, batch))]
    ids = xp.array([token for text in batch for token in text])
    x = bert.words[ids]
    x += bert.places[xp.array([place for text in batch for place in range(len(text))])]
    x = xp.norm(x, *bert.start)
    for layer in bert.layers:
        y = layer.mix(_attend(xp, layer, x, runs, bert.heads))
        y += x
        x = xp.norm(y, *layer.after_mix)
        y = layer.down(xp.gelu(layer.up(x)))
        y += x
        x = xp.norm(y, *layer.after_down)
    means = xp.join([part.mean(axis=1) for part in _texts(x, runs)])
    return means / (means * means).sum(axis=-1, keepdims=True) ** 0.5


def _attend(xp: Arrays, layer: Layer, x: Array, runs: Sequence[tuple[int, int]], heads: int) -> Array:
    query, key, value = layer.query(x), layer.key(x), layer.value(x)
    width = x.shape[-1]
    query *= (width // heads) ** -0.5
    parts = []
    for q, k, v in zip(_texts(query, runs), _texts(key, runs), _texts(value, runs), strict=True):
        q, k, v = (
            a.reshape(*a.shape[:2], heads, -1).swapaxes(1, 2) for a in (q, k, v)
        )  # (texts, heads, tokens, share)
        seen = xp.softmax(q @ k.swapaxes(2, 3)) @ v
        parts.append(seen.swapaxes(1, 2).reshape(-1, width))
    return xp.join(parts)


def _texts(x: Array, runs: Sequence[tuple[int, int]]) -> list[Array]:
    """Cut packed rows into runs of equally long texts: (texts, tokens, width) each."""
    parts, at = [], 0
    for count, length in runs:
        parts.append(x[at : at + count * length].reshape(count, length, -1))
        at += count * length
    return parts
