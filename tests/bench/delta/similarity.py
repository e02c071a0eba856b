"""How alike the KV of two adapters is, and what storing one as its difference from the other takes and costs.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.delta.similarity MODEL --mail FOLDER [--anchor A] [--target B]
[--other MODEL] [--tokens N] [--layers]`. A and B are folders of adapters as mlx-lm saves them, the bare model by
default; `--other` is a model of the same shape, tuned as a whole, that stands for the target. Prints a JSON line for
each form: bits a number, the largest error as a share of its bound, seconds of decoding 1000 tokens, and over 50 tokens
behind what was decoded the KL divergence and agreement of the next token; `--layers` prints similarities by layer.
"""

import json
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import log1p
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from engine.models import kv_cache
from engine.models.mlx import Mlx
from tests.bench.compression import mail_ids, opened
from tests.bench.delta.training import worn
from tests.bench.sparkv.bitstream import Chunk32, Shape, decode, encode
from tests.bench.sparkv.streaming import QUESTION, blocks_of, divergence

SEGMENT = 128  # tokens: those of a node
HIGH, LOW = 0.975, 0.85  # similarities between the groups (MobiLoRA 4.1)
ERRORS = (1e-4, 1e-3, 1e-2)  # of the groups, most similar first
Layers = list[tuple[Chunk32, Chunk32]]  # keys and values, (heads, tokens, width)


@dataclass(frozen=True, slots=True)
class Pair:
    """A tensor of both adapters, with its similarity: the mean cosine of a token's numbers, and its spread."""

    layer: int
    kv: int
    anchor: Chunk32
    target: Chunk32

    @property
    def similarity(self) -> float:
        """Return the mean over the tokens of the cosine between what both adapters hold."""
        one, other = (
            np.float64(part.transpose(1, 0, 2).reshape(part.shape[1], -1)) for part in (self.anchor, self.target)
        )
        norms = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
        return float(np.mean((one * other).sum(axis=1) / np.maximum(norms, 1e-30)))

    @property
    def spread(self) -> float:
        """Return the standard deviation of the target."""
        return float(self.target.std())

    @property
    def group(self) -> int:
        """Return the group of its similarity, 0 for the most similar."""
        return sum(self.similarity <= limit for limit in (HIGH, LOW))

    @property
    def shape(self) -> Shape:
        """Return heads, tokens and width."""
        heads, tokens, width = self.target.shape
        return heads, tokens, width


Bound = Callable[[Pair], float]


def printed(pair: Pair) -> float:
    """Return the bound of equation 3 as printed: absolute, whatever the size of the numbers."""
    return log1p(ERRORS[pair.group])


def relative(pair: Pair) -> float:
    """Return the same errors as shares of the layer's spread."""
    return ERRORS[pair.group] * pair.spread


def share(part: float) -> Bound:
    """Return a bound that is one share of the spread for all groups."""
    return lambda pair: part * pair.spread


BOUNDS: dict[str, Bound] = {"printed": printed, "relative": relative} | {
    f"{part} of the spread": share(part) for part in (0.01, 0.03, 0.1)
}


