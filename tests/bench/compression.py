"""Lossless compression of KV files: bytes a token, and the time to load them plain and compressed, cold and warm.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.compression MODEL... --mail FOLDER [--tokens N] [--rounds N]`. MODEL
is a folder, or nano; the text is that of the mail in a folder. Keys and values are stored as computed, fp32 on a CPU,
and cast to what is stored on Metal. A segment of 128 tokens is a file, its bytes in the order of the store, or first
split into planes: all first bytes of the numbers, then all second ones. Cold means that the files were removed from the
system's file cache. Prints a JSON line a measurement; times are medians of rounds in turn.
"""

import json
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.models import kv_cache
from engine.models.load import load
from engine.models.mlx import Mlx
from engine.models.runtime import load_blas
from tests.bench.home import NANO
from tests.bench.kv_reuse import drop, sync

Bytes = NDArray[np.uint8]
SEGMENT = 128  # tokens


@dataclass(frozen=True, slots=True)
class Codec:
    """A way to store numbers: in planes or not, compressed by a library or not."""

    name: str
    pack: Callable[[bytes], bytes]
    unpack: Callable[[bytes], bytes]
    planes: bool = False

    def encode(self, numbers: NDArray[Any]) -> bytes:
        """Return the bytes of a file."""
        return self.pack(split(numbers) if self.planes else numbers.tobytes())

    def decode(self, stored: bytes, width: int) -> Bytes:
        """Return the bytes of the numbers, each so many bytes wide."""
        raw = np.frombuffer(self.unpack(stored), np.uint8)
        return joined(raw, width) if self.planes else raw


def split(numbers: NDArray[Any]) -> bytes:
    """Return the bytes of numbers by their place in the number."""
    whole = numbers.reshape(-1).view(f"<u{numbers.itemsize}")
    return b"".join((whole >> (8 * place)).astype(np.uint8).tobytes() for place in range(numbers.itemsize))


def joined(raw: Bytes, width: int) -> Bytes:
    """Return the bytes of numbers from their planes."""
    planes, kind = raw.reshape(width, -1), np.dtype(f"<u{width}")
    whole = planes[0].astype(kind)
    for place in range(1, width):
        whole |= planes[place].astype(kind) << kind.type(8 * place)
    found: Bytes = whole.view(np.uint8)
    return found


def codecs() -> list[Codec]:
    """Return the plain form and all compressed ones."""
    import lz4.frame
    import zstandard

    found = [Codec("plain", bytes, bytes)]
    for planes in (False, True):
        name = "planes, " if planes else ""
        for level in (1, 3):
            packer, unpacker = zstandard.ZstdCompressor(level), zstandard.ZstdDecompressor()
            found.append(Codec(f"{name}zstd {level}", packer.compress, unpacker.decompress, planes))
        found.append(Codec(f"{name}lz4", lz4.frame.compress, lz4.frame.decompress, planes))
    return found


def main() -> None:
    """Measure and print."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--mail", type=Path, required=True)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    for name in given.models:
        with opened(name) as model:
            segments = list(kept(model, mail_ids(model, given.mail, given.tokens)))
        for kind, numbers in forms(segments).items():
            for row in measured(numbers, given.rounds):
                print(json.dumps({"model": Path(name).name, "tokens": given.tokens, "form": kind} | row), flush=True)


@contextmanager
def opened(name: str) -> Iterator[Mlx]:
    """Load a model by its folder, or nano, for as long as the context lasts."""
    load_blas()
    folder = NANO if name == "nano" else Path(name)
    with TemporaryDirectory() as scratch:
        yield load(folder, name=folder.name, cache=Path(scratch), memory_share=0.9)


def mail_ids(model: Mlx, folder: Path, count: int) -> list[int]:
    """Return so many token ids of the mail below a folder, headers left out."""
    found = list[int]()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        text = path.read_text("utf-8", errors="replace").partition("\n\n")[2].strip()
        if len(text) > 200:
            found += model.tokens(text + "\n")
        if len(found) >= count:
            return found[:count]
    raise SystemExit(f"{folder} has less than {count} tokens of mail")


def kept(model: Mlx, ids: Sequence[int]) -> Iterator[NDArray[np.float32]]:
    """Yield the keys and values of each segment: (2 x layers, heads, tokens, width)."""
    cache = model.begin()
    for start in range(0, len(ids), SEGMENT):
        model.prefill(cache, ids[start : start + SEGMENT])
        stop = min(len(ids), start + SEGMENT)
        tensors = kv_cache.cut(cache, start, stop)
        yield np.stack([np.frombuffer(one.buffer, np.float32).reshape(one.shape[1:]) for one in tensors])


def forms(segments: Sequence[NDArray[np.float32]]) -> Mapping[str, list[NDArray[Any]]]:
    """Return the numbers as fp32, fp16 and bf16."""
    return {
        "fp32": list(segments),
        "fp16": [one.astype(np.float16) for one in segments],
        "bf16": [bfloat16(one) for one in segments],
    }


def bfloat16(numbers: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Return the bits of numbers rounded to bfloat16, to even."""
    bits = numbers.view(np.uint32)
    rounded: NDArray[np.uint16] = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return rounded


def measured(numbers: Sequence[NDArray[Any]], rounds: int) -> Iterator[dict[str, Any]]:
    """Yield bytes and times of each codec."""
    tokens, width = sum(one.shape[2] for one in numbers), numbers[0].itemsize
    raw = sum(one.nbytes for one in numbers)
    with TemporaryDirectory(prefix="pkb-kv-", dir=Path.cwd()) as scratch:
        ways, rows = dict[str, Callable[[], float]](), list[dict[str, Any]]()
        for codec in codecs():
            began = perf_counter()
            stored = [codec.encode(one) for one in numbers]
            packed = perf_counter() - began
            for one, back in zip(numbers, stored, strict=True):
                assert codec.decode(back, width).tobytes() == one.tobytes(), f"{codec.name} is not lossless"
            paths = [Path(scratch) / f"{codec.name}-{number}" for number in range(len(stored))]
            for path, data in zip(paths, stored, strict=True):
                path.write_bytes(data)
            sync(paths)
            ways |= {
                f"{codec.name} {how}": partial(loaded, codec, paths, width, how == "cold") for how in ("cold", "warm")
            }
            ways[f"{codec.name} decode"] = partial(decoded, codec, stored, width)
            size = sum(map(len, stored))
            rows.append(
                {"codec": codec.name, "bytes_a_token": size // tokens, "times_smaller": round(raw / size, 3)}
                | {"encode_ms_a_1000": round(1e6 * packed / tokens, 2)}
            )
        times = {name: list[float]() for name in ways}
        for number in range(rounds + 1):
            names = [*ways][number % len(ways) :] + [*ways][: number % len(ways)]
            for name in names:
                times[name].append(ways[name]())
        for row in rows:
            for how in ("cold", "warm", "decode"):
                row[f"{how}_ms_a_1000"] = round(1e6 * median(times[f"{row['codec']} {how}"][1:]) / tokens, 2)
            row["n"] = rounds
            yield row


def loaded(codec: Codec, paths: Sequence[Path], width: int, cold: bool) -> float:
    """Return the seconds of reading files and decoding them."""
    if cold:
        drop(paths)
    began = perf_counter()
    for path in paths:
        codec.decode(path.read_bytes(), width)
    return perf_counter() - began


def decoded(codec: Codec, stored: Sequence[bytes], width: int) -> float:
    """Return the seconds of decoding alone."""
    began = perf_counter()
    for one in stored:
        codec.decode(one, width)
    return perf_counter() - began


if __name__ == "__main__":
    main()
