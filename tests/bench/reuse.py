"""Time to first token with a prompt's KV cache reused, against computing it and against mlx-lm.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.reuse [135M|0.5B|1.2B]... [--rounds N] [--shares]`; with `--shares`
what a part of the kept tokens saves. The weights are random, for speed does not depend on them; 1.2B takes 8 GB. The
ways take turns in one process; a ratio is of one round. A floor is the question behind the same context in memory plus
the reading of the files.
"""

import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from os import getloadavg
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory

from engine.llm.prefill import Ids
from engine.models import runtime
from engine.models.load import load
from store.kv_tree import root_of
from tests.bench import shares
from tests.bench.state import Desk, First, afresh, drop
from tests.engine.models.shapes import REAL, make

ROUNDS = {"135M": 5, "0.5B": 3, "1.2B": 3}
LENGTHS = (400, 650, 1000, 2000)  # tokens of a prompt
KEEPING = 650  # tokens of the longest prompt that is computed once more, to be kept
SYSTEM, CHUNK, QUESTION = 90, 130, 50  # tokens of a segment; of a chunk, at most
DISK = ", from disk"
Round = dict[str, First]
RATIOS = {  # what is summed up above the line, and below it
    "nothing reused, of reused (4.2 or more at 650)": (("computed",), ("reused",)),
    "reused, of its floor (1.15 or less)": (("reused",), ("alone", "reading")),
    "the same from disk": (("reused" + DISK,), ("alone", "reading" + DISK)),
    "reused, of mlx-lm's file (1 or less)": (("reused",), ("mlx-lm",)),
    "the same from disk ": (("reused" + DISK,), ("mlx-lm" + DISK,)),
    "bytes/s of restoring, of one file's (0.8 or more)": (("one file",), ("restored",)),
    "the same from disk  ": (("one file" + DISK,), ("restored" + DISK,)),
    "first token before keeping, of nothing reused": (("keeping",), ("computed",)),
}


def main() -> None:
    """Make each size's weights, and measure it in a process of its own."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", default=list(REAL))
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--shares", action="store_true")
    parser.add_argument("--part", choices=("weights", "reuse", "shares"))
    parser.add_argument("--home", type=Path)
    options = parser.parse_args()
    if options.part:
        part(options.part, options.sizes[0], options.home, options.rounds, options.lengths)
        return
    for size in options.sizes:
        with TemporaryDirectory() as home:
            for name in ("weights", "shares" if options.shares else "reuse"):
                words = [size, "--part", name, "--home", home, "--rounds", str(options.rounds or ROUNDS[size])]
                words += ["--lengths", *map(str, options.lengths)]
                subprocess.run([sys.executable, "-m", "tests.bench.reuse", *words], check=True)


def part(name: str, size: str, home: Path, rounds: int, lengths: Sequence[int]) -> None:
    """Do one part of the work, in this process."""
    runtime.load_blas(home)
    if name == "weights":
        make(home / size, REAL[size], dtype="float16")
        return
    loaded = load(home / size, name=size, cache=home, memory_share=0.9)
    model = replace(loaded, stops=frozenset(), one_line=False)
    Desk(model, home / "first", prompt(SYSTEM + QUESTION + 1)).close()  # whose first steps are slow
    if name == "shares":
        shares.measure(model, home, rounds)
        return
    for tokens in lengths:
        state = Desk(model, home / f"kept-{tokens}", prompt(tokens))
        show(state, [one_round(state, number) for number in range(rounds)])
        state.close()


def prompt(tokens: int) -> list[Ids]:
    """Return the segments of a prompt: system, chunks, question."""
    rng, left = Random(7), tokens - SYSTEM - QUESTION
    count = -(-left // CHUNK)
    chunks = [left // count + (number < left % count) for number in range(count)]
    return [tuple(rng.randrange(10, 600) for _ in range(length)) for length in (SYSTEM, *chunks, QUESTION)]


def one_round(state: Desk, number: int) -> Round:
    """Go every way once, beginning with another one each time."""
    new = root_of({"model": "new", "round": str(number)})
    reading, one_file = partial(state.read, state.paths), partial(state.read, [state.whole])
    ways: dict[str, Callable[[], First]] = {
        "computed": state.computed, "reused": state.reused, "alone": state.alone, "reading": reading,
        "mlx-lm": state.by_mlx_lm, "restored": state.restored, "one file": one_file,
    }  # fmt: skip
    if sum(map(len, state.segments)) <= KEEPING:
        ways["keeping"] = partial(state.keeping, new)
    files = {"reused": state.paths, "reading": state.paths, "restored": state.paths}
    files |= {"mlx-lm": [state.theirs], "one file": [state.whole]}
    ways |= {name + DISK: partial(from_disk, paths, ways[name]) for name, paths in files.items()}
    names = list(ways)
    turn = number * 5 % len(names)
    done: Round = {}
    for name in names[turn:] + names[:turn]:
        afresh()
        done[name] = ways[name]()
    return {name: done[name] for name in names}


def from_disk(paths: Sequence[Path], way: Callable[[], First]) -> First:
    """Go a way whose files the system does not remember."""
    drop(paths)
    return way()


def show(state: Desk, rounds: Sequence[Round]) -> None:
    """Print medians, and medians of the ratios of each round."""
    tokens, size = sum(map(len, state.segments)), sum(path.stat().st_size for path in state.paths)
    print(f"\n{state.model.name}: {tokens} tokens in {len(state.segments)} segments, {tokens - QUESTION} of them kept")
    print(f"in {size / 1e6:.1f} MB; {len(rounds)} rounds, load {getloadavg()[0]:.1f}")
    for way in rounds[0]:
        times = sorted(1e3 * one[way].total for one in rounds)
        more = ", ".join(f"{part} {1e3 * median(getattr(one[way], part) for one in rounds):.1f}" for part in parts(way))
        print(f"  {way:22}{median(times):9.1f} ms ({times[0]:.1f} to {times[-1]:.1f})  {more}")
    for title, (above, below) in RATIOS.items():
        if not rounds[0].keys() >= {*above, *below}:
            continue
        found = sorted(sum(one[a].total for a in above) / sum(one[b].total for b in below) for one in rounds)
        print(f"  {title:52}{median(found):7.3f} ({found[0]:.2f} to {found[-1]:.2f})", flush=True)


def parts(way: str) -> tuple[str, ...]:
    """Name what is told of a way beside its sum."""
    return ("match", "load", "rest") if way.startswith("reused") else ("kept",) if way == "keeping" else ()


if __name__ == "__main__":
    main()
