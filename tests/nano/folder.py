"""Writes and reads the model as a folder that mlx-lm loads: half-precision weights, tokenizer, settings."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

from tests.nano.batches import CONTEXT
from tests.nano.model import EPSILON, Shape, Weights
from tests.nano.tokens import END, end_of


def save(folder: Path, weights: Weights, shape: Shape, tokenizer: Tokenizer) -> None:
    """Write all files of the model."""
    folder.mkdir(parents=True, exist_ok=True)
    end = end_of(tokenizer)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    _write(folder / "config.json", _settings(shape, end))
    _write(folder / "generation_config.json", {"eos_token_id": end, "do_sample": False})
    told = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END, "model_max_length": CONTEXT}
    _write(folder / "tokenizer_config.json", told | {"clean_up_tokenization_spaces": False, "add_bos_token": False})
    halves = {name: one.detach().to(torch.float16).contiguous() for name, one in weights.items()}
    part = folder / "model.part"
    save_file(halves, str(part), metadata={"format": "mlx"})
    part.chmod(0o644)
    part.replace(folder / "model.safetensors")  # another run may be reading it


def load(folder: Path) -> tuple[Weights, Tokenizer]:
    """Read weights, as float32 to train on, and tokenizer."""
    halves = load_file(str(folder / "model.safetensors"))
    weights = {name: one.to(torch.float32).requires_grad_() for name, one in halves.items()}
    return weights, Tokenizer.from_file(str(folder / "tokenizer.json"))


def mean(many: list[Weights]) -> Weights:
    """Average the weights of models that began as one."""
    return {name: sum(one[name].detach() for one in many) / len(many) for name in many[0]}


def _settings(shape: Shape, end: int) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": shape.width,
        "num_hidden_layers": shape.layers,
        "intermediate_size": shape.hidden,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.heads,
        "head_dim": shape.part,
        "rms_norm_eps": EPSILON,
        "vocab_size": shape.vocabulary,
        "rope_theta": shape.theta,
        "rope_traditional": False,
        "max_position_embeddings": CONTEXT,
        "tie_word_embeddings": True,
        "attention_bias": False,
        "mlp_bias": False,
        "hidden_act": "silu",
        "eos_token_id": end,
        "bos_token_id": None,
        "torch_dtype": "float16",
    }


def _write(path: Path, settings: dict[str, Any]) -> None:
    path.write_text(json.dumps(settings, indent=1) + "\n", "utf-8")
