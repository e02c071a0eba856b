"""References of partial recomputation: KVPR's linear program, and its closed forms with their printed constants.

Tests and measurements hold the planners of pkb against these.

Run `python -m tests.bench.recompute [--lengths N...] [--rates MB/S...]`: by length of a cached prefix and speed of the
disk, how far the closed form is from the program, and what each strategy takes against loading alone. Nothing is
loaded or computed: sub-steps take what docs/benchmarks/curves.SHAPE.json measured at their positions. Prints a line of
JSON for each.
"""

import json
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from scipy.optimize import linprog

from engine.kv.costs import Planner, Unit, auto, computing_s, loading_s, overlap_s

if TYPE_CHECKING:
    from tests.bench.prices import Curve

LENGTHS, RATES = range(1024, 8193, 1024), (5.0, 10.0, 20.0, 50.0, 100.0, 200.0)  # tokens, MB/s
SUB_STEP = 128
TOKEN_BYTES = {"135M": 30 * 2 * 3 * 64 * 4, "0.5B": 24 * 2 * 2 * 64 * 4}  # keys and values in float32


def split(units: Sequence[Unit]) -> int:
    """Return how many units the closed form computes, while the rest is loaded.

    With t_c seconds to compute all s tokens and t_l to load them, both at an even rate, computing l tokens takes as
    long as loading the others at l = s t_l / (t_c + t_l).
    """
    t_l, t_c, tokens = loading_s(units), sum(unit.compute_s for unit in units), sum(unit.tokens for unit in units)
    return 0 if t_l is None or t_l + t_c == 0 else divided(units, tokens * t_l / (t_c + t_l))


def divided(units: Sequence[Unit], tokens: float) -> int:
    """Return the number of units up to the border that is nearest to a number of tokens."""
    ends = [0, *accumulate(unit.tokens for unit in units)]
    return min(range(len(ends)), key=lambda number: abs(ends[number] - tokens))


PLANNERS: Mapping[str, Planner] = {
    "auto": auto, "load": lambda _: "load", "compute": lambda _: "compute", "overlap": lambda _: "overlap",
}  # fmt: skip


def lp(units: Sequence[Unit]) -> int:
    """Divide by KVPR's linear program, without its transfer of activations: least T with T >= each of both times.

    `split` is its solution in closed form.
    """
    t_l, t_c, tokens = loading_s(units), sum(unit.compute_s for unit in units), sum(unit.tokens for unit in units)
    return 0 if t_l is None or not tokens else divided(units, lp_tokens(t_l, t_c, tokens))


def lp_tokens(t_l: float, t_c: float, tokens: int) -> float:
    """Return the tokens that the program computes, not rounded to sub-steps."""
    a, b = t_c / tokens, t_l / tokens  # seconds of a token
    found = linprog([0, 1], A_ub=[[a, -1], [-b, -1]], b_ub=[0, -t_l], bounds=[(0, tokens), (0, None)], method="highs")
    return float(found.x[0])


@dataclass(frozen=True, slots=True)
class DecodingSetup:
    """The quantities of KVPR's program: one layer's cache of `tokens`, a link in bytes/s, a device in FLOP/s.

    `hidden` is the width of an activation and `kv` that of a key, which differ with grouped heads; `size` are the bytes
    of a value.
    """

    tokens: int
    hidden: int
    kv: int
    size: int
    link: float
    device: float

    def seconds(self, recomputed: float) -> float:
        """Return the time of the program: activations first, then recomputing beside the transfer of the rest."""
        activations = recomputed * self.hidden * self.size / self.link
        recomputing = 4 * recomputed * self.hidden * self.kv / self.device
        return activations + max(recomputing, 2 * (self.tokens - recomputed) * self.kv * self.size / self.link)

    def lp(self) -> float:
        """Return the tokens that the program recomputes, by HiGHS: the least of activations plus T, T over both."""
        recomputing = 4 * self.hidden * self.kv / self.device  # seconds of a token
        moving = 2 * self.kv * self.size / self.link
        activation = self.hidden * self.size / self.link
        # By the share of tokens, in units of moving all: HiGHS's tolerances are absolute.
        limits = [[recomputing / moving, -1.0], [-1.0, -1.0]]
        found = linprog(
            [activation / moving, 1.0], A_ub=limits, b_ub=[0, -1], bounds=[(0, 1), (0, None)], method="highs"
        )
        return float(found.x[0]) * self.tokens


# The closed form's constants as printed. The balance point is the program's exact optimum, so 1 is right for both.
PRINTED_C1 = 1 / 1.013


def equation_1(setup: DecodingSetup, c: float = 1.0) -> float:
    """Return the tokens to recompute where both times balance: c s p v / (p v + 2 h w), for the link w and device v.

    It is the optimum of `DecodingSetup.seconds` where keys are more than half as wide as activations. With fewer heads
    an activation is larger than the keys and values made from it, and the program recomputes nothing.
    """
    rate = setup.size * setup.device
    return c * setup.tokens * rate / (rate + 2 * setup.hidden * setup.link)


