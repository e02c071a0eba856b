"""How fast the embedder is here: chunks of 100 words by batch size and back end, beside the matrix products alone.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.embedding [CHUNKS]`. Other work on the machine slows the wall clock;
seconds of processor time and ratios within one run are what to compare.
"""

import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter, process_time

import numpy as np

from engine.models import minilm as module
from engine.models.minilm import MiniLM

BUDGETS = (128, 256, 512, 1024, 2048, 4096)  # tokens of a batch
TEXT = """
Marie, the budget meeting on Thursday 14 November moves to half past nine because two of us travel to Antwerp. Please
send your part of the quarterly report (invoices 2024-0117 and 2024-0131, EUR 1,249.50 altogether) before noon, so that
Siobhan can check whether the figures from the northern warehouse agree with what accounting received. Nobody expects a
polished version, but we ought to decide who presents, and which questions stay unanswered: refurbishment, insurance.
"""
COLD = (
    "from time import perf_counter as now; a = now(); import numpy; b = now(); from engine.models.minilm import MiniLM;"
    "c = now(); one = MiniLM(); one.embed(['when is the next rehearsal?']); d = now();"
    "one.embed(['when is the next rehearsal?']); e = now(); print(b - a, c - b, d - c, e - d, d - a)"
)


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds of one piece of work."""

    wall: float
    processor: float


def main() -> None:
    """Print the tables."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 120
    chosen = random.Random(7)
    chunks = [" ".join(chosen.choices(TEXT.split(), k=100)) for _ in range(count)]
    tokens = [len(found.ids) for found in MiniLM()._tokenizer.encode_batch(chunks)]
    print(f"{count} chunks of 100 words, {sum(tokens) / count:.0f} tokens each")
    rows("numpy, one at a time", chunks, [(f"batch {size}", size, 1, "cpu") for size in BUDGETS])
    rows("side by side", chunks, [(f"{n} workers", module.BATCH, n, "cpu") for n in (1, 2)])
    rows("back ends", chunks[: count // 20], [("numpy", module.BATCH, 1, "cpu"), ("mlx", module.BATCH, 1, "metal")])
    whole = timed(lambda: MiniLM().embed(chunks)).processor
    alone = timed(lambda: products(sum(tokens), sum(tokens) // module.BATCH + 1)).processor
    print(f"\nmatrix products of the dense layers alone take {alone / whole:.0%} of the processor time")
    cold()


def rows(title: str, chunks: list[str], cases: list[tuple[str, int, int, str]]) -> None:
    """Print chunks per second of each case (name, batch size, workers, device)."""
    print(f"\n{title:24}{'chunks/s':>10}{'per processor s':>18}")
    for name, size, workers, device in cases:
        module.BATCH = size
        embedder = MiniLM(device=device, workers=workers)
        embedder.embed(chunks[:1])
        found = timed(partial(embedder.embed, chunks))
        print(f"  {name:22}{len(chunks) / found.wall:10.1f}{len(chunks) / found.processor:18.1f}")


def timed(work: Callable[[], object]) -> Speed:
    """Give the better of two runs."""
    runs = []
    for _ in range(2):
        wall, processor = perf_counter(), process_time()
        work()
        runs.append(Speed(perf_counter() - wall, process_time() - processor))
    return min(runs, key=lambda run: run.processor)


def products(tokens: int, batches: int) -> None:
    """Multiply what the dense layers of the model multiply, and nothing else."""
    shapes = [(384, 384)] * 4 + [(1536, 384), (384, 1536)]
    weights = [np.ones(shape, np.float32) for _ in range(6) for shape in shapes]
    inputs = {width: np.ones((tokens // batches, width), np.float32) for width in (384, 1536)}
    for _ in range(batches):
        for weight in weights:
            inputs[weight.shape[1]] @ weight.T


def cold() -> None:
    """Print what a new process pays, in milliseconds: medians of seven."""
    runs = [subprocess.run([sys.executable, "-c", COLD], capture_output=True, text=True, check=True) for _ in range(7)]
    columns = np.median([[float(number) for number in run.stdout.split()] for run in runs], axis=0) * 1000
    names = ("numpy", "import", "load and first embed", "second embed", "all until the first vector")
    print("\nnew process, ms: " + ", ".join(f"{name} {ms:.0f}" for name, ms in zip(names, columns, strict=True)))


if __name__ == "__main__":
    main()
