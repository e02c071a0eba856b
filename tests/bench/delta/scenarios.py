"""First token and bytes of several adapters: measured costs of one node, then real question streams, simulated.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.delta.scenarios MODEL --anchor A --target B --mail FOLDER --data DATA
[--corpora NAME...] [--share N] [--seeds N] [--only NAME...] [--systems NAME...] [--prices JSON]`. Prints the prices of
a token in processor time, or takes those of another run; then a JSON line for each scenario, use of adapters and
system, the mean of several orders of sittings. S1 to S5 have 5 or 10 adapters, 2 or 4 GB of a model of seven billion
parameters scaled to this one's bytes a token, and prompts of about 1,024 or 2,048 tokens; `usual` is pkb's own budget.
"""

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np

from engine.models.mlx import Mlx
from engine.settings import HALF_LIFE_S, Settings
from store.kv_files import TreeRoot, root_of
from store.kv_store import Score, scores
from tests.bench.compression import mail_ids, opened
from tests.bench.delta.similarity import SEGMENT, Layers, computed
from tests.bench.delta.simulation import Costs, System, simulate
from tests.bench.delta.tree import DeltaNode, DeltaTree
from tests.bench.delta.utility import StateOf, UtilityWeights, recent_and_frequent, utility
from tests.bench.delta.workload import prompts, requests
from tests.bench.home import NANO
from tests.bench.sparkv.bitstream import Chunk32
from tests.bench.sparkv.streaming import blocks_of

TOKENS, ROUNDS = 1024, 3  # of the prompt whose nodes are measured
SEVEN_BILLION = 2 * 32 * 4096 * 2  # bytes a token, in half precision
EIGHT = 9 / 32  # of full width that numbers in 8 bits take, with their scales
RECENCY_WEIGHT, FREQUENCY_WEIGHT = 0.6, 0.4  # the prefix-caching article, weighted eviction


@dataclass(frozen=True, slots=True)
class Prices:
    """What a token takes: seconds of computing it and each pair with one before it, of loading, of decoding; bytes.

    `share` is the part of the whole that a difference takes, `upper` that of the layers that both adapters differ in.
    """

    token_s: float
    pair_s: float
    load_s: float
    decode_s: float
    bytes: int
    share: float
    upper: float
    error: float  # the largest, as a share of a layer's spread

    def compute(self, start: int, stop: int) -> float:
        """Return the seconds of computing the tokens between two positions."""
        count = stop - start
        return self.token_s * count + self.pair_s * count * (start + stop) / 2

    @property
    def costs(self) -> Costs:
        """Return them as the simulation takes them."""
        return Costs(self.compute, self.load_s, self.decode_s, self.bytes, self.share)


@dataclass(frozen=True, slots=True)
class Scenario:
    """Adapters, gigabytes of a model of seven billion parameters (None: pkb's own budget), and sources of a prompt."""

    name: str
    adapters: int
    gigabytes: float | None
    sources: int

    def budget(self, token_bytes: int) -> int:
        """Return the bytes of the cache."""
        if self.gigabytes is None:
            return Settings().kv.bytes
        return int(self.gigabytes * 1e9 / SEVEN_BILLION * token_bytes)


SCENARIOS = (
    Scenario("S1", 5, 2, 4), Scenario("S2", 10, 2, 4), Scenario("S3", 5, 4, 4), Scenario("S4", 10, 4, 4),
    Scenario("S5", 10, 4, 8), Scenario("usual", 5, None, 4),
)  # fmt: skip


def _whatever_the_state(name: str, _: StateOf) -> Score:
    """Return one of pkb's own scores, or recency and frequency weighed as the prefix-caching article does."""
    if name == "recency":
        return partial(recent_and_frequent, (RECENCY_WEIGHT, FREQUENCY_WEIGHT), HALF_LIFE_S)
    return scores(HALF_LIFE_S)[name]


VALUE = partial(_whatever_the_state, "value")


def systems(upper: float) -> Iterator[System]:
    """Yield the systems: baselines, and trees per adapter and with differences under each score.

    `upper` is the part of the layers that the adapters change; those below are equal, bit for bit.
    """
    yield System("recompute", "none", VALUE)
    yield System("prefixes of one adapter", "one", VALUE)
    for trees in ("each", "shared"):
        for name in ("value", "lfu", "recency"):
            yield System(f"{trees}, {name}", trees, partial(_whatever_the_state, name))
        yield System(f"{trees}, utility", trees, partial(utility, UtilityWeights()))
        yield System(f"{trees}, utility without state", trees, partial(utility, UtilityWeights(0.0, 0.8)))
    for width, bits in ((1.0, ""), (EIGHT, ", 8 bits")):
        if bits:
            yield System(f"each, value{bits}", "each", VALUE, width)
            yield System(f"shared, value{bits}", "shared", VALUE, width)
        yield System(f"lower layers shared, value{bits}", "shared", VALUE, width, upper, False)


