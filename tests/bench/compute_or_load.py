"""Restoring a cached prompt through disks of many speeds: computing, loading and both at once, by each planner.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.compute_or_load [--model 135M|0.5B|nano] [--rounds N] [--tokens N]
[--rates MB/S...]`. Files are real; reads are slowed to a rate, and run in the thread that loads. All ways take turns in
one process, after a round that measures costs. Prints a line of JSON for each rate and way: median seconds, the ratio
to the better of the two pure ways, the tokens computed, and whether the tensors equal the computed ones.
"""

import json
import os
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from engine.kv import restore
from engine.kv.costs import MeasuredCosts
from engine.kv.restore import KvBinding, Prefilled, PromptReader, prefill
from engine.models.kv_cache import ReadAt
from engine.types import Trace
from store.database import Ledger, open_ledger
from tests.bench.kv_reuse import CachedPrompt, cached_prompt, loaded, prompt
from tests.bench.recompute import PLANNERS

RATES = (5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 0.0)  # MB/s; 0 for as fast as the disk is
ROUNDS, TOKENS = 5, 1024
PURE = ("compute", "load")


class Slowed:
    """Reads as `os.preadv` does, at a rate in bytes a second over all reads so far; mutable."""

    def __init__(self, rate: float) -> None:
        self._rate, self._free = rate, 0.0

    def __call__(self, descriptor: int, buffers: Sequence[memoryview], at: int) -> int:
        """Read, and wait until as many bytes could have come."""
        count = os.preadv(descriptor, buffers, at)
        if self._rate:
            self._free = max(self._free, time.perf_counter()) + count / self._rate
            time.sleep(max(0.0, self._free - time.perf_counter()))
        return count


def main() -> None:
    """Measure and print."""
    options = arguments()
    with TemporaryDirectory(prefix="pkb-plan-") as name:
        folder = Path(name)
        model = loaded(folder, options.model)
        with cached_prompt(model, folder / "prompt", prompt(options.tokens)) as cached:
            for rate in options.rates:
                for row in measured(cached, rate * 1e6, options.rounds, folder):
                    print(json.dumps({"model": options.model, "rate": rate, **row}), flush=True)


def arguments() -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="135M")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--tokens", type=int, default=TOKENS)
    parser.add_argument("--rates", type=float, nargs="+", default=RATES)
    return parser.parse_args()


def measured(cached: CachedPrompt, rate: float, rounds: int, folder: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of one rate."""
    ledger = open_ledger(folder / f"costs-{rate}.db", create=True)
    expected = tensors(restored(cached, ledger, "compute", os.preadv)[0])
    for way in (*PURE, *PURE, *PURE):
        restored(cached, ledger, way, Slowed(rate))
    seconds: dict[str, list[float]] = {way: [] for way in PLANNERS}
    reused: dict[str, list[int]] = {way: [] for way in PLANNERS}
    equal = dict.fromkeys(PLANNERS, True)
    for _ in range(rounds):
        for way in PLANNERS:
            begun = time.perf_counter()
            read, _ = restored(cached, ledger, way, Slowed(rate))
            seconds[way].append(time.perf_counter() - begun)
            reused[way].append(sum(read.reused))
            equal[way] &= all(map(np.array_equal, tensors(read), expected))
    best, total = min(median(seconds[way]) for way in PURE), sum(map(len, cached.context))
    for way, times in seconds.items():
        yield {
            "way": way,
            "median_s": round(median(times), 4),
            "range_s": [round(min(times), 4), round(max(times), 4)],
            "to_best_pure": round(median(times) / best, 3),
            "computed": total - round(median(reused[way])),
            "of": total,
            "equal": equal[way],
        }


def restored(cached: CachedPrompt, ledger: Ledger, way: str, read_at: ReadAt) -> tuple[Prefilled, Trace]:
    """Restore the prompt's prefix in one way; costs are learnt."""
    costs, trace = MeasuredCosts(ledger, "bench"), Trace()
    costs.record_prefill(0, 1, 1.0)  # the process is warm
    restore.LEAST_S = inf  # loading alone is to take what it takes
    binding = KvBinding(cached.store, cached.root, cached.model, costs, PLANNERS[way], read_at)
    read = prefill(PromptReader(cached.model, binding), cached.context, trace)
    costs.save()
    return read, trace


def tensors(read: Prefilled) -> list[Any]:
    """Copy the keys and values of a cache."""
    return [np.array(array) for layer in read.cache for array in layer.keys_and_values()]


if __name__ == "__main__":
    main()
