"""Where predictions are spent: on the sources whose questions were asked later, and less and less on the others.

Knows counts of sources, and a time; not what a prediction is. A source that has not paid for weeks rests, and is tried
again after as long.
"""

from collections.abc import Mapping, Sequence
from math import sqrt

from store.jobs import Foreseen

WEEK_S = 7 * 86_400.0
WEEKS = 3.0  # without a question that was asked later, after which a predictor rests
_ASKED, _NOT = 2.0, 18.0  # what is thought of a source before it was tried: one in ten pays
_JUDGED = 60  # predictions before a source can be said not to pay
SPARED = 0.25  # of a question that paid, one that only spared all the reading
_LISTED = 3  # sources that a sentence names


def shares(
    sources: Sequence[str], yields: Mapping[str, Foreseen], budget: int, now: float, weeks: float, floor: int = 1
) -> dict[str, int]:
    """Part a budget of predictions among sources by what each may be worth; one that does not rest has `floor` of it.

    Where the budget has not `floor` for each, those that promise most come first.
    """
    awake = [source for source in sources if not rests(yields.get(source), now, weeks)]
    hopes = {source: _hope(yields.get(source)) for source in awake}
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


def rests(one: Foreseen | None, now: float, weeks: float) -> bool:
    """Tell whether a source was given its chance and has not paid for so many weeks, or was last tried since then."""
    if one is None or one.predicted < _JUDGED:
        return False
    paid = one.first if one.last_paid is None else one.last_paid
    silent = one.last - paid >= weeks * WEEK_S
    return silent and now - one.last < weeks * WEEK_S


def resting(yields: Sequence[Foreseen], now: float, weeks: float) -> str | None:
    """Say which sources rest, in one sentence for a person; None where none does."""
    found = sorted(one.source for one in yields if rests(one, now, weeks))
    if not found:
        return None
    names = ", ".join(found[:_LISTED]) + (f" and {len(found) - _LISTED} more" if len(found) > _LISTED else "")
    return f"paused predictors (none of their questions asked in {weeks:g} weeks): {names}"


def _hope(one: Foreseen | None) -> float:
    """Return the share that may pay at best: the mean of a beta distribution and a standard deviation more."""
    paid, predicted = (one.paid, one.predicted) if one else (0.0, 0)
    count = predicted + _ASKED + _NOT
    worth = (paid + _ASKED) / count
    return min(1.0, worth + sqrt(worth * (1 - worth) / (count + 1)))
