"""Converts a GGUF file into a folder of the hub's cache that mlx-lm loads.

Formats of 32 values with a scale and an offset are repacked, their numbers unchanged; the others become 16 bits.
"""

import errno
import json
import os
import re
import shutil
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGML_QUANT_SIZES, MODEL_ARCH, GGMLQuantizationType, dequantize, get_tensor_name_map
from numpy.typing import NDArray
from safetensors.numpy import save_file
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

from engine.models.gguf import GgufHeader, TensorPlace, config, special, tokenizer, tokenizer_config
from engine.models.load import LOAD_ERRORS, SPECIAL_TOKENS, TEMPLATE_KEY, frame
from engine.models.lookup import BITS, CONFIG, MINILM_WEIGHTS, TOKENS, InstalledModel, repository
from engine.models.mlx import shapes
from engine.models.runtime import mx
from store.errors import Locked
from store.locks import Lease

Bytes = NDArray[np.uint8]
GROUP = 32  # values that share a scale and an offset
SLICE = 16 << 20  # bytes decoded at a time

# RoPE frequencies, which go into the config, and the vision encoder.
UNUSED = re.compile(r"rope_freqs\.weight|(?:v|mm)\..*")


@dataclass(frozen=True, slots=True)
class Plan:
    """The tensors to convert, by mlx-lm's names; `half` is the dtype of all numbers that are not packed."""

    header: GgufHeader
    config: Mapping[str, Any]
    half: str
    tensors: Mapping[str, TensorPlace]

    @property
    def bytes(self) -> int:
        """Return the bytes of the converted weights, without the file header."""
        counts = [(prod(place.shape), _bits(place)) for place in self.tensors.values()]
        return sum(count * bits // 8 + count // GROUP * 4 if bits else count * 2 for count, bits in counts)

    @property
    def read(self) -> int:
        """Return the bytes that are read."""
        return sum(place.bytes for place in self.tensors.values())

    @property
    def quantization(self) -> dict[str, Any] | None:
        """Return mlx-lm's entry for config.json, with the width of each layer that is packed; None if none is."""
        packed = {name.removesuffix(".weight"): bits for name, one in self.tensors.items() if (bits := _bits(one))}
        layers = {name: {"group_size": GROUP, "bits": bits} for name, bits in packed.items()}
        return {"group_size": GROUP, "bits": max(packed.values()), **layers} if packed else None


def _bits(place: TensorPlace) -> int | None:
    """Return the bits of a value of what a tensor becomes; None if it is not quantised."""
    return PACKED.get(place.kind.name) if len(place.shape) > 1 else None


def plan(header: GgufHeader) -> Plan:
    """Plan the conversion; PkbError if pkb cannot convert the model, or a tensor is unknown, missing or misshapen."""
    found = config(header)
    if (layers := found["num_hidden_layers"]) > len(header.tensors):
        raise header.refusal(f"it has no tensor for each of {layers} layers")
    try:
        known = shapes(found)
    except LOAD_ERRORS as error:
        raise header.refusal(f"mlx-lm has no such model: {error}") from error
    their = get_tensor_name_map(MODEL_ARCH[header.architecture.upper()], layers)
    names = {their.get_name(name, (".weight", ".bias")) or name: name for name in known}
    if found["tie_word_embeddings"]:
        names.pop("output.weight", None)  # which mlx-lm's Gemma 3 does without, too
    if unknown := sorted(name for name in header.tensors.keys() - names.keys() if not UNUSED.fullmatch(name)):
        raise header.refusal(f"it has a tensor {unknown[0]}, which a model of its architecture and size has not")
    for name, new in names.items():
        if (place := header.tensors.get(name)) is None:
            raise header.refusal(f"it has no tensor {name}")
        if place.shape != known[new]:
            raise header.refusal(f"its tensor {name} has the shape {place.shape} instead of {known[new]}")
    kinds = {place.kind.name for place in header.tensors.values() if len(place.shape) > 1}
    half = "bfloat16" if "BF16" in kinds and not kinds & PACKED.keys() else "float16"
    return Plan(header, found, half, {names[name]: one for name, one in header.tensors.items() if name in names})


def convert(plan: Plan, model: InstalledModel, environ: Mapping[str, str], tick: Callable[[int], None]) -> None:
    """Write a model's folder, whole or not at all; `tick` is called with the bytes read so far.

    PkbError if its tokenizer or chat template cannot be used, or the disk is full; Locked while another process writes.
    """
    texts = _texts(plan)
    home = repository(model.name, environ)
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock, fresh = Lease(home / "converting.lock"), home / "converting"
    if not lock.acquire():
        raise Locked("another pkb is converting this model", "try again when it is done")
    try:
        shutil.rmtree(fresh, ignore_errors=True)  # of a run that was killed
        fresh.mkdir(mode=0o700)
        for name, text in texts.items():
            (fresh / name).write_text(text, encoding="utf-8")
        _write(plan, fresh / "model.safetensors", tick)
        for path in fresh.iterdir():
            path.chmod(0o600)
        # It replaces an incomplete one, and the name means it.
        model.folder.parent.mkdir(mode=0o700, exist_ok=True)
        shutil.rmtree(model.folder, ignore_errors=True)
        fresh.rename(model.folder)
        (home / "refs").mkdir(mode=0o700, exist_ok=True)
        (home / "refs" / "main").write_text(model.revision or "", encoding="ascii")
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        reason = "no space is left on the disk" if full else f"{error.filename}: {error.strerror}"
        raise plan.header.refusal(reason) from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        lock.release()


def _texts(plan: Plan) -> dict[str, str]:
    header = plan.header
    tokens = tokenizer(header).to_str()
    ends = (special(header, key) for key in ("eos", "eot"))
    found = {**plan.config, "eos_token_id": list(dict.fromkeys(id for id in ends if id is not None))}
    found["dtype"] = plan.half
    found[BITS] = 8 * plan.bytes // sum(prod(place.shape) for place in plan.tensors.values())
    if plan.quantization:
        found["quantization"] = plan.quantization
    special_tokens = tokenizer_config(header)
    if template := special_tokens.get(TEMPLATE_KEY):
        frame(template, {key: special_tokens.get(key, "") for key in SPECIAL_TOKENS}, header.path.name)
    texts = {CONFIG: json.dumps(found), TOKENS: tokens}
    return texts | {"tokenizer_config.json": json.dumps(special_tokens, ensure_ascii=False)}


def _write(plan: Plan, path: Path, tick: Callable[[int], None]) -> None:
    done, arrays = 0, dict[str, Any]()
    with plan.header.path.open("rb") as source, path.open("wb") as file:
        for name, place in plan.tensors.items():
            source.seek(place.start)
            data = source.read(place.bytes)
            if plan.header.path.stat().st_mtime_ns != plan.header.written:
                raise plan.header.refusal("it was changed meanwhile")
            arrays |= _arrays(plan, name, place, data)
            done += place.bytes
            tick(done)
        mx.save_safetensors(file, arrays, {"format": "mlx"})
        file.flush()
        os.fsync(file.fileno())


# The tensors of multilingual-e5-small in the wheel's own file, and in BERT's: 4 bits as in GGUF's Q4_0, and floats.
E5_FILE = "e5-small-q4.bin"
_E5_PARTS = {
    "q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value",
    "ao": "attention.output.dense", "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense", "fo": "output.dense", "oln": "output.LayerNorm",
    "word": "word_embeddings", "pos": "position_embeddings", "type": "token_type_embeddings", "ln": "LayerNorm",
}  # fmt: skip


def unpack_e5(folder: Path) -> None:
    """Convert the file of multilingual-e5-small in a folder into those of the hub, and remove it."""
    data = (folder / E5_FILE).read_bytes()
    width, layers, heads = struct.unpack_from("<3i", data, 8)
    count, *_, size = struct.unpack_from("<5iQ", data, 44)
    ends = np.frombuffer(data, "<u4", count + 1, 72)
    scores, at = np.frombuffer(data, "<f4", count, 76 + 4 * count), 76 + 8 * count
    pieces = [data[at + first : at + end].decode() for first, end in pairwise(ends)]
    at += size + 8 + struct.unpack_from("<4xI", data, at + size)[0]  # behind a table of signs, which are NFKC's
    # The first pieces of XLM-RoBERTa are <s>, <pad>, </s> and <unk>.
    made = Tokenizer(models.Unigram(list(zip(pieces, scores.tolist(), strict=True)), unk_id=3, byte_fallback=False))
    made.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(r"\s+"), " ")])
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.post_processor = processors.TemplateProcessing("<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    made.save(str(folder / TOKENS))
    tensors, (left,) = dict[str, NDArray[Any]](), struct.unpack_from("<i", data, at)
    at += 4
    for _ in range(left):
        (length,) = struct.unpack_from("<H", data, at)
        layer, part, *kind = data[at + 2 : at + 2 + length].decode().split(".")
        is_packed, _, start, size = struct.unpack_from("<BIQQ", data, at + 2 + length)
        at += 2 + length + 21
        array = np.frombuffer(data, np.uint8 if is_packed else "<f4", size // (1 if is_packed else 4), start)
        if is_packed:
            array = dequantize(array.reshape(-1, 18), GGMLQuantizationType.Q4_0)
        if is_packed or part in ("pos", "type"):
            array = array.reshape((width, -1) if part == "fo" else (-1, width))
        name = "embeddings" if layer == "emb" else f"encoder.layer.{layer[1:]}"
        name = f"{name}.{_E5_PARTS[part]}.{'bias' if kind == ['b'] else 'weight'}"
        tensors[name] = np.ascontiguousarray(array, np.float16 if part == "word" else np.float32)
    save_file(tensors, folder / MINILM_WEIGHTS)
    about = {"model_type": "bert", "hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads}
    (folder / CONFIG).write_text(json.dumps(about), "utf-8")
    (folder / E5_FILE).unlink()


def _arrays(plan: Plan, name: str, place: TensorPlace, data: bytes) -> dict[str, Any]:
    base, is_packed = name.removesuffix(".weight"), _bits(place) is not None
    raw = np.frombuffer(data, np.uint8).reshape(place.shape[0] if len(place.shape) > 1 else 1, -1)
    step = max(1, SLICE // raw.shape[1])
    blocks = (raw[at : at + step] for at in range(0, len(raw), step))
    slices = [unpack(place.kind, some) if is_packed else (_halves(some, place, plan),) for some in blocks]
    # llama.cpp puts the two numbers of each rotation side by side; here the first ones of a head come first.
    rotated = {"attn_q": "num_attention_heads", "attn_k": "num_key_value_heads"}.get(place.name.split(".")[-2], "")
    heads = plan.config[rotated] if rotated and plan.header.architecture == "llama" else 0
    names, found = (name, f"{base}.scales", f"{base}.biases"), dict[str, Any]()
    for own, parts in zip(names, zip(*slices, strict=True), strict=False):
        array = mx.concatenate([mx.array(part) for part in parts]).reshape(*place.shape[:-1], -1)
        if heads:
            pairs = array.reshape(heads, array.shape[0] // heads // 2, 2, *array.shape[1:])
            array = pairs.swapaxes(1, 2).reshape(array.shape)
        found[own] = mx.contiguous(array)
    mx.eval(list(found.values()))
    return found


def _halves(raw: Bytes, place: TensorPlace, plan: Plan) -> Any:
    """Decode rows to a 16-bit dtype; a value too large for it becomes its largest."""
    values: NDArray[np.float32] = dequantize(raw, place.kind)
    if plan.header.architecture.startswith("gemma") and place.name.endswith("norm.weight"):
        values = values - np.float32(1)  # mlx-lm adds 1 to Gemma's norms, llama.cpp does not
    half = getattr(mx, plan.half)
    largest = float(mx.finfo(half).max)
    return mx.clip(mx.array(values), -largest, largest).astype(half)


Unpacked = tuple[NDArray[Any], NDArray[np.float16], NDArray[np.float16]]  # values or weight, scales, biases
PACKED = {"Q4_0": 4, "Q4_1": 4, "Q5_0": 5, "Q5_1": 5, "Q8_0": 8, "Q4_K": 4, "Q5_K": 5}  # bits of each value for MLX


def unpack(kind: GGMLQuantizationType, raw: Bytes) -> Unpacked:
    """Repack the rows of a tensor as MLX has them: weight, scales and biases."""
    bits, rows = PACKED[kind.name], len(raw)
    blocks = raw.reshape(rows, -1, GGML_QUANT_SIZES[kind][1])
    if bits == 8:
        scales = _half(blocks[..., :2])
        values, biases = blocks[..., 2:] ^ np.uint8(0x80), scales * np.float16(-128)  # signed to unsigned
    else:
        values, scales, biases = (_k if kind.name.endswith("K") else _small)(blocks, bits)
    return pack(values.reshape(rows, -1), bits), scales.reshape(rows, -1), biases.reshape(rows, -1)


def pack(values: Bytes, bits: int) -> NDArray[np.uint32]:
    """Pack unsigned numbers of `bits` bits as MLX does, the first into the lowest: (rows, columns * bits / 32)."""
    if bits == 8:
        return np.ascontiguousarray(values).view("<u4")
    planes = np.unpackbits(values.reshape(len(values), -1, 1), axis=-1, count=bits, bitorder="little")
    return np.packbits(planes.reshape(len(values), -1), axis=-1, bitorder="little").view("<u4")


def _half(blocks: Bytes) -> NDArray[np.float16]:
    return np.ascontiguousarray(blocks).view("<f2")[..., 0]


def _small(blocks: Bytes, bits: int) -> Unpacked:
    """Unpack Q4_0, Q4_1, Q5_0 or Q5_1: a scale, an offset or half the range, fifth bits, and nibbles."""
    scales, nibbles = _half(blocks[..., :2]), blocks[..., -GROUP // 2 :]
    has_offset = blocks.shape[-1] == 2 + 2 + GROUP * bits // 8
    biases = _half(blocks[..., 2:4]) if has_offset else scales * np.float16(-(1 << (bits - 1)))
    values = np.concatenate([nibbles & 0x0F, nibbles >> 4], axis=-1)
    if bits == 5:
        values |= np.unpackbits(blocks[..., -GROUP // 2 - 4 : -GROUP // 2], axis=-1, bitorder="little") << 4
    return values, scales, biases


def _k(blocks: Bytes, bits: int) -> Unpacked:
    """Unpack Q4_K or Q5_K: eight groups a block, their scales and offsets six bits each."""
    scale, offset = (_half(blocks[..., at : at + 2]).astype(np.float32)[..., None] for at in (0, 2))
    low, high, rest = blocks[..., 4:8], blocks[..., 8:12], blocks[..., 12:16]
    steps = np.concatenate([low & 0x3F, (rest & 0x0F) | (low >> 6 << 4)], axis=-1)
    offsets = np.concatenate([high & 0x3F, (rest >> 4) | (high >> 6 << 4)], axis=-1)
    nibbles: Bytes = blocks[..., -128:].reshape(*blocks.shape[:2], 4, 32)
    values: Bytes = np.stack([nibbles & 0x0F, nibbles >> 4], axis=-2).reshape(*blocks.shape[:2], 8, 32)
    if bits == 5:
        values |= ((blocks[..., 16:48][..., None, :] >> np.arange(8, dtype=np.uint8)[:, None]) & 1) << 4
    return values, (scale * steps).astype("<f2"), (-offset * offsets).astype("<f2")
