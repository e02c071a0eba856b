"""Language models of real architectures with random weights, as folders: small ones for tests, real shapes for benches.

Their weights are scaled, for with the usual ones greedy decoding repeats one token. MLX is imported inside functions,
because BLAS must be there before it.
"""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from engine.models.adapters import FILE

Config = dict[str, Any]

SMALL: Config = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
}
KINDS: dict[str, Config] = {
    "llama": SMALL | {"model_type": "llama"},
    "qwen2": SMALL | {"model_type": "qwen2"},
    "qwen3": SMALL | {"model_type": "qwen3"},
    "gemma2": SMALL
    | {
        "model_type": "gemma2",
        "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0,
        "query_pre_attn_scalar": 16.0,
    },
}
# What they keep of a prompt is not the keys and values of every token; windows are shorter than segments of tests.
OTHERS: dict[str, Config] = {
    "gemma3": SMALL
    | {"model_type": "gemma3_text", "num_hidden_layers": 3, "sliding_window": 48, "sliding_window_pattern": 3},
    "mamba": {
        "model_type": "mamba", "hidden_size": 64, "intermediate_size": 128, "state_size": 8, "num_hidden_layers": 2,
        "conv_kernel": 4, "use_bias": False, "use_conv_bias": True, "time_step_rank": "auto",
        "tie_word_embeddings": False,
    },
    "qwen3.5": {
        "model_type": "qwen3_5",
        "text_config": SMALL
        | {"model_type": "qwen3_5", "full_attention_interval": 2, "linear_num_value_heads": 4,
           "linear_num_key_heads": 2, "linear_key_head_dim": 16, "linear_value_head_dim": 16},
    },
    "falcon_h1": SMALL
    | {"model_type": "falcon_h1", "mamba_d_head": 16, "mamba_d_ssm": 64, "mamba_d_state": 16, "mamba_n_heads": 4},
    "recurrent_gemma": SMALL
    | {"model_type": "recurrent_gemma", "attention_bias": False, "conv1d_width": 4, "logits_soft_cap": 30.0,
       "num_hidden_layers": 3, "num_key_value_heads": 1, "attention_window_size": 60,
       "block_types": ["recurrent", "recurrent", "attention"]},
}  # fmt: skip
# Those of models that people run: SmolLM2-135M, Qwen2.5-0.5B, Llama-3.2-1B and -3B.
REAL: dict[str, Config] = {
    "135M": KINDS["llama"] | {"hidden_size": 576, "num_hidden_layers": 30, "intermediate_size": 1536, "head_dim": 64,
                              "num_attention_heads": 9, "num_key_value_heads": 3, "vocab_size": 49152,
                              "max_position_embeddings": 8192, "tie_word_embeddings": True},
    "0.5B": KINDS["qwen2"] | {"hidden_size": 896, "num_hidden_layers": 24, "intermediate_size": 4864, "head_dim": 64,
                              "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151936,
                              "max_position_embeddings": 32768, "tie_word_embeddings": True},
    "1.2B": KINDS["llama"] | {"hidden_size": 2048, "num_hidden_layers": 16, "intermediate_size": 8192, "head_dim": 64,
                              "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
                              "max_position_embeddings": 131072, "tie_word_embeddings": True},
    "3B": KINDS["llama"] | {"hidden_size": 3072, "num_hidden_layers": 28, "intermediate_size": 8192, "head_dim": 128,
                            "num_attention_heads": 24, "num_key_value_heads": 8, "vocab_size": 128256,
                            "max_position_embeddings": 131072, "tie_word_embeddings": True},
}  # fmt: skip
CONTROLS = ("<|begin|>", "<|im_start|>", "<|im_end|>", "<start_of_turn>", "<end_of_turn>")
WORDS = ("<tool_call>", "</tool_call>", "<think>", "</think>")  # added, yet not special: as Qwen's are
TEXT = """\
The rehearsal moved to Friday at half past six, in room 204, because the choir of St Anne's has the hall on Thursday.
Please bring the green folders; Marie will copy what is missing: alto and bass, two pages each (numbers 12 to 17).
Élodie écrit que la répétition générale aura lieu à Liège. Die Probe am Dienstag fällt aus. 今日の練習は六時からです。
Thanks! 🎉 See you there 👩‍👩‍👧 and don't forget: assistant, system, user, model.
[3]
From Ann to everybody, 3 May 2024, about the summer fair
We need tables, chairs, a tent, an extension lead and somebody who knows how to talk to the council about the road.
"""


def bpe(size: int = 640) -> Tokenizer:
    """Train a byte-level BPE tokenizer with added tokens of both sorts."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        [TEXT],
        trainers.BpeTrainer(
            vocab_size=size, special_tokens=[*CONTROLS], initial_alphabet=alphabet, show_progress=False
        ),
    )
    tokenizer.add_tokens(list(WORDS))
    return tokenizer


def make(folder: Path, config: Config, template: str | None = None, dtype: str = "float32", seed: int = 7) -> Path:
    """Write a model's folder: random weights, a tokenizer trained here, and the chat template if there is one."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = bpe()
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {"bos_token": CONTROLS[0], "eos_token": CONTROLS[2]}
    write(folder / "tokenizer_config.json", names | ({"chat_template": template} if template else {}))
    size: Config = {"vocab_size": tokenizer.get_vocab_size()}
    config = size | {"torch_dtype": dtype} | config
    if "text_config" in config:
        config["text_config"] = size | config["text_config"]
    write(folder / "config.json", config)
    weights(folder / "model.safetensors", config, dtype, seed)
    return folder


def write(path: Path, value: object) -> None:
    """Write a JSON file."""
    path.write_text(json.dumps(value), "utf-8")


def weights(path: Path, config: Config, dtype: str, seed: int) -> None:
    """Write random weights, scaled so that what is generated differs from token to token."""
    import mlx.core as mx
    from mlx.utils import tree_flatten

    mx.random.seed(seed)
    module = import_module(f"mlx_lm.models.{config['model_type']}")
    model = module.Model(module.ModelArgs.from_dict(config))
    arrays = {
        name: _scale(name, array).astype(getattr(mx, dtype))
        for name, array in dict(tree_flatten(model.parameters())).items()
    }
    for array in arrays.values():
        mx.eval(array)
    mx.save_safetensors(str(path), arrays)


def _scale(name: str, array: Any) -> Any:
    if name.endswith(("q_proj.weight", "k_proj.weight")):
        return array * 4
    if name.endswith(
        "post_feedforward_layernorm.weight"
    ):  # Gemma's, whose last word is the embedding of the last token
        return array * 6
    return array * 2 if name.endswith("_proj.weight") else array


def add_adapter(folder: Path, *, rank: int = 4, seed: int = 11) -> Path:
    """Write a random role adapter beside a model's weights, on all its projections; returns its file."""
    import mlx.core as mx

    mx.random.seed(seed)
    arrays = {}
    weights = mx.load(str(folder / "model.safetensors"))
    assert isinstance(weights, dict)
    for name, weight in weights.items():
        if name.endswith("_proj.weight"):
            outputs, inputs = weight.shape
            layer = name.removesuffix(".weight")
            arrays[f"{layer}.lora_a"] = mx.random.normal((inputs, rank)) / inputs**0.5
            arrays[f"{layer}.lora_b"] = mx.random.normal((rank, outputs)) * 0.5
    path = folder / FILE
    mx.save_safetensors(str(path), arrays)
    return path
