"""Several adapters for real: question streams through pkb's KV store, first tokens by each way.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.delta.real --data DATA [--model 135M] [--only S1...]
[--count N] [--how real|files|counted] [--warm N] [--rounds N] [--lengths N...] [--prices JSON] [--load S]`. Weights are
random, of a real shape; adapters are random, of rank 8, and change weights by 7 %. The prices of a prompt's tokens are
measured first, in processor time. `real`: all ways take turns in one process, and every token is computed. `files`:
layers compute nothing; matches, loads, evictions and files are real, and what would be computed is priced. `counted`:
files are of a narrow layer and count as those of the shape, and loads are priced too, at S seconds a token. Prints a
JSON line for each request and way, then one for each way.
"""

import dataclasses
import json
import os
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.kv.restore import Prefilled, PromptReader, keep, prefill
from engine.models import kv_cache
from engine.models.adapters import ACTIVATED, CONFIG, DOWN, UP, WEIGHTS, Adapter, read_adapter, sizes_of, wear
from engine.models.load import load
from engine.models.mlx import Mlx
from engine.models.runtime import load_blas
from engine.settings import HALF_LIFE_S
from engine.types import Trace
from store.database import open_ledger
from store.kv_files import Key, Node, TreeRoot, child_key, root_of
from store.kv_index import path_keys
from store.kv_store import KvStore, scores, victims
from store.types import replace
from tests.bench.counting import CountedStore, Idle, bytes_of, folder_of
from tests.bench.delta.codec import Gridded
from tests.bench.delta.scenarios import SCENARIOS, VALUE, Scenario
from tests.bench.delta.simulation import Costs, System, simulate
from tests.bench.delta.training import LAYERS as ADAPTED
from tests.bench.delta.training import RANK, SCALE
from tests.bench.delta.tree import DeltaTree
from tests.bench.delta.workload import Asked, Ids, prompts, requests
from tests.bench.intervals import Interval, change, mean
from tests.bench.intervals import median as medians
from tests.bench.kv_reuse import free_memory, loading, spent

if TYPE_CHECKING:
    pass

CHANGE = 0.07  # of the weights, by norm: as adapters that were trained
SHARE = 0.01  # of a layer's spread: the error of a difference
QUESTION = tuple(range(300, 350))
PLENTY = 1 << 50
LOAD_S, DECODE_S, DELTA = 49e-6, 282e-6, 0.094  # of differences of trained adapters: scenarios.py, docs/log/kv.md
BEGUN = 1e9  # seconds since the epoch, when a stream begins
FULL = 0.75  # of the budget (MobiLoRA's figure)


@dataclass(frozen=True, slots=True)
class Price:
    """Seconds of computing a token, and of each pair with one before it."""

    token_s: float
    pair_s: float

    def of(self, start: int, stop: int) -> float:
        """Return the seconds of the tokens between two positions."""
        count = stop - start
        return self.token_s * count + self.pair_s * count * (start + stop) / 2


def fit(lengths: Sequence[int], seconds: Sequence[float]) -> Price:
    """Return the price that fits the seconds of a prompt's segments, in order, best."""
    ends = list(accumulate(lengths, initial=0))
    terms = np.array([[stop - start, (stop - start) * (start + stop) / 2] for start, stop in pairwise(ends)])
    token, pair = np.linalg.lstsq(terms, np.array(seconds), rcond=None)[0]
    if pair < 0:
        return Price(float(sum(seconds) / sum(lengths)), 0.0)
    return Price(max(0.0, float(token)), float(pair))


