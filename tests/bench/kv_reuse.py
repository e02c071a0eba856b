"""Time to first token behind a cached prompt prefix: pkb beside mlx-lm's prompt caches and llama.cpp's saved slots.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.kv_reuse [--model 135M|0.5B|1.2B|3B|nano | --gguf FILE] [--rounds N]
[--lengths N...] [--bars] [--to FOLDER]`; with --to it writes FOLDER/kv_reuse.json, and with --bars it compares pkb with
mlx-lm's plain loop alone. The weights are random, since speed does not depend on them; 1.2B takes 8 GB, and 3B is for
GPUs, where pkb's step is measured first. llama.cpp has them in 32 bits (135M and nano), and --gguf as they are in the
file, too.
All ways take turns in one process. "From disk" means that the files were removed from the system's file cache.
"""

import gc
import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

from engine.kv.costs import MeasuredCosts, calibrate
from engine.kv.restore import KvBinding, PromptReader, keep, prefill
from engine.models import runtime
from engine.models.load import compute_s, load, restore_s
from engine.models.mlx import Mlx
from engine.models.runtime import device
from engine.models.types import Ids
from engine.types import Trace
from store.database import open_ledger
from store.kv_files import TreeRoot, grouped, root_of
from store.kv_store import KvStore, scores
from tests.bench.forced import weights
from tests.bench.home import NANO
from tests.bench.records import Comparison, write_file
from tests.bench.slots import LlamaSlots
from tests.engine.models.ggufs import decode, model_of
from tests.engine.models.served import write_llama
from tests.engine.models.shapes import REAL
from tests.store.kv_kit import HALF_LIFE_S

ROUNDS, LENGTHS = 5, (180, 400, 650, 2000)  # tokens of a prompt, its question left out
SHARED_LENGTH, SHARED = 650, 2  # tokens of the prompt, and chunks, for partly shared prompts
SYSTEM, CHUNK, QUESTION = 90, 130, 50  # tokens of a segment; of a chunk, at most
STEP = 2048  # tokens that mlx-lm prefills at a time, by default
BUDGET = 1 << 40
PKB, COMPUTED = "pkb", "pkb, nothing cached"
FILE, MEMORY, NEW = "mlx-lm, save_prompt_cache", "mlx-lm, LRUPromptCache", "mlx-lm, nothing cached"
DISK = ", from disk"
PLAIN, RESTORED, EMPTY = "llama.cpp, F32", ", slot restored", ", nothing cached"
SHARING = ("135M", "nano")  # shapes whose weights llama.cpp gets, too
Ways = Mapping[str, Callable[[], object]]


@dataclass(frozen=True, slots=True)
class CachedPrompt:
    """A prompt whose context, all segments but the question, is in pkb's KV cache and in both caches of mlx-lm."""

    model: Mlx
    segments: Sequence[Ids]
    folder: Path
    store: KvStore
    root: TreeRoot
    paths: Sequence[Path]  # of the KV nodes
    file: Path  # of mlx-lm
    memory: Any  # of mlx-lm
    slots: Mapping[str, tuple[LlamaSlots, Path]]  # of llama.cpp: by engine, the server and the file of the context

    @property
    def context(self) -> Sequence[Ids]:
        """Return the segments before the question."""
        return self.segments[:-1]

    def ask(self, segments: Sequence[Ids], *, cached: bool = True) -> None:
        """Compute the first token behind a prompt, with pkb's KV cache or without."""
        reader = PromptReader(self.model, loading(self.store, self.root, self.model) if cached else None)
        read = prefill(reader, segments[:-1], Trace())
        next(self.model.decode(read.cache, segments[-1], 1))

    def ask_file(self, segments: Sequence[Ids]) -> None:
        """Compute the first token with mlx-lm's file, trimmed to what the prompt shares."""
        from mlx_lm.models.cache import load_prompt_cache, trim_prompt_cache

        shared = sum(len(ids) for ids, other in zip(segments, self.context, strict=False) if ids == other)
        cache = load_prompt_cache(str(self.file))
        trim_prompt_cache(cache, sum(map(len, self.context)) - shared)
        first_token(self.model, flat(segments)[shared:], cache)

    def ask_memory(self, segments: Sequence[Ids]) -> None:
        """Compute the first token with mlx-lm's cache in memory."""
        cache, rest = self.memory.fetch_nearest_cache(self.model.name, flat(segments))
        first_token(self.model, rest, cache)


