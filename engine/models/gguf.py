"""Reads the header of a GGUF file into a config.json; refuses files that pkb cannot convert, with the reason.

The file is untrusted input: every length in it is compared with what the file can hold before anything is read.
"""

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from store.errors import PkbError

MAGIC, VERSIONS = b"GGUF", (2, 3)
ALIGNMENT_KEY, ALIGNMENT = "general.alignment", 32
PATTERN_KEY = "tokenizer.ggml.pre"
MOST_FIELDS, MOST_TENSORS, MOST_ITEMS, MOST_DIMENSIONS = 10_000, 10_000, 10_000_000, 4
LONGEST_NAME, LONGEST_TEXT = 1 << 16, 1 << 24  # bytes
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9


_READ = ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K")
KINDS = {kind.value: kind for kind in map(GGMLQuantizationType.__getitem__, _READ)}


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """Where a tensor lies: its shape, the contiguous dimension last, and its first byte in the file."""

    name: str
    kind: GGMLQuantizationType
    shape: tuple[int, ...]
    start: int

    @property
    def bytes(self) -> int:
        """Return its size in the file."""
        width, size = GGML_QUANT_SIZES[self.kind]
        return prod(self.shape) // int(width) * int(size)


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """The fields of a GGUF file, where its tensors lie, and when it was written to last, in nanoseconds."""

    path: Path
    fields: Mapping[str, Any]
    tensors: Mapping[str, TensorPlace]
    written: int

    @property
    def architecture(self) -> str:
        """Return the name of its architecture; PkbError if it has none."""
        return str(self.of("general.architecture", str))

    def of(self, key: str, kind: type | tuple[type, ...], default: Any = None) -> Any:
        """Return a field of a type, or the default; PkbError if it is missing or of another type."""
        found = self.fields.get(key, default)
        if found is None or not isinstance(found, kind) or (isinstance(found, bool) and kind is not bool):
            raise self.refusal(f"its header has no valid {key}")
        return found

    def number(self, key: str, default: int | None = None) -> int:
        """Return a positive whole number of its architecture; PkbError if there is none."""
        found = self.of(f"{self.architecture}.{key}", int, default)
        if not 0 < found < 1 << 31:
            raise self.refusal(f"its {key} is {found}")
        return int(found)

    def real(self, key: str, default: float | None = None) -> float:
        """Return a positive number from the architecture's metadata; PkbError if it is missing."""
        found = float(self.of(f"{self.architecture}.{key}", (int, float), default))
        if not 0 < found < float("inf"):
            raise self.refusal(f"its {key} is {found}")
        return found

    def refusal(self, reason: str) -> PkbError:
        """Return the error that it cannot be converted."""
        return PkbError(f"cannot convert {self.path.name}: {reason}", "pkb model list")


class _Reader:
    """Reads the header of a mapped file in order, and never past its end; ValueError."""

    def __init__(self, data: mmap.mmap) -> None:
        self.at, self._data = 0, data

    def numbers(self, form: str, count: int = 1) -> tuple[Any, ...]:
        form = f"<{count}{form}"
        return struct.unpack(form, self._take(struct.calcsize(form)))

    def number(self, form: str) -> Any:
        return self.numbers(form)[0]

    def text(self, longest: int = LONGEST_TEXT) -> str:
        size = self.number("Q")
        if size > longest:
            raise ValueError(f"a text of {size} bytes")
        return self._take(size).decode("utf-8", errors="replace")

    def value(self, kind: int) -> Any:
        inner, count = (self.number("I"), self.number("Q")) if kind == ARRAY else (kind, 1)
        if count > MOST_ITEMS:
            raise ValueError(f"an array of {count} items")
        if inner != STRING and inner not in NUMBERS:
            raise ValueError(f"a value of type {inner}")
        found = [self.text() for _ in range(count)] if inner == STRING else list(self.numbers(NUMBERS[inner], count))
        return found if kind == ARRAY else found[0]

    def _take(self, size: int) -> bytes:
        found = self._data[self.at : self.at + size]
        if len(found) < size:
            raise ValueError("it ends early")
        self.at += size
        return found