def equation_2(setup: DecodingSetup, c: float = 1.0) -> float:
    """Return the tokens to recompute where the queries of all tokens are computed, too; never below 0.

    Balances 2 s h^2 + 4 l h^2 operations with 2 (s - l) h p bytes: c s (p v - h w) / (p v + 2 h w). As printed it is
    negative where h w > p v: then nothing is worth recomputing.
    """
    rate, moved = setup.size * setup.device, setup.hidden * setup.link
    return max(0.0, c * setup.tokens * (rate - moved) / (rate + 2 * moved))


def taken(units: Sequence[Unit], computed: int) -> float:
    """Return the seconds of computing so many units, those in front, while the others are loaded."""
    return max(sum(unit.compute_s for unit in units[:computed]), loading_s(units[computed:]) or 0.0)


def met(units: Sequence[Unit]) -> float:
    """Return the seconds of overlapping where everything takes what was expected.

    As `engine.kv.costs` does: the front unit is computed unless loading all that is left ends sooner.
    """
    to_here = [0.0, *accumulate(unit.load_s or 0.0 for unit in reversed(units))]  # when so many at the back are loaded
    now = 0.0
    for front, unit in enumerate(units):
        rest = to_here[len(units) - front] - now
        if rest <= unit.compute_s:
            return now + max(0.0, rest)
        now += unit.compute_s
    return now


def units_of(tokens: int, step_s: Callable[[int], float], token_bytes: int, rate: float) -> list[Unit]:
    """Return the sub-steps of a prefix: `step_s` are seconds of one by the tokens before it, `rate` is in bytes/s."""
    size = SUB_STEP * token_bytes
    return [Unit(SUB_STEP, size, step_s(before), size / rate) for before in range(0, tokens, SUB_STEP)]


def compared(units: Sequence[Unit]) -> dict[str, float]:
    """Return errors of the closed form in percent, and the seconds of each strategy against loading alone."""
    t_l, t_c, tokens = loading_s(units) or 0.0, computing_s(units), sum(unit.tokens for unit in units)
    closed, best = tokens * t_l / (t_c + t_l), min(range(len(units) + 1), key=lambda number: taken(units, number))
    times = {"load": t_l, "compute": t_c, "split": taken(units, split(units))}
    times |= {"lp": taken(units, lp(units)), "overlap": met(units)}
    return {
        "load_s": round(t_l, 3),
        "closed_to_lp": round(100 * abs(closed - lp_tokens(t_l, t_c, tokens)) / tokens, 6),
        "divided_to_lp": round(100 * abs(split(units) - lp(units)) / len(units), 3),
        "closed_to_best": round(100 * (closed - sum(unit.tokens for unit in units[:best])) / tokens, 2),
        "split_slower_than_best": round(100 * (times["split"] / taken(units, best) - 1), 2),
        "overlap_slower_than_best": round(100 * (times["overlap"] / (overlap_s(units) or 1.0) - 1), 2),
        "bound": round(t_c / (t_l + t_c), 3),  # of both at even rates
    } | {name: round(seconds / t_l, 3) for name, seconds in times.items()}


def equations(tokens: int) -> dict[str, float]:
    """Return the errors of equation 1 against KVPR's program of one layer, in percent of the tokens.

    Keys are as wide as activations, 4096, in float16, over a link of 16 GB/s, beside a device of 100 TFLOP/s.
    """
    setup = DecodingSetup(tokens, 4096, 4096, 2, 16e9, 1e14)
    found = {"equation_1": equation_1(setup), "printed": equation_1(setup, PRINTED_C1)}
    wanted = setup.lp()
    return {"lp": round(wanted, 1)} | {name: round(100 * (one - wanted) / tokens, 4) for name, one in found.items()}


def step_s(curve: "Curve", before: int) -> float:
    """Return the seconds of a sub-step behind so many tokens."""
    return curve.ms(SUB_STEP, 1, before) / 1000


def rows(lengths: Sequence[int], rates: Sequence[float]) -> Iterator[dict[str, object]]:
    """Yield what is printed."""
    from tests.bench.prices import Curves
    from tests.bench.records import read_file

    for tokens in lengths:
        yield {"tokens": tokens, **equations(tokens)}
    for shape, token_bytes in TOKEN_BYTES.items():
        curves = read_file(Path("docs/benchmarks") / f"curves.{shape}.json", Curves)
        assert curves, "measured by tests.bench.curves"
        for rate in rates:
            for tokens in lengths:
                units = units_of(tokens, partial(step_s, curves.fast["body"]), token_bytes, rate * 1e6)
                yield {"model": shape, "rate": rate, "tokens": tokens, **compared(units)}


def main() -> None:
    """Print all rows."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--rates", type=float, nargs="+", default=RATES)
    options = parser.parse_args()
    for row in rows(options.lengths, options.rates):
        print(json.dumps(row))


if __name__ == "__main__":
    main()
