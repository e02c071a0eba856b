"""Measures the curves that price a trace, and checks the prices against real answers, in turns in one process.

Run `python -m tests.bench.curves SHAPE --out FOLDER [--data DATA] [--rounds N] [--corpora NAME...] [--until T]`. SHAPE
is 135M or 0.5B. Each round measures all points once, in another order, and asks one question of each corpus, as it is,
in other words and again, under each policy of CHECKED, really computed, and under TIMED with layers that compute
nothing, for pkb's own time. Points and questions take turns, since a machine's speed drifts. Writes
FOLDER/curves.SHAPE.json, checks.SHAPE.json and residuals.SHAPE.json. Random weights take the time of trained ones. With
PKB_BENCH_CLOCK=processor times are the processor's, for machines that are shared.
"""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from shutil import copytree
from statistics import fmean, median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time, time
from types import ModuleType
from typing import Any

import numpy as np

from engine.ask.keys import normalise
from engine.kv import blocks
from engine.models import kv_cache, mlx
from engine.models.load import load, movable
from engine.models.mlx import Mlx
from store.kv_files import Header, child_key, write
from tests.bench import home, machine
from tests.bench.corpus import DATA, PUBLIC, Query, User, users
from tests.bench.counting import Memo, Tally, count, folder_of
from tests.bench.harness import ALWAYS, ingested, warm
from tests.bench.home import Home
from tests.bench.jobs import QUIET
from tests.bench.plan import TRACED
from tests.bench.prices import KNOTS, Curve, Curves, path_of
from tests.bench.records import write_file
from tests.bench.replay import Replay, Unit
from tests.bench.traces import MEMORY, Row, asked, sample

CHECKED = ("naive-2", "percache-2", "pkb-5", "pkb-blocks-5")  # really computed
TIMED = ("naive-2", "percache-2", "pkb-2", "naive-5", "percache-5", "pkb-5", "pkb-blocks-5")  # for pkb's own stages
BEFORE = (128, 1200)  # tokens before a step, between which its time is taken as linear
MIDDLE = 600  # where that is checked
LOADED = ((1, 100), (2, 270), (4, 600), (6, 950))  # files and tokens of prefixes
MACHINE = "machine.json"
CLOCK = "PKB_BENCH_CLOCK"  # wall, or processor where other programs share the machine
REWORDED = "Once more: "
CLOCKS = {"wall": perf_counter, "processor": process_time}


Engine = defaultdict[tuple[str, int, str], list[float]]  # milliseconds by corpus, sources and path


@dataclass(frozen=True, slots=True)
class Facts:
    """The machine of the curves, in words."""

    facts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Check:
    """A question really answered: its row, and the milliseconds that it took."""

    row: Row
    ms: float


@dataclass(slots=True)
class Points:
    """Milliseconds by point, each time that it was measured; mutable."""

    steps: dict[tuple[str, str, int, int], list[float]] = field(default_factory=lambda: defaultdict(list))
    loads: dict[tuple[int, int], list[float]] = field(default_factory=lambda: defaultdict(list))
    block_loads: dict[tuple[int, int], list[float]] = field(default_factory=lambda: defaultdict(list))
    moves: dict[tuple[int, int], list[float]] = field(default_factory=lambda: defaultdict(list))


def timed(do: Callable[[], Any]) -> float:
    """Return the milliseconds that something takes, on the chosen clock."""
    clock = CLOCKS[os.environ.get(CLOCK, "wall")]
    begun = clock()
    do()
    return 1000 * (clock() - begun)


def cache_of(model: Mlx, tokens: int, extra: int = 0) -> Any:
    """Return a cache of random keys and values, with room for some more tokens."""
    import mlx.core as mx

    cache = model.begin()
    mx.random.seed(tokens)
    model._rows(cache, mx.array([1]))
    kv_cache.compute(cache)
    for layer in cache:
        keys, values = layer.keys_and_values()
        shape = (*keys.shape[:2], tokens + extra, keys.shape[3])
        layer.state = (mx.random.normal(shape), mx.random.normal((*shape[:3], values.shape[3])), tokens)
    mx.eval([layer.state for layer in cache])
    return cache


def step(model: Mlx, kind: str, rows: int, before: int) -> float:
    """Return the milliseconds of one step of a kind."""
    import mlx.core as mx
    from mlx_lm.models.cache import trim_prompt_cache

    ids = list(range(10, 10 + rows))
    cache = cache_of(model, before, 64 if kind == "decode" else 0)
    if kind == "body":
        return timed(lambda: model.prefill(cache, ids))
    if kind == "head":
        return timed(lambda: mx.eval(model._likeliest(cache, model._rows(cache, mx.array(ids))[:, -1:])))

    def step() -> None:
        mx.eval(model._likeliest(cache, model._rows(cache, mx.array(ids), adapted=True)))

    step()
    trim_prompt_cache(cache, rows)
    return timed(step)


