"""GGUF files for tests: small models of each family with random weights, and tokenizers trained on the spot.

Files are converted as pkb does it, and decoded into 32 bits.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import pi, sqrt
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from engine.models.gguf import read
from engine.models.gguf_weights import convert, plan
from engine.models.lookup import InstalledModel, converted, find_gguf

WIDTH, LAYERS, HEADS, KV_HEADS, HEAD, INNER = 256, 2, 4, 2, 64, 512  # K-quants need rows of 256
FAMILIES = ("llama", "qwen2", "qwen3", "gemma2", "gemma3", "phi3")
REPACKED = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K")
ROUNDED = ("F16", "BF16", "Q2_K", "Q3_K", "Q6_K")
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
CONTROLS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEXTS = (
    "Rehearsal moved to Thursday at 7.30 pm; bring 1234 copies. It's Ana's turn, we'll see.",
    "Die Sitzung beginnt um acht Uhr. Où est la réunion? ¿Cuándo empieza? Встреча в пятницу.",
    "会議は木曜日です。会议在星期四。회의는 목요일입니다. बैठक गुरुवार को है। الاجتماع يوم الخميس.",
)


@dataclass(frozen=True)
class Made:
    """A file's content: fields and matrices by the names of llama.cpp."""

    family: str
    kind: str
    seed: int = 0
    pre: str = "qwen2"
    scored: bool = False
    texts: Sequence[str] = TEXTS  # what its tokenizer is trained on
    llama3: float | None = None  # the factor by which Llama 3 scales positions
    plain: bool = False  # the decoded numbers in 32 bits, for an engine that would round what it multiplies
    fields: Mapping[str, Any] = field(default_factory=dict)


def environment(folder: Path) -> dict[str, str]:
    """Return the variables under which models are found below a folder alone."""
    return {
        "HF_HUB_CACHE": str(folder / "hub"),
        "LLAMA_CACHE": str(folder / "none"),
        "OLLAMA_MODELS": str(folder / "o"),
    }


def model_of(path: Path, tick: Callable[[int], None] = lambda done: None) -> InstalledModel:
    """Convert a file as `pkb model use` does."""
    environ = environment(path.parent)
    file = find_gguf(str(path), environ)
    assert file
    local = converted(file, path.parent / "notes", environ)
    convert(plan(read(path)), local, environ, tick)
    return local


def byte_level(texts: Sequence[str], size: int = 500) -> tuple[list[str], list[str]]:
    """Train a byte-level BPE on texts; returns tokens and merges."""
    from json import loads

    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trained.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    )
    model = loads(trained.to_str())["model"]
    tokens = [text for text, _ in sorted(model["vocab"].items(), key=lambda pair: pair[1])]
    return tokens, [" ".join(pair) for pair in model["merges"]]


def scored(texts: Sequence[str], size: int = 400) -> tuple[list[str], list[float], list[int]]:
    """Train a BPE on texts with SentencePiece's blanks; returns tokens, scores and types."""
    from json import loads

    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    trained.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, show_progress=False))
    found = loads(trained.to_str())["model"]["vocab"]
    pieces = [text for text, _ in sorted(found.items(), key=lambda pair: pair[1])]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    scores = [0.0] * 259 + [-float(rank) for rank in range(len(pieces))]
    types = [2, 3, 3] + [6] * 256 + [1] * len(pieces)
    return tokens, scores, types


def layers(made: Made) -> int:
    """Return its number of layers; every sixth of Gemma 3 sees the whole text."""
    return 6 if made.family == "gemma3" else LAYERS


def write(path: Path, made: Made) -> Path:
    """Write a GGUF file."""
    writer = gguf.GGUFWriter(path, made.family)
    count = _add_tokenizer(writer, made)
    _add_fields(writer, made, count)
    kind = gguf.GGMLQuantizationType[made.kind]
    for name, values in tensors(made, count).items():
        if values.ndim == 1:
            writer.add_tensor(name, values)
        elif made.plain:
            writer.add_tensor(name, gguf.dequantize(encoded(values, made.kind, made.seed), kind))
        else:
            writer.add_tensor(name, encoded(values, made.kind, made.seed), raw_dtype=kind)
    _finish(writer)
    return path


def decode(path: Path, to: Path) -> Path:
    """Write a file again with its numbers decoded into 32 bits, all fields as they are."""
    found = gguf.GGUFReader(path)
    writer = gguf.GGUFWriter(to, str(found.fields["general.architecture"].contents()))
    for name, one in found.fields.items():
        if not name.startswith("GGUF.") and name != "general.architecture":  # which the writer adds itself
            writer.add_key_value(name, one.contents(), one.types[0], one.types[-1] if len(one.types) > 1 else None)
    for tensor in found.tensors:
        writer.add_tensor(tensor.name, gguf.dequantize(tensor.data, tensor.tensor_type))
    _finish(writer)
    return to


