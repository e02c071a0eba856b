"""pkb against other caches in the same run: mlx-lm's prompt caches, and GPTCache.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.peers --to FOLDER [--model 135M|nano] [--gptcache PYTHON]`; it writes
FOLDER/peers.json. PYTHON is that of an environment as tests.bench.gptcache wants it. The same weights compute for both
sides, which take turns; what is told of mlx-lm are medians of seconds until the first token.
"""

import json
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from engine.llm.prefill import Ids, KvBinding, PromptReader, keep, prefill
from engine.models import runtime
from engine.models.load import load
from engine.models.mlx import Mlx
from engine.types import Trace
from store.database import open_ledger
from store.kv_budget import KvLimits, scores
from store.kv_store import KvStore
from store.kv_tree import root_of
from tests.bench.living import DATA, NANO
from tests.bench.reuse import QUESTION, SYSTEM, prompt
from tests.bench.state import ROOM, Desk, afresh
from tests.engine.models.shapes import REAL, make
from tests.store.kv_kit import WEIGHTS

ROUNDS, CHUNKS, CHUNK, SHARED_CHUNKS, SETS = 5, 4, 130, 2, ("paraphrase",)
STEP = 2048  # tokens that mlx-lm reads at a time, by default
ROOT = root_of({"model": "peers"})
FILE, MEMORY, ANEW = "mlx-lm, save_prompt_cache", "mlx-lm, LRUPromptCache", "mlx-lm, nothing kept"
HOW = """GPTCache is not measured. python -m venv DIR; in it a .pth file that names this environment's site-packages;
DIR/bin/pip install gptcache==0.1.44 faiss-cpu sqlalchemy; then --gptcache DIR/bin/python"""
TOKENS = SYSTEM + CHUNKS * CHUNK + QUESTION
NOTES = {FILE: "its user trims it to what is shared", MEMORY: "in memory, pkb in files", ANEW: f"{TOKENS} tokens"}
Times = dict[str, float]  # seconds until the first token, by way


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison."""

    peer: str
    what: str
    pkb: float
    peer_value: float
    unit: str
    note: str = ""


def main() -> None:
    """Measure, write, and print; with --part do one part of it, in this process."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--model", choices=("135M", "nano"), default="135M")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--gptcache", default=sys.executable, metavar="PYTHON")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--part", type=int, help="a round, whose times are printed as JSON")
    options = parser.parse_args()
    if options.part is not None:
        print(json.dumps(again(loaded(options.to, options.model), options.to / "desk", options.part)))
        return
    with TemporaryDirectory(prefix="pkb-peers-") as name:
        rows = by_mlx_lm(Path(name), options.model, options.rounds)
    more = by_gptcache(options.gptcache, options.data, SETS)
    missing = [] if more else [HOW]
    told = json.dumps({"rows": [asdict(row) for row in (*rows, *more)], "missing": missing}, indent=1)
    options.to.mkdir(parents=True, exist_ok=True)
    (options.to / "peers.json").write_text(told, "utf-8")
    print("\n".join((*map(line, (*rows, *more)), *missing)))


def by_mlx_lm(scratch: Path, name: str, rounds: int) -> list[Row]:
    """Compare with mlx-lm's caches: of the same prompt, of one that shares two chunks, of one that shares none."""
    whole, half, none = prompts()
    state = Desk(loaded(scratch, name), scratch / "desk", whole, ROOT)
    with closing(state):
        kept = lru(state)
        near, far = ([beside(state, kept, one, n) for n in range(rounds + 1)][1:] for one in (half, none))
        weights = list(weighed(state, kept, half))
    command = [sys.executable, "-m", "tests.bench.peers", "--to", str(scratch), "--model", name, "--part"]
    runs = (subprocess.run([*command, str(n)], check=True, capture_output=True, text=True) for n in range(rounds))
    new = [json.loads(run.stdout.splitlines()[-1]) for run in runs]
    told = (
        ("first token, the same prompt again in a new process", new, (FILE, ANEW)),
        ("first token, two chunks of four shared", near, (MEMORY, FILE, ANEW)),
        ("first token, no chunk shared", far, (MEMORY, ANEW)),
    )
    return [*(compared(peer, what, times) for what, times, peers in told for peer in peers), *weights]


def prompts() -> tuple[list[Ids], list[Ids], list[Ids]]:
    """Return a prompt, one that shares its first two chunks, and one that shares only the instructions."""
    whole = prompt(TOKENS)

    def other(at: int) -> list[Ids]:
        return [ids if place < at else tuple(id + 1 for id in ids) for place, ids in enumerate(whole)]

    return whole, other(1 + SHARED_CHUNKS), other(1)


def loaded(folder: Path, name: str) -> Mlx:
    """Load a model that never stops, of random weights that are made where they are not there."""
    runtime.load_blas(folder)
    path = NANO if name == "nano" else folder / name
    if not path.is_dir():
        make(path, REAL[name], dtype="float16")
    return replace(load(path, name=name, cache=folder, memory_share=0.9), stops=frozenset(), one_line=False)


def again(model: Mlx, folder: Path, number: int) -> Times:
    """Ask the desk's prompt in a process that did not read it: of pkb, whose store is opened first, and of mlx-lm."""
    from mlx_lm.models.cache import load_prompt_cache

    whole, _, none = prompts()
    flat = [id for ids in whole for id in ids]
    Desk(model, folder.parent / f"first-{number}", none).close()  # whose first steps are slow

    def ours() -> None:
        with closing(open_ledger(folder / "ledger.db")) as ledger:
            score, limits, step = scores(WEIGHTS)["value"], KvLimits(ROOM, ROOM), model.sub_step
            store = KvStore(ledger, folder / "kv", limits=limits, score=score, sub_step=step, now=lambda: 1e9)
            with closing(store), ExitStack() as held:
                read = prefill(PromptReader(model, KvBinding(store, ROOT, model)), whole[:-1], Trace(), held)
                next(model.decode(read.cache, whole[-1], 1))

    def theirs() -> None:
        first_token(model, whole[-1], load_prompt_cache(str(folder / "theirs.safetensors")))

    return by_turns({"pkb": ours, FILE: theirs, ANEW: lambda: first_token(model, flat)}, number)