def measured_points() -> list[tuple[str, str, int, int]]:
    """Return what one round measures: attention, kind, rows, tokens before."""
    both = [
        (attention, kind, rows, before)
        for kind, knots in KNOTS.items()
        for attention in ("fast", "plain")
        if attention == "fast" or kind != "decode"
        for rows in knots
        for before in BEFORE
    ]
    return [*both, *(("fast", kind, KNOTS[kind][-2], MIDDLE) for kind in KNOTS)]


@contextmanager
def attending(module: ModuleType, attend: Callable[..., Any]) -> Iterator[None]:
    """Have the module of a model attend by a function, then as before."""
    before = getattr(module, mlx.ATTENTION)
    setattr(module, mlx.ATTENTION, attend)
    try:
        yield
    finally:
        setattr(module, mlx.ATTENTION, before)


def measure(
    model: Mlx,
    points: Points,
    chosen: Sequence[tuple[str, str, int, int]],
    paths: Mapping[tuple[int, int], Sequence[Path]],
) -> None:
    """Measure some steps, and all loads."""
    import mlx_lm.models.base as base

    module = sys.modules[type(model.model).__module__]
    for point in chosen:
        attention, kind, rows, before = point
        attend = mlx.attend if attention == "fast" else base.scaled_dot_product_attention
        with attending(module, attend):
            points.steps[point].append(step(model, kind, rows, before))
    ropes = movable(model)
    for size, files in paths.items():
        points.loads[size].append(load_ms(model, files))
        points.block_loads[size].append(timed(partial(block_parts, model, files)))
        parts = block_parts(model, files)
        moves = [0, *range(20, 20 * len(files), 20)]
        points.moves[size].append(timed(partial(moved, model, parts, moves, ropes)))


def block_parts(model: Mlx, files: Sequence[Path]) -> list[dict[str, Any]]:
    """Load the arrays of blocks."""
    with closing(model.ranges(files, None, os.preadv)) as reader:
        reader.read_all()
        arrays = reader.take()
    return [{name: one[..., start:stop, :] for name, one in arrays.items()} for start, stop in pairwise(reader.starts)]


def moved(model: Mlx, parts: Sequence[Any], moves: Sequence[int], ropes: Any) -> None:
    """Put blocks together at other positions, into a new cache."""
    cache = model.begin()
    for part, by in zip(parts, moves, strict=True):
        kv_cache.extend(cache, blocks.moved(part, by, ropes))


def load_ms(model: Mlx, files: Sequence[Path]) -> float:
    """Return the milliseconds of restoring a cache."""
    model.restore(files)
    return timed(lambda: model.restore(files))


def stored(model: Mlx, folder: Path) -> dict[tuple[int, int], list[Path]]:
    """Write KV files of several sizes."""
    found = dict[tuple[int, int], list[Path]]()
    cache = cache_of(model, max(tokens for _, tokens in LOADED))
    for files, tokens in LOADED:
        ends = [round(tokens * number / files) for number in range(files + 1)]
        found[files, tokens] = []
        for start, stop in pairwise(ends):
            path, ids = folder / f"{files}.{start}.safetensors", tuple(range(start, stop))
            key = child_key(b"0" * 32, ids)
            write(path, Header(b"0" * 32, key, b"0" * 32, key, ids), kv_cache.cut(cache, start, stop))
            found[files, tokens].append(path)
    return found


def fitted(points: Points, attention: str) -> dict[str, Curve]:
    """Return the curve of each kind, from the median of each point."""
    found = dict[str, Curve]()
    for kind, knots in KNOTS.items():
        name = attention if kind != "decode" else "fast"
        ends = [[median(points.steps[name, kind, rows, before]) for before in BEFORE] for rows in knots]
        further = [max(0.0, (late - soon) / (BEFORE[1] - BEFORE[0])) for soon, late in ends]
        found[kind] = Curve(
            knots, [soon - BEFORE[0] * each for (soon, _), each in zip(ends, further, strict=True)], further
        )
    return found


def line(points: Mapping[tuple[int, int], Sequence[float]]) -> tuple[float, float]:
    """Return milliseconds of a file and of a token, by least squares of relative errors, none below 0."""
    medians = np.array([median(values) for values in points.values()])
    sizes = np.array(list(points), dtype=float) / medians[:, None]
    both = np.linalg.lstsq(sizes, np.ones(len(medians)), rcond=None)[0]
    if both.min() >= 0:
        return float(both[0]), float(both[1])
    return 0.0, float(1 / sizes[:, 1].mean())


def residuals(points: Points, fast: Mapping[str, Curve]) -> dict[str, float]:
    """Return the relative difference of each step in the middle from its curve."""
    found = dict[str, float]()
    for (attention, kind, rows, before), values in points.steps.items():
        if before == MIDDLE and attention == "fast":
            found[f"{kind} {rows} behind {before}"] = fast[kind].ms(rows, 1, before) / median(values) - 1
    return found


@dataclass(slots=True)
class Asking:
    """A home that is asked, with its tally; `real` where layers compute."""

    name: str
    user: User
    home: Home
    tally: Tally
    real: bool
    replay: Replay


