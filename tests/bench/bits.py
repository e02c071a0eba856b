"""What keeping keys and values in eight bits saves and costs, beside keeping them as they were computed.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.bits [MODEL FOLDER]...`; nano and a random Qwen3 always take part.
Times are ratios within one run, of noise; errors are of bundled mail, while the full width leads.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

from engine.models import caches, runtime
from engine.models.loading import load
from engine.models.mlx import Mlx
from store.kv_files import write
from store.kv_header import Header
from tests.bench.forms import SEGMENTS, SHAPES, Noise, Shape
from tests.demo import DATA, NANO
from tests.engine.models.shapes import KINDS, make

RUNS, PROMPTS, STEPS = 25, 64, 16
KEY = b"0" * 16


def speeds(folder: Path) -> None:
    """Print what eight bits take beside the full width: bytes, keeping and loading five nodes, medians of ratios."""
    import mlx.core as mx

    name, shape = next(iter(SHAPES.items()))
    print(f"{name}, {sum(SEGMENTS)} tokens in {len(SEGMENTS)} nodes, 8 bits over full width:")
    for dtype in (mx.float32, mx.bfloat16):
        runs = [[_round(shape, dtype, bits, folder) for bits in (0, 8)] for _ in range(RUNS + 1)][1:]
        for at, part in enumerate(("bytes", "settling and keeping", "loading")):
            ratios = sorted(eight[at] / full[at] for full, eight in runs)
            told = f"{median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
            print(f"  {dtype}: {part} {told}; load {os.getloadavg()[0]:.1f}")


def _round(shape: Shape, dtype: Any, bits: int, folder: Path) -> tuple[float, float, float]:
    """Keep and load a prompt: bytes, and seconds of either."""
    noise, paths, keeping = Noise(shape, dtype), [], 0.0
    for at, count in enumerate(SEGMENTS):
        noise.read(count)
        begun, end = perf_counter(), sum(SEGMENTS[: at + 1])
        tensors = caches.cut(noise.cache, end - count, end, caches.settle(noise.cache, count, bits))
        paths.append(folder / f"{bits}-{at}.safetensors")
        write(paths[-1], Header(KEY, KEY, KEY, KEY, (1,) * count), tensors)
        keeping += perf_counter() - begun
    empty, begun = Noise(shape, dtype).cache, perf_counter()
    caches.restore(empty, paths)
    return float(sum(path.stat().st_size for path in paths)), keeping, perf_counter() - begun


def errors(model: Mlx) -> None:
    """Print how far eight bits are off: of keys and values, and of the next token while the full width leads."""
    packed, rows = replace(model, bits=8), []
    off: dict[str, list[float]] = {"k": [], "v": []}
    for segments in _prompts(model):
        one, other = (_read(each, segments[:-1]) for each in (model, packed))
        for a, b in zip(one, other, strict=True):
            for kv, x, y in zip("kv", a.keys_and_values(), b.keys_and_values(), strict=True):
                x, y = np.array(x, dtype=np.float32), np.array(y, dtype=np.float32)
                off[kv] += [
                    float(np.abs(x - y).max() / np.abs(x).max()),
                    float(np.linalg.norm(x - y) / np.linalg.norm(x)),
                ]
        ids = segments[-1]
        for _ in range(STEPS):
            p, q = model.logits(one, ids), packed.logits(other, ids)
            rows.append((_divergence(p, q), float(p.argmax() == q.argmax())))
            ids = [int(p.argmax())]
    told = [
        f"{kv.upper()} off by {max(off[kv][::2]):.1e} of the largest, {median(off[kv][1::2]):.1e} in norm"
        for kv in "kv"
    ]
    kl, agreed = zip(*rows, strict=True)
    print(
        f"{model.name}: {'; '.join(told)}; KL {np.mean(kl):.1e} on average, {max(kl):.1e} at most; "
        f"the same token {100 * np.mean(agreed):.2f} % of {len(rows)}"
    )


def _divergence(p: Any, q: Any) -> float:
    """Give the KL divergence of two distributions by their logits, in nats."""
    one, other = (x.astype(np.float64) - np.logaddexp.reduce(x.astype(np.float64)) for x in (p, q))
    return float((np.exp(one) * (one - other)).sum())


def _prompts(model: Mlx) -> Iterator[list[list[int]]]:
    """Give prompts of bundled mail, in segments of up to a hundred tokens, as many as the model holds."""
    texts = [path.read_text("utf-8", "ignore") for path in sorted((DATA / "mail").rglob("*")) if path.is_file()]
    ids, rng = model.tokens("\n".join(texts)[:200_000]), Random(7)
    for _ in range(PROMPTS):
        starts = [rng.randrange(len(ids) - 100) for _ in range(max(2, min(6, model.context // 100 - 1)))]
        yield [ids[start : start + rng.randint(40, 100)] for start in starts]


def _read(model: Mlx, segments: Sequence[Sequence[int]]) -> Any:
    cache = model.begin()
    for ids in segments:
        model.prefill(cache, ids)
    return cache


def main(folders: Sequence[str], home: Path) -> None:
    """Print everything."""
    runtime.load_blas(home)
    speeds(home)
    for folder in (NANO, make(home / "qwen3", KINDS["qwen3"]), *map(Path, folders)):
        errors(load(folder, name=folder.name, cache=home, memory_share=0.9))


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        main(sys.argv[1:], Path(place))