def lru(state: Desk) -> Any:
    """Return mlx-lm's cache in memory, which has seen the desk's prompt as its server would show it."""
    from mlx_lm.models.cache import LRUPromptCache

    kept, cache = LRUPromptCache(), state.model.begin()
    flat = [id for ids in state.segments for id in ids]
    first_token(state.model, flat, cache, most=0)  # or the cache has read more than it is told
    kept.insert_cache(state.model.name, flat, cache)
    return kept


def beside(state: Desk, kept: Any, segments: Sequence[Ids], number: int) -> Times:
    """Ask a prompt that begins as the desk's does, in each way."""
    from mlx_lm.models.cache import load_prompt_cache, trim_prompt_cache

    flat = [id for ids in segments for id in ids]
    pairs = zip(segments, state.context, strict=False)
    common = sum(len(ids) for ids, there in pairs if ids == there)

    def memory() -> None:
        cache, rest = kept.fetch_nearest_cache(state.model.name, flat)
        first_token(state.model, rest, cache)

    def file() -> None:
        cache = load_prompt_cache(str(state.theirs))
        trim_prompt_cache(cache, sum(map(len, state.context)) - common)
        first_token(state.model, flat[common:], cache)

    anew = partial(first_token, state.model, flat)
    return by_turns({"pkb": partial(state.reused, segments), MEMORY: memory, FILE: file, ANEW: anew}, number)


def by_turns(ways: Mapping[str, Callable[[], object]], number: int) -> Times:
    """Time each way once, beginning with another one each round."""
    names, times = list(ways), Times()
    for place in range(len(names)):
        name = names[(place + number) % len(names)]
        afresh()
        began = perf_counter()
        ways[name]()
        times[name] = perf_counter() - began
    return times


def first_token(model: Mlx, ids: Sequence[int], cache: Any = None, most: int = 1) -> None:
    """Have mlx-lm read a prompt with its own loop, and write one token, or none."""
    import mlx.core as mx
    from mlx_lm.generate import generate_step

    given: dict[str, Any] = {"max_tokens": most, "prefill_step_size": STEP, "prompt_cache": cache}
    next(generate_step(mx.array(list(ids)), model.model, **given), None)


def weighed(state: Desk, kept: Any, half: Sequence[Ids]) -> Iterator[Row]:
    """Weigh what is kept of the desk's prompt, and of that and one that shares half of it."""
    own, theirs = sum(path.stat().st_size for path in state.paths), state.theirs.stat().st_size
    one, two = "bytes kept, of a prompt's context", "bytes kept, of two prompts that share two chunks"
    yield Row(FILE, one, own, theirs, "bytes")
    yield Row(MEMORY, one, own, kept.nbytes, "bytes", "in memory, gone with the process; the question among it")
    with ExitStack() as held:
        read = prefill(PromptReader(state.model, state.kept), half[:-1], Trace(), held)
        keep(state.kept, half[:-1], read)
    both = sum(path.stat().st_size for path in (state.folder / "kv").glob("*.safetensors"))
    yield Row(FILE, two, both, 2 * theirs, "bytes", "a file a prompt")


def compared(peer: str, what: str, rounds: Sequence[Times]) -> Row:
    """Sum up the rounds of a way beside pkb's."""
    ours, theirs = ([1e3 * times[name] for times in rounds] for name in ("pkb", peer))
    spread = f"pkb {min(ours):.0f} to {max(ours):.0f}, peer {min(theirs):.0f} to {max(theirs):.0f}"
    note = f"{NOTES[peer]}; {spread} in {len(rounds)} rounds"
    return Row(peer, what, round(median(ours), 2), round(median(theirs), 2), "ms", note)


def by_gptcache(python: str, data: Path, sets: Sequence[str]) -> list[Row]:
    """Compare with GPTCache by the table that tests.bench.gptcache prints; nothing where it is not installed."""
    command = (python, "-m", "tests.bench.gptcache", str(data), "--sets", *sets)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return table(done.stdout)


def table(printed: str) -> list[Row]:
    """Read what tests.bench.gptcache prints: of each set its rows beside pkb's own."""
    found = dict[str, dict[str, list[float]]]()
    for name, _, rest in (text.partition(": ") for text in printed.splitlines()):
        cells = rest.rsplit(None, 6)
        if len(cells) == 7:
            found.setdefault(name, {})[cells[0]] = list(map(float, cells[1:]))
    units = {1: ("right hits", "hits"), 2: ("false hits", "hits"), 4: ("median of a lookup", "ms")}
    return [
        Row(label, f"{name}: {what}", own["pkb"][at], cells[at], unit, f"{cells[0]:.0f} pairs; embedding left out")
        for name, own in found.items()
        for label, cells in own.items()
        if label.startswith("GPTCache") and "pkb" in own
        for at, (what, unit) in units.items()
    ]


def line(row: Row) -> str:
    """Return it in a line."""
    return f"{row.peer:28}{row.what:54}{row.pkb:14,.10g}{row.peer_value:14,.10g} {row.unit:6} {row.note}"


if __name__ == "__main__":
    main()