def main() -> None:
    """Measure and print."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--mail", type=Path, required=True)
    parser.add_argument("--anchor", type=Path)
    parser.add_argument("--target", type=Path)
    parser.add_argument("--other")
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--layers", action="store_true")
    given = parser.parse_args()
    with ExitStack() as held:
        model = held.enter_context(opened(given.model))
        other = held.enter_context(opened(given.other)) if given.other else model
        prompt = blocks_of(mail_ids(model, given.mail, given.tokens + QUESTION), given.tokens)
        anchor, _, _ = computed(model, given.anchor, prompt)
        about = {
            "model": Path(given.model).name,
            "anchor": _name(given.anchor),
            "target": given.other or _name(given.target),
        }
        for row in measured(other, given.target, anchor, prompt, layers=given.layers):
            print(json.dumps(about | {"tokens": given.tokens} | row), flush=True)


def _name(folder: Path | None) -> str:
    return folder.name if folder else "bare"


def computed(model: Mlx, adapter: Path | None, prompt: Sequence[Sequence[int]]) -> tuple[Layers, Any, float]:
    """Return the KV of a prompt but its last block, the logits of that one, and the seconds of computing the KV."""
    import mlx.core as mx

    cache, tokens = model.begin(), sum(map(len, prompt[:-1]))
    with worn(model, adapter):
        began = perf_counter()
        for block in prompt[:-1]:
            model.prefill(cache, block)
        seconds = perf_counter() - began
        kept = [(np.array(part.keys[0, :, :tokens]), np.array(part.values[0, :, :tokens])) for part in cache]
        return kept, np.array(model.model(mx.array(list(prompt[-1]))[None], cache=cache))[0], seconds


def measured(
    model: Mlx, adapter: Path | None, anchor: Layers, prompt: Sequence[Sequence[int]], *, layers: bool
) -> Iterator[dict[str, Any]]:
    """Yield the figures of each form of the target's KV."""
    target, wanted, seconds = computed(model, adapter, prompt)
    every = [Pair(layer, kv, anchor[layer][kv], target[layer][kv]) for layer in range(len(target)) for kv in (0, 1)]
    pairs = list(segments(every))
    groups = [sum(pair.group == number for pair in pairs) / len(pairs) for number in range(3)]
    equal = sum(bool((pair.anchor == pair.target).all()) for pair in pairs) / len(pairs)
    tokens = target[0][0].shape[1]
    yield {"form": "similarity", "groups": [round(one, 3) for one in groups], "equal": round(equal, 3)} | {
        "compute_s_a_1000": round(1e3 * seconds / tokens, 2)
    }
    if layers:
        for kv in (0, 1):
            found = [round(pair.similarity, 4) for pair in every if pair.kv == kv]
            yield {"form": f"similarity of {('keys', 'values')[kv]} by layer", "mean_cosine": found}

    def judged(layers: Layers) -> dict[str, Any]:
        return agreement(model, adapter, layers, prompt[-1], wanted)

    yield {"form": "anchor as it is", "bits": 0} | judged(anchor)
    yield {"form": "8 bits, whole", "bits": 9.0} | judged(rounded(target))
    for name, bound in BOUNDS.items():
        for is_delta in (True, False):
            row, layers_ = coded(pairs, bound, is_delta=is_delta, count=len(target))
            yield {"form": f"{name}, {'delta' if is_delta else 'whole'}"} | row | (judged(layers_) if is_delta else {})


def segments(pairs: Sequence[Pair]) -> Iterator[Pair]:
    """Yield the parts of tensors that a node holds."""
    for pair in pairs:
        for start in range(0, pair.target.shape[1], SEGMENT):
            part = slice(start, start + SEGMENT)
            yield Pair(pair.layer, pair.kv, pair.anchor[:, part], pair.target[:, part])


def coded(pairs: Sequence[Pair], bound: Bound, *, is_delta: bool, count: int) -> tuple[dict[str, Any], Layers]:
    """Encode and decode each tensor, as a difference or whole; returns the figures and the decoded layers."""
    found: list[list[list[Chunk32]]] = [[[], []] for _ in range(count)]
    size, numbers, worst, decoding = 0, 0, 0.0, 0.0
    for pair in pairs:
        base = pair.anchor if is_delta else np.zeros_like(pair.target)
        most = bound(pair)
        stream = encode(pair.target - base, most)
        began = perf_counter()
        back = decode(stream, pair.shape) + base
        decoding += perf_counter() - began
        worst = max(worst, float(np.abs(back.astype(np.float64) - pair.target).max()) / most)
        size, numbers = size + len(stream), numbers + pair.target.size
        found[pair.layer][pair.kv].append(back)
    tokens = sum(pair.target.shape[1] for pair in pairs) / (2 * count)
    whole = [(np.concatenate(keys, axis=1), np.concatenate(values, axis=1)) for keys, values in found]
    return {
        "bits": round(8 * size / numbers, 2),
        "largest_error_of_bound": round(worst, 4),
        "decode_s_a_1000": round(1e3 * decoding / tokens, 3),
    }, whole


def rounded(layers: Layers) -> Layers:
    """Return keys and values as pkb stores them in 8 bits."""
    import mlx.core as mx

    def both(part: Chunk32) -> Chunk32:
        found: Chunk32 = np.array(kv_cache.unpack(kv_cache.pack("k", mx.array(part), 8), "k"))
        return found

    return [(both(keys), both(values)) for keys, values in layers]


def agreement(model: Mlx, adapter: Path | None, layers: Layers, block: Sequence[int], wanted: Any) -> dict[str, Any]:
    """Return how far the next tokens behind such keys and values are from those wanted."""
    import mlx.core as mx

    cache = kv_cache.extend(model.begin(), [(mx.array(keys)[None], mx.array(values)[None]) for keys, values in layers])
    with worn(model, adapter):
        logits = np.array(model.model(mx.array(list(block))[None], cache=cache))[0]
    return {
        "kl": round(float(np.mean([divergence(*both) for both in zip(wanted, logits, strict=True)])), 5),
        "same_token": round(float(np.mean(wanted.argmax(-1) == logits.argmax(-1))), 3),
        "n": len(logits),
    }


if __name__ == "__main__":
    main()