def read(path: Path) -> GgufHeader:
    """Read a file's header; PkbError if it cannot be read, or is damaged, or holds a tensor of an unknown format."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _header(path, data)
    except ValueError as error:
        raise PkbError(f"{path} is not a GGUF file that pkb can read: {error}", "pkb model list") from None
    except OSError as error:
        raise PkbError(f"{path} cannot be read: {error.strerror}", "pkb model list") from None


def _header(path: Path, data: mmap.mmap) -> GgufHeader:
    reader = _Reader(data)
    if data[: len(MAGIC)] != MAGIC:
        raise ValueError("its first bytes are wrong")
    reader.at = len(MAGIC)
    if (version := reader.number("I")) not in VERSIONS:
        raise ValueError(f"version {version}" if version < 1 << 16 else "its numbers are big-endian")
    tensors, fields = reader.number("Q"), reader.number("Q")
    if tensors > MOST_TENSORS or fields > MOST_FIELDS:
        raise ValueError(f"it claims {fields} fields and {tensors} tensors")
    found = {reader.text(LONGEST_NAME): reader.value(reader.number("I")) for _ in range(fields)}
    places = [_place(reader) for _ in range(tensors)]
    alignment = found.get(ALIGNMENT_KEY, ALIGNMENT)
    if not isinstance(alignment, int) or not 0 < alignment < 1 << 20:
        raise ValueError(f"an alignment of {alignment}")
    base = -(-reader.at // alignment) * alignment
    for place in places:
        if base + place.start + place.bytes > len(data):
            raise ValueError(f"it ends before its tensor {place.name}")
    moved = {place.name: replace(place, start=base + place.start) for place in places}
    if len(moved) < len(places):
        raise ValueError("two of its tensors have one name")
    return GgufHeader(path, found, moved, path.stat().st_mtime_ns)


def _place(reader: _Reader) -> TensorPlace:
    name, dimensions = reader.text(LONGEST_NAME), reader.number("I")
    if not 0 < dimensions <= MOST_DIMENSIONS:
        raise ValueError(f"a tensor of {dimensions} dimensions")
    shape = tuple(reader.number("Q") for _ in range(dimensions))[::-1]
    number, start = reader.number("I"), reader.number("Q")
    if (kind := KINDS.get(number)) is None:
        named = next((kind.name for kind in GGMLQuantizationType if kind == number), number)
        raise ValueError(f"pkb does not know the tensor format {named}")
    if not all(0 < length < 1 << 40 for length in shape) or shape[-1] % GGML_QUANT_SIZES[kind][0]:
        raise ValueError(f"the tensor {name} has the shape {shape}")
    return TensorPlace(name, kind, shape, start)


def config(header: GgufHeader) -> dict[str, Any]:
    """Return its config.json as mlx-lm reads it; PkbError if its architecture or a feature of it is not supported."""
    if header.architecture not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise header.refusal(f"its architecture is {header.architecture}, and pkb converts {known}")
    if header.fields.get("split.count", 1) not in (0, 1):
        raise header.refusal("it is one of several files, and pkb converts a model of one file")
    if header.fields.get(f"{header.architecture}.expert_count"):
        raise header.refusal("it is a mixture of experts")
    width, heads = header.number("embedding_length"), header.number("attention.head_count")
    head = header.number("attention.key_length", width // heads or None)
    if header.number("attention.value_length", head) != head:
        raise header.refusal("its keys and values differ in width")
    if (table := header.tensors.get("token_embd.weight")) is None or len(table.shape) != 2:
        raise header.refusal("it has no tensor token_embd.weight")
    found = {
        "model_type": header.architecture,
        "hidden_size": width,
        "num_hidden_layers": header.number("block_count"),
        "intermediate_size": header.number("feed_forward_length"),
        "num_attention_heads": heads,
        "num_key_value_heads": header.number("attention.head_count_kv", heads),
        "head_dim": head,
        "rms_norm_eps": header.real("attention.layer_norm_rms_epsilon"),
        "vocab_size": table.shape[0],
        "max_position_embeddings": header.number("context_length"),
        "rope_theta": header.real("rope.freq_base", 10000.0),
        "rope_scaling": _rope_scaling(header, head),
        "tie_word_embeddings": "output.weight" not in header.tensors,
    }
    return found | _of_family(header, found)


LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}


def _rope_scaling(header: GgufHeader, head: int) -> dict[str, Any] | None:
    """Return how positions are scaled; PkbError for a way that mlx-lm does not compute alike."""
    kind = header.fields.get(f"{header.architecture}.rope.scaling.type", "none")
    if any(name.startswith("rope_factors") for name in header.tensors):
        raise header.refusal("its positions are scaled by longrope")
    if kind == "linear":
        return {"type": "linear", "factor": header.real("rope.scaling.factor")}
    if kind != "none":
        raise header.refusal(f"its positions are scaled by {kind}")
    if "rope_freqs.weight" in header.tensors:
        return {"rope_type": "llama3", "factor": _llama3_factor(header, head), **LLAMA3}
    return None


def _llama3_factor(header: GgufHeader, head: int) -> float:
    """Return the factor that Llama 3's rule needs to give the stored divisors; PkbError if none does."""
    place = header.tensors["rope_freqs.weight"]
    if place.kind.name != "F32" or place.shape != (head // 2,):
        raise header.refusal("its tensor rope_freqs.weight has an unknown form")
    stored = np.fromfile(header.path, "<f4", place.shape[0], offset=place.start)
    factor, theta = float(stored.max()), header.real("rope.freq_base", 10000.0)
    if not 1 <= factor < 1 << 16:
        raise header.refusal(f"its positions are scaled by {factor}")
    wavelength = 2 * np.pi * theta ** (np.arange(0, head, 2) / head)
    low, high, context = LLAMA3.values()
    smooth = np.clip((context / wavelength - low) / (high - low), 0, 1)
    if not np.allclose(stored, 1 / ((1 - smooth) / factor + smooth), rtol=1e-3):
        raise header.refusal("its positions are not scaled by Llama 3's rule")
    return factor


def _of_family(header: GgufHeader, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what only its architecture has; PkbError for a form of it that mlx-lm does not compute alike."""
    kind, context = header.architecture, found["max_position_embeddings"]
    width, heads, head = (found[name] for name in ("hidden_size", "num_attention_heads", "head_dim"))
    rotated = header.number("rope.dimension_count", head) if kind in ("llama", "phi3") else head
    if kind == "llama" and rotated != head:
        raise header.refusal("only a part of each head is rotated")
    if kind in ("qwen2", "phi3") and head * heads != width:
        raise header.refusal("its heads are not as wide as the model")
    is_largest = found["num_hidden_layers"] == {"gemma2": 46, "gemma3": 62}.get(kind)
    scalar = width / heads if is_largest else head
    match kind:
        case "llama":
            return {"attention_bias": "blk.0.attn_q.bias" in header.tensors}
        case "phi3":
            return {"partial_rotary_factor": rotated / head}
        case "gemma2":
            return {
                # mlx-lm's Gemma 2 has no sliding window, and up to its size none is needed.
                "max_position_embeddings": min(context, header.number("attention.sliding_window", context)),
                "attn_logit_softcapping": header.real("attn_logit_softcapping", 50.0),
                "final_logit_softcapping": header.real("final_logit_softcapping", 30.0),
                "query_pre_attn_scalar": scalar,
            }
        case "gemma3":
            return {
                "model_type": "gemma3_text",
                "query_pre_attn_scalar": scalar,
                "rope_theta": header.real("rope.freq_base", 1_000_000.0),
                "rope_local_base_freq": header.real("rope.freq_base_swa", 10_000.0),
                "sliding_window": header.number("attention.sliding_window"),
                "sliding_window_pattern": 6,
            }
    return {}


FAMILIES = ("llama", "qwen2", "qwen3", "gemma2", "gemma3", "phi3")


NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4  # types of tokens; bytes are 6
BLANK = "\u2581"  # SentencePiece's sign for a blank
LONGEST_PIECE = 512  # characters

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
ENDING = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
GPT2, DIGITS = "", r"\p{N}"  # before GPT-2's own pattern
LLAMA3_PATTERN = rf"{CONTRACTIONS}|{WORD}|\p{{N}}{{1,3}}|{ENDING}"
QWEN2 = rf"{CONTRACTIONS}|{WORD}|\p{{N}}|{ENDING}"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CASED = rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*"
TEKKEN = rf"{CASED}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
# The pattern by which a byte-level BPE splits text, by the name that a header gives it.
SPLITTINGS: Mapping[str, str] = {
    "gpt-2": GPT2, "smollm": DIGITS, "refact": DIGITS,
    "llama-bpe": LLAMA3_PATTERN, "llama3": LLAMA3_PATTERN, "llama-v3": LLAMA3_PATTERN, "falcon3": LLAMA3_PATTERN,
    "pixtral": LLAMA3_PATTERN, "dbrx": LLAMA3_PATTERN, "smaug-bpe": LLAMA3_PATTERN,
    "qwen2": QWEN2, "deepseek-r1-qwen": QWEN2, "tekken": TEKKEN,
}  # fmt: skip
# Those of which a piece that is a token stays one, whatever its merges, and a text begins with BOS unless told.
WHOLE = ("llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral", "tekken")


def tokenizer(header: GgufHeader) -> Tokenizer:
    """Return its tokenizer; PkbError if that is damaged, or of a kind that pkb cannot rebuild."""
    (tokens, types), kind = _vocabulary(header), header.of("tokenizer.ggml.model", str)
    if kind not in ("gpt2", "llama"):
        raise header.refusal(f"pkb cannot rebuild its tokenizer, which is of the kind {kind}")
    made = _scored(header, tokens, types) if kind == "llama" else _byte_level(header, tokens)
    added = list[AddedToken]()
    for text, of_type in zip(tokens, types, strict=True):
        is_special = of_type in (UNKNOWN, CONTROL)
        # Phi 3's control tokens absorb the blanks after them, except at the beginning of a text.
        strips = header.architecture == "phi3" and kind == "llama" and text not in ("<s>", "<unk>", "<|endoftext|>")
        if is_special or of_type == USER_DEFINED:
            added.append(AddedToken(text, rstrip=strips and is_special, normalized=False, special=is_special))
    made.add_tokens(added)
    return made


def tokenizer_config(header: GgufHeader) -> dict[str, Any]:
    """Return tokenizer_config.json: chat template, special tokens, and whether BOS begins a text."""
    tokens, adds_bos = _vocabulary(header)[0], header.fields.get("tokenizer.ggml.add_bos_token")
    if not isinstance(adds_bos, bool):
        adds_bos = header.fields.get("tokenizer.ggml.model") == "llama" or header.fields.get(PATTERN_KEY) in WHOLE
    found: dict[str, Any] = {"add_bos_token": adds_bos}
    for key, name in (("bos", "bos"), ("eos", "eos"), ("unknown", "unk"), ("padding", "pad")):
        if (id := special(header, key)) is not None:
            found[f"{name}_token"] = tokens[id]
    if isinstance(template := header.fields.get("tokenizer.chat_template"), str):
        found["chat_template"] = template
    return found


def special(header: GgufHeader, name: str) -> int | None:
    """Return the id of a special token, None if the header names none."""
    id = header.fields.get(f"tokenizer.ggml.{name}_token_id")
    count = len(header.fields.get("tokenizer.ggml.tokens", ()))
    return id if isinstance(id, int) and 0 <= id < count else None


def _vocabulary(header: GgufHeader) -> tuple[list[str], list[int]]:
    """Return its tokens and their types."""
    tokens = header.of("tokenizer.ggml.tokens", list)
    types = header.of("tokenizer.ggml.token_type", list, [NORMAL] * len(tokens))
    if not tokens or not all(isinstance(text, str) for text in tokens) or len(types) != len(tokens):
        raise header.refusal("its list of tokens is damaged")
    return tokens, types


def _byte_level(header: GgufHeader, tokens: list[str]) -> Tokenizer:
    name = header.of(PATTERN_KEY, str, "")
    if (pattern := SPLITTINGS.get(name)) is None:
        raise header.refusal(f"pkb does not know how its tokenizer splits text ({name or 'it names no pattern'})")
    known, merges = {text: id for id, text in enumerate(tokens)}, list[tuple[str, str]]()
    for line in header.of("tokenizer.ggml.merges", list):
        left, blank, right = line.partition(" ") if isinstance(line, str) else ("", "", "")
        if not blank or not {left, right, left + right} <= known.keys():
            raise header.refusal("its list of merges is damaged")
        merges.append((left, right))
    made = Tokenizer(models.BPE(known, merges, ignore_merges=name in WHOLE))
    steps = [pre_tokenizers.Split(Regex(pattern), "isolated")] if pattern else []
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern in (GPT2, DIGITS))
    made.pre_tokenizer, made.decoder = pre_tokenizers.Sequence([*steps, level]), decoders.ByteLevel()
    return made


def _scored(header: GgufHeader, tokens: list[str], types: list[int]) -> Tokenizer:
    unknown = special(header, "unknown")
    named = tokens[(types.index(UNKNOWN) if UNKNOWN in types else 0) if unknown is None else unknown]
    scores = header.of("tokenizer.ggml.scores", list)
    if len(scores) != len(tokens) or not all(isinstance(score, float) for score in scores):
        raise header.refusal("its list of scores is damaged")
    # Every pair of tokens that together are a token, the highest score first.
    known = {text: id for id, text in enumerate(tokens)}
    normal = {text: id for id, text in enumerate(tokens) if types[id] == NORMAL}
    ranked = sorted((id for text, id in normal.items() if 1 < len(text) <= LONGEST_PIECE), key=lambda id: -scores[id])
    split = ((tokens[id][:at], tokens[id][at:]) for id in ranked for at in range(1, len(tokens[id])))
    pairs = [(left, right) for left, right in split if left in normal and right in normal]
    made = Tokenizer(models.BPE(known, pairs, unk_token=named, fuse_unk=True, byte_fallback=True))
    prefixed = header.of("tokenizer.ggml.add_space_prefix", bool, True)
    before = [normalizers.Prepend(BLANK)] if prefixed else []
    made.normalizer = normalizers.Sequence([*before, normalizers.Replace(" ", BLANK)])
    after = [decoders.Strip(" ", 1, 0)] if prefixed else []
    back = [decoders.Replace(BLANK, " "), decoders.ByteFallback(), decoders.Fuse(), *after]
    made.decoder = decoders.Sequence(back)
    return made