def loading(store: KvStore, root: TreeRoot, model: Mlx) -> KvBinding:
    """Return a binding of a store by which whatever is cached is loaded."""
    return KvBinding(store, root, model, MeasuredCosts(store.folder.ledger, "bench"), lambda _: "load")


@contextmanager
def opened_store(model: Mlx, folder: Path) -> Iterator[KvStore]:
    """Open the KV store in a folder, which is made if need be, and close it."""
    folder.mkdir(parents=True, exist_ok=True)
    score = scores(HALF_LIFE_S)["value"]
    with closing(open_ledger(folder / "ledger.db", create=True)) as ledger:
        yield KvStore(
            ledger, folder / "kv", budget=BUDGET, daily=BUDGET, score=score, sub_step=model.sub_step, now=lambda: 1e9
        )


@contextmanager
def cached_prompt(
    model: Mlx, folder: Path, segments: Sequence[Ids], llamas: Mapping[str, LlamaSlots] | None = None
) -> Iterator[CachedPrompt]:
    """Put a prompt into all caches, below a folder."""
    from mlx_lm.models.cache import LRUPromptCache, save_prompt_cache

    with opened_store(model, folder) as store:
        root, file, memory = root_of({"model": "bench"}), folder / "prompt.safetensors", LRUPromptCache()
        binding = loading(store, root, model)
        read = prefill(PromptReader(model, binding), segments[:-1], Trace())
        keep(binding, segments[:-1], read)
        save_prompt_cache(str(file), read.cache)
        cache = model.begin()
        first_token(model, flat(segments[:-1]), cache, most=0)
        memory.insert_cache(model.name, flat(segments[:-1]), cache)
        match = store.match(root, segments[:-1])
        paths = [store.folder.path_of(node.key) for node in match.nodes]
        slots = {name: (one, one.save(flat(segments[:-1]), folder.name)) for name, one in (llamas or {}).items()}
        sync([file, *(path for _, path in slots.values())])
        yield CachedPrompt(model, segments, folder, store, root, paths, file, memory, slots)


def main() -> None:
    """Measure, print, and write."""
    options = arguments()
    with TemporaryDirectory(prefix="pkb-kv-") as name:
        model, llamas = engines(Path(name), options)
        model = calibrated(model, Path(name))
        rows = list(bars(Path(name), model, options.rounds, options.lengths))
        if not options.bars:
            rows += measured(Path(name), model, llamas, options.rounds, options.lengths)
    for row in rows:
        print(f"{row.program:46}{row.figure:48}{row.pkb:12,.10g}{row.other:12,.10g} {row.unit:6} {row.note}")
    if options.to:
        write_file(options.to / "kv_reuse.json", rows)


def arguments() -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=(*REAL, "nano"), default="135M")
    parser.add_argument("--gguf", type=Path, metavar="FILE")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--bars", action="store_true", help="beside mlx-lm's plain loop alone")
    parser.add_argument("--to", type=Path)
    return parser.parse_args()


def engines(scratch: Path, options: Namespace) -> tuple[Mlx, dict[str, LlamaSlots]]:
    """Load a model in pkb and in llama.cpp, if it is installed: as in its file, and with numbers of 32 bits."""
    if options.gguf:
        model, plain = loaded_from(model_of(linked(options.gguf, scratch)).folder, scratch), scratch / "plain.gguf"
    else:
        model, plain = loaded(scratch, options.model), scratch / "random.gguf"
    if find_spec("xllamacpp") is None or not (options.gguf or options.model in SHARING):
        return model, {}
    context = max((*options.lengths, SHARED_LENGTH)) + 2 * QUESTION
    if options.gguf:
        packed = {f"llama.cpp, {options.gguf.name}": LlamaSlots(options.gguf, scratch / "packed", context)}
        return model, packed | {PLAIN: LlamaSlots(decode(options.gguf, plain), scratch / "slots", context)}
    folder = NANO if options.model == "nano" else scratch / options.model
    return model, {PLAIN: LlamaSlots(write_llama(folder, plain), scratch / "slots", context)}


def linked(file: Path, scratch: Path) -> Path:
    """Link a file into a folder, where it is converted."""
    link = scratch / file.name
    link.symlink_to(file.resolve())
    return link


