"""Streaming KV from another machine against computing it: a planned mix of both, and three baselines.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.sparkv.streaming MODEL --mail FOLDER [--tokens N...] [--mbps N...]
[--rounds N] [--busy N] [--at-once N...]`. MODEL is a folder, or nano. Time to the logits of a
question of 50 tokens behind mail text, by: computing all; streaming all; computing one half and streaming the other;
and the greedy plan with its controller. Streams are of one level, or, "2 s", of the finest of four that would be
streamed whole in 2 seconds, else of the coarsest. The link is that of tests.bench.sparkv.links. --busy keeps so many
processes busy beside it; --at-once has so many processes ask together. Longer prompts are simulated by
tests.bench.sparkv.cake. Prints JSON lines.
"""

import json
import pickle
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.models.mlx import Mlx
from tests.bench.compression import mail_ids, opened
from tests.bench.sparkv.bitstream import LEVELS, decode_both
from tests.bench.sparkv.execute import encode_units, execute
from tests.bench.sparkv.layerwise import LayerwiseModel, layerwise
from tests.bench.sparkv.links import Link, far_side
from tests.bench.sparkv.predictors import busy
from tests.bench.sparkv.requests import Request, Way, at_once
from tests.bench.sparkv.schedule import StreamUnit, UnitCosts, greedy, ordered, replay
from tests.bench.sparkv.unit_times import Predictor, UnitShape, line, measure

BLOCK, QUESTION, GROUPS = 128, 50, 1
OBJECTIVE, USUAL = 2.0, 1  # seconds of streaming; the level of plans
LOCAL, STREAM, STREAM_USUAL, HALF = "local prefill", "streaming, 2 s", "streaming", "half and half"
PLANNED, PLANNED_OBJECTIVE = "planned", "planned, 2 s"
JITTER, LOSS = 0.1, 0.0005


@dataclass(frozen=True, slots=True)
class Measured:
    """What plans are made of: seconds of a unit, its bytes at each level, and seconds of decoding a byte."""

    compute: Predictor
    sizes: tuple[Mapping[StreamUnit, int], ...]
    decoding: tuple[float, ...]  # seconds of a unit, by level
    layers: int

    def costs(self, blocks: Sequence[int], mbps: float, level: int) -> UnitCosts:
        """Return the costs of a prompt of such blocks; sizes of blocks beyond those measured are the mean's."""
        starts, sizes = list(accumulate(blocks, initial=0)), self.sizes[level]
        mean = [fmean(size for unit, size in sizes.items() if unit.layer == layer) for layer in range(self.layers)]

        def stream(unit: StreamUnit) -> float:
            share = blocks[unit.block] / BLOCK
            return sizes.get(unit, mean[unit.layer] * share) * 8e-6 / mbps + self.decoding[level] * share

        own = {block: self.compute(UnitShape(size, starts[block])) for block, size in enumerate(blocks)}
        return UnitCosts.of(len(blocks) - 1, self.layers, GROUPS, stream, lambda unit: own[unit.block])