def uncached(lengths: Sequence[int], reused: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the positions that were computed: of each segment what was not reused."""
    start = 0
    for length, there in zip(lengths, reused, strict=True):
        if there < length:
            yield start + there, start + length
        start += length


@dataclass(frozen=True, slots=True)
class Cost:
    """The prices of what is not done for real: by the bare model, by one that wears an adapter, and of loading."""

    bare: Price
    worn: Price
    load_s: float | None = None

    def first_token(self, segments: Sequence[Ids], reused: Sequence[int], *, shared: bool) -> float:
        """Return the seconds of a prompt of which so many tokens of each segment are cached, and of its question.

        The context is read by the bare model where it is `shared`.
        """
        lengths, price = list(map(len, segments)), self.bare if shared else self.worn
        filled, total = [*reused, *[0] * (len(lengths) - len(reused))], sum(lengths)
        computed = sum(price.of(*both) for both in uncached(lengths, filled))
        return computed + sum(reused) * (self.load_s or 0.0) + self.worn.of(total, total + len(QUESTION))


@dataclass(frozen=True, slots=True)
class Served:
    """What one request took: seconds by the clock and of the processor, priced ones included; and bytes afterwards."""

    way: str
    wall: float
    processor: float
    reused: int
    tokens: int
    bytes: int


@dataclass(slots=True)
class Way:
    """Serves requests from a store of its own, or computes everything; mutable.

    With `one`, what another adapter has stored is dropped first. With a `cost` the model computes nothing, and what it
    would take is added.
    """

    name: str
    model: Mlx
    adapters: Sequence[Adapter | None]
    store: KvStore | None = None
    one: bool = False
    cost: Cost | None = None
    last: int = -1
    stored: set[Key] = field(default_factory=set)

    def serve(self, asked: Asked) -> Served:
        """Return what a request takes to its first token; what was computed is stored afterwards."""
        model = dataclasses.replace(self.model, wears=self.adapters[asked.adapter])
        root = root_of({"model": "bench", "adapter": model.kv_adapter})
        if self.one and self.store and asked.adapter != self.last:
            self.store.folder.remove(self.stored)
            self.stored.clear()
        self.last = asked.adapter
        self.stored.update(path_keys(root, asked.segments)[1:])
        kept = loading(self.store, root, model) if self.store else None
        if self.cost is None:
            free_memory()
        with spent() as taken:
            read = prefill(PromptReader(model, kept), asked.segments, Trace())
            next(model.decode(read.cache, QUESTION, 1))
        if kept:
            keep(kept, asked.segments, self._timed(read, asked))
        shared, tokens = not model.kv_adapter, sum(map(len, asked.segments))
        extra = self.cost.first_token(asked.segments, read.reused, shared=shared) if self.cost else 0.0
        size = self.store.index.totals().bytes if self.store else 0
        return Served(self.name, taken[0].wall + extra, taken[0].processor + extra, sum(read.reused), tokens, size)

    def _timed(self, read: Prefilled, asked: Asked) -> Prefilled:
        """Return what was read with the seconds that computing each segment takes, which eviction needs."""
        if self.cost is None:
            return read
        ends = [*accumulate(map(len, asked.segments), initial=0)][len(read.nodes) :]
        return dataclasses.replace(read, seconds=tuple(self.cost.bare.of(*both) for both in pairwise(ends)))


@dataclass(slots=True)
class Differences:
    """Serves requests from a tree of differences (tree.py) under a budget, evicted by pkb's score; mutable."""

    name: str
    model: Mlx
    adapters: Sequence[Adapter]
    tree: DeltaTree
    budget: int
    nodes: dict[Key, Node] = field(default_factory=dict)
    encoding: list[float] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)  # of the whole that differences take

    def serve(self, asked: Asked) -> Served:
        """Return what a request takes to its first token; what was computed is stored afterwards."""
        model = dataclasses.replace(self.model, wears=self.adapters[asked.adapter])
        root = root_of({"model": "bench", "adapter": model.kv_adapter})
        free_memory()
        seconds = list[float]()
        with spent() as taken:
            found = self._found(root, asked)
            layers = [
                (_joined(found, f"{n}.k"), _joined(found, f"{n}.v"))
                for n in range(len(model.model.layers) if found else 0)
            ]
            cache = kv_cache.extend(model.begin(), layers) if layers else model.begin()
            for ids in asked.segments[len(found) :]:
                with spent() as one:
                    model.prefill(cache, ids)
                seconds.append(one[0].wall)
            next(model.decode(cache, QUESTION, 1))
        with spent() as encoded:
            self._keep(root, asked, cache, len(found), seconds)
        self.encoding.append(encoded[0].processor)
        reused, tokens = sum(map(len, asked.segments[: len(found)])), sum(map(len, asked.segments))
        return Served(self.name, taken[0].wall, taken[0].processor, reused, tokens, self.tree.bytes)

    def _found(self, root: TreeRoot, asked: Asked) -> list[dict[str, Gridded]]:
        found, above = list[dict[str, Gridded]](), root
        for ids in asked.segments:
            node = self.tree.find(above, ids)
            arrays = self.tree.load(node.key) if node else None
            if node is None or arrays is None:
                break
            old = self.nodes[node.key]
            self.nodes[node.key] = replace(old, uses=old.uses + 1, last_used=BEGUN + asked.at)
            found.append(arrays)
            above = node.above
        return found

    def _keep(self, root: TreeRoot, asked: Asked, cache: Any, found: int, seconds: Sequence[float]) -> None:
        above, start, keep_ = root, 0, set[Key]()
        for depth, ids in enumerate(asked.segments, 1):
            stop, parent = start + len(ids), above.key
            key = child_key(above.key, ids)
            keep_.add(key)
            if depth > found:
                arrays = {
                    f"{number}.{kv}": np.array(array[0, :, start:stop])
                    for number, part in enumerate(cache)
                    for kv, array in zip("kv", (part.keys, part.values), strict=True)
                }
                whole = sum(array.nbytes for array in arrays.values())
                if not self._make_way(whole + (64 << 10), keep_, BEGUN + asked.at):
                    return
                node = self.tree.keep(above, ids, arrays)
                if node.anchor:
                    self.shares.append(node.bytes / whole)
                taken, now = seconds[depth - found - 1], BEGUN + asked.at
                self.nodes[key] = Node(key, parent, node.path, depth, tuple(ids), node.bytes, taken, now, now, 0)
            above, start = TreeRoot(key, child_key(above.path, ids)), stop

    def _make_way(self, size: int, keep_: set[Key], now: float) -> bool:
        """Evict until a whole node fits, one at a time: what is left of a path may take other bytes then."""
        score = scores(HALF_LIFE_S)["value"]
        while self.tree.bytes + size > self.budget:
            held = {key: one.bytes for key, one in self.tree._nodes.items()}
            known = [replace(node, bytes=held[key]) for key, node in self.nodes.items() if key in held]
            chosen = victims(known, 1, score, now, keep_)
            if not chosen:
                return False
            self.tree.evict(chosen[0].key)
            del self.nodes[chosen[0].key]
        return True


