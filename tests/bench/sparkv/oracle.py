"""The exact plan of small cases, as a mixed-integer program by HiGHS: what the greedy planner is held against.

Any depths are allowed here, and any order of streams and of computing. Run `python -m tests.bench.sparkv.oracle
[--cases N] [--tokens N...] [--seconds N]`: N random small cases, half of them with costs that differ by up to 1.5 times
from unit to unit, half by up to 4 times; large ones, and prompts of 128-token blocks in 30 layers over three links: all
of these against a bound that no plan beats. The exact program gets so many seconds for the shortest prompt. Prints JSON
lines.
"""

import json
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from random import Random
from statistics import median
from time import perf_counter
from typing import Any

from tests.bench.sparkv.schedule import UnitCosts, greedy, ordered, replay

Terms = dict[int, float]  # variable to coefficient


@dataclass(slots=True)
class _Program:
    """Variables and constraints, as they are added; mutable."""

    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    whole: list[int] = field(default_factory=list)
    rows: list[tuple[Terms, float]] = field(default_factory=list)  # sums that are at least a bound

    def variable(self, upper: float, *, whole: bool = False) -> int:
        """Add a variable from 0 on, and return its number."""
        self.lower.append(0.0)
        self.upper.append(upper)
        self.whole.append(int(whole))
        return len(self.upper) - 1

    def at_least(self, terms: Terms, bound: float) -> None:
        """Add a constraint."""
        self.rows.append((terms, bound))

    def minimum(self, goal: int, seconds: float) -> tuple[float, bool]:
        """Return the least value of a variable, and whether that is proved."""
        import numpy as np
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import lil_matrix

        matrix = lil_matrix((len(self.rows), len(self.upper)))
        for number, (terms, _) in enumerate(self.rows):
            for variable, factor in terms.items():
                matrix[number, variable] += factor
        cost = np.zeros(len(self.upper))
        cost[goal] = 1
        found: Any = milp(
            cost,
            constraints=LinearConstraint(matrix.tocsr(), np.array([bound for _, bound in self.rows]), np.inf),
            bounds=Bounds(np.array(self.lower), np.array(self.upper)),
            integrality=np.array(self.whole),
            options={"time_limit": seconds, "mip_rel_gap": 1e-6, "presolve": False},  # which finds some infeasible
        )
        return (float(found.fun) if found.fun is not None else float("inf")), found.status == 0


def exact(costs: UnitCosts, seconds: float = 60.0) -> tuple[float, bool]:
    """Return the finish of the best plan, and whether it was proved within so many seconds."""
    most = 1.01 * min(sum(map(sum, costs.compute)), sum(map(sum, costs.wholes)) + sum(costs.compute[-1]))
    program = _Program()
    units = [(block, layer) for block in range(costs.blocks) for layer in range(costs.layers)]
    question = [(costs.blocks, layer) for layer in range(costs.layers)]
    computed = {unit: program.variable(1, whole=True) for unit in units}  # 1: computed, 0: streamed
    begins = {unit: program.variable(most) for unit in (*units, *question)}
    sends = {unit: program.variable(most) for unit in units}
    for block, layer in units:
        if layer:
            program.at_least({computed[block, layer - 1]: 1, computed[block, layer]: -1}, 0)
    _one_after_another(program, costs, computed, sends, most)
    _needs(program, costs, computed, begins, sends, most)
    goal = program.variable(most)
    program.at_least({goal: 1, begins[question[-1]]: -1}, costs.compute[-1][-1])
    return program.minimum(goal, seconds)


def bound(costs: UnitCosts) -> float:
    """Return a finish in seconds that no plan beats: units can be divided, and nothing waits for anything.

    The processor computes its units and the question; the link sends the others before the question's last layer.
    Units that take longest to stream, for what they take to compute, are computed (a linear program of two sums).
    """
    wholes, question = costs.wholes, costs.compute[-1]
    units = [(wholes[block][layer], costs.compute[block][layer])
             for block in range(costs.blocks) for layer in range(costs.layers)]  # fmt: skip
    processor, link = sum(question), question[-1] + sum(stream for stream, _ in units)
    for stream, compute in sorted(units, key=lambda unit: unit[1] / unit[0]):
        if processor + compute >= link - stream:
            share = max(0.0, (link - processor) / (stream + compute))
            return max(processor + share * compute, link - share * stream)
        processor, link = processor + compute, link - stream
    return max(processor, link)


