"""Embedders with random weights as folders, such as the hub has them, and their arithmetic in double precision."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, processors

from engine.models.minilm import END_TOKEN
from tests.engine.models.shapes import KINDS, bpe, make

Matrix = NDArray[np.float64]

SHAPE = KINDS["qwen3"] | {"rms_norm_eps": 1e-6, "rope_theta": 1e6, "max_position_embeddings": 2048}


def make_qwen3(folder: Path, *, ended: bool = True, seed: int = 7) -> Path:
    """Write a Qwen3 with bare names and no head, though its config says that it has one, and an end behind each text.

    Its norms have random weights, for the usual ones are all 1.
    """
    from safetensors.numpy import load_file, save_file

    tokenizer = bpe()
    tokenizer.add_special_tokens([END_TOKEN])
    if ended:
        marks = [(END_TOKEN, end_of(tokenizer))]
        tokenizer.post_processor = processors.TemplateProcessing(single=f"$A {END_TOKEN}", special_tokens=marks)
    make(folder, SHAPE | {"vocab_size": tokenizer.get_vocab_size()}, seed=seed)
    tokenizer.save(str(folder / "tokenizer.json"))
    random, bare = np.random.default_rng(seed), {}
    for name, array in load_file(folder / "model.safetensors").items():
        scaled = array * random.uniform(0.5, 1.5, array.shape).astype(np.float32) if array.ndim == 1 else array
        if name != "lm_head.weight":
            bare[name.removeprefix("model.")] = scaled
    save_file(bare, folder / "model.safetensors", {"format": "pt"})
    return folder


def end_of(tokenizer: Tokenizer) -> int:
    """Return the id of the end."""
    found = tokenizer.token_to_id(END_TOKEN)
    assert found is not None
    return found


def naive(folder: Path, ids: list[int]) -> Matrix:
    """Return the unit vector of one text, one layer and one head at a time."""
    from safetensors.numpy import load_file

    weights = {name: array.astype(np.float64) for name, array in load_file(folder / "model.safetensors").items()}
    states = weights["embed_tokens.weight"][ids]
    for layer in range(SHAPE["num_hidden_layers"]):
        prefix = f"layers.{layer}."
        part = {name.removeprefix(prefix): array for name, array in weights.items() if name.startswith(prefix)}
        states = states + attention(rms(states, part["input_layernorm.weight"]), part)
        states = states + feed_forward(rms(states, part["post_attention_layernorm.weight"]), part)
    last = rms(states, weights["norm.weight"])[-1]
    unit: Matrix = last / np.sqrt((last**2).sum())
    return unit


def rms(states: Matrix, scale: Matrix) -> Matrix:
    normed: Matrix = states / np.sqrt((states**2).mean(axis=-1, keepdims=True) + SHAPE["rms_norm_eps"]) * scale
    return normed


def attention(states: Matrix, part: Mapping[str, Matrix]) -> Matrix:
    heads, groups, size = SHAPE["num_attention_heads"], SHAPE["num_key_value_heads"], SHAPE["head_dim"]
    mixed = []
    for head in range(heads):
        own, shared = (slice(n * size, (n + 1) * size) for n in (head, head // (heads // groups)))
        query = turned(rms(states @ part["self_attn.q_proj.weight"][own].T, part["self_attn.q_norm.weight"]))
        key = turned(rms(states @ part["self_attn.k_proj.weight"][shared].T, part["self_attn.k_norm.weight"]))
        score = np.where(np.tri(len(states), dtype=bool), query @ key.T / np.sqrt(size), -np.inf)
        share = np.exp(score - score.max(axis=1, keepdims=True))
        mixed.append(share / share.sum(axis=1, keepdims=True) @ (states @ part["self_attn.v_proj.weight"][shared].T))
    return np.concatenate(mixed, axis=1) @ part["self_attn.o_proj.weight"].T


def turned(states: Matrix) -> Matrix:
    """Rotate each half-pair of dimensions by its place in the text."""
    half = states.shape[1] // 2
    angle = np.arange(len(states))[:, None] * SHAPE["rope_theta"] ** (-np.arange(half) / half)
    one, other = states[:, :half], states[:, half:]
    cos, sin = np.cos(angle), np.sin(angle)
    return np.concatenate([one * cos - other * sin, one * sin + other * cos], axis=1)


def feed_forward(states: Matrix, part: Mapping[str, Matrix]) -> Matrix:
    gate = states @ part["mlp.gate_proj.weight"].T
    product: Matrix = gate / (1 + np.exp(-gate)) * (states @ part["mlp.up_proj.weight"].T)
    return product @ part["mlp.down_proj.weight"].T