def _joined(found: Sequence[Mapping[str, Gridded]], name: str) -> Any:
    import mlx.core as mx

    return mx.array(np.concatenate([part[name].values for part in found], axis=1))[None]


def make_adapters(model: Mlx, folder: Path, count: int, layers: int = ADAPTED) -> list[tuple[Adapter, Adapter]]:
    """Write random adapters on a model's top layers, each as an ordinary and as an activated one."""
    import mlx.core as mx
    from mlx.nn.layers.linear import Linear

    found = list[tuple[Adapter, Adapter]]()
    wear(model.model, model.adapter, None)
    top = {f"model.layers.{n}" for n in range(max(0, len(model.model.layers) - layers), len(model.model.layers))}
    linear = {
        name: layer
        for name, layer in model.model.named_modules()
        if isinstance(layer, Linear) and ".".join(name.split(".")[:3]) in top
    }
    for number in range(count):
        mx.random.seed(1000 + number)
        factors = dict[str, Any]()
        for name, layer in linear.items():
            inputs, outputs = sizes_of(layer)
            down, up = mx.random.normal((inputs, RANK)) / inputs**0.5, mx.random.normal((RANK, outputs))
            size = mx.linalg.norm(SCALE * (down @ up)) / mx.linalg.norm(layer.weight.astype(mx.float32))
            factors |= {name + DOWN: down, name + UP: up * (CHANGE / size)}
        mx.eval(factors)
        found.append((_written(folder / f"o{number}", factors, False), _written(folder / f"a{number}", factors, True)))
    return found


def _written(folder: Path, factors: Mapping[str, Any], activated: bool) -> Adapter:
    import mlx.core as mx

    folder.mkdir(parents=True)
    mx.save_safetensors(str(folder / WEIGHTS), dict(factors))
    parameters = {"rank": RANK, "scale": SCALE, "dropout": 0.0}
    said = {"fine_tune_type": "lora", "lora_parameters": parameters, ACTIVATED: activated}
    (folder / CONFIG).write_text(json.dumps(said), "utf-8")
    return read_adapter(folder, folder.name)


def prices(
    model: Mlx, adapter: Adapter, prompt: Sequence[Ids], lengths: Sequence[int], rounds: int
) -> tuple[Price, Price, dict[str, Any]]:
    """Return the prices of the bare model and of one that wears an adapter, by turns, and the seconds by length."""
    times: dict[tuple[str, int], list[list[float]]] = {}
    kinds = {"bare": model, "worn": dataclasses.replace(model, wears=adapter)}
    for _ in range(rounds):
        for length in lengths:
            for kind, one in kinds.items():
                times.setdefault((kind, length), []).append(_segments(one, cut(prompt, length)))
    found = list[Price]()
    for kind in kinds:
        longest = max(lengths)
        taken = np.median(times[kind, longest], axis=0)
        found.append(fit(list(map(len, cut(prompt, longest))), list(map(float, taken))))
    said = {
        f"{kind}_{length}_s": [round(value, 3) for value in sorted(map(sum, rows))]
        for (kind, length), rows in times.items()
    }
    return found[0], found[1], said