Unit = tuple[int, int]


def _one_after_another(
    program: _Program, costs: UnitCosts, computed: dict[Unit, int], sends: dict[Unit, int], most: float
) -> None:
    """Have the link send one unit at a time; those that are computed take none of its time."""
    wholes = costs.wholes
    for one, other in combinations(computed, 2):
        first = program.variable(1, whole=True)
        for early, late, sign in ((one, other, 1), (other, one, -1)):
            took = wholes[early[0]][early[1]]
            free = {first: -most} if sign > 0 else {first: most}
            terms = {sends[late]: 1.0, sends[early]: -1.0, computed[early]: took} | free
            program.at_least(terms, took - most if sign > 0 else took)


def _needs(
    program: _Program,
    costs: UnitCosts,
    computed: dict[Unit, int],
    begins: dict[Unit, int],
    sends: dict[Unit, int],
    most: float,
) -> None:
    """Have the processor compute one unit at a time, each behind what it needs."""
    wholes = costs.wholes

    def behind(late: Unit, early: Unit, free: Terms, slack: float) -> None:
        """Begin `late` once `early` is computed; the terms of `free`, with `slack`, can lift that."""
        took = costs.compute[early[0]][early[1]]
        terms = {begins[late]: 1.0, begins[early]: -1.0}
        if early in computed:
            terms[computed[early]] = -took
            took = 0.0
        for variable, factor in free.items():
            terms[variable] = terms.get(variable, 0.0) + factor
        program.at_least(terms, took - slack)

    for late in begins:
        free: Terms = {computed[late]: -most} if late in computed else {}
        slack = most if late in computed else 0.0
        if late[1]:
            behind(late, (late[0], late[1] - 1), free, slack)
        for block in range(late[0]):
            early = (block, late[1])
            behind(late, early, free, slack)
            took = wholes[block][late[1]]  # where it is streamed: after its arrival
            terms = {begins[late]: 1.0, sends[early]: -1.0, computed[early]: took} | free
            program.at_least(terms, took - slack)
    for one, other in combinations(begins, 2):
        if (one[0] - other[0]) * (one[1] - other[1]) < 0:  # neither needs the other
            first = program.variable(1, whole=True)
            behind(other, one, {first: -most}, most)
            behind(one, other, {first: most}, 0.0)


def random_costs(rng: Random, *, blocks: int, layers: int, groups: int, rough: float) -> UnitCosts:
    """Return costs around a random speed of the link, each unit's apart from the others' by a factor up to `rough`.

    Later blocks take longer to compute, as they attend to more tokens.
    """
    link, tail = rng.uniform(0.3, 3.0), rng.uniform(0.2, 1.0)

    def apart() -> float:
        return float(rough ** rng.uniform(-1, 1))

    stream = [[[link / groups * apart() for _ in range(groups)] for _ in range(layers)] for _ in range(blocks)]
    compute = [[(1 + 0.3 * block) * apart() for _ in range(layers)] for block in range(blocks)]
    last = [[tail * (1 + 0.3 * blocks) * apart() for _ in range(layers)]]
    return UnitCosts(
        tuple(tuple(tuple(unit) for unit in row) for row in stream), tuple(tuple(row) for row in (*compute, *last))
    )


def shares(numbers: Sequence[float]) -> dict[str, float]:
    """Return the median, the 90th and 99th percentile and the largest of some numbers."""
    own = sorted(numbers)
    at = {"median": 0.5, "p90": 0.9, "p99": 0.99}
    return {name: own[min(len(own) - 1, int(share * len(own)))] for name, share in at.items()} | {"most": own[-1]}


LINKS = (0.004, 0.001, 0.016)  # seconds of a unit
SIZES = ((2, 2, 2), (3, 2, 2), (2, 3, 2), (4, 2, 1), (2, 4, 2))  # blocks, layers, groups


