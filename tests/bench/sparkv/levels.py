"""Bytes and error of streamed KV at each level: of the keys and values of a prompt, and of the tokens behind it.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.sparkv.levels MODEL... --mail FOLDER [--tokens N]`. MODEL is a folder,
or nano. A prompt of mail is prefilled, its keys and values are encoded and decoded, and 50 more tokens are computed
behind both. Prints a JSON line a level: bits a number, bytes a token, seconds of encoding and decoding 1000 tokens, the
largest error as a share of its bound, and the KL divergence and agreement of the next token at those 50 places.
"""

import json
from argparse import ArgumentParser
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from engine.models.mlx import Mlx
from tests.bench.compression import mail_ids, opened
from tests.bench.sparkv.bitstream import LEVELS, Level, decode_both
from tests.bench.sparkv.execute import encode_units
from tests.bench.sparkv.layerwise import layerwise
from tests.bench.sparkv.streaming import QUESTION, blocks_of, divergence


def main() -> None:
    """Measure and print."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--mail", type=Path, required=True)
    parser.add_argument("--tokens", type=int, default=1024)
    given = parser.parse_args()
    for name in given.models:
        with opened(name) as model:
            for row in measured(model, mail_ids(model, given.mail, given.tokens + QUESTION), given.tokens):
                print(json.dumps({"model": Path(name).name, "tokens": given.tokens} | row), flush=True)


def measured(model: Mlx, ids: list[int], tokens: int) -> Iterator[dict[str, Any]]:
    """Yield the figures of each level."""
    import mlx.core as mx

    prompt = blocks_of(ids, tokens)
    cache = model.begin()
    for block in prompt[:-1]:
        model.prefill(cache, block)
    kept = [(np.array(part.keys[0, :, :tokens]), np.array(part.values[0, :, :tokens])) for part in cache]
    wanted = np.array(model.model(mx.array(prompt[-1])[None], cache=cache))[0]
    starts = list(accumulate(map(len, prompt[:-1]), initial=0))
    numbers = sum(keys.size + values.size for keys, values in kept)
    for number, level in enumerate(LEVELS):
        began = perf_counter()
        streams = encode_units(kept, starts, 1, level)
        encoding, size = perf_counter() - began, sum(map(len, streams.values()))
        run, decoding, worst = layerwise(model, len(ids)), 0.0, 0.0
        for unit, data in streams.items():
            shape = (run.heads, len(prompt[unit.block]), run.width)
            began = perf_counter()
            found = decode_both(data, shape, shape)
            decoding += perf_counter() - began
            start = starts[unit.block]
            for kv, new, all_ in zip("kv", found, kept[unit.layer], strict=True):
                old = all_[:, start : start + shape[1]]
                worst = max(worst, _exceeded(level, unit.layer, run.layers, kv, old, new))
            run.place(unit.layer, start, 0, *found)
        states = run.embed(prompt[-1])
        for layer in range(run.layers):
            states = run.forward(layer, states, tokens)
        logits = np.array(run.logits(states))[0]
        yield {
            "level": number, "bound": level.keys, "bits_a_number": round(8 * size / numbers, 2),
            "bytes_a_token": size // tokens, "times_smaller_than_fp16": round(2 * numbers / size, 2),
            "encode_s_a_1000": round(1e3 * encoding / tokens, 3), "decode_s_a_1000": round(1e3 * decoding / tokens, 3),
            "largest_error_of_bound": round(worst, 4),
            "kl": round(float(np.mean([divergence(*both) for both in zip(wanted, logits, strict=True)])), 5),
            "same_token": round(float(np.mean(wanted.argmax(-1) == logits.argmax(-1))), 3), "n": len(logits),
        }  # fmt: skip


def _exceeded(level: Level, layer: int, layers: int, kv: str, old: Any, new: Any) -> float:
    """Return the largest error of a chunk as a share of its bound."""
    return float(np.abs(new - old).max() / (level.share(layer, layers, kv) * float(old.std())))


if __name__ == "__main__":
    main()
