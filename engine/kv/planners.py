"""Planners: how many of a prompt's cached tokens to compute, from the front, while the rest is loaded.

Pure: they know the seconds that each unit takes, and nothing of models, files and threads.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

Way = Literal["load", "compute", "split", "overlap"]


@dataclass(frozen=True, slots=True)
class Unit:
    """A sub-step of a cached segment: tokens, bytes, and the seconds to compute and to load it (None: not known)."""

    tokens: int
    size: int
    compute_s: float
    load_s: float | None


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """The number of units to compute, those in front, and the seconds expected; None where they are not known.

    With `split` the rest is loaded meanwhile. With `overlap`, both run at once and meet where they meet; the number is
    where they should.
    """

    way: Way
    computed: int
    seconds: float | None


Planner = Callable[[Sequence[Unit]], LoadPlan]


def load(units: Sequence[Unit]) -> LoadPlan:
    """Load everything."""
    return LoadPlan("load", 0, loading_s(units))


def compute(units: Sequence[Unit]) -> LoadPlan:
    """Compute everything."""
    return LoadPlan("compute", len(units), sum(unit.compute_s for unit in units))


def overlap(units: Sequence[Unit]) -> LoadPlan:
    """Compute from the front while a thread loads from the back, up to where both meet (Cake)."""
    if loading_s(units) is None:
        return LoadPlan("overlap", 0, None)
    plans = (planned(units, number, "overlap") for number in range(len(units) + 1))
    return min(plans, key=lambda plan: plan.seconds or 0.0)


_CLEAR = 1.05  # times as long as both at once may one way take alone
_NOTHING_S = 0.02  # of loading, which nobody notices
_NOTHING = 4 << 20  # bytes that any local disk reads in about that time: loaded where nothing was measured yet


def auto(units: Sequence[Unit]) -> LoadPlan:
    """Take the faster way alone unless both at once gain more than a twentieth."""
    t_l, t_c, both = loading_s(units), sum(unit.compute_s for unit in units), overlap(units)
    if t_l is None:
        return both if sum(unit.size for unit in units) > _NOTHING else load(units)
    if t_l <= _NOTHING_S or min(t_l, t_c) <= (both.seconds or 0.0) * _CLEAR:
        return load(units) if t_l <= max(t_c, _NOTHING_S) else compute(units)
    return both


def loading_s(units: Sequence[Unit]) -> float | None:
    """Return the seconds of loading all units; None if they are not known."""
    known = [unit.load_s for unit in units if unit.load_s is not None]
    return sum(known) if len(known) == len(units) else None


def planned(units: Sequence[Unit], computed: int, both: Way) -> LoadPlan:
    """Return the plan that computes so many units, those in front, and loads the others in the way of `both`."""
    front, back = units[:computed], units[computed:]
    seconds = max(sum(unit.compute_s for unit in front), loading_s(back) or 0.0)
    return LoadPlan(both if front and back else "compute" if front else "load", computed, seconds)