def _segments(model: Mlx, prompt: Sequence[Ids]) -> list[float]:
    cache, found = model.begin(), list[float]()
    free_memory()
    for ids in prompt:
        with spent() as taken:
            model.prefill(cache, ids)
        found.append(taken[0].processor)
    return found


def cut(prompt: Sequence[Ids], length: int) -> list[Ids]:
    """Return the first tokens of a prompt, by segment."""
    found, left = list[Ids](), length
    for ids in prompt:
        if left > 0:
            found.append(tuple(ids[:left]))
            left -= len(ids)
    return found


@contextmanager
def opened(folder: Path, budget: int, model: Mlx, clock: list[float]) -> Iterator[KvStore]:
    """Open a KV store under a budget whose time is that of the stream."""
    folder.mkdir(parents=True, exist_ok=True)
    with closing(open_ledger(folder / "ledger.db", create=True)) as ledger:
        yield KvStore(
            ledger, folder / "kv", budget=budget, daily=PLENTY, score=scores(HALF_LIFE_S)["value"],
            sub_step=model.sub_step,
            now=lambda: BEGUN + clock[0],
        )  # fmt: skip


def streams(given: Namespace, scratch: Path) -> Iterator[dict[str, Any]]:
    """Yield the prices, then the requests of each scenario and its figures."""
    load_blas()
    folder = folder_of(given.model, given.models, real=given.how != "counted" or not given.prices)
    model = load(folder, name=given.model, cache=scratch, memory_share=0.9)
    model = dataclasses.replace(model, stops=frozenset())
    pairs = make_adapters(model, scratch / "adapters", 10)
    users = {n: prompts(given.data, given.corpus, folder / "tokenizer.json", n) for n in (4, 8)}
    longest = max((prompt for user in users[8] for prompt in user), key=lambda one: sum(map(len, one)))
    if given.prices:
        bare, worn = (Price(**json.loads(given.prices)[kind]) for kind in ("bare", "worn"))
    else:
        bare, worn, said = prices(model, pairs[0][0], longest, given.lengths, given.rounds)
        about = {"model": given.model, "bytes_a_token": bytes_of(given.model)}
        yield about | {"bare": asdict(bare), "worn": asdict(worn)} | said
    cost = None if given.how == "real" else Cost(bare, worn, given.load if given.how == "counted" else None)
    if given.how == "counted":
        narrow = folder_of(given.model, given.models, real=False)
        model = dataclasses.replace(model, model=load(narrow, name=given.model, cache=scratch, memory_share=0.9).model)
        pairs = make_adapters(model, scratch / "narrow", 10)
    for scenario in [one for one in SCENARIOS if one.name in given.only]:
        for seed in range(given.seeds):
            stream = requests(users[scenario.sources], scenario.adapters, by_user=False, seed=seed)[: given.count]
            place = scratch / f"{scenario.name}-{seed}"
            for row in replayed(scenario, stream, model, pairs, bytes_of(given.model), place, cost, given.warm):
                yield {"seed": seed} | row


