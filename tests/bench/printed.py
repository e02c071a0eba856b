"""Computes the cost of PerCache's own engine: it caches Q, K and V of a prefix and saves only their projections.

By PerCache 4.1.1 and 4.2.2 a chunk's tensors are those of all three, and its engine still runs every reused token
through attention, the output projection and the MLP. So, of what was measured here with r tokens reused:

    FLOPs  = measured + F(r) - 2 r L h (q + 2 k)     F: engine.models.meter's formula, over r tokens in front
    time   = measured + (F(r) - 2 r L h (q + 2 k)) / rate + (bytes / ours - 1) load
    bytes  = ours (q + 2 k) / 2 k

with L layers, h the width of a token, q that of all query heads and k that of all heads of keys (grouped queries have
fewer), and `rate` what this model reads at, in FLOPs a second, measured in the same run. A budget of bytes that is full
would also hold fewer chunks: that is left out, in the paper's favour.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from time import perf_counter
from typing import Any, TypedDict

from engine.models.mlx import Mlx
from engine.models.types import Meter, Size, flops
from store.kv_tree import borders

READ = 512  # tokens that the rate is measured over, where the model holds as many


@dataclass(frozen=True, slots=True)
class Widths:
    """What the projections of a layer multiply: the widths of a token, of all queries and of all keys of it."""

    token: int
    queries: int
    keys: int
    layers: int

    @property
    def projected(self) -> float:
        """Return the FLOPs of the projections to Q, K and V of one token."""
        return 2.0 * self.layers * self.token * (self.queries + 2 * self.keys)

    @property
    def heavier(self) -> float:
        """Return how many times the bytes of K and V those of Q, K and V are."""
        return (self.queries + 2 * self.keys) / (2 * self.keys)


@dataclass(frozen=True, slots=True)
class Engine:
    """A model as its work is reckoned by, and the FLOPs a second that it reads at on this machine."""

    size: Size
    widths: Widths
    sub_step: int
    rate: float


class Printed(TypedDict):
    """A question's milliseconds and FLOPs, and the bytes of all tensors that are then kept."""

    ms: float
    flops: float
    kv_bytes: int


def widths(args: Any, layers: int) -> Widths:
    """Return the widths that a model's arguments name."""
    heads, token = args.num_attention_heads, args.hidden_size
    head = getattr(args, "head_dim", None) or token // heads
    return Widths(token, heads * head, (getattr(args, "num_key_value_heads", None) or heads) * head, layers)


def engine(model: Mlx) -> Engine:
    """Measure how fast a model reads a prompt of which nothing was read before, the first time not counted."""
    ids = [10 + number % 90 for number in range(min(READ, model.context // 2))]
    for _ in range(2):
        fresh = replace(model, meter=Meter())
        begun = perf_counter()
        fresh.prefill(fresh.begin(), ids)
        seconds = perf_counter() - begun
    rate = flops(model.size, fresh.meter) / seconds
    return Engine(model.size, widths(model.model.args, model.size.layers), model.sub_step, rate)


def again(engine: Engine, reused: Sequence[int]) -> float:
    """Return the FLOPs that reused tokens, by segment from the front, still take where projections alone are saved."""
    tokens = sum(reused)
    whole = flops(engine.size, Meter(prefilled=tokens, pairs=sum(_pairs(reused, engine.sub_step))))
    return whole - engine.widths.projected * tokens


def reckon(
    engine: Engine, ms: Mapping[str, float | None], flops: float, kv_bytes: int, reused: Sequence[int]
) -> Printed:
    """Return what a question would have taken, of what it took here."""
    more, heavier = again(engine, reused), engine.widths.heavier
    total, load = ms["total"] or 0.0, ms.get("load") or 0.0
    time = total + 1000 * more / engine.rate + load * (heavier - 1)
    return Printed(ms=round(time, 3), flops=flops + more, kv_bytes=round(kv_bytes * heavier))


def _pairs(reused: Sequence[int], sub_step: int) -> Iterator[int]:
    """Count whom the tokens of each sub-step would attend to."""
    before = 0
    for count in reused:
        for start, end in pairwise((0, *borders(count, sub_step))):
            yield (end - start) * (before + end)
        before += count