def measured(
    scratch: Path, model: Mlx, llamas: Mapping[str, LlamaSlots], rounds: int, lengths: Sequence[int]
) -> Iterator[Comparison]:
    """Yield times for the same prompt at some lengths, for partly shared prompts, and the bytes of the caches."""
    step = model.sub_step
    with cached_prompt(model, scratch / "first", prompt(SYSTEM + CHUNK, step)) as first:
        first.ask(first.segments)  # the first steps of a process are slow
    for length in lengths:
        with cached_prompt(model, scratch / f"same-{length}", prompt(length, step), llamas) as one:
            ways = dict(same(one))
            yield from compared(f"first token, {length} tokens cached", turns(ways, rounds))
    with cached_prompt(model, scratch / "shared", prompt(SHARED_LENGTH, step), llamas) as one:
        half, none = changed(one.segments, 1 + SHARED), changed(one.segments, 1)
        yield from compared("first token, two chunks shared", turns(dict(shared(one, half)), rounds))
        yield from compared("first token, no chunk shared", turns(dict(shared(one, none)), rounds))
        yield from weighed(one, half)


def same(one: CachedPrompt) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the ways to the first token of the cached prompt itself."""
    yield from shared(one, one.segments)
    yield PKB + DISK, partial(after, one.paths, partial(one.ask, one.segments))
    yield FILE + DISK, partial(after, [one.file], partial(one.ask_file, one.segments))
    for name, (llama, file) in one.slots.items():
        ask = partial(llama.restored_token, flat(one.segments), file.name)
        yield name + RESTORED + DISK, partial(after, [file], ask)


def after(dropped: Iterable[Path], way: Callable[[], object]) -> None:
    """Compute a first token with files that are not in the file cache."""
    drop(dropped)
    way()


def shared(one: CachedPrompt, segments: Sequence[Ids]) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the ways to the first token of a prompt that shares its start with the cached one."""
    yield PKB, partial(one.ask, segments)
    yield COMPUTED, partial(one.ask, segments, cached=False)
    yield FILE, partial(one.ask_file, segments)
    yield MEMORY, partial(one.ask_memory, segments)
    yield NEW, partial(first_token, one.model, flat(segments))
    for name, (llama, file) in one.slots.items():
        yield name + RESTORED, partial(llama.restored_token, flat(segments), file.name)
        yield name + EMPTY, partial(llama.new_token, flat(segments))


def bars(scratch: Path, model: Mlx, rounds: int, lengths: Sequence[int]) -> Iterator[Comparison]:
    """Yield what a cold prompt and a hit take beside mlx-lm's plain loop, by turns, in seconds of `clock`."""
    clock = process_time if device() == "cpu" else perf_counter  # a processor may be shared, a GPU works beside it
    for length in lengths:
        with cached_prompt(model, scratch / f"bars-{length}", prompt(length, model.sub_step)) as one:
            segments = one.segments
            ways: Ways = {
                COMPUTED: partial(one.ask, segments, cached=False),
                PKB: partial(one.ask, segments),
                NEW: partial(first_token, model, flat(segments)),
            }
            times = turns(ways, rounds, clock)
        plain = median(times[NEW])
        for name in (COMPUTED, PKB):
            own = times[name]
            note = f"{median(own) / plain:.2f} of it, {min(own):.0f} to {max(own):.0f}, n = {rounds}, {clock.__name__}"
            yield Comparison(NEW, f"{name}, {length} tokens", round(median(own), 2), round(plain, 2), "ms", note)


def calibrated(model: Mlx, folder: Path) -> Mlx:
    """Have a model compute in the steps that pkb finds for it on a GPU, and print them; on a processor as it does."""
    if device() == "cpu":
        return model
    found = calibrate(model.name, model.context, partial(compute_s, model), partial(restore_s, model, folder))
    print(found)
    return replace(model, sub_step=found.sub_step)