def main() -> None:
    """Measure, simulate and print."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--anchor", type=Path)
    parser.add_argument("--target", type=Path)
    parser.add_argument("--mail", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--corpora", nargs="+", default=["enron-annotated", "locomo"])
    parser.add_argument("--share", type=float, default=0.01)
    parser.add_argument("--seeds", type=int, default=3, help="of the order of sittings and of adapters")
    parser.add_argument("--systems", nargs="+", help="all by default")
    parser.add_argument("--prices", help="the first line of an earlier run")
    parser.add_argument("--only", nargs="+", default=[one.name for one in SCENARIOS])
    given = parser.parse_args()
    prices = Prices(**json.loads(given.prices)) if given.prices else priced(given)
    print(json.dumps(asdict(prices)), flush=True)
    for corpus in given.corpora:
        for row in scenarios(corpus, prices, given):
            print(json.dumps({"corpus": corpus} | row), flush=True)


def priced(given: Namespace) -> Prices:
    """Return the prices of a token of a model, and of a difference between two of its adapters."""
    with opened(given.model) as model:
        prompt = blocks_of(mail_ids(model, given.mail, TOKENS + 50), TOKENS)
        anchor, _, _ = computed(model, given.anchor, prompt)
        target, _, _ = computed(model, given.target, prompt)
        upper = fmean(bool((one[0] != other[0]).any()) for one, other in zip(anchor, target, strict=True))
        return measured(anchor, target, prompt, given.share, *fitted(model, prompt), upper)


def fitted(model: Mlx, prompt: Sequence[Sequence[int]]) -> tuple[float, float]:
    """Return the seconds of a token and of a pair that fit the times of a prompt's segments."""
    times = list[list[float]]()
    for _ in range(ROUNDS):
        cache, taken = model.begin(), list[float]()
        for block in prompt[:-1]:
            began = process_time()
            model.prefill(cache, block)
            taken.append(process_time() - began)
        times.append(taken)
    counts = np.array([len(block) for block in prompt[:-1]], float)
    ends = np.cumsum(counts)
    terms = np.stack([counts, counts * (ends - counts / 2)], axis=1)
    found = np.linalg.lstsq(terms, np.median(times, axis=0), rcond=None)[0]
    return max(0.0, float(found[0])), max(0.0, float(found[1]))


def measured(
    anchor: Layers,
    target: Layers,
    prompt: Sequence[Sequence[int]],
    share: float,
    token_s: float,
    pair_s: float,
    upper: float,
) -> Prices:
    """Return the prices with those of real nodes on disk, cached by the system: of an anchor, and of a difference."""
    with TemporaryDirectory(prefix="pkb-kv-", dir=Path.cwd()) as scratch:
        tree = DeltaTree(Path(scratch), share, pays=1.0)
        nodes = [_kept(tree, name, layers, prompt) for name, layers in (("a", anchor), ("b", target))]
        times: list[list[float]] = [[], []]
        for _ in range(ROUNDS):
            for found, own in zip(times, nodes, strict=True):
                began = process_time()
                for node in own:
                    assert tree.load(node.key)
                found.append(process_time() - began)
    whole, apart = (sum(node.bytes for node in own) for own in nodes)
    load, both = (median(found) / TOKENS for found in times)
    decode, error = max(0.0, both - load * (1 + apart / whole)), max(node.error for node in nodes[1])
    return Prices(token_s, pair_s, load, decode, whole // TOKENS, apart / whole, upper, error)


def _kept(tree: DeltaTree, adapter: str, layers: Layers, prompt: Sequence[Sequence[int]]) -> list[DeltaNode]:
    above: TreeRoot = root_of({"model": "", "adapter": adapter})
    found, start = list[DeltaNode](), 0
    for block in prompt[:-1]:
        part = slice(start, start + len(block))
        arrays: dict[str, Chunk32] = {
            f"{number}.{kv}": np.ascontiguousarray(one[:, part])
            for number, both in enumerate(layers)
            for kv, one in zip("kv", both, strict=True)
        }
        node = tree.keep(above, tuple(block), arrays)
        found.append(node)
        above, start = node.above, start + len(block)
    assert max(map(len, prompt[:-1])) <= SEGMENT
    return found


def scenarios(corpus: str, prices: Prices, given: Namespace) -> Iterator[dict[str, Any]]:
    """Yield the figures of each scenario, use of adapters and system."""
    tokenizer = (NANO if given.model == "nano" else Path(given.model)) / "tokenizer.json"
    chosen, costs = [one for one in SCENARIOS if one.name in given.only], prices.costs
    users = {sources: prompts(given.data, corpus, tokenizer, sources) for sources in {one.sources for one in chosen}}
    for scenario in chosen:
        for use in ("pareto", "collection"):
            budget, done = scenario.budget(costs.bytes), dict[str, float]()
            streams = [
                requests(users[scenario.sources], scenario.adapters, by_user=use == "collection", seed=seed)
                for seed in range(given.seeds)
            ]
            for system in systems(prices.upper):
                if given.systems and system.name not in ("recompute", *given.systems):
                    continue
                rows = [simulate(stream, system, budget, costs).row(budget) for stream in streams]
                row = {name: round(fmean(one[name] for one in rows), 4) for name in rows[0]}
                done[system.name] = row["mean_s"]
                about = {"scenario": scenario.name, "use": use, "mb": budget // 10**6, "system": system.name}
                less = round(1 - row["mean_s"] / done["recompute"], 3)
                yield about | row | {"reused_by_seed": [one["reused"] for one in rows], "less_than_recompute": less}


if __name__ == "__main__":
    main()
