"""What tests of blocks share: models with ropes of all sorts, and prompts read in blocks through a store or without."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.kv.blocks import PrefixCache, read
from engine.kv.costs import MeasuredCosts
from engine.kv.restore import KvBinding, PromptReader
from engine.models.load import load, movable
from engine.models.mlx import Mlx
from engine.types import Trace
from tests.demo import NANO
from tests.engine.ask.equivalence_box import ROOT, SUB_STEP, Box, Ids
from tests.engine.models.shapes import KINDS, SMALL, Config, make

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}
MOVABLE: dict[str, Config] = {
    "llama": KINDS["llama"],
    "qwen3": KINDS["qwen3"],  # norms of queries and keys
    "gemma2": KINDS["gemma2"],
    "traditional": SMALL | {"model_type": "cohere"},  # neighbours are turned, not halves
    "partial": SMALL | {"model_type": "stablelm", "partial_rotary_factor": 0.25, "use_qkv_bias": False,
                        "layer_norm_eps": 1e-5},
    "linear": KINDS["llama"] | {"rope_scaling": {"rope_type": "linear", "factor": 4.0}},
    "llama3": KINDS["llama"] | {"rope_scaling": LLAMA3 | {"original_max_position_embeddings": 64}},
}  # fmt: skip
FIXED: dict[str, tuple[Config, str]] = {
    "yarn": (KINDS["llama"] | {"rope_scaling": YARN}, "its rope scales keys"),
    "longrope": (SMALL | {"model_type": "phi3", "original_max_position_embeddings": 128, "rope_scaling": {
        "type": "longrope", "original_max_position_embeddings": 128, "short_factor": [1.0] * 8,
        "long_factor": [2.0] * 8}}, "its rope scales keys"),
    "learned": ({"model_type": "gpt2", "n_ctx": 512, "n_embd": 64, "n_head": 4, "n_layer": 2, "n_positions": 512,
                 "layer_norm_epsilon": 1e-5}, "its layers have no rope"),
    "windowed": (SMALL | {"model_type": "gemma3_text", "sliding_window": 64, "sliding_window_pattern": 2},
                 "it does not keep the keys and values of every token"),
    "recurrent": ({"model_type": "mamba", "hidden_size": 64, "intermediate_size": 128, "state_size": 16,
                   "num_hidden_layers": 2, "conv_kernel": 4, "use_bias": False, "use_conv_bias": True,
                   "time_step_rank": 4}, "it does not keep the keys and values of every token"),
}  # fmt: skip

Logits = NDArray[np.float32]


def loaded(name: str, folder: Path, cache: Path) -> Mlx:
    """Load a model by its name here, or nano; what it reads may be kept in 8 bits."""
    kind, eight, _ = name.partition(" in 8 bits")
    made = NANO if kind == "nano" else make(folder / kind, MOVABLE[kind])
    found = load(made, name=name, cache=cache, memory_share=0.9)
    return replace(found, stops=frozenset(), sub_step=SUB_STEP, bits=8 if eight else 0)


def through(box: Box, segments: Sequence[Ids], *, kept: bool = True, links: int = 0) -> tuple[PrefixCache, Logits]:
    """Read a prompt in blocks through a store and keep what was computed; returns the logits behind it."""
    binding = KvBinding(box.store, ROOT, box.model, MeasuredCosts(box.ledger, "root"), lambda _: "load")
    reading = PromptReader(box.model, binding, movable(box.model), links=links)
    found = read(reading, segments[:-1], Trace())
    logits = box.model.logits(found.cache, segments[-1])
    if kept:
        found.keep()
    return found, logits


def without(model: Mlx, segments: Sequence[Ids], *, links: int = 0) -> Logits:
    """Read a prompt in blocks with nothing kept; returns the logits behind it."""
    found = read(PromptReader(model, None, movable(model), links=links), segments[:-1], Trace())
    return model.logits(found.cache, segments[-1])