def _finish(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def encoded(values: NDArray[np.float32], kind: str, seed: int = 0) -> NDArray[Any]:
    """Encode a matrix; of a K-quant, which the library cannot encode, blocks of random numbers."""
    if not kind.endswith("_K"):
        found: NDArray[Any] = gguf.quantize(values, gguf.GGMLQuantizationType[kind])
        return found
    block, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    random = np.random.default_rng(seed + values.shape[0])
    raw = random.integers(0, 256, (values.shape[0], values.shape[1] // block, size), np.uint8)
    scale = np.float32(values.std()) * {"Q2_K": 0.07, "Q3_K": 0.02, "Q4_K": 0.006, "Q5_K": 0.003, "Q6_K": 0.0008}[kind]
    at, offset = {"Q2_K": (80, 82), "Q3_K": (108, None), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208, None)}[kind]
    raw[..., at : at + 2] = np.array([scale], np.float16).view(np.uint8)
    if offset is not None:
        half = {"Q2_K": 1.5, "Q4_K": 7.5, "Q5_K": 15.5}[kind]
        raw[..., offset : offset + 2] = np.array([scale * half], np.float16).view(np.uint8)
    packed: NDArray[np.uint8] = raw.reshape(values.shape[0], -1)
    return packed


def tensors(made: Made, vocabulary: int) -> dict[str, NDArray[np.float32]]:
    """Return random tensors by llama.cpp's names."""
    random = np.random.default_rng(made.seed)

    def matrix(rows: int, columns: int, spread: float = 1.5) -> NDArray[np.float32]:
        return (random.standard_normal((rows, columns)) * spread / sqrt(columns)).astype(np.float32)

    def vector(size: int, middle: float) -> NDArray[np.float32]:
        return (middle + 0.2 * random.standard_normal(size)).astype(np.float16).astype(np.float32)

    query, key = HEADS * HEAD, KV_HEADS * HEAD
    found = {"token_embd.weight": matrix(vocabulary, WIDTH), "output_norm.weight": vector(WIDTH, 1)}
    if not made.family.startswith("gemma"):
        found["output.weight"] = matrix(vocabulary, WIDTH, 3)
    if made.llama3:
        found["rope_freqs.weight"] = np.array([divisor(made.llama3, at) for at in range(HEAD // 2)], np.float32)
    for layer in range(layers(made)):
        inner = {"attn_norm.weight": vector(WIDTH, 1), "ffn_norm.weight": vector(WIDTH, 1)}
        if made.family == "phi3":
            inner |= {"attn_qkv.weight": matrix(query + 2 * key, WIDTH), "ffn_up.weight": matrix(2 * INNER, WIDTH)}
        else:
            inner |= {"attn_q.weight": matrix(query, WIDTH), "attn_k.weight": matrix(key, WIDTH)}
            inner |= {"attn_v.weight": matrix(key, WIDTH)}
            inner |= {"ffn_gate.weight": matrix(INNER, WIDTH), "ffn_up.weight": matrix(INNER, WIDTH)}
        inner |= {"attn_output.weight": matrix(WIDTH, query), "ffn_down.weight": matrix(WIDTH, INNER)}
        if made.family == "qwen2":
            inner |= {"attn_q.bias": vector(query, 0), "attn_k.bias": vector(key, 0), "attn_v.bias": vector(key, 0)}
        if made.family in ("qwen3", "gemma3"):
            inner |= {"attn_q_norm.weight": vector(HEAD, 1), "attn_k_norm.weight": vector(HEAD, 1)}
        if made.family.startswith("gemma"):
            inner |= {"post_attention_norm.weight": vector(WIDTH, 6), "post_ffw_norm.weight": vector(WIDTH, 6)}
        found |= {f"blk.{layer}.{name}": values for name, values in inner.items()}
    return found


def divisor(factor: float, pair: int) -> float:
    """Return what Llama 3 divides the frequency of a pair of numbers by."""
    wavelength = 2 * pi * 10000.0 ** (2 * pair / HEAD)
    if wavelength < 8192 / 4:
        return 1
    if wavelength > 8192:
        return factor
    smooth = (8192 / wavelength - 1) / 3
    return float(1 / ((1 - smooth) / factor + smooth))


def _add_fields(writer: gguf.GGUFWriter, made: Made, count: int) -> None:
    numbers = {
        "context_length": 512, "embedding_length": WIDTH, "block_count": layers(made), "feed_forward_length": INNER,
        "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS, "attention.key_length": HEAD,
        "attention.value_length": HEAD, "rope.dimension_count": HEAD, "vocab_size": count,
    }  # fmt: skip
    if made.family.startswith("gemma"):
        numbers["attention.sliding_window"] = 32 if made.family == "gemma3" else 512
    for key, number in numbers.items():
        writer.add_uint32(f"{made.family}.{key}", number)
    writer.add_float32(f"{made.family}.attention.layer_norm_rms_epsilon", 1e-6)
    writer.add_float32(f"{made.family}.rope.freq_base", 10000.0)
    if made.family == "gemma2":
        writer.add_float32("gemma2.attn_logit_softcapping", 50.0)
        writer.add_float32("gemma2.final_logit_softcapping", 30.0)
    for key, value in made.fields.items():
        if isinstance(value, str):
            writer.add_string(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
        else:
            writer.add_uint32(key, value)


def _add_tokenizer(writer: gguf.GGUFWriter, made: Made) -> int:
    """Add a tokenizer and a chat template; returns the number of tokens."""
    if made.scored:
        tokens, scores, types = scored(made.texts)
        writer.add_tokenizer_model("llama")
        writer.add_token_scores([*scores, *[0.0] * len(CONTROLS)])
        writer.add_bos_token_id(1)
        end = 2
    else:
        tokens, merges = byte_level(made.texts)
        types = [1] * len(tokens)
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(made.pre)
        writer.add_token_merges(merges)
        end = len(tokens)
    tokens, types = [*tokens, *CONTROLS], [*types, *[3] * len(CONTROLS)]
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_eos_token_id(end)
    writer.add_eot_token_id(len(tokens) - 1)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHATML)
    writer.add_string("general.license", "apache-2.0")
    return len(tokens)