def main() -> None:
    """Compare and print."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--tokens", type=int, nargs="*", default=[1024, 10240, 38400])
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    for rough in (1.5, 4.0):
        print(json.dumps(compared(rough, given.cases // 2)), flush=True)
    for rough in (1.5, 4.0):
        for blocks in (8, 80):
            print(json.dumps(bounded(rough, blocks, given.cases // 20)), flush=True)
    for tokens in given.tokens:
        for stream in LINKS:
            print(json.dumps(timed(tokens, stream)), flush=True)
    print(json.dumps(tried(min(given.tokens), given.seconds)) if given.tokens else "")


def compared(rough: float, cases: int) -> dict[str, object]:
    """Return how much longer greedy plans of small cases take than exact ones, and than their search takes."""
    found = dict[str, list[float]]()
    violations = proved = 0
    for seed in range(cases):
        blocks, layers, groups = SIZES[seed % len(SIZES)]
        costs = random_costs(Random(seed), blocks=blocks, layers=layers, groups=groups, rough=rough)
        began = perf_counter()
        plan = greedy(costs)
        planned = perf_counter()
        best, is_proved = exact(costs)
        found.setdefault("slower", []).append((planned - began) / (perf_counter() - planned))
        carried = replay(costs, plan)
        violations += len(carried.violations)
        proved += is_proved
        found.setdefault("ratio", []).append(carried.finish / best)
        pure = min(replay(costs, ordered(costs, [depth] * blocks)).finish for depth in (0, layers))
        found.setdefault("pure", []).append(pure / best)
    return {
        "rough": rough, "n": cases, "proved": proved, "violations": violations,
        "over_1.15": sum(one > 1.15 for one in found["ratio"]), **shares(found["ratio"]),
        "better_pure_way": shares(found["pure"]), "exact_takes_times": round(1 / median(found["slower"])),
    }  # fmt: skip


def bounded(rough: float, blocks: int, cases: int) -> dict[str, object]:
    """Return how much longer greedy plans of large cases, of 30 layers, take than the bound."""
    every = (random_costs(Random(seed), blocks=blocks, layers=30, groups=1, rough=rough) for seed in range(cases))
    ratios = [replay(costs, greedy(costs)).finish / bound(costs) for costs in every]
    return {"rough": rough, "blocks": blocks, "layers": 30, "n": cases, "to_bound": shares(ratios)}


def long_costs(tokens: int, stream: float) -> UnitCosts:
    """Return costs of a long prompt: a unit takes about `stream` seconds on the link, .005 and more to compute."""
    rng = Random(tokens)
    return UnitCosts.of(
        tokens // 128, 30, 1,
        lambda unit: stream * rng.uniform(0.7, 1.3),
        lambda unit: 0.005 * (1 + unit.block * 0.03) * rng.uniform(0.9, 1.1),
    )  # fmt: skip


def timed(tokens: int, stream: float) -> dict[str, object]:
    """Return what planning a longer prompt takes, and the plan's finish against the bound."""
    costs, times = long_costs(tokens, stream), []
    for _ in range(5):
        began = perf_counter()
        plan = greedy(costs)
        times.append(perf_counter() - began)
    carried, least = replay(costs, plan), bound(costs)
    return {
        "tokens": tokens, "stream_s": stream, "plan_s": round(median(times), 4), "n": len(times),
        "finish_s": round(carried.finish, 3), "link_s": round(carried.link, 3),
        "processor_s": round(carried.processor, 3), "bound_s": round(least, 3),
        "to_bound": round(carried.finish / least, 4), "violations": len(carried.violations),
    }  # fmt: skip


def tried(tokens: int, seconds: float) -> dict[str, object]:
    """Return how far the exact program gets with a longer prompt in so many seconds."""
    costs, began = long_costs(tokens, LINKS[0]), perf_counter()
    best, is_proved = exact(costs, seconds)
    return {"tokens": tokens, "exact_s": round(perf_counter() - began, 1), "exact_finish_s": best, "proved": is_proved}


if __name__ == "__main__":
    main()