def replayed(
    scenario: Scenario,
    stream: Sequence[Asked],
    model: Mlx,
    pairs: Sequence[tuple[Adapter, Adapter]],
    token_bytes: int,
    place: Path,
    cost: Cost | None,
    warm: int = 0,
) -> Iterator[dict[str, Any]]:
    """Serve a stream by all ways, which take turns with each request; yield each request and the figures.

    The first `warm` requests fill the stores, computing nothing, and are not yielded; no tree of differences is made.
    """
    budget, clock = scenario.budget(token_bytes), [0.0]
    about = {"scenario": scenario.name, "model": model.name, "computed": cost is None, "mb": budget // 10**6}
    ordinary, activated = [one for one, _ in pairs], [one for _, one in pairs]
    counted = dataclasses.replace(model, model=Idle(model.model)) if cost else model
    with ExitStack() as held:

        def kept(name: str) -> KvStore:
            store = held.enter_context(opened(place / name, budget, model, clock))
            return CountedStore.of(store, token_bytes) if cost and cost.load_s is not None else store

        ways: list[Way | Differences] = [
            Way("recompute", counted, ordinary, cost=cost),
            Way("one", counted, ordinary, kept("one"), one=True, cost=cost),
            Way("each", counted, ordinary, kept("each"), cost=cost),
            Way("activated", counted, activated, kept("activated"), cost=cost),
        ]
        if cost is None and not warm:
            (place / "differences").mkdir()
            ways.append(Differences("differences", model, ordinary, DeltaTree(place / "differences", SHARE), budget))
        rows: dict[str, list[Served]] = {one.name: [] for one in ways}
        for asked in stream[:warm]:
            clock[0] = asked.at
            for one in ways[1:]:
                one.model = dataclasses.replace(model, model=Idle(model.model))
                one.serve(asked)
                one.model = counted
        for number, asked in enumerate(stream[warm:]):
            clock[0] = asked.at
            for turn in range(len(ways)):
                one = ways[(turn + number) % len(ways)]
                rows[one.name].append(one.serve(asked))
                yield about | {"number": number, "adapter": asked.adapter} | asdict(rows[one.name][-1])
        for row in figures(rows, budget):
            yield about | row
        if cost:
            yield about | simulated(stream, budget, token_bytes, cost.worn)
        for one in ways:
            if isinstance(one, Differences):
                yield about | {"way": "encoding", "mean_s": fmean(one.encoding), "whole": len(one.nodes)} | {
                    "share": fmean(one.shares) if one.shares else None, "deltas": len(one.shares),
                }  # fmt: skip


def simulated(stream: Sequence[Asked], budget: int, token_bytes: int, worn: Price) -> dict[str, Any]:
    """Return the figures of a tree of differences, simulated at the prices of trained adapters and the same stream."""
    costs = Costs(worn.of, LOAD_S, DECODE_S, token_bytes, DELTA, len(QUESTION))
    theirs = simulate(stream, System("recompute", "none", VALUE), budget, costs)
    own = simulate(stream, System("differences", "shared", VALUE), budget, costs)
    less = change(own.first_token, theirs.first_token)
    return {"way": "differences, simulated", "mean_change": _rounded(less)} | own.row(budget)


def figures(rows: Mapping[str, Sequence[Served]], budget: int) -> Iterator[dict[str, Any]]:
    """Yield the figures of each way, and its first tokens against those of recomputing, paired by request."""
    base = rows.get("recompute", next(iter(rows.values())))
    for name, own in rows.items():
        found: dict[str, Any] = {"way": name, "n": len(own)}
        for kind in ("wall", "processor"):
            mine, theirs = ([getattr(one, kind) for one in some] for some in (own, base))
            found[kind] = {"median": round(median(mine), 3), "mean": round(fmean(mine), 3)}
            for statistic, of in (("mean", mean), ("median", medians)):
                less = change(mine, theirs, of)
                found[kind][f"{statistic}_change"] = [round(x, 3) for x in (less.value, less.low, less.high)]
        yield found | {
            "reused": round(sum(one.reused for one in own) / max(1, sum(one.tokens for one in own)), 4),
            "most_of_budget": round(max(one.bytes for one in own) / budget, 3),
            "over_75": round(fmean(one.bytes > FULL * budget for one in own), 3),
        }


def main() -> None:
    """Measure and print."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="135M")
    parser.add_argument("--models", type=Path, default=Path("build/models"))
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--corpus", default="enron-annotated")
    parser.add_argument("--only", nargs="+", default=["S1", "S2", "S3", "S4", "S5"])
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lengths", type=int, nargs="+", default=[1024, 2048])
    parser.add_argument("--how", choices=("real", "files", "counted"), default="files")
    parser.add_argument("--load", type=float, default=LOAD_S, help="seconds of a token")
    parser.add_argument("--warm", type=int, default=0, help="requests that fill the stores first, computing nothing")
    parser.add_argument("--seeds", type=int, default=1, help="of the order of sittings and of adapters")
    parser.add_argument("--prices", help="the second line of an earlier run")
    given = parser.parse_args()
    with TemporaryDirectory(prefix="pkb-adapters-") as name:
        print(json.dumps({"load": os.getloadavg()[0]}), flush=True)
        for row in streams(given, Path(name)):
            print(json.dumps(row), flush=True)
        print(json.dumps({"load": os.getloadavg()[0]}), flush=True)


def _rounded(found: Interval) -> list[float]:
    return [round(value, 3) for value in (found.value, found.low, found.high)]


if __name__ == "__main__":
    main()