def prompt(tokens: int, sub_step: int = 1) -> list[Ids]:
    """Return the segments of a prompt with so many tokens before its question, joined as a model computes them."""
    rng, left = Random(7), tokens - SYSTEM
    count = -(-left // CHUNK)
    chunks = [left // count + (number < left % count) for number in range(count)]
    made = [tuple(rng.randrange(10, 600) for _ in range(length)) for length in (SYSTEM, *chunks, QUESTION)]
    return [*grouped(made[:-1], sub_step), made[-1]]


def changed(segments: Sequence[Ids], start: int) -> list[Ids]:
    """Return a prompt with other segments from a place on."""
    return [ids if place < start else tuple(id + 1 for id in ids) for place, ids in enumerate(segments)]


def flat(segments: Sequence[Ids]) -> list[int]:
    """Return the tokens of a prompt."""
    return [id for ids in segments for id in ids]


def loaded(folder: Path, name: str) -> Mlx:
    """Load a model that never stops; random weights are made where they are missing."""
    runtime.load_blas()
    path = NANO if name == "nano" else folder / name
    if not path.is_dir():
        weights(name, folder)
    return loaded_from(path, folder)


def loaded_from(path: Path, folder: Path) -> Mlx:
    """Load the model in a folder so that it never stops."""
    runtime.load_blas()
    return replace(load(path, name=path.name, cache=folder, memory_share=0.9), stops=frozenset())


def first_token(model: Mlx, ids: Sequence[int], cache: Any = None, most: int = 1) -> None:
    """Have mlx-lm prefill a prompt with its own loop, and generate one token, or none."""
    import mlx.core as mx
    from mlx_lm.generate import generate_step

    given: dict[str, Any] = {"max_tokens": most, "prefill_step_size": STEP, "prompt_cache": cache}
    next(generate_step(mx.array(list(ids)), model.model, **given), None)


def turns(ways: Ways, rounds: int, clock: Callable[[], float] = perf_counter) -> dict[str, list[float]]:
    """Return the milliseconds of each way in each round; every round begins with another way, the first is dropped."""
    names, times = list(ways), {name: list[float]() for name in ways}
    for number in range(rounds + 1):
        for place in range(len(names)):
            name = names[(place + number) % len(names)]
            free_memory()
            began = clock()
            ways[name]()
            times[name].append(1e3 * (clock() - began))
    return {name: own[1:] for name, own in times.items()}


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds of one piece of work, by the clock and of the processor."""

    wall: float
    processor: float


@contextmanager
def spent() -> Iterator[list[Spent]]:
    """Yield a list that holds, at the end, what the work inside took."""
    found = list[Spent]()
    wall, processor = perf_counter(), process_time()
    yield found
    found.append(Spent(perf_counter() - wall, process_time() - processor))


def free_memory() -> None:
    """Have MLX return memory that the previous work has left, which the next would pay for."""
    import mlx.core as mx

    gc.collect()
    mx.clear_cache()


def drop(paths: Iterable[Path]) -> None:
    """Remove files from the system's file cache."""
    for path in paths:
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def sync(paths: Iterable[Path]) -> None:
    """Write files to the disk: others cannot be dropped from the file cache."""
    for path in paths:
        with path.open("rb") as file:
            os.fsync(file.fileno())


def compared(figure: str, times: Mapping[str, Sequence[float]]) -> Iterator[Comparison]:
    """Yield the medians of each way beside pkb's, from disk where that is from disk."""
    for name, theirs in times.items():
        if name in (PKB, PKB + DISK):
            continue
        ours = times[PKB + DISK if name.endswith(DISK) else PKB]
        note = f"pkb {min(ours):.0f} to {max(ours):.0f}, other {min(theirs):.0f} to {max(theirs):.0f}, n = {len(ours)}"
        yield Comparison(name, figure, round(median(ours), 2), round(median(theirs), 2), "ms", note)


def weighed(one: CachedPrompt, half: Sequence[Ids]) -> Iterator[Comparison]:
    """Yield the bytes of the cached prompt, and of it and one that shares two chunks."""
    own, theirs = sum(path.stat().st_size for path in one.paths), one.file.stat().st_size
    yield Comparison(FILE, "bytes of one prompt", own, theirs, "bytes")
    yield Comparison(MEMORY, "bytes of one prompt", own, one.memory.nbytes, "bytes", "in memory")
    for name, (_, file) in one.slots.items():
        yield Comparison(name + RESTORED, "bytes of one prompt", own, file.stat().st_size, "bytes")
    binding = loading(one.store, one.root, one.model)
    keep(binding, half[:-1], prefill(PromptReader(one.model, binding), half[:-1], Trace()))
    both = sum(path.stat().st_size for path in (one.folder / "kv").glob("*.safetensors"))
    yield Comparison(FILE, "bytes of two prompts that share two chunks", both, 2 * theirs, "bytes", "a file each")


if __name__ == "__main__":
    main()
