"""References of partial recomputation: KVPR's linear program, and its closed forms with their printed constants.

`engine.kv.planners` uses the closed form for whole-model prefill; tests and measurements hold it against these.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from scipy.optimize import linprog

from engine.kv.planners import LoadPlan, Unit, divided, load, loading_s


def lp(units: Sequence[Unit]) -> LoadPlan:
    """Divide by KVPR's linear program, without its transfer of activations: least T with T >= each of both times.

    `split` is its solution in closed form.
    """
    t_l, t_c, tokens = loading_s(units), sum(unit.compute_s for unit in units), sum(unit.tokens for unit in units)
    if t_l is None or not tokens:
        return load(units)
    a, b = t_c / tokens, t_l / tokens  # seconds of a token
    found = linprog([0, 1], A_ub=[[a, -1], [-b, -1]], b_ub=[0, -t_l], bounds=[(0, tokens), (0, None)], method="highs")
    return divided(units, float(found.x[0]))


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
