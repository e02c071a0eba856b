"""How fast a language model answers here, beside mlx-lm on the same weights and ids: first token, tokens/s, memory.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.model [135M|0.5B|1.2B]...`. The weights are random, for speed does not
depend on them; 1.2B takes 5 GB. Runs alternate; other work on the machine slows both, so ratios are what to compare.
"""

import os
import random
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

from engine.models import runtime
from engine.models.attention import attend
from engine.models.loading import load
from engine.models.mlx import Mlx
from tests.engine.models.shapes import REAL, make

RUNS = {"135M": 5, "0.5B": 3, "1.2B": 2}
SEGMENTS = (90, 130, 130, 130, 130, 45)  # tokens: system, chunks, question
ANSWER = 32  # tokens
STEP = 2048  # tokens that mlx-lm reads at a time, by default
OTHER = 64  # tokens read at a time, for comparison


@dataclass(frozen=True, slots=True)
class Speed:
    """One answer."""

    first: float  # seconds until its first token
    processor: float  # seconds of processor time until then
    rate: float  # tokens a second from there


PARTS = {
    "seconds to the first token": attrgetter("first"),
    "the same, of processor time": attrgetter("processor"),
    "tokens/s": attrgetter("rate"),
}


def main() -> None:
    """Print a block for each size, each measured in processes of its own."""
    for size in sys.argv[1:] or list(REAL):
        with TemporaryDirectory() as home:
            for part in ("weights", "speed", "ours", "theirs"):
                command = [sys.executable, "-m", "tests.bench.model", f"--{part}", size, home]
                subprocess.run(command, check=True)


def part(name: str, size: str, home: Path) -> None:
    """Do one part of the work, in this process."""
    runtime.load_blas(home)
    if name == "weights":
        make(home / size, REAL[size], dtype="float16")
        return
    if name == "theirs":
        inner, load_s = timed(lambda: widened(home / size))
        by_mlx_lm(inner, home / size)
        print(f"  mlx-lm: {load_s:5.2f} s to load, {peak():6.0f} MB at most (its weights widened, too)")
        return
    model, load_s = timed(lambda: load(home / size, name=size, cache=home, memory_share=0.9))
    model = replace(model, stops=frozenset(), one_line=False)
    if name == "ours":
        ours(model)
        print(f"  pkb:    {load_s:5.2f} s to load, {peak():6.0f} MB at most")
        return
    speeds(model, home / size)


def speeds(model: Mlx, folder: Path) -> None:
    """Print medians of alternating runs, the first of each not counted."""
    ways: dict[str, Callable[[], Speed]] = {
        "mlx-lm": lambda: by_mlx_lm(model.model, folder),
        f"pkb, {model.sub_step} at a time": lambda: ours(model),
        f"pkb, {OTHER} at a time": lambda: ours(replace(model, sub_step=OTHER)),
    }
    runs = [{way: work() for way, work in ways.items()} for _ in range(RUNS[model.name] + 1)][1:]
    print(
        f"{model.name}: {sum(SEGMENTS)} tokens in {len(SEGMENTS)} segments, {ANSWER} new; load {os.getloadavg()[0]:.1f}"
    )
    for title, pick in PARTS.items():
        print(f"  {title}")
        for way in ways:
            ratios = sorted(pick(run[way]) / pick(run["mlx-lm"]) for run in runs)
            ratio = f"ratio {median(ratios):.3f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
            print(f"    {way:22}{median(pick(run[way]) for run in runs):8.2f}   {ratio}")


def ids() -> list[list[int]]:
    """Give the segments of a prompt."""
    chosen = random.Random(7)
    return [[chosen.randrange(10, 600) for _ in range(count)] for count in SEGMENTS]


def ours(model: Mlx) -> Speed:
    """Answer as pkb does."""
    *before, last = ids()
    begun = Clock()
    cache = model.begin()
    for segment in before:
        model.prefill(cache, segment)
    return measured(begun, model.decode(cache, last, ANSWER))


def by_mlx_lm(inner: Any, folder: Path) -> Speed:
    """Answer as mlx-lm does."""
    from mlx_lm import stream_generate
    from mlx_lm.tokenizer_utils import TokenizerWrapper
    from transformers import PreTrainedTokenizerFast

    untyped: Any = PreTrainedTokenizerFast
    tokenizer = TokenizerWrapper(untyped(tokenizer_file=str(folder / "tokenizer.json")), eos_token_ids=[])
    prompt = [id for segment in ids() for id in segment]
    with their_attention():
        begun = Clock()
        return measured(begun, stream_generate(inner, tokenizer, prompt, max_tokens=ANSWER, prefill_step_size=STEP))


@contextmanager
def their_attention() -> Iterator[None]:
    """Have mlx-lm's models attend as they do by themselves."""
    from mlx_lm.models import base

    name, places = "scaled_dot_product_attention", [part for part in sys.modules if part.startswith("mlx_lm.models.")]
    modules = [sys.modules[place] for place in places if getattr(sys.modules[place], name, None) is attend]
    for module in modules:
        setattr(module, name, base.scaled_dot_product_attention)
    try:
        yield
    finally:
        for module in modules:
            setattr(module, name, attend)


class Clock:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._wall, self._processor = perf_counter(), process_time()

    def wall(self) -> float:
        """Give the seconds that went by."""
        return perf_counter() - self._wall

    def processor(self) -> float:
        """Give those that this process computed."""
        return process_time() - self._processor


def measured(clock: Clock, pieces: Iterator[Any]) -> Speed:
    """Time an answer as it comes."""
    next(pieces)
    first, processor = clock.wall(), clock.processor()
    count = sum(1 for _ in pieces)
    return Speed(first, processor, count / (clock.wall() - first))


def widened(folder: Path) -> Any:
    """Load a model as mlx-lm does, and bring its weights to the width that pkb computes in."""
    import mlx.core as mx
    from mlx_lm.utils import load_model

    inner, _ = load_model(folder)
    if runtime.device() == "cpu":
        inner.set_dtype(mx.float32)
        mx.eval(inner.parameters())
    return inner


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Give what some work gives, and its seconds."""
    clock = Clock()
    return work(), clock.wall()


def peak() -> float:
    """Give the most memory that this process held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def run(words: Sequence[str]) -> None:
    """Run one part where the words name one, else everything."""
    if words and words[0].startswith("--"):
        part(words[0][2:], words[1], Path(words[2]))
    else:
        main()


if __name__ == "__main__":
    run(sys.argv[1:])
