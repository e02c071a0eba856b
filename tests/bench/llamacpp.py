"""Speed of prefill and decoding beside llama.cpp: one GGUF file, equally many threads, by turns in one process.

Usage: python -m tests.bench.llamacpp FILE.gguf [--threads 2] [--prompt 1000] [--written 64] [--rounds 5]

pkb reads the folder that `pkb model use FILE.gguf` makes of the file; on a CPU it computes in fp32. llama.cpp reads the
file, and a copy of its numbers decoded into 32 bits. Each round has a prompt of random tokens of its own, and the first
round is dropped. Processor seconds are those of all threads, with the time that one waits for another while it runs.
"""

import os
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from statistics import median

from engine.models import runtime
from engine.models.load import load
from engine.models.lookup import InstalledModel, read_config
from engine.models.mlx import Mlx
from tests.bench.kv_reuse import Spent, free_memory, linked, spent
from tests.engine.models.ggufs import decode, model_of
from tests.engine.models.llamacpp import LlamaCpp

PKB, PACKED, PLAIN = "pkb, fp32", "llama.cpp, the file", "llama.cpp, F32"
_CONTROLS = 260  # ids below it may be control tokens or single bytes


@dataclass(frozen=True, slots=True)
class Round:
    """What prefill of a prompt and decoding behind it took."""

    prefill: Spent
    decode: Spent


Engine = Callable[[Sequence[int], int], Round]  # prompt ids, of which the last begins decoding; tokens to decode


def main() -> None:
    """Measure and print a table; the load of the machine goes with it."""
    asked = _arguments()
    print(f"load {os.getloadavg()[0]:.1f} at the start", flush=True)
    with tempfile.TemporaryDirectory(prefix="pkb-llamacpp-") as scratch:
        plain = decode(asked.file, Path(scratch) / "plain.gguf")
        local = model_of(linked(asked.file, Path(scratch)))
        model = load(local.folder, name=local.name, cache=Path(scratch), memory_share=0.9, threads=asked.threads)
        engines: dict[str, Engine] = {PKB: by_pkb(model)}
        for name, path in ((PACKED, asked.file), (PLAIN, plain)):
            engines[name] = by_llama(path, asked.threads, asked.prompt + asked.written + 2)
        sizes = f"{asked.file.stat().st_size / 1e6:.0f} MB, in F32 {plain.stat().st_size / 1e6:.0f} MB"
        print(f"{asked.file.name}: {parameters(model) / 1e6:.0f} M parameters, {sizes}; {asked.threads} threads")
        rows = measured(engines, prompts(local, asked.prompt + 1, asked.rounds + 1), asked.written)
    show(rows, asked.prompt, asked.written)
    blas = runtime.arithmetic()
    print(f"BLAS of pkb: {blas['blas']}, {blas['threads']} threads")
    print(f"median of {asked.rounds}; load {os.getloadavg()[0]:.1f} at the end")


def parameters(model: Mlx) -> int:
    """Return the number of a model's parameters."""
    from mlx_lm.utils import get_total_parameters

    return int(get_total_parameters(model.model))


def by_pkb(model: Mlx) -> Engine:
    """Return what measures a model in pkb."""
    endless = replace(model, stops=frozenset())

    def run(ids: Sequence[int], count: int) -> Round:
        free_memory()
        cache = endless.begin()
        with spent() as prefill:
            endless.prefill(cache, ids[:-1])
        with spent() as decoding:
            written = len(list(endless.decode(cache, ids[-1:], count)))
        assert written == count
        return Round(prefill[0], decoding[0])

    return run


def by_llama(path: Path, threads: int, context: int) -> Engine:
    """Return what measures a file in llama.cpp."""
    model = LlamaCpp(path, context=context, threads=threads, exact=False)

    def run(ids: Sequence[int], count: int) -> Round:
        with spent() as prefill:
            model.continued(ids[:-1], 0, cached=True)
        with spent() as decoding:
            written = len(model.continued(ids, count, cached=True))
        assert (model.read, written) == (1, count), "the prompt was computed twice, or the answer ended early"
        return Round(prefill[0], decoding[0])

    return run


def prompts(local: InstalledModel, length: int, count: int) -> list[list[int]]:
    """Return prompts of random tokens."""
    rng, vocabulary = Random(7), int(read_config(local.folder)["vocab_size"])
    return [[rng.randrange(_CONTROLS, vocabulary) for _ in range(length)] for _ in range(count)]


def measured(engines: Mapping[str, Engine], asked: Sequence[Sequence[int]], written: int) -> dict[str, list[Round]]:
    """Return the rounds of each engine but the first; each round begins with another engine."""
    names, rows = list(engines), {name: list[Round]() for name in engines}
    for number, ids in enumerate(asked):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            rows[name].append(engines[name](ids, written))
    return {name: own[1:] for name, own in rows.items()}


def show(rows: Mapping[str, Sequence[Round]], prompt: int, written: int) -> None:
    """Print tokens per second and per processor second, and in brackets how many times as many as pkb's."""
    print(f"| tokens per | s, prefill of {prompt} | processor s | s, decoding of {written} | processor s |")
    print("|---" + "|---:" * 4 + "|")
    speeds = {name: _speeds(own, prompt, written) for name, own in rows.items()}
    for name, own in speeds.items():
        cells = (f"{one:.1f} ({one / ours:.2f})" for one, ours in zip(own, speeds[PKB], strict=True))
        print(f"| {name} | {' | '.join(cells)} |")


def _speeds(rows: Sequence[Round], prompt: int, written: int) -> list[float]:
    return [
        prompt / median(one.prefill.wall for one in rows),
        prompt / median(one.prefill.processor for one in rows),
        written / median(one.decode.wall for one in rows),
        written / median(one.decode.processor for one in rows),
    ]


def _arguments() -> Namespace:
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path, help="a GGUF file")
    parser.add_argument("--threads", type=int, default=2, help="of each engine")
    parser.add_argument("--prompt", type=int, default=1000, help="tokens of prefill")
    parser.add_argument("--written", type=int, default=64, help="tokens to decode behind them")
    parser.add_argument("--rounds", type=int, default=5, help="of which the median is shown")
    return parser.parse_args()


if __name__ == "__main__":
    main()