def main() -> None:
    """Measure and print."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--mail", type=Path, required=True)
    parser.add_argument("--tokens", type=int, nargs="+", default=[1024, 2048])
    parser.add_argument("--mbps", type=float, nargs="+", default=[50, 100, 250, 850])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--at-once", type=int, nargs="*", default=[])
    given = parser.parse_args()
    with opened(given.model) as model, TemporaryDirectory(prefix="pkb-stream-") as scratch:
        for tokens in given.tokens:
            prompt = blocks_of(mail_ids(model, given.mail, tokens + QUESTION), tokens)
            known = prepared(model, prompt, Path(scratch) / "units")
            about = {"model": Path(given.model).name, "tokens": tokens, "busy": given.busy}
            for link in (Link(mbps, JITTER, LOSS) for mbps in given.mbps):
                with busy(given.busy):
                    for row in raced(model, prompt, known, link, Path(scratch) / "units", given.rounds):
                        print(json.dumps(about | row), flush=True)
                request = Request(
                    given.model, prompt, list(ways(known, list(map(len, prompt)), link.mbps)), given.rounds
                )
                for count in given.at_once:
                    for row in at_once(request, link, Path(scratch) / "units", count):
                        print(json.dumps(about | row), flush=True)


def blocks_of(ids: Sequence[int], tokens: int) -> list[list[int]]:
    """Return the blocks of a prompt, the question last."""
    return [list(ids[start : min(start + BLOCK, tokens)]) for start in range(0, tokens, BLOCK)] + [list(ids[tokens:])]


def prepared(model: Mlx, prompt: Sequence[Sequence[int]], file: Path) -> Measured:
    """Write the streams of a prompt at all levels, and measure what their parts take here."""
    lengths = list(map(len, prompt))
    run = layerwise(model, sum(lengths))
    cache = model.begin()
    for block in prompt[:-1]:
        model.prefill(cache, block)
    context = sum(lengths[:-1])
    tensors = [(np.array(part.keys[0, :, :context]), np.array(part.values[0, :, :context])) for part in cache]
    starts = list(accumulate(lengths[:-1], initial=0))
    streams = [encode_units(tensors, starts, GROUPS, level) for level in LEVELS]
    file.write_bytes(pickle.dumps(streams))
    shapes = [UnitShape(size, start) for size, start in zip(lengths, (*starts[:-1], context), strict=True)]
    picked = shapes[:: max(1, len(shapes) // 8)] + shapes[-1:]
    times = [one for _ in range(3) for one in measure(run, picked, [0, run.layers // 2])]
    sizes = tuple({unit: len(data) for unit, data in units.items()} for units in streams)
    return Measured(line(times), sizes, tuple(decoding(run, units) for units in streams), run.layers)


def decoding(run: LayerwiseModel, units: Mapping[StreamUnit, bytes]) -> float:
    """Return the seconds of decoding a unit of a whole block and of putting it into the cache."""
    picked = [data for unit, data in units.items() if unit.block == 0][:12]
    shape = (run.heads // GROUPS, BLOCK, run.width)
    took = []
    for layer, data in enumerate(picked):
        began = perf_counter()
        run.place(layer % run.layers, 0, 0, *decode_both(data, shape, shape))
        took.append(perf_counter() - began)
    return median(took)


def ways(known: Measured, lengths: Sequence[int], mbps: float) -> Iterator[Way]:
    """Yield each way to answer with its plan."""
    blocks = len(lengths) - 1
    costs = known.costs(lengths, mbps, USUAL)
    yield Way(LOCAL, USUAL, costs, ordered(costs, [known.layers] * blocks), False)
    level, own = len(LEVELS) - 1, known.costs(lengths, mbps, len(LEVELS) - 1)
    for number in range(len(LEVELS)):
        tried = known.costs(lengths, mbps, number)
        if replay(tried, ordered(tried, [0] * blocks)).finish <= OBJECTIVE:
            level, own = number, tried
            break
    yield Way(STREAM, level, own, ordered(own, [0] * blocks), False)
    yield Way(STREAM_USUAL, USUAL, costs, ordered(costs, [0] * blocks), False)
    half = [known.layers if block < blocks // 2 else 0 for block in range(blocks)]
    yield Way(HALF, USUAL, costs, ordered(costs, half), False)
    yield Way(PLANNED, USUAL, costs, greedy(costs), True)
    yield Way(PLANNED_OBJECTIVE, level, own, greedy(own), True)


def raced(
    model: Mlx, prompt: Sequence[Sequence[int]], known: Measured, link: Link, file: Path, rounds: int
) -> Iterator[dict[str, Any]]:
    """Yield the time of each way, by turns over one shaped link, and how far its logits are from those computed."""
    lengths = list(map(len, prompt))
    every = list(ways(known, lengths, link.mbps))
    times, sizes, moved, apart = (dict[str, list[float]]() for _ in range(4))
    wanted: NDArray[np.float32] | None = None
    with far_side(link, file) as (remote, shaped):
        for way in every * rounds:
            began = perf_counter()
            own = replace(way, plan=greedy(way.costs)) if way.is_controlled else way  # planning counts
            control = own.control()
            planning = perf_counter() - began if way.is_controlled else 0.0
            remote.level = way.level
            run = layerwise(model, sum(lengths))
            began = perf_counter()
            found = execute(run, prompt, control, remote)
            logits = np.array(found.logits)[0, -1]
            times.setdefault(way.name, []).append(perf_counter() - began + planning)
            sizes.setdefault(way.name, []).append(found.received)
            moved.setdefault(way.name, []).append(found.migrated)
            wanted = logits if wanted is None else wanted
            apart.setdefault(way.name, []).append(divergence(wanted, logits))
    for way in every:
        yield {
            "mbps": link.mbps, "link": shaped, "way": way.name, "level": way.level,
            "seconds": round(median(times[way.name]), 3), "predicted": round(replay(way.costs, way.plan).finish, 3),
            "bytes": int(median(sizes[way.name])), "migrated": int(median(moved[way.name])),
            "kl": round(max(apart[way.name]), 5), "n": rounds,
        }  # fmt: skip


def divergence(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """Return the KL divergence of the next token's probabilities."""
    logs = [values - values.max() - np.log(np.exp(values - values.max()).sum()) for values in (one, other)]
    return float((np.exp(logs[0]) * (logs[0] - logs[1])).sum())


if __name__ == "__main__":
    main()