def opened(
    user: User, name: str, shape: str, folder: Path, place: Path, memo: Memo, held: ExitStack, *, real: bool
) -> Asking:
    """Open a home of a user under a policy."""
    policy, tally = TRACED[name], Tally()
    if real and name.startswith("pkb"):  # past the answer cache, so that the second time KV is reused
        policy = replace(policy, bank=False)
    golds = {normalise(one.text): one.answer for one in reversed(user.queries)}
    settings = {**ALWAYS, **policy.settings, "model.name": str(folder_of(shape, folder / "models", real=real))}
    prepare = partial(count, golds=golds, tally=tally, shape=None if real else shape, memo=memo, real_time=True)
    copy = copytree(ingested(user, folder), place / f"{user.name}.{name}.{real}")
    found = held.enter_context(home.opened(copy, settings, policy.order, prepare))
    warm(found.session)
    return Asking(name, user, found, tally, real, Replay(Unit(user, policy, shape, sys.maxsize), found))


def answer(one: Asking) -> Check:
    """Ask the next question without an idle run before it."""
    row, _ = asked(one.replay, one.tally, replace(TRACED[one.name], predict=0))
    spent = one.home.spent[-1]
    return Check(row, spent.processor if os.environ.get(CLOCK) == "processor" else spent.wall)


def main() -> int:
    """Measure and check."""
    os.environ.update(QUIET)
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("shape", choices=("135M", "0.5B"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--corpora", nargs="+", default=PUBLIC, metavar="NAME")
    parser.add_argument("--until", type=float, default=float("inf"), help="seconds since the epoch; no round after it")
    options = parser.parse_args()
    run(options)
    return 0


def run(options: Namespace) -> None:
    """Measure in rounds and write curves and checks."""
    options.out.mkdir(parents=True, exist_ok=True)
    write_file(options.out / MACHINE, Facts(machine.described()))  # before MLX is imported
    shape, out, rounds = options.shape, options.out, options.rounds
    folder = folder_of(shape, out / "models", real=True)
    chosen = [replace(one, queries=thrice(sample(one.queries, rounds))) for one in firsts(options)]
    points, checks, engine = Points(), list[Check](), Engine(list)
    with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else out) as made, ExitStack() as held:
        place, memo = Path(made), Memo()
        model = load(folder, name=shape, cache=place, memory_share=0.9, threads=1)
        paths, random, every = stored(model, place), Random(0), measured_points()
        asking = [
            [opened(user, name, shape, out, place, memo, held, real=real) for name in (CHECKED if real else TIMED)]
            for user in chosen
            for real in (True, False)
        ]
        for number in range(rounds):
            if time() > options.until:
                break
            steps = random.sample(every, len(every))
            for turn, group in enumerate(random.sample(asking, len(asking))):
                measure(model, points, steps[turn :: len(asking)], paths)
                for one in random.sample(group, len(group)):
                    if len(one.replay.asked) < len(one.user.queries):
                        ask(one, checks, engine)
            print(f"{shape}: round {number + 1}, {len(checks)} real answers", file=sys.stderr, flush=True)
            finish(shape, points, checks, engine, out)


def firsts(options: Namespace) -> Iterator[User]:
    """Yield the first user of each corpus."""
    for corpus in options.corpora:
        yield from users(corpus, options.data, options.out / "scratch")[:1]


def thrice(queries: Sequence[Query]) -> tuple[Query, ...]:
    """Return each question, then in other words, then as at first."""
    return tuple(one for query in queries for one in (query, replace(query, text=f"{REWORDED}{query.text}"), query))


def ask(one: Asking, checks: list[Check], engine: Engine) -> None:
    """Ask a question, reworded and again, and note what it took; of a counted model that is pkb's own time."""
    for _ in range(3):
        found = answer(one)
        if one.real:
            checks.append(found)
        else:
            engine[found.row.corpus, found.row.top, path_of(found.row)].append(found.ms)


def finish(
    shape: str,
    points: Points,
    checks: Sequence[Check],
    engine: Engine,
    out: Path,
) -> None:
    """Write what was measured so far."""
    own = dict[str, dict[str, dict[str, float]]]()
    for (corpus, top, path), values in engine.items():
        own.setdefault(corpus, {}).setdefault(str(top), {})[path] = fmean(values)
    fast = fitted(points, "fast")
    moved = (*line(points.block_loads), *line(points.moves))
    clock = os.environ.get(CLOCK, "wall")
    curves = Curves(shape, clock, fast, fitted(points, "plain"), line(points.loads), moved, own)
    write_file(out / f"curves.{shape}.json", curves)
    write_file(out / f"checks.{shape}.json", [*checks])
    write_file(
        out / f"residuals.{shape}.json", [Residual(name, value) for name, value in residuals(points, fast).items()]
    )


@dataclass(frozen=True, slots=True)
class Residual:
    """The relative difference of a measured step from the curve, where the curve was not fitted."""

    step: str
    difference: float


if __name__ == "__main__":
    sys.exit(main())
