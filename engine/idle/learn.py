"""Where predictions are spent: on the sources whose questions were asked later, and less and less on the others.

Knows counts of sources, and a time; not what a prediction is. A source that has not paid for weeks rests, and is tried
again after as long.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

WEEK_S = 7 * 86_400.0
WEEKS = 3.0  # without a question that was asked later, after which a predictor rests
_ASKED, _NOT = 2.0, 18.0  # what is thought of a source before it was tried: one in ten pays
_JUDGED = 60  # predictions before a source can be said not to pay
SPARED = 0.25  # of a question that paid, one that only spared all the reading
_LISTED = 3  # sources that a sentence names


@dataclass(frozen=True, slots=True)
class Yield:
    """How many questions a source predicted and how many of them paid, which may be in parts; and when, in seconds.

    A question paid if it was asked later and its answer served; one that only spared some reading paid in part.
    """

    source: str
    predicted: int
    paid: float
    first: float  # prediction
    last: float  # prediction
    last_paid: float | None = None

    @property
    def worth(self) -> float:
        """Give the share that can be expected to pay: the mean of a beta distribution."""
        return (self.paid + _ASKED) / (self.predicted + _ASKED + _NOT)

    @property
    def hope(self) -> float:
        """Give what it may be worth at best: a standard deviation more."""
        return min(1.0, self.worth + sqrt(self.worth * (1 - self.worth) / (self.predicted + _ASKED + _NOT + 1)))


def shares(
    sources: Sequence[str], yields: Mapping[str, Yield], budget: int, now: float, weeks: float, floor: int = 1
) -> dict[str, int]:
    """Part a budget of predictions among sources by what each may be worth; one that does not rest has `floor` of it.

    Where the budget has not `floor` for each, those that promise most come first.
    """
    awake = [source for source in sources if not rests(yields.get(source), now, weeks)]
    hopes = {source: _of(yields, source).hope for source in awake}
    ordered = sorted(awake, key=lambda source: -hopes[source])
    given = dict.fromkeys(sources, 0)
    for source in ordered:
        given[source] = min(floor, max(0, budget - sum(given.values())))
    left, total = budget - sum(given.values()), sum(hopes.values())
    exact = {source: left * hopes[source] / total for source in ordered}
    for source in ordered:
        given[source] += int(exact[source])
    rest = budget - sum(given.values()) if ordered else 0
    for source in sorted(ordered, key=lambda one: int(exact[one]) - exact[one])[:rest]:
        given[source] += 1
    return given


def rests(one: Yield | None, now: float, weeks: float) -> bool:
    """Tell whether a source was given its chance and has not paid for so many weeks, or was last tried since then."""
    if one is None or one.predicted < _JUDGED:
        return False
    paid = one.first if one.last_paid is None else one.last_paid
    silent = one.last - paid >= weeks * WEEK_S
    return silent and now - one.last < weeks * WEEK_S


def resting(yields: Sequence[Yield], now: float, weeks: float) -> str | None:
    """Say which sources rest, in one sentence for a person; None where none does."""
    found = sorted(one.source for one in yields if rests(one, now, weeks))
    if not found:
        return None
    names = ", ".join(found[:_LISTED]) + (f" and {len(found) - _LISTED} more" if len(found) > _LISTED else "")
    return f"paused predictors (none of their questions asked in {weeks:g} weeks): {names}"


def _of(yields: Mapping[str, Yield], source: str) -> Yield:
    return yields.get(source) or Yield(source, 0, 0.0, 0.0, 0.0)
